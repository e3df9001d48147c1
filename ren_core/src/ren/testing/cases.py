"""The cases of the backend kit: for every kernel, units with operands at the edges of what the contract allows.

A case is data and knows no backend. The kit runs it on the tested backend and on the reference; the tests of the reference backend
run the same cases against the definitions in Python integers (`ren.testing.definitions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ren.numtheory.crt import residues
from ren.numtheory.primes import ntt_primes_above
from ren.ops import Domain
from ren.ring import RingSpec
from ren.testing.programs import PROGRAMS, Program, random_program
from ren.testing.vectors import (
    PATTERNS,
    generator,
    integers_near_edges,
    operand,
    primes_of_width,
    ring_of_many_widths,
    ring_of_width,
    widths,
)

Words = NDArray[np.uint64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KernelCase:
    """One unit and several sets of operands for it.

    operands: (inputs, scalars) per run, 1-D word arrays. outputs: words of each output. in_place: output i may be input i.
    """

    kernel: str
    ring: RingSpec
    params: tuple[Any, ...]
    operands: tuple[tuple[tuple[Words, ...], tuple[Words, ...]], ...]
    outputs: tuple[int, ...]
    in_place: bool = False

    def __str__(self) -> str:
        bits = "/".join(str(q.bit_length()) for q in self.ring.moduli)
        return f"{self.kernel}{self.params} n={self.ring.n} moduli of {bits} bits"

    @property
    def moduli(self) -> tuple[int, ...]:
        """Every modulus the case needs: of the ring and of the parameters."""
        return self.ring.moduli + special_moduli(self.kernel, self.params)


def special_moduli(kernel: str, params: tuple[Any, ...]) -> tuple[int, ...]:
    """The moduli that a unit's parameters bring in."""
    return tuple(params[1]) if kernel in ("basis_extend", "decompose", "key_switch") else ()


def cases(kernel: str, n: int, bits: tuple[int, ...] | None = None) -> Iterator[KernelCase]:
    """The cases of one kernel at degree n, for moduli of these widths (default: all that are legal)."""
    yield from _CASES[kernel](n, widths(n) if bits is None else bits)


def _case(
    kernel: str,
    ring: RingSpec,
    params: tuple[Any, ...],
    inputs: Iterator[tuple[Words, ...]],
    outputs: tuple[int, ...],
    in_place: bool = False,
) -> KernelCase:
    return KernelCase(kernel, ring, params, tuple((i, ()) for i in inputs), outputs, in_place)


def _unary(kernel: str, ring: RingSpec, patterns: tuple[str, ...] = PATTERNS) -> Iterator[tuple[Words, ...]]:
    rng = generator(kernel, ring.n, ring.moduli)
    for pattern in patterns:
        yield (operand(ring, pattern, rng),)


def _share(n: int, position: int, choices: Sequence[T]) -> Sequence[T]:
    """All choices in small rings; in large ones, where the reference backend is slow, one per width in turn."""
    return choices if n <= 1024 else (choices[position % len(choices)],)


# -- element-wise ----------------------------------------------------------------------------------------------------


def _elementwise(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    for position, width in enumerate(legal):
        rng = generator("elementwise", n, width)
        ring = ring_of_width(n, width, 2)
        fixed = PROGRAMS if n <= 64 else PROGRAMS[position % 2 :: 2]
        for program in (*fixed, random_program(rng), random_program(rng)):
            domain = (Domain.NTT, Domain.COEFF)[int(rng.integers(2))]
            yield elementwise_case(ring, program, domain, rng)


def elementwise_case(
    ring: RingSpec,
    program: Program,
    domain: Domain,
    rng: np.random.Generator,
) -> KernelCase:
    """A program on equal patterns in all operands, then on mixed ones."""
    inputs, scalars, _, results = program
    one = RingSpec(2, ring.moduli)  # scalars: one residue per limb, so drawn as polynomials of degree 2 and halved
    sets = []
    for pattern in ("minus_one", "half", "mixed"):
        polys = tuple(operand(ring, pattern, rng) for _ in range(inputs))
        sets.append((polys, tuple(operand(one, pattern, rng)[::2].copy() for _ in range(scalars))))
    return KernelCase(
        "elementwise", ring, (*program, domain), tuple(sets), (ring.limbs * ring.n,) * len(results), in_place=True
    )


# -- one polynomial to one polynomial --------------------------------------------------------------------------------


def _transform(kernel: str) -> Callable[[int, tuple[int, ...]], Iterator[KernelCase]]:
    def make(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
        for ring in (*(ring_of_width(n, w, 2) for w in legal), ring_of_many_widths(n, 3)):
            patterns = PATTERNS if n <= 1024 else ("minus_one", "mixed")
            yield _case(kernel, ring, (), _unary(kernel, ring, patterns), (ring.limbs * n,), in_place=True)

    return make


def _copy(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    for width in (legal[0], legal[-1]):
        ring = ring_of_width(n, width, 3)
        yield _case("copy", ring, (), _unary("copy", ring, ("mixed",)), (3 * n,))


def _automorphism(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    elements = sorted(
        {1, 3 % (2 * n), 5 % (2 * n), 2 * n - 1, n + 1, pow(5, 7, 2 * n), pow(3, 3, 2 * n), pow(5, -1, 2 * n)}
    )
    for position, width in enumerate(legal):
        ring = ring_of_width(n, width, 2)
        for g in elements if n <= 64 else elements[position % 3 :: 3]:
            for domain in Domain:
                yield _case(
                    "automorphism",
                    ring,
                    (g, domain),
                    _unary(f"automorphism {g} {domain}", ring, ("zero", "mixed")),
                    (2 * n,),
                )


# -- change of modulus -----------------------------------------------------------------------------------------------


def _mod_down(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    for position, width in enumerate(legal):
        for ring in (
            (ring_of_width(n, width, 4), ring_of_many_widths(n, 5)) if position == 0 else (ring_of_width(n, width, 4),)
        ):
            limbs = ring.limbs
            # (k, limbs of z): rescale, mod-down by two, the same with z, merged with a rescale, z on all limbs, everything dropped but one
            shapes = [(1, 0), (2, 0), (2, limbs - 2), (2, limbs - 1), (1, limbs), (limbs - 1, 0), (limbs - 1, 1)]
            shapes += [(3, limbs - 2), (3, limbs - 1)]  # in two stages, with more than one limb in each
            for k, z_limbs in shapes if n <= 64 else shapes[position % 3 :: 3]:
                for domain in _share(n, position + k, tuple(Domain)):
                    params = (k, z_limbs, domain)
                    yield _case("mod_down", ring, params, _mod_down_operands(ring, params), ((limbs - k) * n,))


def _mod_down_operands(ring: RingSpec, params: tuple[int, int, Domain]) -> Iterator[tuple[Words, ...]]:
    rng = generator("mod_down", ring, params)
    z_ring = ring.take(0, params[1]) if params[1] else None
    patterns = ("minus_one", "half", "mixed") if ring.n <= 64 else ("mixed",)
    for pattern in patterns:
        x = operand(ring, pattern, rng)
        yield (x,) if z_ring is None else (x, operand(z_ring, pattern, rng))
    if params[2] is Domain.COEFF:  # integers around multiples of half the dropped modulus, where the rounding turns
        x = residues(integers_near_edges(ring.modulus, ring.n, rng), ring.moduli).reshape(-1)
        yield (x,) if z_ring is None else (x, operand(z_ring, "zero", rng))


def _basis_extend(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    for position, width in enumerate(legal):
        for limbs in (1, 2, 4) if n <= 64 else (1 + position % 4,):
            for mode in ("approximate", "centred", "exact"):
                moduli = primes_of_width(n, width, limbs + 2)
                other = next(q for q in primes_of_width(n, legal[-1 - position], limbs + 3) if q not in moduli)
                ring, new = RingSpec(n, moduli[:limbs]), (*moduli[limbs:], other)
                rng = generator("basis_extend", ring, mode)
                values = residues(integers_near_edges(ring.modulus, n, rng), ring.moduli).reshape(-1)
                inputs = [(values,), *((operand(ring, p, rng),) for p in (PATTERNS if n <= 64 else ("mixed",)))]
                yield _case("basis_extend", ring, (mode, new), iter(inputs), ((limbs + 3) * n,))


# -- key switching ---------------------------------------------------------------------------------------------------

#: (limbs, alpha, special moduli): digits of one limb, even digits, a narrower last digit, one digit, no special modulus.
_GADGETS = ((3, 1, 1), (4, 2, 2), (5, 2, 2), (3, 4, 3), (2, 1, 0))


def _gadgets(n: int, legal: tuple[int, ...]) -> Iterator[tuple[RingSpec, int, tuple[int, ...]]]:
    for position, width in enumerate(legal):
        for limbs, alpha, count in _GADGETS if n <= 64 else (_GADGETS[position % len(_GADGETS)],):
            moduli = primes_of_width(n, width, limbs + count)
            yield RingSpec(n, moduli[:limbs]), alpha, moduli[limbs:]


def _decompose(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    for position, (ring, alpha, special) in enumerate(_gadgets(n, legal)):
        for domain in _share(n, position, tuple(Domain)):
            params = (alpha, special, domain)
            words = -(-ring.limbs // alpha) * (ring.limbs + len(special)) * n
            patterns = ("minus_one", "half", "mixed") if n <= 1024 else ("mixed",)
            yield _case("decompose", ring, params, _unary(f"decompose {params}", ring, patterns), (words,))


def _key(
    ring: RingSpec, limbs: int, digits: int, index: tuple[int, ...], rng: np.random.Generator, pattern: str
) -> Words:
    """A key [digit][2][limb][n] whose limbs at `index` are residues of `ring`; the others are all ones, which no kernel may look at."""
    key = np.full((digits, 2, limbs, ring.n), np.iinfo(np.uint64).max, np.uint64)
    for digit in range(digits):
        for component in range(2):
            key[digit, component, list(index)] = operand(ring, pattern, rng).reshape(-1, ring.n)
    return key.reshape(-1)


def _key_indices(limbs: int, special: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """(key limbs, index): a key of the same level, then one of a higher level, whose limbs in between are skipped."""
    same = tuple(range(limbs + special))
    return (limbs + special, same), (limbs + special + 2, (*range(limbs), *range(limbs + 2, limbs + special + 2)))


def _gadget_product(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    for ring, alpha, special in _gadgets(n, legal):
        wide = ring.extend(special) if special else ring
        digits = -(-ring.limbs // alpha)
        for spare, (key_limbs, index) in enumerate(_key_indices(ring.limbs, len(special))):
            rng = generator("gadget_product", wide, spare)
            inputs = [
                (
                    np.concatenate([operand(wide, p, rng) for _ in range(digits)]),
                    _key(wide, key_limbs, digits + spare, index, rng, p),
                )
                for p in ("minus_one", "mixed")
            ]
            yield _case("gadget_product", wide, (digits, key_limbs, index), iter(inputs), (wide.limbs * n,) * 2)


def _key_switch(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    for position, (ring, alpha, special) in enumerate(_gadgets(n, legal)):
        wide = ring.extend(special) if special else ring
        spare = position % 2 if n <= 1024 else position // 4 % 2
        key_limbs, index = _key_indices(ring.limbs, len(special))[spare]
        for domain in _share(n, position, tuple(Domain)):
            rng = generator("key_switch", wide, domain)
            digits = -(-ring.limbs // alpha) + spare
            inputs = [
                (operand(ring, p, rng), _key(wide, key_limbs, digits, index, rng, p))
                # Constant keys have the right words at every place: a kernel that reads the wrong digit or component would pass.
                for p in (("minus_one", "mixed") if n <= 1024 else ("mixed",))
            ]
            yield _case(
                "key_switch", ring, (alpha, special, domain, key_limbs, index), iter(inputs), (wide.limbs * n,) * 2
            )


# -- randomness and doubles ------------------------------------------------------------------------------------------


def _sample(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    refusing = next(ntt_primes_above((1 << 64) // 9 + 1, n))  # refuses one word in nine
    rings = [ring_of_width(n, w, 2) for w in legal]
    draws: list[tuple[str, Any, int]] = [
        ("uniform", None, 0),
        ("uniform", None, (1 << 32) - 2),
        ("ternary", None, 3),
        ("gaussian", "3.19", 1),
    ]
    draws += [
        ("gaussian", "0.5", 0),
        ("gaussian", "20", 2),
        ("sparse_ternary", 0, 0),
        ("sparse_ternary", min(n // 2, 192), 5),
        ("sparse_ternary", min(n, 300), 0),
    ]
    units = [(RingSpec(n, (refusing, rings[-1].moduli[0])), draws[0])]
    units += [(ring_of_width(n, legal[len(legal) // 2], 2), draw) for draw in draws]
    units += [(ring, draws[i % len(draws)]) for i, ring in enumerate(rings)]
    units += [(ring, draws[0]) for ring in rings]
    for ring, draw in units:
        rng = generator("sample", ring, draw)
        seeds = [(np.frombuffer(rng.bytes(32), np.uint64).copy(),) for _ in range(2)]
        yield _case("sample", ring, draw, iter(seeds), (ring.limbs * n,))


def _float_words(values: NDArray[np.float64]) -> Words:
    return np.append(values.view(np.uint64), np.uint64(0x5A5A5A5A))  # the last word of a FLOAT is ignored


def _from_float(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    rng = generator("from_float", n)
    for width in legal:
        ring = ring_of_width(n, width, 3)
        q = ring.moduli[0]
        edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            float(q - 1),
            -float(q),
            float(2 * q + 1),
            2.0**52 + 1,
            -(2.0**53) - 2,
            2.0**63,
            -(2.0**63),
            2.0**64,
            2.0**98 - 2.0**46,
            1e300,
            -1.7976931348623157e308,
        ]
        inputs = [(_float_words(np.resize(np.array(edges[start:]), n)),) for start in range(0, len(edges), max(n, 2))]
        for top in (20, 52, 97, 1023):  # mantissas of 53 bits, exponents up to top
            mantissa = rng.integers(-(1 << 53) + 1, 1 << 53, n).astype(np.float64)
            inputs.append((_float_words(np.trunc(np.ldexp(mantissa, rng.integers(-52, top - 52, n)))),))
        yield _case("from_float", ring, (), iter(inputs), (3 * n,))


def _lift(n: int, legal: tuple[int, ...]) -> Iterator[KernelCase]:
    for position, width in enumerate(legal):
        for limbs in (1, 2, 3, 4) if n <= 256 else (1 + position % 4,):
            ring = ring_of_width(n, width, limbs)
            rng = generator("lift", ring)
            inner = prod(ring.moduli[:2])
            exact = [v if v <= inner // 2 else v - inner for v in integers_near_edges(inner, n, rng)]
            # half-way between two doubles: 54 significant bits, the last one set, and one more bit far below that decides
            ties = [
                ((1 << 53) + 2 * int(m) + 1 << int(s)) + int(d)
                for m, s, d in zip(
                    rng.integers(0, 1 << 50, n), rng.integers(0, 60, n), rng.integers(-1, 2, n), strict=True
                )
            ]
            ties = [(v if i % 2 else -v) if v <= inner // 2 else i for i, v in enumerate(ties)]
            small = [int(v) for v in rng.integers(-1000, 1000, n)]
            inputs = [(residues(v, ring.moduli).reshape(-1),) for v in (exact, ties, small)]
            inputs.append((operand(ring, "mixed", rng),))  # with three limbs or more nearly nothing fits
            one_off = residues(small, ring.moduli)
            one_off[-1, int(rng.integers(n))] ^= np.uint64(1)
            one_off %= np.array(ring.moduli, np.uint64)[:, None]
            inputs.append((one_off.reshape(-1),))
            yield _case("lift", ring, (), iter(inputs), (n + 1,))


_CASES: dict[str, Callable[[int, tuple[int, ...]], Iterator[KernelCase]]] = {
    "elementwise": _elementwise,
    "ntt": _transform("ntt"),
    "intt": _transform("intt"),
    "automorphism": _automorphism,
    "copy": _copy,
    "mod_down": _mod_down,
    "basis_extend": _basis_extend,
    "decompose": _decompose,
    "gadget_product": _gadget_product,
    "key_switch": _key_switch,
    "sample": _sample,
    "from_float": _from_float,
    "lift": _lift,
}

"""The units that a calibration measures: a handful of shapes of each kernel, with moduli of every width class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ren.backend.protocol import Backend
from ren.engine.exec_unit import ExecUnit, Operand
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.ring import RingSpec

_NTT, _COEFF = Domain.NTT, Domain.COEFF

#: Moduli by width class.
Moduli = Sequence[Sequence[int]]
#: (moduli of the ring, params, inputs, outputs), operands in rows.
Shape = tuple[tuple[int, ...], tuple[Any, ...], tuple[int, ...], tuple[int, ...]]


def moduli_of(n: int, bits: Sequence[int]) -> list[list[int]]:
    """Distinct primes of about these widths: many of the first, few of the others."""
    found: list[list[int]] = []
    used: set[int] = set()
    for c, width in enumerate(bits):
        count = 18 if c == 0 else 4
        primes = list(islice((q for q in ntt_primes_below(1 << width, n) if q not in used), count))
        used.update(primes)
        if primes:
            found.append(primes)
    return found


def _transform(m: Moduli) -> Iterator[Shape]:
    for moduli in (*(c[:2] for c in m), m[0][:1], m[0][:4], m[0][:12]):
        yield tuple(moduli), (), (len(moduli),), (len(moduli),)


def _elementwise(m: Moduli) -> Iterator[Shape]:
    add = (("add", 0, 1),)
    product = (("mul", 0, 1),)
    tensor = (("mul", 0, 2), ("mul", 0, 3), ("mac", 1, 2, 5), ("mul", 1, 3))
    chain = (("mul", 0, 1), ("mac", 2, 3, 8), ("mac", 4, 5, 9), ("mac", 6, 7, 10))
    sums = (("add", 0, 1), ("sub", 4, 2), ("add", 5, 3))
    for moduli in (*(c[:2] for c in m), m[0][:1], m[0][:4], m[0][:12]):
        for program, inputs, outputs in (
            (add, 2, (2,)),
            (product, 2, (2,)),
            (sums, 4, (6,)),
            (chain, 8, (11,)),
            (tensor, 4, (4, 6, 7)),
        ):
            k = len(moduli)
            yield tuple(moduli), (inputs, 0, program, outputs, _NTT), (k,) * inputs, (k,) * len(outputs)


def _automorphism(m: Moduli) -> Iterator[Shape]:
    for domain in (_COEFF, _NTT):
        for k in (1, 4, 12):
            yield tuple(m[0][:k]), (5, domain), (k,), (k,)


def _rows(m: Moduli) -> Iterator[Shape]:
    for k in (1, 4, 12):
        yield tuple(m[0][:k]), (), (k,), (k,)


def _mod_down(m: Moduli) -> Iterator[Shape]:
    for moduli, k, z, domain in (
        (m[0][:3], 1, 0, _COEFF),
        (m[0][:9], 2, 7, _COEFF),
        *((c[:3], 1, 0, _NTT) for c in m),
        *((c[:4], 2, 2, _NTT) for c in m),
        ([m[-1][0], *m[0][:7], *m[-1][1:3]], 2, 8, _NTT),
        (m[0][:10], 2, 8, _NTT),
        (m[0][:10], 3, 8, _NTT),
        (m[0][:16], 4, 12, _NTT),
        (m[0][:2], 1, 0, _NTT),
        (m[0][:9], 1, 0, _NTT),
        (m[0][:12], 3, 0, _NTT),
    ):
        yield tuple(moduli), (k, z, domain), (len(moduli), z) if z else (len(moduli),), (len(moduli) - k,)


def _basis_extend(m: Moduli) -> Iterator[Shape]:
    for mode in ("approximate", "centred", "exact"):
        for k, new in ((1, 1), (2, 3), (4, 8)):
            yield tuple(m[0][:k]), (mode, tuple(m[0][k : k + new])), (k,), (k + new,)


def _switches(m: Moduli) -> Iterator[tuple[tuple[int, ...], int, tuple[int, ...], Domain]]:
    for chain, alpha, special in (
        *((c[:2], 1, c[2:3]) for c in m),
        *((c[:2], 2, c[2:4]) for c in m),
        (m[0][:4], 2, m[0][12:14]),
        ([m[-1][0], *m[0][:3]], 2, m[-1][1:3]),
        (m[0][:8], 4, m[0][12:16]),
        (m[0][:12], 4, m[0][12:16]),
        (m[0][:12], 6, m[0][12:18]),
        (m[0][:8], 2, m[0][12:14]),
    ):
        yield tuple(chain), alpha, tuple(special), _NTT
    yield tuple(m[0][:6]), 2, tuple(m[0][12:14]), _COEFF


def _decompose(m: Moduli) -> Iterator[Shape]:
    for chain, alpha, special, domain in _switches(m):
        digits, wide = -(-len(chain) // alpha), len(chain) + len(special)
        yield chain, (alpha, special, domain), (len(chain),), (digits * wide,)


def _key_switch(m: Moduli) -> Iterator[Shape]:
    for chain, alpha, special, domain in _switches(m):
        digits, wide = -(-len(chain) // alpha), len(chain) + len(special)
        params = (alpha, special, domain, wide, tuple(range(wide)))
        yield chain, params, (len(chain), digits * 2 * wide), (wide, wide)


def _gadget_product(m: Moduli) -> Iterator[Shape]:
    for digits, moduli in (*((2, c[:2]) for c in m), (1, m[0][:4]), (4, m[0][:4]), (2, m[0][:12]), (4, m[0][:10])):
        k = len(moduli)
        yield tuple(moduli), (digits, k, tuple(range(k))), (digits * k, digits * 2 * k), (k, k)


def _sample(m: Moduli) -> Iterator[Shape]:
    for distribution, argument in (("uniform", None), ("ternary", None), ("gaussian", "3.19")):
        for moduli in (*(c[:1] for c in m), m[0][:4], m[0][:12]):
            yield tuple(moduli), (distribution, argument, 0), (-4,), (len(moduli),)


def _from_float(m: Moduli) -> Iterator[Shape]:
    for k in (1, 4, 12):
        yield tuple(m[0][:k]), (), (-1,), (k,)


def _lift(m: Moduli) -> Iterator[Shape]:
    for k in (1, 2, 3):
        yield tuple(m[0][:k]), (), (k,), (-1,)


SHAPES: dict[str, Callable[[Moduli], Iterator[Shape]]] = {
    "ntt": _transform,
    "intt": _transform,
    "elementwise": _elementwise,
    "automorphism": _automorphism,
    "copy": _rows,
    "mod_down": _mod_down,
    "basis_extend": _basis_extend,
    "decompose": _decompose,
    "gadget_product": _gadget_product,
    "key_switch": _key_switch,
    "sample": _sample,
    "from_float": _from_float,
    "lift": _lift,
}


def unit_of(
    backend: Backend,
    kernel: str,
    n: int,
    moduli: tuple[int, ...],
    params: tuple[Any, ...],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
) -> ExecUnit:
    """A unit with a slot per operand. Sizes are in rows; -1 is a row of floats with its count, -4 a seed."""
    words = [{-1: n + 1, -4: 4}.get(rows, rows * n) for rows in (*inputs, *outputs)]
    places = [Operand(slot, 0, size) for slot, size in enumerate(words)]
    unit = ExecUnit(kernel, RingSpec(n, moduli), params, tuple(places[: len(inputs)]), (), tuple(places[len(inputs) :]))
    scratch = backend.scratch_words(unit)
    return replace(unit, scratch=(Operand(len(places), 0, scratch),)) if scratch else unit

"""Every kernel once more, from the mathematics, in Python integers only: the independent check of the reference backend.

Nothing here shares code with the reference backend or `ren.numtheory`: transforms are evaluations of the polynomial, changes of
modulus divide and reduce the big integers that residues stand for, ChaCha20 is the scalar text of RFC 8439. Quadratic and slow: for
small degrees. `define` takes and returns words as lists of ints, in the layout of `ren.ops`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ren.ring import RingSpec
from ren.testing.definitions_sampling import small_integers, uniform_row

Ints = list[int]
Rows = list[Ints]


def define(
    kernel: str, ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints] = ()
) -> list[Ints]:
    """The outputs of one kernel, as lists of words."""
    return _DEFINITIONS[kernel](ring, params, inputs, scalars)


def _rows(words: Ints, n: int) -> Rows:
    return [words[i : i + n] for i in range(0, len(words), n)]


def _flat(rows: Sequence[Ints]) -> Ints:
    return [int(w) for row in rows for w in row]


# -- transform -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def root(q: int, n: int) -> int:
    """psi: g^((q-1)/2n) for the smallest g that makes its n-th power -1."""
    return next(p for p in (pow(g, (q - 1) // (2 * n), q) for g in range(2, q)) if pow(p, n, q) == q - 1)


@lru_cache(maxsize=32)
def exponents(n: int) -> tuple[int, ...]:
    """The exponent of psi at each position: odd numbers in bit-reversed order; from n = 64 on, rows and columns of each 8 x 8 block swapped."""
    log = n.bit_length() - 1
    plain = [2 * sum(((i >> b) & 1) << (log - 1 - b) for b in range(log)) + 1 for i in range(n)]
    if n < 64:
        return tuple(plain)
    return tuple(plain[i - i % 64 + 8 * (i % 8) + i % 64 // 8] for i in range(n))


def evaluate(row: Ints, x: int, q: int) -> int:
    """The polynomial at x, by Horner's rule."""
    value = 0
    for c in reversed(row):
        value = (value * x + c) % q
    return value


def transform(row: Ints, q: int) -> Ints:
    """Values at psi^e for every e of `exponents`."""
    n = len(row)
    return [evaluate(row, pow(root(q, n), e, q), q) for e in exponents(n)]


def inverse_transform(values: Ints, q: int) -> Ints:
    """c_j = n^-1 sum_i values_i psi^(-e_i j)."""
    n = len(values)
    psi_inverse, n_inverse = pow(root(q, n), -1, q), pow(n, -1, q)
    table = [pow(psi_inverse, k, q) for k in range(2 * n)]
    return [
        n_inverse * sum(v * table[e * j % (2 * n)] for v, e in zip(values, exponents(n), strict=True)) % q
        for j in range(n)
    ]


def negacyclic_product(a: Ints, b: Ints, q: int) -> Ints:
    """a b mod (X^n + 1, q), by the school method."""
    n = len(a)
    out = [0] * n
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            out[(i + j) % n] += x * y if i + j < n else -x * y
    return [v % q for v in out]


def _coefficients(rows: Rows, moduli: Sequence[int], domain: str) -> Rows:
    return [inverse_transform(r, q) for r, q in zip(rows, moduli, strict=True)] if domain == "ntt" else rows


def _in_domain(rows: Rows, moduli: Sequence[int], domain: str) -> Rows:
    return [transform(r, q) for r, q in zip(rows, moduli, strict=True)] if domain == "ntt" else rows


# -- integers --------------------------------------------------------------------------------------------------------


def integers(rows: Rows, moduli: Sequence[int]) -> Ints:
    """The integers in [0, Q) with these residues, one modulus after the other (Garner)."""
    values, modulus = list(rows[0]), moduli[0]
    for row, q in zip(rows[1:], moduli[1:], strict=True):
        step = pow(modulus, -1, q)
        values = [v + modulus * ((r - v) * step % q) for v, r in zip(values, row, strict=True)]
        modulus *= q
    return values


def centred_value(v: int, modulus: int) -> int:
    """The representative of v with the least absolute value (odd modulus: no ties)."""
    v %= modulus
    return v if 2 * v < modulus else v - modulus


def conversion(residues: Sequence[int], moduli: Sequence[int], mode: str) -> int:
    """The integer that a base conversion takes for one coefficient (Op.BASIS_EXTEND)."""
    modulus = math.prod(moduli)
    total = 0
    overflow = 1 << 55
    for x, q in zip(residues, moduli, strict=True):
        y = x * pow(modulus // q, -1, q) % q
        total += (centred_value(y, q) if mode == "centred" else y) * (modulus // q)
        bits = len(bin(q)) - 2
        overflow += (y * ((1 << (63 + bits)) // q)) // 2 ** (bits + 7)
    return total - (overflow // 2**56) * modulus if mode == "exact" else total


def _conversions(rows: Rows, moduli: Sequence[int], mode: str) -> Ints:
    return [conversion(column, moduli, mode) for column in zip(*rows, strict=True)]


# -- kernels ---------------------------------------------------------------------------------------------------------


_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "addc": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "subc": lambda x, y: x - y,
    "csub": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
}


def _elementwise(
    ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]
) -> list[Ints]:
    _, _, instructions, results, domain = params
    n = ring.n
    outputs: list[Rows] = [[] for _ in results]
    for limb, q in enumerate(ring.moduli):
        constants = [[s[limb]] * n if domain == "ntt" else [s[limb]] + [0] * (n - 1) for s in scalars]
        registers = [x[limb * n : (limb + 1) * n] for x in inputs]
        for opcode, *at in instructions:
            if opcode == "const":
                registers.append(constants[at[0]])
                continue
            a = registers[at[0]]
            if opcode == "neg":
                value = [-x for x in a]
            elif opcode == "mac":
                value = [x * y + z for x, y, z in zip(a, registers[at[1]], registers[at[2]], strict=True)]
            elif opcode == "scale":
                value = [x * scalars[at[1]][limb] for x in a]
            else:
                b = constants[at[1]] if opcode in ("addc", "subc", "csub") else registers[at[1]]
                value = [_BINARY[opcode](x, y) for x, y in zip(a, b, strict=True)]
            registers.append([v % q for v in value])
        for out, r in zip(outputs, results, strict=True):
            out.append(registers[r])
    return [_flat(out) for out in outputs]


def _ntt(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    return [_flat(_in_domain(_rows(inputs[0], ring.n), ring.moduli, "ntt"))]


def _intt(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    return [_flat(_coefficients(_rows(inputs[0], ring.n), ring.moduli, "ntt"))]


def _automorphism(
    ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]
) -> list[Ints]:
    g, domain = params
    n = ring.n
    out = []
    for row, q in zip(_coefficients(_rows(inputs[0], n), ring.moduli, domain), ring.moduli, strict=True):
        image = [0] * n
        for j, c in enumerate(row):
            image[g * j % n] += c * (-1) ** (g * j // n)
        out.append([c % q for c in image])
    return [_flat(_in_domain(out, ring.moduli, domain))]


def _copy(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    return [list(inputs[0])]


def _mod_down(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    """Divide the big integers: y - c is a multiple of D, whose quotient is reduced."""
    k, z_limbs, domain = params
    n, moduli = ring.n, ring.moduli
    y = integers(_coefficients(_rows(inputs[0], n), moduli, domain), moduli)
    if z_limbs:
        low = moduli[:z_limbs]
        z = integers(_coefficients(_rows(inputs[1], n), low, domain), low)
        y = [v + math.prod(moduli[z_limbs:]) * w for v, w in zip(y, z, strict=True)]
    kept_by_z = z_limbs if len(moduli) - k < z_limbs < len(moduli) else len(moduli)
    for dropped in filter(
        None, (moduli[kept_by_z:], moduli[len(moduli) - k : kept_by_z])
    ):  # the limbs that z lacks come first
        divisor = math.prod(dropped)
        quotients = []
        for v in y:
            quotient, rest = divmod(v - conversion([v % q for q in dropped], dropped, "centred"), divisor)
            assert rest == 0
            quotients.append(quotient)
        y = quotients
    kept = moduli[:-k]
    return [_flat(_in_domain([[v % q for v in y] for q in kept], kept, domain))]


def _basis_extend(
    ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]
) -> list[Ints]:
    mode, new = params
    rows = _rows(inputs[0], ring.n)
    values = _conversions(rows, ring.moduli, mode)
    return [_flat([*rows, *([v % p for v in values] for p in new)])]


def _digits(ring: RingSpec, alpha: int, special: Sequence[int], domain: str, words: Ints) -> list[Rows]:
    rows = _coefficients(_rows(words, ring.n), ring.moduli, domain)
    wide = (*ring.moduli, *special)
    digits = []
    for start in range(0, ring.limbs, alpha):
        values = _conversions(rows[start : start + alpha], ring.moduli[start : start + alpha], "centred")
        digits.append(_in_domain([[v % p for v in values] for p in wide], wide, "ntt"))
    return digits


def _decompose(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    alpha, special, domain = params
    return [_flat([row for digit in _digits(ring, alpha, special, domain, inputs[0]) for row in digit])]


def _inner_product(
    digits: list[Rows], key: Ints, moduli: Sequence[int], key_limbs: int, index: Sequence[int]
) -> list[Ints]:
    n = len(digits[0][0])
    out = []
    for component in range(2):
        rows = []
        for limb, q in enumerate(moduli):
            starts = [((d * 2 + component) * key_limbs + index[limb]) * n for d in range(len(digits))]
            rows.append(
                [
                    sum(digit[limb][i] * key[start + i] for digit, start in zip(digits, starts, strict=True)) % q
                    for i in range(n)
                ]
            )
        out.append(_flat(rows))
    return out


def _gadget_product(
    ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]
) -> list[Ints]:
    count, key_limbs, index = params
    rows = _rows(inputs[0], ring.n)
    digits = [rows[d * ring.limbs : (d + 1) * ring.limbs] for d in range(count)]
    return _inner_product(digits, inputs[1], ring.moduli, key_limbs, index)


def _key_switch(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    alpha, special, domain, key_limbs, index = params
    return _inner_product(
        _digits(ring, alpha, special, domain, inputs[0]), inputs[1], (*ring.moduli, *special), key_limbs, index
    )


# -- randomness and doubles ------------------------------------------------------------------------------------------


def _sample(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    distribution, argument, number = params
    seed = b"".join(w.to_bytes(8, "little") for w in inputs[0])
    if distribution == "uniform":
        return [_flat([uniform_row(seed, q, ring.n, number + j) for j, q in enumerate(ring.moduli)])]
    values = small_integers(seed, distribution, argument, number, ring.n)
    return [_flat([[v % q for v in values] for q in ring.moduli])]


def _double(word: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", word))[0])


def nearest_double(v: int) -> float:
    """v rounded to 53 significant bits, ties to even, by integer arithmetic."""
    shift = max(abs(v).bit_length() - 53, 0)
    kept, rest = divmod(abs(v), 1 << shift)
    if 2 * rest > 1 << shift or (2 * rest == 1 << shift and kept % 2):
        kept += 1
    return math.copysign(math.ldexp(kept, shift), v) if v else 0.0


def _from_float(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    values = [Fraction(_double(w)) for w in inputs[0][: ring.n]]
    assert all(v.denominator == 1 for v in values)
    return [_flat([[v.numerator % q for v in values] for q in ring.moduli])]


def _lift(ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Ints], scalars: Sequence[Ints]) -> list[Ints]:
    rows = _rows(inputs[0], ring.n)
    inner = ring.moduli[:2]
    values = [centred_value(v, math.prod(inner)) for v in integers(rows[:2], inner)]
    misfits = sum(1 for v, r in zip(values, rows[2], strict=True) if v % ring.moduli[2] != r) if ring.limbs > 2 else 0
    return [[*(struct.unpack("<Q", struct.pack("<d", nearest_double(v)))[0] for v in values), misfits]]


_DEFINITIONS: dict[str, Callable[[RingSpec, tuple[Any, ...], Sequence[Ints], Sequence[Ints]], list[Ints]]] = {
    "elementwise": _elementwise,
    "ntt": _ntt,
    "intt": _intt,
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

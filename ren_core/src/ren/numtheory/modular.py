"""Exact arithmetic on arrays of residues, for any modulus below 2^61.

Residues are unsigned 64-bit words in [0, q). Every function takes the modulus as a Python int or as an array of uint64 that
broadcasts against its operands (one modulus per row: see `column`), and returns canonical residues. Written to be obviously
right; fast kernels are the business of backends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.uint64]
Modulus = int | Residues

#: Widest modulus for which `multiply` stays in 64-bit words; wider ones go through Python integers, which are faster there.
_HORNER_BITS = 52


def column(moduli: Sequence[int]) -> Residues:
    """The moduli as a column [limbs, 1], which broadcasts against rows [limbs, n]."""
    return np.array(moduli, np.uint64).reshape(-1, 1)


def add(x: Residues, y: Residues, q: Modulus) -> Residues:
    """x + y mod q. The sum is below 2^62."""
    return (x + y) % _words(q)


def subtract(x: Residues, y: Residues, q: Modulus) -> Residues:
    """x - y mod q."""
    m = _words(q)
    return (x + (m - y)) % m


def negate(x: Residues, q: Modulus) -> Residues:
    """-x mod q."""
    m = _words(q)
    return (m - x) % m


def multiply(x: Residues, y: Residues, q: Modulus) -> Residues:
    """x * y mod q.

    Up to 32 bits the product fits a word. Up to 52 bits y is cut into chunks of c = 63 - bits(q) bits and the product built by
    Horner's rule, acc * 2^c + x * chunk < 2^63 + 2^63. Beyond that Python integers.
    """
    m = _words(q)
    bits = int(m.max()).bit_length()
    if bits <= 32:
        return x * y % m
    if bits > _HORNER_BITS:
        product = x.astype(object) * y.astype(object) % m.astype(object)
        return np.asarray(product, np.uint64)
    width = 63 - bits
    mask = np.uint64((1 << width) - 1)
    shift = width * (-(-bits // width) - 1)
    acc = x * (y >> np.uint64(shift)) % m
    while shift:
        shift -= width
        acc = ((acc << np.uint64(width)) + x * ((y >> np.uint64(shift)) & mask)) % m
    return acc


def inverse(a: int, q: int) -> int:
    """a^-1 mod q. Raises ValueError when a and q share a factor."""
    return pow(a, -1, q)


def powers(base: int, count: int, q: int) -> Residues:
    """base^0, base^1, .., base^(count-1) mod q."""
    out = np.empty(count, np.uint64)
    value = 1
    for i in range(count):
        out[i] = value
        value = value * base % q
    return out


def _words(q: Modulus) -> Residues:
    # Python ints would turn unsigned words into floats under the promotion rules of NumPy 1.x, so only uint64 meets uint64.
    return np.asarray(q, np.uint64)

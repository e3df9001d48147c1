"""The Chinese remainder theorem: integers from residues and back. Exact, with Python integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A NumPy array of Python ints.
BigInts = NDArray[Any]


def crt_terms(rows: NDArray[np.uint64], moduli: Sequence[int]) -> list[tuple[BigInts, int]]:
    """(y_i, Q/q_i) for each limb, y_i = x_i (Q/q_i)^-1 mod q_i in [0, q_i): x = sum y_i (Q/q_i) mod Q.

    rows: [limbs, n] residues. The y_i are arrays of n Python ints.
    """
    modulus = prod(moduli)
    terms = []
    for row, q in zip(rows, moduli, strict=True):
        cofactor = modulus // q
        terms.append((row.astype(object) * pow(cofactor, -1, q) % q, cofactor))
    return terms


def recombine(rows: NDArray[np.uint64], moduli: Sequence[int]) -> BigInts:
    """The integers in [0, Q) with the given residues: rows [limbs, n] to n Python ints."""
    total = sum(y * cofactor for y, cofactor in crt_terms(rows, moduli))
    return np.asarray(total % prod(moduli), object)


def centre(values: BigInts, modulus: int) -> BigInts:
    """Representatives in (-modulus/2, modulus/2] of values in [0, modulus)."""
    return np.where(values > modulus // 2, values - modulus, values)


def recombine_centred(rows: NDArray[np.uint64], moduli: Sequence[int]) -> BigInts:
    """The integers in (-Q/2, Q/2] with the given residues."""
    return centre(recombine(rows, moduli), prod(moduli))


def residues(values: Iterable[int] | NDArray[Any], moduli: Sequence[int]) -> NDArray[np.uint64]:
    """Residues [limbs, n] of n integers of any size and sign: a sequence of ints or an array of integers or Python ints."""
    array = values if isinstance(values, np.ndarray) else np.array(list(values), object)
    if array.dtype.kind == "i":
        array = array.astype(np.int64)  # moduli are below 2^61, so signed words hold them
    elif array.dtype.kind in "buO":
        array = array.astype(object)
    else:
        raise TypeError(f"residues are taken of integers, got an array of {array.dtype}")
    return np.stack([np.asarray(array % q).astype(np.uint64) for q in moduli])

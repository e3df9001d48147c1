"""Roots of unity and the order of values in the NTT domain. Part of the backend contract: every backend uses these."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=4096)
def primitive_root_2n(q: int, n: int) -> int:
    """psi, a primitive 2n-th root of unity modulo q: g^((q-1)/2n) for the smallest g >= 2 where it is primitive."""
    e = (q - 1) // (2 * n)
    for g in range(2, q):
        psi = pow(g, e, q)
        if pow(psi, n, q) == q - 1:
            return psi
    raise ValueError(f"{q} has no primitive {2 * n}-th root of unity")


def bit_reverse(i: int, bits: int) -> int:
    """i with its lowest `bits` bits in reversed order."""
    return int(format(i, f"0{bits}b")[::-1], 2) if bits else 0


def bit_reversal(n: int) -> NDArray[np.int64]:
    """The bit-reversal permutation of 0..n-1 (n a power of two)."""
    r = np.zeros(1, np.int64)
    while r.size < n:
        r = np.concatenate([2 * r, 2 * r + 1])
    return r


@lru_cache(maxsize=64)
def ntt_exponents(n: int) -> NDArray[np.int64]:
    """e with: position i of an NTT-domain row holds the polynomial's value at psi^e[i] (psi of `primitive_root_2n`).

    The order is bit-reversed (e = 2 brv(i) + 1); for n >= 64 each block of 64 positions is in addition transposed as an
    8 x 8 matrix. Vector kernels then never transpose back, which saves 5-10 % of a transform, and an automorphism maps
    blocks of 64 to blocks of 64. The array is read-only.
    """
    e = 2 * bit_reversal(n) + 1
    if n >= 64:
        e = np.ascontiguousarray(e.reshape(-1, 8, 8).transpose(0, 2, 1)).reshape(-1)
    e.flags.writeable = False
    return e


@lru_cache(maxsize=256)
def ntt_automorphism_index(n: int, g: int) -> NDArray[np.int32]:
    """idx with out[i] = a[idx[i]]: the automorphism X -> X^g (g odd) on an NTT-domain row. Read-only."""
    e = ntt_exponents(n)
    where = np.zeros(2 * n, np.int32)
    where[e] = np.arange(n, dtype=np.int32)
    idx = where[e * (g % (2 * n)) % (2 * n)]
    idx.flags.writeable = False
    return idx

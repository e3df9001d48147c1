"""Limb records and twiddle tables of one (n, q), built once per process, immutable afterwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ren_backend_cpu.kernels import limb


def float_bits(value: float) -> int:
    """The 64 bits of a double."""
    return int(np.float64(value).view(np.uint64))


def constants(q: int, log_n: int) -> NDArray[np.uint64]:
    """A limb record with everything that depends on q (and log2 n) alone; entries that do not fit their path wrap."""
    k = q.bit_length()
    one52, one64 = 1 << 52, 1 << 64
    record = [0] * limb.WORDS
    record[limb.Q], record[limb.Q2], record[limb.Q4], record[limb.HALF] = q, 2 * q, 4 * q, q // 2
    record[limb.NEG52], record[limb.INV52], record[limb.FRAC52] = one52 - q, one52 // q, (one52 % q << 52) // q
    record[limb.QINV52], record[limb.QINV64] = pow(q, -1, one52), pow(q, -1, one64)
    record[limb.BARRETT52_RIGHT], record[limb.BARRETT52_LEFT] = k - 1, 53 - k
    record[limb.BARRETT52] = (1 << 51 + k) // q
    record[limb.R52], record[limb.R52_SHOUP] = one52 % q, (one52 % q << 52) // q
    record[limb.INV64], record[limb.FRAC64] = one64 // q, (one64 % q << 64) // q
    record[limb.BARRETT64_RIGHT], record[limb.BARRETT64_LEFT] = k - 2, 66 - k
    record[limb.BARRETT64] = (1 << 62 + k) // q
    record[limb.R64], record[limb.R64_SHOUP] = one64 % q, (one64 % q << 64) // q
    record[limb.QF], record[limb.QF_INV] = float_bits(float(q)), float_bits(1.0 / q)
    record[limb.LAZY_OFFSET] = (2 * log_n + 3) * q
    return np.array([word % one64 for word in record], np.uint64)

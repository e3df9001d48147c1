"""Twiddle tables, built by compiled loops: node powers, quotients of each path, packed tails."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import types

from ren_backend_cpu.kernels.emit import mulhi
from ren_backend_cpu.kernels.jit import called_from_python, compiled

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_WORDS = types.uint64[::1]


@compiled
def quotient64(w, q, inv, frac):
    """floor(w 2^64 / q) for w < q, with inv = floor(2^64 / q) and frac = floor((2^64 mod q) 2^64 / q)."""
    e = w * inv + mulhi(w, frac)  # exact or 1 too small
    if _ZERO - e * q >= q:  # the remainder, modulo 2^64
        e += _ONE
    return e


@compiled
def times(x, w, wq, q):
    """x w mod q with wq = quotient64(w)."""
    r = x * w - mulhi(x, wq) * q
    return r - q if r >= q else r


@called_from_python(_WORDS, _WORDS, types.uint64, types.uint64, types.uint64)
def node_powers(out, steps, q, inv, frac):
    """out[k] = psi^brv(k) for k < out.size (a power of two), steps[s] = psi^(n / 2^(s+1)): the nodes of level s double the table."""
    out[0] = _ONE
    size = 1
    s = 0
    while size < out.size:
        w = steps[s]
        wq = quotient64(w, q, inv, frac)
        for k in range(size):
            out[size + k] = times(out[k], w, wq, q)
        size *= 2
        s += 1


@called_from_python(_WORDS, _WORDS, types.uint64, types.uint64, types.uint64, types.uint64)
def integer_entries(w, out, q, inv, frac, shift):
    """out[2k], out[2k+1] = w, floor(w 2^(64 - shift) / q)."""
    for k in range(w.size):
        out[2 * k] = w[k]
        out[2 * k + 1] = quotient64(w[k], q, inv, frac) >> shift


@called_from_python(_WORDS, types.float64[::1], types.uint64)
def float_entries(w, out, q):
    """out[2k], out[2k+1] = w, w / q as doubles, w taken in (-q/2, q/2]."""
    half = q >> _ONE
    qf = np.float64(q)
    for k in range(w.size):
        v = np.float64(w[k]) if w[k] <= half else -np.float64(q - w[k])
        out[2 * k] = v
        out[2 * k + 1] = v / qf


@called_from_python(_WORDS, _WORDS, types.int64)
def pack_tails(entries, out, blocks):
    """Tables of the last six stages. Block i: 7 pairs (node order, padded to 16 words), then 7 times 8 w and 8 quotients."""
    for i in range(blocks):
        node = blocks + i
        at = 128 * i
        for s in range(3):
            for j in range(1 << s):
                p = (1 << s) - 1 + j
                k = (node << s) + j
                out[at + 2 * p] = entries[2 * k]
                out[at + 2 * p + 1] = entries[2 * k + 1]
                for lane in range(8):
                    k = (((node << 3) + lane) << s) + j
                    out[at + 16 + 16 * p + lane] = entries[2 * k]
                    out[at + 24 + 16 * p + lane] = entries[2 * k + 1]
        out[at + 14] = out[at + 0]
        out[at + 15] = out[at + 1]


@called_from_python(_WORDS, _WORDS, types.int64)
def pack_tails_compressed(entries, out, blocks):
    """As `pack_tails` with one vector of w per level: 40 words per block."""
    for i in range(blocks):
        node = blocks + i
        at = 40 * i
        for s in range(3):
            for j in range(1 << s):
                p = (1 << s) - 1 + j
                k = (node << s) + j
                out[at + 2 * p] = entries[2 * k]
                out[at + 2 * p + 1] = entries[2 * k + 1]
            for lane in range(8):
                out[at + 16 + 8 * s + lane] = entries[2 * (((node << 3) + lane) << s)]
        out[at + 14] = out[at + 0]
        out[at + 15] = out[at + 1]

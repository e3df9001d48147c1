"""Whether a device computes what the kernels rest on. Asked once per process, before the device is offered to anyone.

Drivers and cards have been seen to answer wrongly on the first call of a process, or with some toolkit; a wrong answer here costs one line
in `ren backends`, later it would be a decryption that means nothing. The check goes the way of every plan: upload, recorded launch, replay
with other addresses, download.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from ren_backend_cuda.device import Device, Launch

_THREADS = 256
_MASK = (1 << 64) - 1


def first_wrong_word(device: Device) -> str | None:
    """What differs from Python's integers, or None where all is right. Raises what the device reports."""
    rng = np.random.default_rng(6)
    edges = np.array([0, 1, _MASK, (1 << 61) - 1, 1 << 63, 0x9E3779B97F4A7C15], np.uint64)
    block = device.alloc(3)
    function = device.function("self_check", {}, "self_check")
    launch = Launch(function, (1, 1, 1), (_THREADS, 1, 1), (block,), 8 * _THREADS)
    recorded = device.record([launch])
    for run in range(2):
        x, y = (rng.integers(0, _MASK, _THREADS, np.uint64, endpoint=True) for _ in range(2))
        x[: edges.size], y[-edges.size :] = edges, edges
        places = [device.alloc(words) for words in (_THREADS, _THREADS, 4 * _THREADS)]
        device.upload(places[0], 0, x)
        device.upload(places[1], 0, y)
        device.upload(block, 0, np.array([p.address for p in places], np.uint64))
        recorded.run()
        found = device.download(places[2], 0, 4 * _THREADS)
        expected = _expected(x, y)
        wrong = np.flatnonzero(found != expected)
        if wrong.size:
            part = (
                "low words of products",
                "high words of products",
                "rounding errors of doubles",
                "a sum in shared memory",
            )
            at = int(wrong[0])
            return (
                f"run {run + 1}, {part[at // _THREADS]}: {int(found[at])}, expected {int(expected[at])} "
                f"({wrong.size} of {found.size} words differ)"
            )
    return None


def _expected(x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    low = [a * b & _MASK for a, b in pairs]
    high = [a * b >> 64 for a, b in pairs]
    # The product of 32 by 53 bits, minus itself as a double, is an integer of at most 32 bits.
    exact = [(a & 0xFFFFFFFF) * (b >> 11) for a, b in pairs]
    errors = [struct.unpack("<Q", struct.pack("<d", float(e - int(float(e)))))[0] for e in exact]
    total = sum(a for a, _ in pairs) & _MASK
    return np.array([*low, *high, *errors, *[total] * len(pairs)], np.uint64)

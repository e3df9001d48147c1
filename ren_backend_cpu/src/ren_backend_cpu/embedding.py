"""The canonical embedding for encoding and decoding on the host: tables and scratch around `kernels.embedding`."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ren.schemes.ckks import embedding

from ren_backend_cpu.kernels import embedding as kernels
from ren_backend_cpu.tables import aligned_words, float_bits

Doubles = NDArray[np.float64]

#: Below this size a transform is one block or less.
MIN_SIZE = kernels.BLOCK


class _Tables:
    """Of one size: `embedding.tables` in the order and layout of the kernels."""

    def __init__(self, size: int) -> None:
        plain = embedding.tables(size)
        lanes, block = kernels.LANES, kernels.BLOCK
        # Position p of a block lies at row p % lanes, column p / lanes: the same permutation in both directions.
        place = np.arange(size).reshape(-1, lanes, lanes).swapaxes(1, 2).reshape(-1)
        self.order = np.ascontiguousarray(plain.slot_of[place], np.int64)
        self.place = np.ascontiguousarray(place[plain.position_of], np.int64)
        self.c_r, self.c_i = plain.c_r, plain.c_i
        blocks = size // block
        table = aligned_words(blocks * kernels.TABLE).view(np.float64).reshape(blocks, kernels.TABLE)
        table[:] = 0.0
        c = np.stack([plain.c_r, plain.c_i], -1)
        first = blocks + np.arange(blocks)[:, None]
        for s in range(kernels.LOG_LANES):
            for j in range(1 << s):
                m = (1 << s) - 1 + j
                table[:, 2 * m : 2 * m + 2] = c[(first << s) + j][:, 0]
                nodes = (first << (kernels.LOG_LANES + s)) + (np.arange(lanes) << s) + j
                start = kernels.SCALARS + 2 * lanes * m
                table[:, start : start + 2 * lanes] = c[nodes].swapaxes(1, 2).reshape(blocks, -1)
        self.table = table
        for array in (self.order, self.place, self.table):
            array.flags.writeable = False
        self.roots = tuple(v.ctypes.data for v in (self.c_r, self.c_i, self.table))
        self.order_address, self.place_address = self.order.ctypes.data, self.place.ctypes.data


@lru_cache(maxsize=32)
def _tables(size: int) -> _Tables:
    # Two threads may both build them on first use; they build the same values.
    return _Tables(size)


class _Scratch(threading.local):
    """Real and imaginary parts of this thread: fresh arrays of this size would be returned to the system and paged in again at each call."""

    size = 0
    parts = (0, 0)
    kept: Any = None

    def of(self, size: int) -> tuple[int, int]:
        if self.size != size:
            # Four cache lines apart, lest both parts of a value compete for the same places of a cache.
            self.kept = aligned_words(2 * size + 32)
            start = int(self.kept.ctypes.data)
            self.size, self.parts = size, (start, start + 8 * size + 256)
        return self.parts


_scratch = _Scratch()
_plain = embedding.HostEmbedding()


class CpuEmbedding:
    """`ren.backend.capability.Embedding`. Small transforms are left to the definition."""

    def to_integers(self, message: NDArray[Any], factor: float, size: int, integers: Doubles) -> None:
        if size < MIN_SIZE:
            _plain.to_integers(message, factor, size, integers)
            return
        t = _tables(size)
        if message.size < size:
            padded = np.zeros(size, message.dtype)
            padded[: message.size] = message
            message = padded
        message = np.ascontiguousarray(message)
        whole = integers if integers.size == 2 * size and integers.flags.c_contiguous else np.empty(2 * size)
        kernels.to_integers.made(
            *(message.ctypes.data, int(message.dtype.kind == "c"), t.order_address, *_scratch.of(size), *t.roots, size),
            *(whole.ctypes.data, float_bits(factor)),
        )
        if whole is not integers:
            stride = integers.size // (2 * size)
            integers[: integers.size // 2 : stride] = whole[:size]
            integers[integers.size // 2 :: stride] = whole[size:]

    def to_slots(self, coefficients: Doubles, factor: float, size: int) -> NDArray[np.complex128]:
        if size < MIN_SIZE:
            return _plain.to_slots(coefficients, factor, size)
        t = _tables(size)
        coefficients = np.ascontiguousarray(coefficients[:: coefficients.size // (2 * size)])
        out = np.empty(size, np.complex128)
        kernels.to_slots.made(
            *(coefficients.ctypes.data, t.place_address, *_scratch.of(size), *t.roots, size),
            *(out.ctypes.data, float_bits(factor)),
        )
        return out


CPU = CpuEmbedding()

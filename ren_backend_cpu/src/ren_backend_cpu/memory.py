"""Memory of the CPU backend: 64-byte aligned words with an address."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

from ren_backend_cpu.tables import aligned_words

#: Blocks of this many words are mapped, so that the system has them back when they die: the C library keeps freed blocks of up to 32 MiB.
_MAPPED = 1 << 17


def _mapped(words: int) -> NDArray[np.uint64]:
    # Private: a shared mapping would be one memory for a process and its forked child.
    return np.frombuffer(mmap.mmap(-1, 8 * words, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint64)


class CpuMemory:
    """`words` words at `address`. The array owns them: they live as long as this object (or a view of the array) does."""

    __slots__ = ("array", "address", "words")

    def __init__(self, words: int) -> None:
        self.array = aligned_words(words) if words < _MAPPED else _mapped(words)
        self.address = int(self.array.ctypes.data)
        self.words = words

    def __repr__(self) -> str:
        return f"<CpuMemory {self.words} words>"

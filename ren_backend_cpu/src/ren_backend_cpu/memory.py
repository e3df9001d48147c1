"""Memory of the CPU backend: 64-byte aligned words with an address."""

from __future__ import annotations

from ren_backend_cpu.tables import aligned_words


class CpuMemory:
    """`words` words at `address`. The array owns them: they live as long as this object (or a view of the array) does."""

    __slots__ = ("array", "address", "words")

    def __init__(self, words: int) -> None:
        self.array = aligned_words(words)
        self.address = int(self.array.ctypes.data)
        self.words = words

    def __repr__(self) -> str:
        return f"<CpuMemory {self.words} words>"

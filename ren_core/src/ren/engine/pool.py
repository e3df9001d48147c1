"""Memory that comes back: one pool of device memory per backend, by size class.

A block returns when the last handle on it dies. The finaliser may run anywhere, also while this module holds its lock in the
same thread (garbage collection), so returning is a single `deque.append`, which needs no lock.
"""

from __future__ import annotations

import os
from collections import deque
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ren.backend.buffer import Buffer
from ren.backend.protocol import Backend, Memory
from ren.engine.debug import POISON, poisoning
from ren.engine.locks import Guarded

#: Takes after which a block that was not needed is given back, at first and at most.
_PATIENCE, _LONGEST = 16, 4096
#: Smallest class, in words.
_SMALLEST = 64


@lru_cache(maxsize=4096)
def size_class(words: int) -> int:
    """The size that is allocated for `words`: eight classes per octave, so at most 1/8 is wasted."""
    if words <= _SMALLEST:
        return _SMALLEST
    step = 1 << ((words - 1).bit_length() - 4)
    return -(-words // step) * step


def _default_limit() -> int:
    """Words that may wait unused before a miss frees them: a quarter of the physical memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 32
    except (ValueError, OSError, AttributeError):
        return 1 << 27


class Pool(Guarded):
    """Free memory of one backend.

    hits, misses: how often `take` found a block or had to allocate (hits are approximate while several threads take at once).
    allocated_words: what the backend has given and not got back.
    """

    def __init__(self, backend: Backend, limit_words: int | None = None) -> None:
        super().__init__()
        self.backend = backend
        self.limit_words = _default_limit() if limit_words is None else limit_words
        self.hits = 0
        self.misses = 0
        self.allocated_words = 0
        self._free: dict[int, deque[Memory]] = {}
        self._least: dict[int, int] = {}  # per class the fewest blocks that were left since `_since`
        self._since = 0
        self._patience = _PATIENCE
        self._trimmed: set[int] = set()
        self._give: dict[int, Any] = {}

    def take(self, words: int) -> Buffer:
        """A handle on uninitialised memory of `words` words. Its memory returns to the pool when the handle and all views of it are gone."""
        size = size_class(words)
        try:
            free = self._free[size]
            memory = free.pop()
            self.hits += 1
            if len(free) < self._least[size]:
                self._least[size] = len(free)
        except (KeyError, IndexError):
            memory = self._allocate(size)
        return Buffer(self.backend, memory, words, 0, None, self._give[size])

    def _allocate(self, size: int) -> Memory:
        with self._lock:
            self.misses += 1
            if size not in self._free:
                self._least[size] = 0
                free = self._free[size] = deque()
                self._give[size] = _poisoned_return(self.backend, free, size) if poisoning() else free.append
            if self.free_words > self.limit_words:
                self.trim()
            elif self.free_words > self.allocated_words // 8:
                self._trim_idle(size)
            try:
                memory = self.backend.alloc(size)
            except MemoryError:
                self.trim()
                memory = self.backend.alloc(size)
            self.allocated_words += size
            return memory

    @property
    def free_words(self) -> int:
        """Words waiting to be taken."""
        return sum(size * len(free) for size, free in list(self._free.items()))

    def _trim_idle(self, wanted: int) -> None:
        """Give back the blocks that nothing took for some time. Only a miss comes here, where an eighth of the memory is unused: work that repeats
        has none, so what it needs in turns stays. wanted: the size that is missing.

        Time is counted in takes, from `_PATIENCE` on, and doubles whenever a size is missed that was given back.
        """
        if wanted in self._trimmed:  # it was given back too early: wait twice as long from now on
            self._trimmed.clear()
            self._patience = min(2 * self._patience, _LONGEST)
        takes = self.hits + self.misses
        if takes - self._since < self._patience:
            return
        self._since = takes
        for size, free in self._free.items():
            for _ in range(min(self._least[size], len(free))):
                try:
                    free.popleft()  # the longest unused: blocks are taken from the other end
                except IndexError:
                    break
                self.allocated_words -= size
                self._trimmed.add(size)
            self._least[size] = len(free)

    def trim(self) -> None:
        """Give all unused memory back to the backend."""
        with self._lock:
            for size, free in self._free.items():
                while free:
                    try:
                        free.pop()
                    except IndexError:
                        break
                    self.allocated_words -= size


def _poisoned_return(backend: Backend, free: deque[Memory], size: int) -> Any:
    pattern = np.full(size, POISON, np.uint64)

    def give(memory: Memory) -> None:
        backend.copyin(memory, 0, pattern)
        free.append(memory)

    return give


class _Pools(Guarded):
    """The pool of each backend instance."""

    def __init__(self) -> None:
        super().__init__()
        self.known: WeakKeyDictionary[Backend, Pool] = WeakKeyDictionary()

    def make(self, backend: Backend) -> Pool:
        with self._lock:
            pool = self.known.get(backend)
            if pool is None:
                pool = self.known[backend] = Pool(backend)
            return pool


_pools = _Pools()


def pool_of(backend: Backend) -> Pool:
    """The pool of a backend instance."""
    pool = _pools.known.get(backend)
    return pool if pool is not None else _pools.make(backend)

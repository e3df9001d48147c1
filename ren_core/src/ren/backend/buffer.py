"""Buffer handles: what nodes, views and exported arrays hold.

The finaliser sits on the handle, not on the Poly, so memory returns to the pool when the last of them dies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.backend.protocol import Backend, Memory, View


class Buffer:
    """`words` words at word `offset` of `memory` on `backend`.

    owner keeps a pooled block alive: views share it. `release` is called once, when the owning handle dies.
    """

    __slots__ = ("backend", "memory", "offset", "words", "owner", "_release", "__weakref__")

    def __init__(
        self,
        backend: Backend,
        memory: Memory,
        words: int,
        offset: int = 0,
        owner: Buffer | None = None,
        release: Callable[[Memory], Any] | None = None,
    ) -> None:
        self.backend = backend
        self.memory = memory
        self.words = words
        self.offset = offset
        self.owner = owner
        self._release = release

    def view(self, offset: int, words: int) -> Buffer:
        """A handle on part of this buffer that keeps it alive."""
        return Buffer(self.backend, self.memory, words, self.offset + offset, owner=self.owner or self)

    @property
    def location(self) -> View:
        return self.memory, self.offset

    def to_host(self) -> NDArray[np.uint64]:
        """A fresh host copy."""
        return self.backend.copyout(self.memory, self.offset, self.words)

    def __del__(self) -> None:
        try:
            release = self._release
        except AttributeError:  # __init__ did not get that far
            return
        if release is not None:
            self._release = None
            release(self.memory)

"""Locks that a forked child can take: whatever other threads of the parent held is free again there."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class Guarded:
    """Has a reentrant `_lock` (a finaliser may run inside its holder), which is renewed in a child after fork."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _guarded.add(self)


_guarded: WeakSet[Guarded] = WeakSet()


def _after_fork() -> None:
    for owner in list(_guarded):
        owner._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""How many threads a computation may use: one number for the process, for backends that compute on the host.

The results do not depend on it, to the last bit.
"""

from __future__ import annotations

import os

from ren import config
from ren.errors import ConfigurationError

_count: int | None = None  # None: REN_THREADS has not been read


def set_threads(count: int) -> None:
    """Compute with `count` threads from now on, the calling one included. Raises ConfigurationError below one."""
    global _count
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigurationError(
            f"set_threads: {count!r} is not an integer of at least 1",
            subject="threads",
            hint="Use at most the number of cores that are free",
        )
    _count = count


def get_threads() -> int:
    """The number set, else REN_THREADS (read once), else 1. In a child after fork: 1 until it sets another."""
    global _count
    if _count is None:
        _count = config.integer("REN_THREADS", minimum=1) or 1
    return _count


def _after_fork() -> None:
    global _count
    _count = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

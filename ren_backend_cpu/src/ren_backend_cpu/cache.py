"""Where compiled kernels are kept on disk, and when a stored one may be used.

numba keys a stored function by its own source file and the CPU. What it cannot see is everything else that shapes the code
here: the emitters, the constants, the environment. So the folder's name carries a digest of all sources of this package, of
the versions of numba and llvmlite, and of the target; a change of any of them starts a new folder.

Stored code is executed when it is read, so a folder is used only if it belongs to this user and nobody else can write to it.
Where there is none (read-only home, no home, unknown user), kernels are compiled in each process, with one warning.
"""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llvmlite
import numba
import numba.core.config as numba_config
from ren.backend import storage

from ren_backend_cpu.features import target

_NO_EFFECT = frozenset(
    {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DEBUG_CACHE", "NUMBA_DISABLE_PERFORMANCE_WARNINGS"}
)

_lock = threading.RLock()
_folder: list[Path | None] = []  # empty until the first use


class CacheWarning(UserWarning):
    """Compiled kernels cannot be kept; each process compiles its own (some seconds)."""


def digest() -> str:
    """Names everything that compiled code depends on besides the decorated function itself."""
    h = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        h.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    t = target()
    # Variables that shape code (optimisation level, vectorisation, bounds checks, ...); the others do no harm but a second folder.
    settings = sorted(kv for kv in os.environ.items() if kv[0].startswith("NUMBA_") and kv[0] not in _NO_EFFECT)
    h.update(
        repr(
            (numba.__version__, llvmlite.__version__, t.cpu, sorted(t.features), sorted(t.paths), t.emulated, settings)
        ).encode()
    )
    return h.hexdigest()[:20]


def folder() -> Path | None:
    """The folder of this process's kernels, or None after one CacheWarning. Decided at the first call."""
    with _lock:
        if not _folder:
            path: Path | None = None
            place = "the user's cache folder"
            try:
                place = str(storage.base())
                path = Path(place) / f"cpu-{digest()}"
                new = not path.exists()
                storage.open_private(path)
                os.utime(path)  # used now
                if new:
                    storage.discard_unused(path.parent, "cpu-[0-9a-f]{20}")
            except (OSError, RuntimeError) as error:  # RuntimeError: expanduser without a home
                path = None
                warnings.warn(
                    f"compiled CPU kernels cannot be kept in {place} ({error}): every process compiles them again. "
                    "Set REN_CACHE_DIR to a folder that only you can write to",
                    CacheWarning,
                    stacklevel=2,
                )
            _folder.append(path)
        return _folder[0]


@contextmanager
def numba_cache() -> Iterator[bool]:
    """Let numba decorators inside the block store below `folder()`; yields whether they may.

    numba reads its configured folder when a function is decorated, so it is set just for that moment.
    """
    path = folder()
    if path is None:
        yield False
        return
    with _lock:
        before = numba_config.CACHE_DIR
        numba_config.CACHE_DIR = str(path)
        try:
            yield True
        finally:
            numba_config.CACHE_DIR = before


def disable(error: Exception) -> None:
    """Stop using the disk in this process (full disk, damaged file), with one CacheWarning."""
    with _lock:
        if not _folder or _folder[0] is not None:
            warnings.warn(
                f"stored CPU kernels cannot be used ({error!r}): compiling them again", CacheWarning, stacklevel=2
            )
        _folder[:] = [None]


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()  # its holder, if any, does not exist in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

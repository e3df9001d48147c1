"""How kernels become machine code: compiled at first use, kept on disk, addressed from plans and from each other.

Only module-level functions that refer to module-level intrinsics may be decorated: anything captured in a closure is compiled
again in each process. Kernels cannot raise (a C callback has no caller to raise to): `lower` checks what they are given.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numba
from numba import types

from ren_backend_cpu import cache

#: Signature of a plan kernel: its row holds addresses and integers.
ROW = types.void(types.CPointer(types.int64))

_OPTIONS = {"error_model": "numpy"}  # no division check: it would need an exception


def compiled(function: Callable[..., Any]) -> Any:
    """A numba function for use inside kernels: compiled with its first caller, without the interpreter lock, cached on disk."""
    with cache.numba_cache() as store:
        return numba.njit(nogil=True, cache=store, **_OPTIONS)(function)


class Entry:
    """A kernel with an address. Compiled (or read from disk) when the address is first asked for, by one thread.

    seconds, from_disk: how long that took and whether the disk had it, for `warmup` and `ren backends`.
    """

    #: All entries of the process, by name: what `warmup` walks.
    registry: dict[str, Entry] = {}

    def __init__(self, function: Callable[..., None], signature: Any) -> None:
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self.function = function
        self.signature = signature
        self.seconds = 0.0
        self.from_disk = False
        self._address = 0
        self._code: Any = None  # keeps the machine code alive
        Entry.registry[self.name] = self

    @property
    def address(self) -> int:
        """Address of `void f(...)`."""
        if not self._address:
            with _compiling:
                if not self._address:
                    self._compile()
        return self._address

    @property
    def ready(self) -> bool:
        """Whether the machine code exists in this process."""
        return self._address != 0

    def _compile(self) -> None:
        start = time.perf_counter()
        code: Any = None
        with cache.numba_cache() as store:
            if store:
                try:
                    code = numba.cfunc(self.signature, cache=True, **_OPTIONS)(self.function)
                    self.from_disk = code.cache_hits > 0
                except (OSError, EOFError, ValueError, ImportError, AttributeError, pickle.UnpicklingError) as error:
                    cache.disable(error)
        if code is None:
            code = numba.cfunc(self.signature, **_OPTIONS)(self.function)
        self._code = code
        self.seconds = time.perf_counter() - start
        self._address = int(code.address)


def entry(function: Callable[[Any], None]) -> Entry:
    """A plan kernel `f(row)`; row[k] is an int64 address or integer."""
    return Entry(function, ROW)


def limb_function(arguments: int) -> Callable[[Callable[..., None]], Entry]:
    """A function of `arguments` int64 values that limb records point to (`kernels.ntt_call`)."""

    def decorate(function: Callable[..., None]) -> Entry:
        return Entry(function, types.void(*[types.int64] * arguments))

    return decorate


_compiling = threading.RLock()


def _after_fork() -> None:
    global _compiling
    _compiling = threading.RLock()  # its holder, if any, does not exist in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

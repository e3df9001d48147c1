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
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.core.runtime import rtsys
from numba.core.sigutils import normalize_signature

from ren_backend_cpu import cache
from ren_backend_cpu.features import target

#: Signature of a plan kernel: its row holds addresses and integers.
ROW = types.void(types.CPointer(types.int64))

_OPTIONS = {"error_model": "numpy"}  # no division check: it would need an exception


def compiled(function: Callable[..., Any]) -> Any:
    """A numba function for use inside kernels only: its machine code becomes part of theirs, in memory and on disk."""
    return numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)


class StoredCode(FunctionCache):
    """Machine code on the disk, read without what numba needs to compile: before each look-up, numba's own class loads all that is known of
    Python's and NumPy's functions, a fifth of the time from a process's start to its first result. A compilation loads it by itself."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # Stored code may name symbols of numba's run time, and LLVM ends the process for one that it lacks.
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


#: What a wrong guess about another version's internals would cost is the process, so only the versions that were tried are read so.
_STORE = StoredCode if numba.version_info.short == (0, 68) else FunctionCache


class Compiled:
    """A function whose machine code is made, or read from disk, when it is first asked for, by one thread.

    seconds, from_disk: how long that took and whether the disk had it, for `warmup`.
    """

    def __init__(self, function: Callable[..., None], signature: Any) -> None:
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self.function = function
        self.signature = signature
        self.seconds = 0.0
        self.from_disk = False
        self._made: Any = None

    @property
    def ready(self) -> bool:
        """Whether the machine code exists in this process."""
        return self._made is not None

    @property
    def made(self) -> Any:
        """The numba object."""
        if self._made is None:
            with _compiling:
                if self._made is None:
                    self._made = self._make_timed()
        return self._made

    def _make_timed(self) -> Any:
        start = time.perf_counter()
        made: Any = None
        with cache.numba_cache() as store:
            if store:
                try:
                    made = self._make(store=True)
                    self.from_disk = self._hits(made) > 0
                except _DAMAGE as error:
                    cache.disable(error)
        if made is None:
            made = self._make(store=False)
        self.seconds = time.perf_counter() - start
        return made

    def _make(self, store: bool) -> Any:
        raise NotImplementedError

    def _hits(self, made: Any) -> int:
        raise NotImplementedError


#: What reading or writing the disk may raise: full or vanished disk, truncated or foreign files.
_DAMAGE = (OSError, EOFError, ValueError, ImportError, AttributeError, KeyError, pickle.UnpicklingError)


class HostFunction(Compiled):
    """A compiled function that Python calls, through `made` where the call is frequent. Runs without the interpreter lock."""

    def __call__(self, *arguments: Any) -> None:
        self.made(*arguments)

    def _make(self, store: bool) -> Any:
        made = numba.njit(nogil=True, **_OPTIONS)(self.function)
        if store:
            made._cache = _STORE(self.function)
        made.compile(self.signature)
        made.disable_compile()
        return made

    def _hits(self, made: Any) -> int:
        return sum(made.stats.cache_hits.values())


def called_from_python(*types_: Any) -> Callable[[Callable[..., None]], HostFunction]:
    """Decorator of a function with these argument types and no result."""

    def decorate(function: Callable[..., None]) -> HostFunction:
        return HostFunction(function, types.void(*types_))

    return decorate


class Entry(Compiled):
    """A kernel with an address: what plans and limb records call."""

    #: All entries of the process, by name: what `warmup` walks.
    registry: dict[str, Entry] = {}

    def __init__(self, function: Callable[..., None], signature: Any, needs: tuple[str, ...] = ()) -> None:
        super().__init__(function, signature)
        self._needs = needs
        Entry.registry[self.name] = self

    @property
    def compiles(self) -> bool:
        """Whether the target has the features that the kernel is written for. Compiled without them, it would end the process."""
        return target().has(*self._needs)

    @property
    def address(self) -> int:
        """Address of `void f(...)`."""
        return int(self.made.address)

    def _make(self, store: bool) -> Any:
        made = CFunc(self.function, normalize_signature(self.signature), locals={}, options=dict(_OPTIONS))
        if store:
            made._cache = _STORE(self.function)  # type: ignore[attr-defined]
        made.compile()
        return made

    def _hits(self, made: Any) -> int:
        return int(made.cache_hits)


def entry(function: Callable[[Any], None]) -> Entry:
    """A plan kernel `f(row)`; row[k] is an int64 address or integer."""
    return Entry(function, ROW)


def entry_with(*features: str) -> Callable[[Callable[[Any], None]], Entry]:
    """Decorator of a plan kernel whose instructions need these LLVM features."""

    def decorate(function: Callable[[Any], None]) -> Entry:
        return Entry(function, ROW, features)

    return decorate


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

"""Watches the calls that a traced function makes into C, where no module attribute can be replaced to notice them: draws of random numbers, memory that
holds whatever was there, clocks.

Python 3.12 and later name every called object of chosen code (`sys.monitoring`); Python 3.11 names built-in functions (`sys.setprofile`, per
thread), and `generators.States` finds what NumPy's compiled generators draw there. Ren's, PyTorch's and xDSL's own code is not watched, so
the cost is a few callbacks per traced call.
"""

from __future__ import annotations

import _random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

from ren_frontend_torch.locations import Source, is_hidden, is_importing, is_library, outer_source

#: (what a call does, the line of the user's that led to it) -> raises, or remembers.
Found = Callable[[str, str, Source], None]

RANDOM, UNWRITTEN, CLOCK = "random", "unwritten", "clock"

_NUMPY_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
#: Methods of NumPy's generators that draw nothing.
_QUIET = frozenset(("get_state", "set_state", "seed", "jumped", "advance", "state", "__init__", "__new__"))
_SYSTEM = frozenset(("urandom", "getrandom"))
_UNWRITTEN = frozenset(("empty", "empty_like"))
_CLOCKS = frozenset(
    [
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "process_time_ns",
        "thread_time",
        "thread_time_ns",
        "now",
        "utcnow",
        "today",
        # Without a time of their own, which is not seen, these read the clock too.
        "localtime",
        "gmtime",
        "ctime",
        "asctime",
    ]
)
#: Only of the module `time`: dates have a method of this name, which reads no clock.
_TEXTS = frozenset(("strftime",))
_PYTHON = frozenset(("random", "getrandbits"))
_WORDS = _SYSTEM | _UNWRITTEN | _CLOCKS | _TEXTS | _PYTHON | {"seed"}


def _judged(function: Any, first: Any, direct: bool) -> str | None:
    """What a call does that a program cannot repeat. first: the first argument, when the function is not bound. direct: the user's own code calls."""
    word = getattr(function, "__name__", None)
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or getattr(owner, "__name__", None)
    if owner is None:
        owner = first
    if isinstance(owner, _NUMPY_GENERATORS):
        return RANDOM if word not in _QUIET else None
    if word not in _WORDS:
        return None
    if (word in _PYTHON and isinstance(owner, _random.Random)) or (
        # torch.seed and its like for devices are Python functions: their own calls are not seen everywhere.
        word == "seed" and (isinstance(owner, torch.Generator) or str(module).startswith("torch."))
    ):
        return RANDOM
    if word in _SYSTEM and module in ("posix", "nt"):
        return RANDOM
    if word in _UNWRITTEN and module == "numpy":
        return UNWRITTEN if direct else None
    if word in _CLOCKS and direct and (module in ("time", "datetime") or _is_date(owner)):
        return CLOCK
    if word in _TEXTS and direct and module == "time":
        return CLOCK
    return None


def _is_date(owner: Any) -> bool:
    return isinstance(owner, type) and owner.__module__ == "datetime"


def _is_direct(code: CodeType) -> bool:
    return not (is_hidden(code) or is_library(code))


class Watch:
    """Reports what the calling thread does while it watches."""

    def __init__(self, found: Found, root: CodeType) -> None:
        """root: the code that calls the traced function. Modules that are imported below it, as PyTorch does on first use, do as they like."""
        self._found = found
        self._root = root
        #: The user's code that ran; PyTorch's may be among it.
        self.ran: dict[CodeType, None] = {}
        #: Whether `ran` has all of it.
        self.knows = False
        #: Whether the tracer has to suspend `sys.setprofile` for its own work.
        self.suspends = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        stop = _start(self)
        try:
            yield
        finally:
            self.suspends = False
            stop()

    def see(self, function: Any, first: Any, code: CodeType) -> None:
        what = _judged(function, first, _is_direct(code))
        if what is not None and not is_importing(self._root):
            self._found(what, getattr(function, "__qualname__", str(function)), outer_source())


if sys.version_info >= (3, 12):
    _lock = threading.Lock()
    #: Thread -> its watches, the innermost last.
    _watches: dict[int, list[Watch]] = {}
    _instrumented: list[CodeType] = []
    _tool: int | None = None

    def _start(watch: Watch) -> Callable[[], None]:
        me = threading.get_ident()
        with _lock:
            if not _watches:
                _acquire_tool()
                watch.knows = _tool is not None
            else:
                # Code is reported where it starts first, to one of them.
                for other in (w for known in _watches.values() for w in known):
                    other.knows = False
            _watches.setdefault(me, []).append(watch)
        if _tool is None:
            _warn("every tool identifier of sys.monitoring is taken")

        def stop() -> None:
            with _lock:
                _watches[me].remove(watch)
                if not _watches[me]:
                    del _watches[me]
                if not _watches:
                    _release_tool()

        return stop

    def _acquire_tool() -> None:
        global _tool
        monitoring = sys.monitoring
        for candidate in (4, 3, 1):
            if monitoring.get_tool(candidate) is None:
                monitoring.use_tool_id(candidate, "ren.jit.trace")
                _tool = candidate
                break
        else:
            return
        monitoring.register_callback(_tool, monitoring.events.PY_START, _on_start)
        monitoring.register_callback(_tool, monitoring.events.CALL, _on_call)
        monitoring.set_events(_tool, monitoring.events.PY_START)
        monitoring.restart_events()

    def _release_tool() -> None:
        global _tool
        if _tool is None:
            return
        monitoring = sys.monitoring
        monitoring.set_events(_tool, 0)
        for code in _instrumented:
            monitoring.set_local_events(_tool, code, 0)
        _instrumented.clear()
        for event in (monitoring.events.PY_START, monitoring.events.CALL):
            monitoring.register_callback(_tool, event, None)
        monitoring.free_tool_id(_tool)
        _tool = None

    def _on_start(code: CodeType, offset: int) -> Any:
        """Code that runs for the first time in a trace: its calls are watched unless it is Ren's or PyTorch's."""
        if not is_hidden(code):
            mine = _watches.get(threading.get_ident())
            if mine is None:
                return None
            for watch in mine:
                watch.ran[code] = None
            with _lock:
                if _tool is None:
                    return None
                sys.monitoring.set_local_events(_tool, code, sys.monitoring.events.CALL)
                _instrumented.append(code)
        return sys.monitoring.DISABLE

    def _on_call(code: CodeType, offset: int, function: Any, first: Any) -> None:
        for watch in _watches.get(threading.get_ident(), ()):
            watch.see(function, None if first is sys.monitoring.MISSING else first, code)

else:

    def _is_numpy(code: CodeType) -> bool:
        return code.co_filename.startswith(np.__path__[0])

    def _start(watch: Watch) -> Callable[[], None]:
        before = sys.getprofile()
        if before is not None and not callable(before):
            # A profiler written in C, which Python code can neither call nor put back.
            _warn(f"{type(before).__name__} is profiling")
            return lambda: None

        def seen(frame: FrameType, event: Any, arg: Any) -> None:
            if event == "c_call":
                if arg.__name__ in _WORDS:
                    watch.see(arg, None, frame.f_code)
            elif event == "call":
                watch.ran[frame.f_code] = None
                back = frame.f_back
                if frame.f_code.co_name == "empty_like" and back is not None and _is_numpy(frame.f_code):
                    watch.see(np.empty_like, None, back.f_code)
            if before is not None:
                before(frame, event, arg)

        # A profiler of the user's sees the tracer too.
        watch.suspends = before is None
        watch.knows = True
        sys.setprofile(seen)
        return lambda: sys.setprofile(before)


def _warn(why: str) -> None:
    warnings.warn(
        f"calls into C are not watched in this trace, because {why}: random numbers that Python's random module or the system draws there are frozen into the program",
        RuntimeWarning,
        stacklevel=2,
    )

"""Which engine is active in this thread or task, and which one a value belongs to.

Activation is a context variable, so each thread and each asyncio task enters an engine itself. Values carry a key id, not an
engine: they can be pickled, copied and sent without dragging keys along, and find their engine again by that id at first use.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ren.errors import KeyMismatchError, NoContextError

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine

_ENTERED: ContextVar[tuple[PublicEngine, ...]] = ContextVar("ren.ckks.entered", default=())
_LOCK = threading.Lock()
#: Every living engine by key id, owners first (they can make what a public engine lacks), younger ones before older. There may be several of one key, and any
#: of them may go first. Tuples are replaced, never changed, so readers need no lock.
_LIVE: dict[str, tuple[tuple[bool, weakref.ref[PublicEngine]], ...]] = {}


def context() -> PublicEngine:
    """The active engine (the innermost `with engine:` of this thread or task).

    Raises NoContextError (a RuntimeError) when there is none; a new thread starts without one and must enter it itself.
    """
    entered = _ENTERED.get()
    if not entered:
        raise NoContextError(
            "no CKKS engine is active in this thread",
            subject="context",
            hint="Write `with keygen(params):` around the code, in each thread that computes, or call the method of the engine itself",
        )
    return entered[-1]


def plan_token() -> tuple[str, bool] | None:
    """What plans of jitted functions depend on: key id and bound policy of the active engine."""
    entered = _ENTERED.get()
    return (entered[-1].key_id, entered[-1].bounds.strict) if entered else None


def enter(engine: PublicEngine) -> None:
    _ENTERED.set((*_ENTERED.get(), engine))


def leave(engine: PublicEngine) -> None:
    entered = _ENTERED.get()
    if not entered or entered[-1] is not engine:
        raise RuntimeError("engines must be left in the reverse order in which they were entered")
    _ENTERED.set(entered[:-1])


def remember(engine: PublicEngine, *, owner: bool) -> None:
    """Let values of this key id find `engine`, for as long as somebody else holds it."""
    with _LOCK:
        for key_id in list(_LIVE):
            alive = tuple(entry for entry in _LIVE[key_id] if entry[1]() is not None)
            if alive:
                _LIVE[key_id] = alive
            else:
                del _LIVE[key_id]
        entries = ((owner, weakref.ref(engine)), *_LIVE.get(engine.key_id, ()))
        _LIVE[engine.key_id] = tuple(sorted(entries, key=lambda entry: not entry[0]))


def engine_of(key_id: str, operation: str) -> PublicEngine:
    """The engine that `operation` on a value tagged `key_id` uses: the active one, else a living one with this key id.

    Raises KeyMismatchError when an engine of another key is active, NoContextError when none of this key is alive in the process.
    """
    entered = _ENTERED.get()
    if entered:
        engine = entered[-1]
        if engine.key_id == key_id:
            return engine
        raise KeyMismatchError(
            f"{operation}: the value belongs to key {key_id}, the active engine to key {engine.key_id}",
            subject=operation,
            hint="Enter the engine that made the value, or one loaded from its public part",
        )
    for _, reference in _LIVE.get(key_id, ()):
        found = reference()
        if found is not None:
            return found
    raise NoContextError(
        f"{operation}: no engine with key {key_id} is alive in this process",
        subject=operation,
        hint="Load the public engine that belongs to this value and enter it: `with engine:`",
    )


def require_key(expected: str, found: str, operation: str, what: str) -> None:
    """Raise KeyMismatchError unless the key ids agree."""
    if expected != found:
        raise KeyMismatchError(
            f"{operation}: {what} belongs to key {found}, expected key {expected}",
            subject=operation,
            hint="Values and keys of different key owners never mix; use the engine that made them",
        )


def _after_fork() -> None:
    """Another thread may have held a lock when the process was forked; nobody in the child will ever release it."""
    global _LOCK
    _LOCK = threading.Lock()
    for entries in list(_LIVE.values()):
        for _, reference in entries:
            engine = reference()
            if engine is not None:
                engine.keys.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

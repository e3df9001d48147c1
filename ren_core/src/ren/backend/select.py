"""Which backend runs where the user names one, and where not.

An explicit device wins, then REN_BACKEND, then the registered backend with the highest priority whose probe says it works.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from ren import config
from ren.backend.capability import ALWAYS, DeviceFacts
from ren.backend.protocol import Backend
from ren.errors import (
    BackendUnavailableError,
    MissingPluginError,
    PluginConflictError,
    PluginError,
    UnsupportedOperandError,
)
from ren.plugin.manager import PluginManager, manager
from ren.plugin.registry import Entry, Kind, resolve
from ren.plugin.report import State


@dataclass(slots=True)
class _Selected:
    """What was found out and made for one manager."""

    default: str | None = None
    backends: dict[str, Backend] = field(default_factory=dict)
    facts: dict[str, DeviceFacts] = field(default_factory=dict)


# Reentrant: the factory of one backend may ask for another.
_lock = threading.RLock()
_selected: weakref.WeakKeyDictionary[PluginManager, _Selected] = weakref.WeakKeyDictionary()
#: The last one that was looked up: every operation asks, and a WeakKeyDictionary answers in Python code.
_latest: tuple[Callable[[], PluginManager | None], _Selected | None] = (lambda: None, None)


def _after_fork() -> None:
    """A thread of the parent may have held the lock; it does not exist in the child."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, slots=True)
class BackendRecord:
    """One line of `ren backends`."""

    name: str
    priority: int
    facts: DeviceFacts
    plugin: str
    distribution: str
    default: bool
    summary: str = ""


def get_backend(device: str | None = None) -> Backend:
    """The backend called `device`, or the default one. The same object for all callers; safe from any thread.

    Raises BackendUnavailableError that lists what exists, in which state, and what to install.
    """
    if device is not None and not isinstance(device, str):
        raise UnsupportedOperandError(f"device must be a str or None, got {device!r}")
    name = device if device is not None else default_device()
    made = _state().backends.get(name)
    return (
        made
        if made is not None
        else _make(
            name, "" if device is not None or config.text("REN_BACKEND") != name else " (asked for by REN_BACKEND)"
        )
    )


def default_device() -> str:
    """REN_BACKEND, else the highest priority that works (found once per process). It may name a device that does not exist:
    `get_backend` then says so."""
    chosen = config.text("REN_BACKEND")
    if chosen is not None:
        return chosen
    state = _state()
    return state.default if state.default is not None else _choose_default(state)


def backends() -> tuple[BackendRecord, ...]:
    """Every backend that is registered, or would be if its plugin were loaded, highest priority first. Runs the probes."""
    host = manager()
    default = default_device()
    records = [
        BackendRecord(
            e.name,
            e.options["priority"],
            facts(e.name),
            e.origin.plugin,
            e.origin.distribution,
            e.name == default,
            e.summary,
        )
        for e in host.registry.all(Kind.BACKEND)
    ]
    present = {r.name for r in records}
    for plugin in host.records():
        if plugin.state is State.LOADED:
            continue
        for label in plugin.withheld:
            kind, _, name = label.partition(" ")
            if kind == Kind.BACKEND and name not in present:
                absent = DeviceFacts(
                    plugin.state is not State.MISSING_DEPENDENCY, False, False, False, plugin.reason, plugin.fix
                )
                records.append(BackendRecord(name, 0, absent, plugin.name, plugin.distribution, False, plugin.summary))
    return tuple(sorted(records, key=lambda r: (-r.priority, r.name)))


def facts(device: str) -> DeviceFacts:
    """What the probe of `device` says, asked once per process. A probe that raises counts as "does not work"."""
    state = _state()
    known = state.facts.get(device)
    if known is not None:
        return known
    with _lock:
        if device not in state.facts:
            state.facts[device] = _probe(_entry(device, ""))
        return state.facts[device]


def _state() -> _Selected:
    global _latest
    host = manager()
    of, state = _latest
    if of() is host and state is not None:
        return state
    with _lock:
        state = _selected.setdefault(host, _Selected())
        _latest = weakref.ref(host), state
    return state


def _entry(name: str, asked: str) -> Entry:
    try:
        return manager().lookup(Kind.BACKEND, name)
    except (MissingPluginError, PluginConflictError) as error:
        works = ", ".join(e.name for e in manager().registry.all(Kind.BACKEND) if facts(e.name).device_works) or "none"
        raise BackendUnavailableError(
            f"Device {name!r}{asked} is not available. {error}", subject=name, hint=f"Devices that work here: {works}"
        ) from error


def _probe(entry: Entry) -> DeviceFacts:
    probe = entry.options["probe"]
    if probe is None:
        return ALWAYS
    try:
        found = resolve(probe)()
    except Exception as error:
        return DeviceFacts(
            True,
            False,
            False,
            False,
            f"its probe raised {type(error).__name__}: {error}",
            f"Report it to the authors of {entry.origin.distribution}",
        )
    if not isinstance(found, DeviceFacts):
        return DeviceFacts(
            True,
            False,
            False,
            False,
            f"its probe returned {type(found).__name__}, expected DeviceFacts",
            f"Report it to the authors of {entry.origin.distribution}",
        )
    return found


def _make(name: str, asked: str) -> Backend:
    with _lock:
        state = _state()
        made = state.backends.get(name)
        if made is not None:
            return made
        entry = _entry(name, asked)
        found = facts(name)
        if not found.device_works:
            raise BackendUnavailableError(
                f"Device {name!r}{asked} does not work here: {found.reason}", subject=name, hint=found.fix or None
            )
        try:
            backend = manager().registry.instance(entry)
        except PluginError:
            raise
        except Exception as error:
            raise BackendUnavailableError(
                f"Device {name!r}{asked} could not be started ({entry.origin}): {type(error).__name__}: {error}",
                subject=name,
                hint="`ren backends` lists the others",
            ) from error
        if not isinstance(backend, Backend) or backend.name != name:
            raise BackendUnavailableError(
                f"Device {name!r}{asked}: {entry.origin} made {backend!r}, which is not a Backend called {name!r}",
                subject=name,
            )
        state.backends[name] = backend
        return backend


def _choose_default(state: _Selected) -> str:
    with _lock:
        if state.default is not None:
            return state.default
        candidates = sorted(manager().registry.all(Kind.BACKEND), key=lambda e: (-e.options["priority"], e.name))
        for entry in candidates:
            if not facts(entry.name).device_works:
                continue
            try:
                _make(entry.name, "")
            except BackendUnavailableError as error:
                manager().report_failure(entry, error.__cause__ or error, "The next device is used")
                continue
            state.default = entry.name
            return entry.name
        raise BackendUnavailableError("No device works", hint="`ren backends` says why")

"""Names that plugins register: one table per kind, filled only by whole plugins.

A plugin registers into a `Registrar` of its own (the transaction); the manager merges it into the `Registry` when every hook of
the plugin has returned and no name clashes. Factories are called at first use, under a lock, once.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ren.plugin.ordering import STAGES, Stage

#: What makes a registered thing: a callable without arguments, or "module:attribute" naming one, imported at first use.
Factory = str | Callable[[], Any]


class Kind(StrEnum):
    """What a name names. Names of different kinds never clash."""

    BACKEND = "backend"
    FRONTEND = "frontend"
    DIALECT = "dialect"
    PASS = "pass"
    HANDLER = "handler"


@dataclass(frozen=True, slots=True)
class Origin:
    """Which plugin registered something."""

    plugin: str
    distribution: str
    version: str = ""

    def __str__(self) -> str:
        return f"plugin {self.plugin!r} of {self.distribution}{' ' + self.version if self.version else ''}"


#: Origin of what core registers itself.
CORE = Origin("core", "ren-core")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One registered name. `options` holds what belongs to its kind (see Registrar)."""

    kind: Kind
    name: str
    factory: Factory
    origin: Origin
    summary: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def same_thing(self, other: Entry) -> bool:
        """Registered twice, but the same object: no clash."""
        return self.factory == other.factory and dict(self.options) == dict(other.options)

    def make(self) -> Any:
        """Call the factory. Whatever it raises, and ImportError or AttributeError of its import, passes through."""
        return resolve(self.factory)()


def resolve(target: str | Callable[..., Any]) -> Callable[..., Any]:
    """The callable named by "module:attribute" (imported now), or `target` itself."""
    if not isinstance(target, str):
        return target
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{target} is {type(found).__name__}, expected a callable")
    return found  # type: ignore[no-any-return]


class Registrar:
    """What registration hooks get: collects the names of one plugin.

    Every `factory` (and `probe`, `array_adapter`) is a callable or "module:attribute". A name registered twice by the same plugin, and
    arguments of the wrong type, raise ValueError or TypeError at once.
    """

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.entries: dict[tuple[Kind, str], Entry] = {}
        self._open = True

    def close(self) -> None:
        """End the transaction: a plugin that kept the registrar cannot add to it later."""
        self._open = False

    def add_backend(
        self, name: str, factory: Factory, *, priority: int = 0, probe: Factory | None = None, summary: str = ""
    ) -> None:
        """Register device `name`. The highest `priority` that works is the default (reference 0, cpu 100).

        probe: makes a `ren.backend.capability.DeviceFacts` without creating the backend; None means that it always works.
        """
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(f"add_backend({name!r}): priority must be an int, got {priority!r}")
        if probe is not None:
            _check_target(f"add_backend({name!r}): probe", probe)
        self._add(Kind.BACKEND, name, factory, summary, {"priority": priority, "probe": probe})

    def add_frontend(
        self, name: str, factory: Factory, *, array_adapter: Factory | None = None, summary: str = ""
    ) -> None:
        """Register a frontend. array_adapter: callable that turns a NumPy array into the frontend's own array type."""
        if array_adapter is not None:
            _check_target(f"add_frontend({name!r}): array_adapter", array_adapter)
        self._add(Kind.FRONTEND, name, factory, summary, {"array_adapter": array_adapter})

    def add_dialect(self, name: str, factory: Factory, *, summary: str = "") -> None:
        """Register the IR dialect whose operations are called `name`.something."""
        self._add(Kind.DIALECT, name, factory, summary, {})

    def add_pass(
        self,
        name: str,
        factory: Factory,
        *,
        stage: str,
        after: Iterable[str] = (),
        before: Iterable[str] = (),
        default: bool = False,
        summary: str = "",
    ) -> None:
        """Register a pass of `stage` (`ren.plugin.ordering.Stage`), run after and before the passes named.

        default: part of the default pipeline.
        """
        if isinstance(after, str) or isinstance(before, str):
            raise TypeError(f"add_pass({name!r}): after and before are tuples of pass names, got a str")
        if stage not in STAGES:
            raise ValueError(f"add_pass({name!r}): stage must be one of {', '.join(STAGES)}, got {stage!r}")
        options = {"stage": Stage(stage), "after": tuple(after), "before": tuple(before), "default": bool(default)}
        self._add(Kind.PASS, name, factory, summary, options)

    def add_handler(self, operation: str, factory: Factory, *, summary: str = "") -> None:
        """Register what executes the extension operation called `operation` ("dialect.name")."""
        self._add(Kind.HANDLER, operation, factory, summary, {})

    def _add(self, kind: Kind, name: str, factory: Factory, summary: str, options: dict[str, Any]) -> None:
        if not isinstance(name, str) or not name or name != name.strip():
            raise TypeError(f"add_{kind}: the name must be a non-empty str, got {name!r}")
        _check_target(f"add_{kind}({name!r}): factory", factory)
        if not self._open:
            raise RuntimeError(f"add_{kind}({name!r}): registration is over; names are registered inside the hook only")
        if (kind, name) in self.entries:
            raise ValueError(f"add_{kind}({name!r}): the plugin registered this name already")
        self.entries[kind, name] = Entry(
            kind=kind, name=name, factory=factory, origin=self.origin, summary=summary, options=options
        )


def _check_target(what: str, target: object) -> None:
    if isinstance(target, str):
        module, colon, path = target.partition(":")
        parts = [*module.split("."), *path.split(".")]
        if not colon or not all(p.isidentifier() for p in parts):
            raise ValueError(f"{what} must be 'module:attribute' or a callable, got {target!r}")
    elif not callable(target):
        raise TypeError(f"{what} must be 'module:attribute' or a callable, got {target!r}")


class Registry:
    """The names that are in force, read-only for everyone but the manager."""

    def __init__(self) -> None:
        self._entries: dict[tuple[Kind, str], Entry] = {}
        self._made: dict[tuple[Kind, str], Any] = {}
        self._lock = threading.RLock()

    def renew_lock(self) -> None:
        """In a child process after a fork (PluginManager.renew_locks)."""
        self._lock = threading.RLock()

    def merge(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._entries[entry.kind, entry.name] = entry

    def get(self, kind: Kind, name: str) -> Entry | None:
        return self._entries.get((kind, name))

    def all(self, kind: Kind) -> tuple[Entry, ...]:
        """Entries of one kind, by name."""
        return tuple(sorted((e for (k, _), e in self._entries.items() if k is kind), key=lambda e: e.name))

    def instance(self, entry: Entry) -> Any:
        """What the entry's factory made, once. A factory that raised is tried again at the next call."""
        key = entry.kind, entry.name
        made = self._made.get(key)
        if made is None:
            with self._lock:
                made = self._made.get(key)
                if made is None:
                    made = self._made[key] = entry.make()
        return made

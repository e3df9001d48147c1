"""Loading of plugins: each one alone, all or nothing, with a state, a reason and a fix for those that do not make it.

For each installed plugin: allow and deny lists -> import -> `PLUGIN` and its API version -> hook names and arguments -> required modules
-> registration hooks into a transaction. Then clashes are settled over all plugins at once, so install order has no influence,
and what is left is merged. Loading happens once, at the first look-up, under a lock; `import ren` never gets here.
"""

from __future__ import annotations

import difflib
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import pluggy

from ren import config
from ren.errors import MissingPluginError, PluginConflictError, PluginError, PluginWarning
from ren.plugin import load
from ren.plugin.clashes import drop_duplicates, settle_clashes
from ren.plugin.discover import collapse, installed, normalise
from ren.plugin.registry import CORE, Entry, Kind, Registrar, Registry
from ren.plugin.report import PluginRecord, State

#: Which plugin of Ren has a name, and its folder with the extra, for those who installed only some of the distributions.
_HOMES = {
    (Kind.BACKEND, "cpu"): ("cpu", "ren_backend_cpu"),
    (Kind.BACKEND, "cuda"): ("cuda", "ren_backend_cuda[cuda]"),
    (Kind.FRONTEND, "torch"): ("torch", "ren_frontend_torch[torch]"),
}
#: The home of any pass, where there is none at all.
_PASSES_HOME = ("passes", "ren_passes")

ReadEntryPoints = Callable[[], Iterable[tuple[EntryPoint, str, str]]]


class PluginManager:
    """The plugins of one process (or of one test): records, registry, observer calls. Thread-safe.

    read_entry_points: where plugins come from; core_entries: what core registers itself, before and above all plugins.
    """

    def __init__(
        self, read_entry_points: ReadEntryPoints = installed, core_entries: Iterable[Entry] | None = None
    ) -> None:
        self._read = read_entry_points
        self._core = tuple(builtin_entries() if core_entries is None else core_entries)
        self._lock = threading.RLock()
        self._loading = False
        self._registry: Registry | None = None
        self._records: dict[int, PluginRecord] = {}
        self._observers: list[tuple[int, pluggy.PluginManager]] = []
        self._withheld: dict[tuple[Kind, str], list[int]] = {}

    # -- what callers use --------------------------------------------------------------------------------------------

    @property
    def registry(self) -> Registry:
        """The names in force. Loads the plugins at the first call. In strict mode raises PluginError if any is faulty."""
        registry = self._ensure_loaded()
        if config.flag("REN_STRICT_PLUGINS"):
            self._raise_faults()
        return registry

    def records(self) -> tuple[PluginRecord, ...]:
        """All installed plugins, by name; never raises for a faulty one."""
        self._ensure_loaded()
        return tuple(sorted(self._records.values(), key=lambda r: (r.name, r.distribution, r.value)))

    def lookup(self, kind: Kind, name: str) -> Entry:
        """The entry called `name`. Raises MissingPluginError or PluginConflictError that says who would provide it."""
        entry = self.registry.get(kind, name)
        if entry is None:
            raise self.absence(kind, name)
        return entry

    def absence(self, kind: Kind, name: str) -> PluginError | MissingPluginError:
        """Why there is no `name`: the exception to raise, with what exists and what to do."""
        # A registered backend may not work here; only its probe knows.
        known = "Registered: " if kind is Kind.BACKEND else "Available: "
        known += ", ".join(e.name for e in self.registry.all(kind)) or "none"
        no_passes = kind is Kind.PASS and not self.registry.all(kind)
        plugin, home = _PASSES_HOME if no_passes else _HOMES.get((kind, name), (name, None))
        withheld = [self._records[i] for i in self._withheld.get((kind, name), ())]
        named = [r for r in self.records() if r.name in (name, plugin) and r not in withheld]
        if withheld or named:
            blamed = withheld or named
            why = "; ".join(
                r.explain() if r.state is not State.LOADED else load.explain_pending(r, kind) for r in blamed
            )
            cls = PluginConflictError if any(r.state is State.CONFLICT for r in blamed) else MissingPluginError
            error = cls(f"There is no {kind} {name!r}. {known}. {why}", subject=name)
            error.__cause__ = next((r.cause for r in blamed if r.cause is not None), None)
            return error
        if home is not None:
            hint = f'Run in a clone of Ren: pip install -e "./{home}"'
        else:
            hint = self._meant(kind, name) or "`ren plugins` lists what is installed"
        return MissingPluginError(
            f"There is no {kind} {name!r}, and no installed plugin names one. {known}",
            subject=name,
            hint=hint,
        )

    def _meant(self, kind: Kind, name: str) -> str | None:
        """What somebody who asked for `name` may have meant."""
        entries = self.registry.all(kind)
        if kind is Kind.BACKEND:
            base = name.partition(":")[0]
            if base != name and any(e.name == base for e in entries):
                which = "; CUDA_VISIBLE_DEVICES chooses which GPU that is" if base == "cuda" else ""
                return f"Did you mean {base!r}? Devices have no number here{which}"
            told = next((e for e in entries if name.lower() in re.findall(r"\w+", e.summary.lower())), None)
            if told is not None:
                return f"Did you mean {told.name!r} ({told.summary})?"
        close = difflib.get_close_matches(name, [e.name for e in entries], n=1, cutoff=0.7)
        return f"Did you mean {close[0]!r}?" if close else None

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call an observer hook of every plugin that has it, by plugin name. What one raises is recorded and warned about once."""
        self._ensure_loaded()
        for key, hooks in self._observers:
            caller = getattr(hooks.hook, hook)
            if not caller.get_hookimpls():
                continue
            try:
                caller(**arguments)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - an observer may raise anything, SystemExit included
                self._failed(key, hook, error, "The run is not affected")

    def report_failure(self, entry: Entry, error: BaseException, consequence: str) -> None:
        """Say that something registered failed later than at loading: kept in the plugin's notes, warned about once.

        consequence: what is done instead, as a sentence without its full stop. In strict mode raises PluginError from `error`.
        """
        for key, record in self._records.items():
            if record.state is State.LOADED and (record.name, record.distribution) == (
                entry.origin.plugin,
                entry.origin.distribution,
            ):
                self._failed(key, f"making {entry.kind} {entry.name!r}", error, consequence)

    def renew_locks(self) -> None:
        """In a child process after a fork: another thread of the parent may have held them, and it does not exist here."""
        self._lock = threading.RLock()
        self._loading = False
        if self._registry is not None:
            self._registry.renew_lock()

    # -- loading -----------------------------------------------------------------------------------------------------

    def _ensure_loaded(self) -> Registry:
        registry = self._registry
        if registry is not None:
            return registry
        with self._lock:
            if self._registry is not None:
                return self._registry
            if self._loading:
                raise PluginError(
                    "Plugins were asked for while they were being loaded",
                    hint="A plugin module may only register factories; move the work into the factory",
                )
            self._loading = True
            try:
                faults = self._load()
            finally:
                self._loading = False
            registry = self._registry
        # Outside the lock: with warnings turned into errors these raise, and loading must be complete by then.
        if not config.flag("REN_STRICT_PLUGINS"):
            for text in faults:
                warnings.warn(PluginWarning(text), stacklevel=3)
        assert registry is not None
        return registry

    def _load(self) -> list[str]:
        """Run all steps and publish the result. Returns the texts of the warnings to give."""
        trace = load.tracer()
        candidates = [load.Candidate(f, load.blank_record(f)) for f in collapse(self._read())]
        for candidate in candidates:
            started = time.perf_counter()
            load.examine(candidate, trace)
            trace(candidate.found.name, f"{candidate.record.state}, {1e3 * (time.perf_counter() - started):.1f} ms")
        drop_duplicates(candidates)
        settle_clashes(candidates, self._core)

        registry = Registry()
        registry.merge(self._core)
        records: dict[int, PluginRecord] = {}
        observers: list[tuple[int, pluggy.PluginManager]] = []
        withheld: dict[tuple[Kind, str], list[int]] = {}
        for key, candidate in enumerate(candidates):
            entries = candidate.entries
            labels = tuple(f"{kind} {name}" for kind, name in sorted(entries))
            if candidate.ok:
                registry.merge(entries.values())
                candidate.record = replace(candidate.record, names=labels)
                if candidate.hooks is not None:
                    observers.append((key, candidate.hooks))
            else:
                candidate.record = replace(candidate.record, withheld=labels)
                for entry_key in entries:
                    withheld.setdefault(entry_key, []).append(key)
            records[key] = candidate.record
        observers.sort(key=lambda item: records[item[0]].name)
        self._records, self._observers, self._withheld = records, observers, withheld
        self._registry = registry  # last: other threads take it as the sign that all is there
        faulty = [r.explain() for r in records.values() if r.faulty]
        slow = [
            f"Ren plugin {r.name!r} ({r.distribution} {r.version}): {n}"
            for r in records.values()
            for n in r.notes
            if r.import_seconds > load.SLOW_IMPORT_SECONDS
        ]
        return faulty + slow + _unmatched(candidates)

    def _raise_faults(self) -> None:
        faulty = [r for r in self.records() if r.faulty]
        if faulty:
            cls = PluginConflictError if all(r.state is State.CONFLICT for r in faulty) else PluginError
            raise cls(
                "REN_STRICT_PLUGINS is set and plugins are faulty: " + "; ".join(r.explain() for r in faulty),
                subject=faulty[0].name,
            ) from faulty[0].cause

    def _failed(self, key: int, what: str, error: BaseException, consequence: str) -> None:
        record = self._records[key]
        if config.flag("REN_STRICT_PLUGINS"):
            raise PluginError(
                f"Ren plugin {record.name!r} ({record.distribution} {record.version}): {what} raised {error!r}",
                subject=record.name,
            ) from error
        note = f"{what} raised {type(error).__name__}: {error}"
        with self._lock:
            record = self._records[key]
            if any(n.startswith(f"{what} raised") for n in record.notes):
                return
            self._records[key] = replace(record, notes=(*record.notes, note), cause=error)
        warnings.warn(
            PluginWarning(
                f"Ren plugin {record.name!r} ({record.distribution} {record.version}): {note}. {consequence}. {load.advice_to_disable(record)}"
            ),
            stacklevel=4,
        )


def _unmatched(candidates: Iterable[load.Candidate]) -> list[str]:
    """Names in REN_PLUGINS that no installed plugin has: most often a misspelling, and then its plugin is missing."""
    handles = {h for c in candidates for h in c.found.handles}
    asked = sorted(n for n in config.names("REN_PLUGINS") or () if n not in handles and normalise(n) not in handles)
    if not asked:
        return []
    installed_names = ", ".join(sorted({c.found.name for c in candidates})) or "none"
    return [
        f"REN_PLUGINS names {', '.join(map(repr, asked))}, which no installed plugin is called. Installed: {installed_names}"
    ]


def builtin_entries() -> tuple[Entry, ...]:
    """What core provides without any plugin."""
    registrar = Registrar(CORE)
    registrar.add_backend(
        "reference",
        "ren.backend.reference:ReferenceBackend",
        priority=0,
        summary="exact and readable, slow: the specification of all others",
    )
    return tuple(registrar.entries.values())


_manager: PluginManager | None = None
_manager_lock = threading.Lock()


def manager() -> PluginManager:
    """The manager of this process, made at first use (and loaded at its first look-up)."""
    global _manager
    if _manager is None:
        with _manager_lock:
            if _manager is None:
                _manager = PluginManager()
    return _manager


def _after_fork() -> None:
    global _manager_lock
    _manager_lock = threading.Lock()
    if _manager is not None:
        _manager.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def plugins() -> tuple[PluginRecord, ...]:
    """Every installed plugin with its state, reason, fix and kept cause: `ren plugins` as data. Never raises for a faulty one."""
    return manager().records()


@contextmanager
def use_manager(replacement: PluginManager) -> Iterator[PluginManager]:
    """Make `replacement` the manager of this process for a while: for tests (see ren.testing.PluginTester)."""
    global _manager
    with _manager_lock:
        previous, _manager = _manager, replacement
    try:
        yield replacement
    finally:
        with _manager_lock:
            _manager = previous

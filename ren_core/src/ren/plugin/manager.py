"""Loading of plugins: each one alone, all or nothing, with a state, a reason and a fix for those that do not make it.

For each installed plugin: allow and deny lists -> import -> `PLUGIN` and its API version -> hook names and arguments -> required modules
-> registration hooks into a transaction. Then clashes are settled over all plugins at once, so install order has no influence,
and what is left is merged. Loading happens once, at the first look-up, under a lock; `import ren` never gets here.
"""

from __future__ import annotations

import difflib
import importlib.util
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Any

import pluggy

from ren import config
from ren.errors import MissingPluginError, PluginConflictError, PluginError, PluginWarning
from ren.plugin import hookspecs
from ren.plugin.discover import OWN_DISTRIBUTIONS, Found, collapse, installed, normalise
from ren.plugin.info import PluginInfo, incompatibility
from ren.plugin.registry import CORE, Entry, Kind, Origin, Registrar, Registry
from ren.plugin.report import PluginRecord, State

#: A plugin module that takes longer than this to import is named in a note and a warning: it should only register.
SLOW_IMPORT_SECONDS = 1.0

ReadEntryPoints = Callable[[], Iterable[tuple[EntryPoint, str, str]]]


@dataclass(slots=True)
class _Candidate:
    """One plugin on its way through the steps."""

    found: Found
    record: PluginRecord
    module: Any = None
    hooks: pluggy.PluginManager | None = None
    entries: dict[tuple[Kind, str], Entry] | None = None

    def refuse(self, state: State, reason: str, fix: str, cause: BaseException | None = None) -> None:
        self.record = replace(self.record, state=state, reason=reason, fix=fix, cause=cause)

    @property
    def ok(self) -> bool:
        return self.record.state is State.LOADED


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
        self._entries_withheld: dict[tuple[Kind, str], list[int]] = {}

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
        known = ", ".join(e.name for e in self.registry.all(kind)) or "none"
        withheld = [self._records[i] for i in self._entries_withheld.get((kind, name), ())]
        named = [r for r in self.records() if r.name == name and r not in withheld]
        if withheld or named:
            blamed = withheld or named
            why = "; ".join(r.explain() if r.state is not State.LOADED else _explain_pending(r, kind) for r in blamed)
            cls = PluginConflictError if any(r.state is State.CONFLICT for r in blamed) else MissingPluginError
            error = cls(f"There is no {kind} {name!r}. Available: {known}. {why}", subject=name)
            error.__cause__ = next((r.cause for r in blamed if r.cause is not None), None)
            return error
        close = difflib.get_close_matches(name, [e.name for e in self.registry.all(kind)], n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "`ren plugins` lists what is installed"
        return MissingPluginError(
            f"There is no {kind} {name!r}, and no installed plugin names one. Available: {known}",
            subject=name,
            hint=hint,
        )

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call an observer hook of every plugin that has it, by plugin name. What one raises is recorded and warned about once."""
        self._ensure_loaded()
        for key, hooks in self._observers:
            caller = getattr(hooks.hook, hook)
            if not caller.get_hookimpls():
                continue
            try:
                caller(**arguments)
            except Exception as error:
                self._observer_failed(key, hook, error)

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
        trace = _tracer()
        candidates = [_Candidate(f, _blank_record(f)) for f in collapse(self._read())]
        for candidate in candidates:
            started = time.perf_counter()
            _examine(candidate, trace)
            trace(candidate.found.name, f"{candidate.record.state}, {1e3 * (time.perf_counter() - started):.1f} ms")
        _drop_stale(candidates)
        _settle_clashes(candidates, self._core)

        registry = Registry()
        registry.merge(self._core)
        for key, candidate in enumerate(candidates):
            entries = candidate.entries or {}
            labels = tuple(f"{kind} {name}" for kind, name in sorted(entries))
            if candidate.ok:
                registry.merge(entries.values())
                candidate.record = replace(candidate.record, names=labels)
                if candidate.hooks is not None:
                    self._observers.append((key, candidate.hooks))
            else:
                candidate.record = replace(candidate.record, withheld=labels)
                for entry_key in entries:
                    self._entries_withheld.setdefault(entry_key, []).append(key)
            self._records[key] = candidate.record
        self._observers.sort(key=lambda item: self._records[item[0]].name)
        self._registry = registry
        faulty = [r.explain() for r in self._records.values() if r.faulty]
        slow = [
            f"Ren plugin {r.name!r} ({r.distribution} {r.version}): {n}"
            for r in self._records.values()
            for n in r.notes
            if r.import_seconds > SLOW_IMPORT_SECONDS
        ]
        return faulty + slow

    def _raise_faults(self) -> None:
        faulty = [r for r in self.records() if r.faulty]
        if faulty:
            cls = PluginConflictError if all(r.state is State.CONFLICT for r in faulty) else PluginError
            raise cls(
                "REN_STRICT_PLUGINS is set and plugins are faulty: " + "; ".join(r.explain() for r in faulty),
                subject=faulty[0].name,
            ) from faulty[0].cause

    def _observer_failed(self, key: int, hook: str, error: Exception) -> None:
        record = self._records[key]
        if config.flag("REN_STRICT_PLUGINS"):
            raise PluginError(
                f"Ren plugin {record.name!r} ({record.distribution} {record.version}) raised in {hook}: {error!r}",
                subject=record.name,
            ) from error
        note = f"{hook} raised {type(error).__name__}: {error}"
        with self._lock:
            if any(n.startswith(f"{hook} raised") for n in record.notes):
                return
            self._records[key] = replace(record, notes=(*record.notes, note), cause=error)
        warnings.warn(
            PluginWarning(
                f"Ren plugin {record.name!r} ({record.distribution} {record.version}): {note}. The run is not affected. {_disable(record)}"
            ),
            stacklevel=4,
        )


def _blank_record(found: Found) -> PluginRecord:
    record = PluginRecord(
        name=found.name,
        state=State.LOADED,
        distribution=found.distribution,
        version=found.version,
        value=found.entry_point.value,
    )
    if len(found.providers) > 1:
        owners = ", ".join(f"{d} {v}" for d, v in found.providers)
        record = replace(
            record, notes=(f"declared by {len(found.providers)} installed distributions ({owners}); counted once",)
        )
    return record


def _disable(record: PluginRecord) -> str:
    if record.distribution in OWN_DISTRIBUTIONS:
        return f"To go without it: REN_DISABLE_PLUGINS={record.name}"
    return f"To go without it: REN_DISABLE_PLUGINS={record.name}, or pip uninstall {record.distribution}"


def _explain_pending(record: PluginRecord, kind: Kind) -> str:
    reason = record.pending or f"it registers no {kind} of that name"
    return f"Ren plugin {record.name!r} ({record.distribution} {record.version}) is loaded, but {reason}"


def _examine(candidate: _Candidate, trace: Callable[[str, str], None]) -> None:
    """All steps that concern one plugin alone. Leaves it loaded (with its entries) or refused; raises only KeyboardInterrupt."""
    found = candidate.found
    if _disabled(found):
        candidate.refuse(State.DISABLED, "switched off by REN_PLUGINS or REN_DISABLE_PLUGINS", "")
        return
    step = "importing it"
    try:
        started = time.perf_counter()
        candidate.module = found.entry_point.load()
        seconds = time.perf_counter() - started
        trace(found.name, f"imported {found.entry_point.value} in {1e3 * seconds:.1f} ms")
        candidate.record = replace(candidate.record, import_seconds=seconds)
        if seconds > SLOW_IMPORT_SECONDS:
            note = f"importing {found.entry_point.value} took {seconds:.1f} s; a plugin module should only register factories"
            candidate.record = replace(candidate.record, notes=(*candidate.record.notes, note))
        step = "reading its PLUGIN"
        info = _read_info(candidate)
        if info is None:
            return
        step = "checking its hooks"
        if not _check_hooks(candidate):
            return
        registrar = Registrar(Origin(info.name, found.distribution, found.version))
        assert candidate.hooks is not None
        for name in hookspecs.REGISTRATION_HOOKS:
            step = f"calling {name}"
            getattr(candidate.hooks.hook, name)(registry=registrar)
        candidate.entries = registrar.entries
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit included; the host goes on
        candidate.entries = None
        candidate.refuse(State.BROKEN, f"{step} raised {_describe(error)}", _broken_fix(candidate.record, error), error)
        return
    missing = [name for name in info.requires if not _importable(name)]
    if missing:
        fix = (
            f'Run in a clone of Ren: pip install -e ".[{info.extra}]"'
            if info.extra
            else f"Install {', '.join(missing)}, or: {_disable(candidate.record)}"
        )
        candidate.refuse(State.MISSING_DEPENDENCY, f"it needs {', '.join(missing)}, which is not installed", fix)


def _disabled(found: Found) -> bool:
    handles = {found.name, *(d for d, _ in found.providers)}
    allowed = config.names("REN_PLUGINS")
    denied = config.names("REN_DISABLE_PLUGINS") or frozenset()
    return (allowed is not None and not _mentions(allowed, handles)) or _mentions(denied, handles)


def _mentions(listed: Iterable[str], handles: set[str]) -> bool:
    return any(item in handles or normalise(item) in handles for item in listed)


def _read_info(candidate: _Candidate) -> PluginInfo | None:
    """The PLUGIN object, with its API version checked; None if the plugin was refused."""
    found = candidate.found
    info = getattr(candidate.module, "PLUGIN", None)
    if not isinstance(info, PluginInfo):
        what = "has no PLUGIN" if info is None else f"has a PLUGIN of type {type(info).__name__}"
        candidate.refuse(
            State.BROKEN,
            f"{found.entry_point.value} {what}, expected a ren.plugin.PluginInfo",
            _disable(candidate.record),
        )
        return None
    candidate.record = replace(
        candidate.record, api=info.api, summary=info.summary, pending=info.pending, optional=info.extra is not None
    )
    why = incompatibility(info.api_version)
    if why is not None:
        candidate.refuse(State.INCOMPATIBLE, why, _disable(candidate.record))
        return None
    if info.name != found.name:
        candidate.refuse(
            State.BROKEN,
            f"its entry point is called {found.name!r} but PLUGIN.name is {info.name!r}",
            f"Make them equal, or: {_disable(candidate.record)}",
        )
        return None
    return info


def _check_hooks(candidate: _Candidate) -> bool:
    """Register the module with a manager of its own. False if it has a hook or an argument this API does not know."""
    hooks = pluggy.PluginManager(hookspecs.PROJECT)
    hooks.add_hookspecs(hookspecs)
    known = (*hookspecs.REGISTRATION_HOOKS, *hookspecs.OBSERVER_HOOKS)
    api = candidate.record.api
    refused = State.INCOMPATIBLE
    implemented: list[str] = []
    for name, value in sorted(vars(candidate.module).items()):
        marked = getattr(value, "ren_impl", None)
        if marked is None:
            if name in known and callable(value):
                candidate.refuse(
                    State.BROKEN,
                    f"{name} is not marked with @hookimpl, so it would never be called",
                    _disable(candidate.record),
                )
                return False
            continue
        called = marked.get("specname") or name
        if called in known:
            implemented.append(called)
        elif not marked.get("optionalhook"):
            close = difflib.get_close_matches(called, known, n=1)
            meant = f"; did it mean {close[0]}?" if close else ""
            candidate.refuse(
                refused,
                f"hook {called!r} is unknown to this Ren (plugin written for hook API {api}, this Ren has {_host_api()}){meant}",
                _disable(candidate.record),
            )
            return False
    try:
        hooks.register(candidate.module, name=candidate.found.name)
    except pluggy.PluginValidationError as error:
        candidate.refuse(
            refused,
            f"{error.args[-1]} (plugin written for hook API {api}, this Ren has {_host_api()})".replace("\n", " "),
            _disable(candidate.record),
            error,
        )
        return False
    candidate.hooks = hooks
    candidate.record = replace(candidate.record, hooks=tuple(h for h in known if h in implemented))
    return True


def _host_api() -> str:
    from ren.plugin.info import API_VERSION

    return f"{API_VERSION[0]}.{API_VERSION[1]}"


def _importable(name: str) -> bool:
    """Whether a top-level module exists, without importing it."""
    top = name.partition(".")[0]
    if top in sys.modules:
        return sys.modules[top] is not None
    return importlib.util.find_spec(top) is not None


def _describe(error: BaseException) -> str:
    """Type, text and place, the innermost line of the plugin's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = next((f for f in reversed(frames) if "importlib" not in f.filename), None)
    where = f" at {inner.filename}:{inner.lineno}" if inner is not None and inner.filename != __file__ else ""
    return f"{type(error).__name__}: {error}{where}"


def _broken_fix(record: PluginRecord, error: BaseException) -> str:
    module = record.value.partition(":")[0]
    if (
        isinstance(error, ModuleNotFoundError)
        and error.name
        and (module == error.name or module.startswith(error.name + "."))
    ):
        return f"The entry point is stale (its module is gone): reinstall {record.distribution}, or remove its left-over metadata folder. {_disable(record)}"
    return f"Report it to the authors of {record.distribution}. {_disable(record)}"


def _drop_stale(candidates: list[_Candidate]) -> None:
    """An entry point whose module is gone is forgotten where another of the same name is fine: left-over metadata."""
    good = {c.found.name: c for c in candidates if c.ok}
    for candidate in list(candidates):
        heir = good.get(candidate.found.name)
        if heir is not None and not candidate.ok and candidate.record.fix.startswith("The entry point is stale"):
            note = f"left-over metadata of {candidate.found.distribution} {candidate.found.version} names {candidate.record.value}, which is gone; ignored"
            heir.record = replace(heir.record, notes=(*heir.record.notes, note))
            candidates.remove(candidate)


def _settle_clashes(candidates: list[_Candidate], core: tuple[Entry, ...]) -> None:
    """Names claimed by several plugins. REN_PREFER decides; else core, then Ren's own plugins win; else all claimants are refused.

    A plugin that loses by REN_PREFER keeps its other names (the user asked for just that); any other loser is rolled back whole.
    """
    claims: dict[tuple[Kind, str], list[_Candidate]] = {}
    for candidate in candidates:
        if candidate.ok:
            for key in candidate.entries or {}:
                claims.setdefault(key, []).append(candidate)
    reserved = {(e.kind, e.name): e for e in core}
    preferred = config.pairs("REN_PREFER")
    refusals: dict[int, list[str]] = {}
    for key, claimants in sorted(claims.items()):
        kind, name = key
        distinct = _distinct(key, claimants)
        if key in reserved:
            for loser in distinct:
                refusals.setdefault(id(loser), []).append(
                    f"{kind} {name!r} belongs to Ren itself ({CORE.distribution})"
                )
            continue
        if len(distinct) < 2:
            continue
        wanted = preferred.get(name)
        winner = next((c for c in distinct if wanted is not None and c.found.distribution == normalise(wanted)), None)
        if winner is not None:
            for loser in distinct:
                if loser is not winner and loser.entries is not None:
                    del loser.entries[key]
                    loser.record = replace(
                        loser.record,
                        notes=(
                            *loser.record.notes,
                            f"{kind} {name!r} is taken from {winner.found.distribution}, as REN_PREFER says",
                        ),
                    )
            continue
        own = [c for c in distinct if c.found.distribution in OWN_DISTRIBUTIONS]
        winner = own[0] if len(own) == 1 else None
        parties = " and ".join(f"{c.found.name!r} of {c.found.distribution} {c.found.version}" for c in distinct)
        outcome = f"; {winner.found.distribution} keeps it" if winner is not None else ""
        for loser in distinct:
            if loser is not winner:
                refusals.setdefault(id(loser), []).append(
                    f"{kind} {name!r} is registered by plugins {parties}{outcome}"
                )
    for candidate in candidates:
        reasons = refusals.get(id(candidate))
        if reasons:
            names = sorted(n for (_, n), claimants in claims.items() if candidate in claimants and len(claimants) > 1)
            choose = (
                f"Choose with REN_PREFER={names[0]}:<distribution>, or disable one of them with REN_DISABLE_PLUGINS"
                if names
                else _disable(candidate.record)
            )
            candidate.refuse(State.CONFLICT, "; ".join(reasons), choose)


def _distinct(key: tuple[Kind, str], claimants: list[_Candidate]) -> list[_Candidate]:
    """Claimants whose claims differ: the same object registered twice counts once."""
    kept: list[_Candidate] = []
    for candidate in claimants:
        entry = (candidate.entries or {})[key]
        if not any(entry.same_thing((k.entries or {})[key]) for k in kept):
            kept.append(candidate)
    return kept


def _tracer() -> Callable[[str, str], None]:
    if not config.flag("REN_TRACE_PLUGINS"):
        return lambda plugin, text: None
    return lambda plugin, text: print(f"ren: plugin {plugin}: {text}", file=sys.stderr)


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

"""The steps that concern one plugin alone: import, PLUGIN, API version, hooks, registration, required modules.

A plugin may raise anything at any step. It is then refused with a state, the cause and a fix, and the host goes on.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pluggy

from ren import config
from ren.plugin import hookspecs
from ren.plugin.discover import OWN_DISTRIBUTIONS, Found, normalise
from ren.plugin.info import API_VERSION, PluginInfo, incompatibility
from ren.plugin.registry import Entry, Kind, Origin, Registrar
from ren.plugin.report import PluginRecord, State

#: A plugin module that takes longer than this to import is named in a note and a warning: it should only register.
SLOW_IMPORT_SECONDS = 1.0


@dataclass(slots=True)
class Candidate:
    """One plugin on its way through the steps."""

    found: Found
    record: PluginRecord
    module: Any = None
    hooks: pluggy.PluginManager | None = None
    #: What the plugin registered. Kept for a refused plugin that got that far: look-ups say who would have the name.
    entries: dict[tuple[Kind, str], Entry] = field(default_factory=dict)
    #: The entry point's own module does not exist: left-over metadata.
    stale: bool = False

    def refuse(self, state: State, reason: str, fix: str, cause: BaseException | None = None) -> None:
        self.record = replace(self.record, state=state, reason=reason, fix=fix, cause=cause)

    @property
    def ok(self) -> bool:
        return self.record.state is State.LOADED


def blank_record(found: Found) -> PluginRecord:
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


def advice_to_disable(record: PluginRecord) -> str:
    if record.distribution in OWN_DISTRIBUTIONS:
        return f"To go without it: REN_DISABLE_PLUGINS={record.name}"
    return f"To go without it: REN_DISABLE_PLUGINS={record.name}, or pip uninstall {record.distribution}"


def _advice_to_install(record: PluginRecord, modules: Iterable[str], extra: str | None) -> str:
    if extra is None:
        return f"Install {', '.join(modules)}. {advice_to_disable(record)}"
    if record.distribution not in OWN_DISTRIBUTIONS:
        return f'Run: pip install "{record.distribution}[{extra}]"'
    # Ours come from a clone: the name `ren` on the public index belongs to somebody else.
    where = "." if record.distribution == "ren" else f"./{record.distribution.replace('-', '_')}"
    return f'Run in a clone of Ren: pip install -e "{where}[{extra}]"'


def explain_pending(record: PluginRecord, kind: Kind) -> str:
    reason = record.pending or f"it registers no {kind} of that name"
    return f"Ren plugin {record.name!r} ({record.distribution} {record.version}) is loaded, but {reason}"


def examine(candidate: Candidate, trace: Callable[[str, str], None]) -> None:
    """All steps that concern one plugin alone. Leaves it loaded (with its entries) or refused; raises only KeyboardInterrupt."""
    found = candidate.found
    if _disabled(found):
        candidate.refuse(State.DISABLED, "switched off by REN_PLUGINS or REN_DISABLE_PLUGINS", "")
        return
    step = "importing it"
    registrar: Registrar | None = None
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit included; the host goes on
        candidate.stale = _is_stale(candidate.record, error)
        state, fix = _judge(candidate, error)
        candidate.refuse(state, f"{step} raised {_describe(error)}", fix, error)
        return
    finally:
        if registrar is not None:
            registrar.close()
    candidate.entries = registrar.entries
    missing = [name for name in info.requires if not _importable(name)]
    if missing:
        fix = _advice_to_install(candidate.record, missing, info.extra)
        candidate.refuse(State.MISSING_DEPENDENCY, f"it needs {', '.join(missing)}, which is not installed", fix)


def _disabled(found: Found) -> bool:
    allowed = config.names("REN_PLUGINS")
    denied = config.names("REN_DISABLE_PLUGINS") or frozenset()
    return (allowed is not None and not _mentions(allowed, found.handles)) or _mentions(denied, found.handles)


def _mentions(listed: Iterable[str], handles: frozenset[str]) -> bool:
    return any(item in handles or normalise(item) in handles for item in listed)


def _read_info(candidate: Candidate) -> PluginInfo | None:
    """The PLUGIN object, with its API version checked; None if the plugin was refused."""
    found = candidate.found
    info = getattr(candidate.module, "PLUGIN", None)
    if not isinstance(info, PluginInfo):
        what = "has no PLUGIN" if info is None else f"has a PLUGIN of type {type(info).__name__}"
        candidate.refuse(
            State.BROKEN,
            f"{found.entry_point.value} {what}, expected a ren.plugin.PluginInfo",
            advice_to_disable(candidate.record),
        )
        return None
    candidate.record = replace(
        candidate.record, api=info.api, summary=info.summary, pending=info.pending, optional=info.extra is not None
    )
    why = incompatibility(info.api_version)
    if why is not None:
        candidate.refuse(State.INCOMPATIBLE, why, advice_to_disable(candidate.record))
        return None
    if info.name != found.name:
        candidate.refuse(
            State.BROKEN,
            f"its entry point is called {found.name!r} but PLUGIN.name is {info.name!r}",
            f"Make them equal, or: {advice_to_disable(candidate.record)}",
        )
        return None
    return info


def _check_hooks(candidate: Candidate) -> bool:
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
                    advice_to_disable(candidate.record),
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
                advice_to_disable(candidate.record),
            )
            return False
    try:
        hooks.register(candidate.module, name=candidate.found.name)
    except pluggy.PluginValidationError as error:
        candidate.refuse(
            refused,
            f"{error.args[-1]} (plugin written for hook API {api}, this Ren has {_host_api()})".replace("\n", " "),
            advice_to_disable(candidate.record),
            error,
        )
        return False
    candidate.hooks = hooks
    candidate.record = replace(candidate.record, hooks=tuple(h for h in known if h in implemented))
    return True


def _host_api() -> str:
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


def _is_stale(record: PluginRecord, error: BaseException) -> bool:
    module = record.value.partition(":")[0]
    return isinstance(error, ModuleNotFoundError) and bool(error.name) and f"{module}.".startswith(f"{error.name}.")


def _judge(candidate: Candidate, error: BaseException) -> tuple[State, str]:
    """The state and the fix for a plugin that raised `error`."""
    record = candidate.record
    disable = advice_to_disable(record)
    if candidate.stale:
        return (
            State.BROKEN,
            f"Its entry point is stale (the module is gone): reinstall {record.distribution}, or remove its left-over metadata folder. {disable}",
        )
    if _from_another_version(error):
        return (
            State.INCOMPATIBLE,
            f"It was written for another version of Ren (this one has hook API {_host_api()}): upgrade one of the two. {disable}",
        )
    own = record.value.partition(":")[0].partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] not in (own, "ren"):
        return State.MISSING_DEPENDENCY, f"Install {error.name.partition('.')[0]}. {disable}"
    return State.BROKEN, f"Report it to the authors of {record.distribution}. {disable}"


def _from_another_version(error: BaseException) -> bool:
    """Whether the plugin used something of `ren.plugin`, or of all of Ren, that does not exist here."""
    if isinstance(error, ImportError):
        return bool(error.name) and f"{error.name}.".startswith("ren.")
    if isinstance(error, AttributeError):
        return isinstance(error.obj, Registrar)
    return (
        isinstance(error, TypeError)
        and re.match(r"(PluginInfo|Registrar)\.\w+\(\) got an unexpected keyword", str(error)) is not None
    )


def tracer() -> Callable[[str, str], None]:
    if not config.flag("REN_TRACE_PLUGINS"):
        return lambda plugin, text: None
    return lambda plugin, text: print(f"ren: plugin {plugin}: {text}", file=sys.stderr)

"""Dialects, handlers and drawings that plugins bring, fetched when they are first needed."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ren import config
from ren.errors import PluginError, PluginWarning
from ren.plugin.manager import PluginManager, manager
from ren.plugin.registry import Entry, Kind, resolve
from ren.program.dialect import RenDialect, add_dialect

_LOCK = threading.Lock()
#: Per manager: dialect name -> the dialect, or why its factory failed.
_LOADED: weakref.WeakKeyDictionary[PluginManager, dict[str, RenDialect | Exception]] = weakref.WeakKeyDictionary()


def extra_dialects() -> tuple[RenDialect, ...]:
    """The dialects of all loaded plugins, by name.

    A factory that fails is isolated: the operations of its dialect stay unknown, which readiness reports by name, and one warning says why. With
    REN_STRICT_PLUGINS its error is raised.
    """
    current = manager()
    found = []
    for entry in current.registry.all(Kind.DIALECT):
        with _LOCK:
            loaded = _LOADED.setdefault(current, {})
            if entry.name not in loaded:
                loaded[entry.name] = _load(current, entry)
            dialect = loaded[entry.name]
        if isinstance(dialect, RenDialect):
            found.append(dialect)
        elif config.flag("REN_STRICT_PLUGINS"):
            raise dialect
    return tuple(found)


def _load(current: PluginManager, entry: Entry) -> RenDialect | Exception:
    try:
        dialect = current.registry.instance(entry)
        if not isinstance(dialect, RenDialect) or dialect.name != entry.name:
            raise PluginError(f"the factory must return RenDialect({entry.name!r}, rows)", subject=entry.name)
        add_dialect(dialect)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises must not keep other programs from being read
        text = f"dialect {entry.name!r} of {entry.origin} is not available: {type(error).__name__}: {error}"
        warnings.warn(text, PluginWarning, stacklevel=2)
        failure = PluginError(text, subject=entry.name)
        failure.__cause__ = error
        return failure
    return dialect


def plugin_handler(operation: str) -> Callable[..., Any] | None:
    """The handler that a plugin registered for an extension operation, None if no plugin did."""
    registry = manager().registry
    entry = registry.get(Kind.HANDLER, operation)
    return None if entry is None else registry.instance(entry)


def notebook_svg(program: Any) -> str | None:
    """The drawing of a program by the class registered as pass `visualize-svg` (its `notebook_svg(program)`), None without that plugin."""
    entry = manager().registry.get(Kind.PASS, "visualize-svg")
    if entry is None:
        return None
    found: str | None = resolve(entry.factory).notebook_svg(program)  # type: ignore[attr-defined]
    return found

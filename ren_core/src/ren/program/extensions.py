"""Dialects, handlers and drawings that plugins bring, fetched when they are first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ren.errors import PluginError
from ren.plugin.manager import manager
from ren.plugin.registry import Kind, resolve
from ren.program.dialect import RenDialect, add_dialect

_LOCK = threading.Lock()
_loaded: dict[tuple[int, str], RenDialect] = {}


def extra_dialects() -> tuple[RenDialect, ...]:
    """The dialects of all loaded plugins, by name. A factory that fails is isolated: its operations stay unknown, and the manager's
    records and one warning say why; in strict mode its error is raised."""
    current = manager()
    found = []
    for entry in current.registry.all(Kind.DIALECT):
        with _LOCK:
            key = id(current), entry.name
            if key not in _loaded:
                dialect = current.registry.instance(entry)
                if not isinstance(dialect, RenDialect) or dialect.name != entry.name:
                    raise PluginError(
                        f"dialect {entry.name!r} of {entry.origin}: the factory must return RenDialect({entry.name!r}, rows)",
                        subject=entry.name,
                    )
                add_dialect(dialect)
                _loaded[key] = dialect
        found.append(_loaded[key])
    return tuple(found)


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

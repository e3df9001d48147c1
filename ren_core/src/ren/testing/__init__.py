"""Tools for testing Ren, its plugins, and code that uses them.

`BackendConformance` proves a backend plugin. `fixed_randomness` makes draws reproducible. Everything is imported when it is first
asked for: the kit needs pytest, `import ren.testing` does not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ren.errors import MissingPluginError

if TYPE_CHECKING:
    from ren.testing.backend import BackendConformance as BackendConformance
    from ren.testing.plugin_tester import PluginTester as PluginTester
    from ren.testing.randomness import fixed_randomness as fixed_randomness

_EXPORTS = {
    "BackendConformance": "ren.testing.backend",
    "PluginTester": "ren.testing.plugin_tester",
    "fixed_randomness": "ren.testing.randomness",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'ren.testing' has no attribute {name!r}")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        raise MissingPluginError(
            f"ren.testing.{name} needs pytest, which is not installed",
            subject=name,
            hint='Run in a clone of Ren: pip install -e ".[test]"',
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)

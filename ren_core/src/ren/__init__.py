"""Ren: computing on encrypted numbers.

`import ren` is light: every public name is imported when it is first asked for, and no plugin is loaded before something needs one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ren.version import VERSION as __version__

if TYPE_CHECKING:
    from ren.backend.threads import get_threads as get_threads
    from ren.backend.threads import set_threads as set_threads
    from ren.jit_api import jit as jit
    from ren.plugin.manager import plugins as plugins
    from ren.poly import Poly as Poly
    from ren.poly import realize as realize
    from ren.ring import RingSpec as RingSpec

#: Public name -> module that defines it.
_EXPORTS = {
    "Poly": "ren.poly",
    "RingSpec": "ren.ring",
    "jit": "ren.jit_api",
    "realize": "ren.poly",
    "get_threads": "ren.backend.threads",
    "set_threads": "ren.backend.threads",
    "plugins": "ren.plugin.manager",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'ren' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""What a plugin module imports: `PluginInfo`, `hookimpl`, and types for annotations."""

from ren.plugin.hookspecs import hookimpl
from ren.plugin.info import API_VERSION, GROUP, PluginInfo
from ren.plugin.registry import Entry, Kind, Origin, Registrar

__all__ = ["API_VERSION", "GROUP", "Entry", "Kind", "Origin", "PluginInfo", "Registrar", "hookimpl"]

"""Plugin of the pass library."""

from ren.plugin import PluginInfo

PLUGIN = PluginInfo(
    name="passes",
    api="1.0",
    summary="passes over Programs and the default pipeline",
    pending="passes and the default pipeline are not there yet in this version",
)

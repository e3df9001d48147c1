"""Plugin of the PyTorch frontend. Imports nothing of PyTorch."""

from ren.plugin import PluginInfo

PLUGIN = PluginInfo(
    name="torch",
    api="1.0",
    requires=("torch",),
    extra="torch",
    summary="PyTorch frontend: trace a function into a Program",
    pending="tracing of PyTorch functions is not there yet in this version",
)

"""A world of plugins in which device "cuda" is the emulated one, for tests through Ren's public interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from emulator import EmulatedDevice
from ren.testing import PluginTester
from ren_backend_cuda.backend import CudaBackend

_PLUGIN = """
from ren.plugin import PluginInfo, hookimpl

PLUGIN = PluginInfo(name="emulated", api="1.0")

@hookimpl
def ren_register_backends(registry):
    registry.add_backend("cuda", "emulated:backend", priority=-50)
"""

_BESIDE = {"cpu": "ren_backend_cpu", "torch": "ren_frontend_torch", "passes": "ren_passes"}

_devices: list[EmulatedDevice] = []


def backend() -> CudaBackend:
    """The factory that the plugin names."""
    return CudaBackend(_devices[-1])


@contextmanager
def emulated(**options: Any) -> Iterator[EmulatedDevice]:
    """Inside, device "cuda" is a fresh EmulatedDevice(**options), beside the CPU backend and the plugins for traced programs."""
    _devices.append(EmulatedDevice(**options))
    try:
        with PluginTester() as world:
            for name, package in _BESIDE.items():
                world.entry(name, f"{package}.plugin")
            world.plugin("emulated", _PLUGIN)
            with world.active():
                yield _devices[-1]
    finally:
        _devices.pop()

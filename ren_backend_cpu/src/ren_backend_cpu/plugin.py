"""Plugin of the CPU backend: vector kernels written with numba."""

from ren.plugin import PluginInfo, Registrar, hookimpl

PLUGIN = PluginInfo(name="cpu", api="1.0", requires=("numba",), summary="CPU backend: vector kernels through numba")


@hookimpl
def ren_register_backends(registry: Registrar) -> None:
    registry.add_backend(
        "cpu", "ren_backend_cpu.backend:CpuBackend", priority=100, summary="vector kernels through numba"
    )

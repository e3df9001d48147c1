"""Plugin of the CUDA backend. Imports nothing of CuPy: `probe` finds out what is there when the device is asked for."""

from ren.plugin import PluginInfo, Registrar, hookimpl

PLUGIN = PluginInfo(
    name="cuda",
    api="1.0",
    extra="cuda",
    summary="CUDA backend: kernels in CUDA C through CuPy",
)


@hookimpl
def ren_register_backends(registry: Registrar) -> None:
    registry.add_backend(
        "cuda",
        "ren_backend_cuda.start:make_backend",
        priority=200,
        probe="ren_backend_cuda.probe:probe",
        summary="NVIDIA GPU, kernels in CUDA C through CuPy",
    )

"""Plugin of the PyTorch frontend. Imports nothing of PyTorch."""

from ren.plugin import PluginInfo, Registrar, hookimpl

PLUGIN = PluginInfo(
    name="torch",
    api="1.0",
    requires=("torch",),
    extra="torch",
    summary="PyTorch frontend: trace a function into a Program",
)


@hookimpl
def ren_register_frontends(registry: Registrar) -> None:
    registry.add_frontend(
        "torch",
        "ren_frontend_torch.frontend:TorchFrontend",
        array_adapter="ren_frontend_torch.arrays:to_tensor",
        summary="PyTorch functions and modules",
    )

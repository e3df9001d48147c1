"""What Ren finds: registers factories, imports nothing but `ren.plugin`."""

from ren.plugin import PluginInfo, Registrar, hookimpl

PLUGIN = PluginInfo(name="counting", api="1.0", summary="counts the kernels it runs")

#: Programs that were seen running, newest last.
seen: list[object] = []


@hookimpl
def ren_register_backends(registry: Registrar) -> None:
    registry.add_backend(
        "counting", "ren_counting.backend:CountingBackend", priority=-10, summary="reference backend that counts"
    )


@hookimpl
def ren_before_run(program: object) -> None:
    seen.append(program)

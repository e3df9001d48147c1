"""What Ren finds. Imports nothing but `ren.plugin`; everything else is named and imported when it is used."""

from __future__ import annotations

from ren.plugin import PluginInfo, Registrar, hookimpl

PLUGIN = PluginInfo(name="smooth", api="1.0", summary="moving averages of encrypted vectors")


@hookimpl
def ren_register_dialects(registry: Registrar) -> None:
    registry.add_dialect("smooth", "ren_pass_example.dialect:dialect")


@hookimpl
def ren_register_passes(registry: Registrar) -> None:
    registry.add_pass(
        "lower-smooth",
        "ren_pass_example.lower_smooth:LowerSmoothPass",
        stage="semantic",
        before=("lower-semantic-to-logical",),
        default=True,
        summary="write moving averages with windows and products",
    )


@hookimpl
def ren_register_handlers(registry: Registrar) -> None:
    registry.add_handler("smooth.window", "ren_pass_example.handlers:window_handler")

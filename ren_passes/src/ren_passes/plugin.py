"""Plugin of the pass library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ren.plugin import PluginInfo, hookimpl

from ren_passes.default_pipeline import PLACES

if TYPE_CHECKING:
    from ren.plugin.registry import Registrar

PLUGIN = PluginInfo(name="passes", api="1.0", summary="passes over Programs and the default pipeline")


@hookimpl
def ren_register_passes(registry: Registrar) -> None:
    for place in PLACES:
        registry.add_pass(
            place.name,
            f"ren_passes.{place.target}",
            stage=place.stage,
            after=place.after,
            before=place.before,
            default=place.default,
            summary=place.summary,
        )

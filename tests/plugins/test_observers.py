"""Observers of an installed plugin see real captures; one that raises changes nothing about the result."""

from __future__ import annotations

import sys

import pytest
import ren
from ren.errors import PluginWarning
from ren.poly import Poly
from ren.ring import RingSpec
from ren.testing import PluginTester

WATCHER = """
from ren.plugin import PluginInfo, hookimpl
PLUGIN = PluginInfo(name="{name}", api="1.0")
seen = []
@hookimpl
def ren_after_plan_captured(plan):
    seen.append(plan)
    {then}
"""
RING = RingSpec(8, (17, 97))


def test_capture_is_seen_once_per_plan() -> None:
    with PluginTester() as world:
        world.plugin("watcher", WATCHER.format(name="watcher", then="pass"))
        world.plugin("raiser", WATCHER.format(name="raiser", then="raise OSError('no')"))
        with world.active():

            @ren.jit
            def double(x: Poly) -> Poly:
                return x + x

            x = Poly(range(8), RING)
            with pytest.warns(PluginWarning, match="'raiser'.*ren_after_plan_captured raised OSError: no"):
                first = double(x).tolist()
            assert double(x).tolist() == first == [2 * i for i in range(8)]
            assert [len(sys.modules[f"ren_tester_{n}_{n}"].seen) for n in ("watcher", "raiser")] == [1, 1]

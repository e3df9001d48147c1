"""Ren's own plugins: each says what it provides, and what this version of it does not provide yet."""

from __future__ import annotations

import importlib
import importlib.util

import pytest
from ren.plugin.info import API_VERSION
from ren.plugin.registry import Kind
from ren.testing import PluginTester

OWN = {"cpu": "ren_backend_cpu", "cuda": "ren_backend_cuda", "torch": "ren_frontend_torch", "passes": "ren_passes"}


@pytest.mark.parametrize("name", OWN)
def test_loads_without_complaint(name: str) -> None:
    with PluginTester(REN_STRICT_PLUGINS="1") as world:
        world.entry(name, f"{OWN[name]}.plugin", OWN[name].replace("_", "-"))
        record = world.record(name)
        assert record.state in ("loaded", "missing-dependency") and not record.faulty and world.warnings == []
        assert record.api == ".".join(map(str, API_VERSION)) and record.summary


@pytest.mark.parametrize("name", OWN)
def test_every_registered_factory_exists_or_the_plugin_says_that_it_is_pending(name: str) -> None:
    with PluginTester() as world:
        world.entry(name, f"{OWN[name]}.plugin", OWN[name].replace("_", "-"))
        plugin = importlib.import_module(f"{OWN[name]}.plugin").PLUGIN
        if world.record(name).state != "loaded":
            pytest.skip(f"{name} is {world.record(name).state} here")
        entries = [e for kind in Kind for e in world.manager.registry.all(kind) if e.origin.plugin == name]
        missing = [
            e.factory
            for e in entries
            if isinstance(e.factory, str) and importlib.util.find_spec(e.factory.partition(":")[0]) is None
        ]
        assert bool(plugin.pending) == bool(missing or not entries), (
            "PLUGIN.pending must say what is not there yet, and only that"
        )

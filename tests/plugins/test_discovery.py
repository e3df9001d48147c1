"""Finding plugins from real metadata folders, and the switches. Fault B49."""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path

import pytest
from ren.errors import ConfigurationError, MissingPluginError
from ren.plugin.discover import collapse, installed, normalise
from ren.plugin.manager import PluginManager
from ren.plugin.registry import Kind
from ren.testing import PluginTester

PLUGIN = """
from ren.plugin import PluginInfo, hookimpl
PLUGIN = PluginInfo(name="disk", api="1.0")
@hookimpl
def ren_register_handlers(registry):
    registry.add_handler("disk.op", "nowhere:nothing")
"""


def metadata(folder: Path, distribution: str, version: str, entry_points: str, kind: str = "dist-info") -> None:
    info = folder / f"{distribution.replace('-', '_')}-{version}.{kind}"
    info.mkdir(parents=True)
    (info / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of the path with one plugin in it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "ren_disk_plugin.py").write_text(PLUGIN)
    metadata(tmp_path, "ren-disk", "2.0", "[ren.plugins]\ndisk = ren_disk_plugin\n")
    monkeypatch.delitem(sys.modules, "ren_disk_plugin", raising=False)
    return tmp_path


def disk(manager: PluginManager) -> list[tuple[str, str, str]]:
    return [(r.name, r.state, r.version) for r in manager.records() if r.name == "disk"]


def test_found_once_where_the_same_folder_is_on_the_path_twice(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(site), str(site), *sys.path])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert disk(PluginManager()) == [("disk", "loaded", "2.0")]


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
@pytest.mark.parametrize("first", [True, False])
def test_left_over_metadata_folder(
    site: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, kind: str, first: bool
) -> None:
    """An editable install, and beside it (before or behind it on the path) what an older one left: its module is gone."""
    old = tmp_path_factory.mktemp("old")
    metadata(old, "ren-disk", "1.0", "[ren.plugins]\ndisk = ren_disk_older.plugin\n", kind)
    monkeypatch.setattr(sys, "path", [str(old), *sys.path] if first else [*sys.path, str(old)])
    manager = PluginManager()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert disk(manager) == [("disk", "loaded", "2.0")]
    assert any("left-over metadata" in n for r in manager.records() for n in r.notes)


def test_damaged_metadata_of_others_does_not_stop_discovery(site: Path) -> None:
    (site / "broken-1.0.dist-info").mkdir()
    (site / "broken-1.0.dist-info" / "entry_points.txt").write_bytes(b"[ren.plugins\nx = \xff\xfe\n")
    (site / "nameless-1.0.dist-info").mkdir()
    (site / "nameless-1.0.dist-info" / "entry_points.txt").write_text("[ren.plugins]\nnameless = ren_no_such_module\n")
    manager = PluginManager()
    with pytest.warns(match="nameless"):
        assert disk(manager) == [("disk", "loaded", "2.0")]


def test_names_of_distributions_compare_normalised() -> None:
    assert normalise("Ren_Backend.CPU") == "ren-backend-cpu"


def test_collapse_does_not_depend_on_install_order(site: Path) -> None:
    entries = installed()
    assert collapse(entries) == collapse(reversed(entries))


# -- switches ---------------------------------------------------------------------------------------------------------


def two() -> PluginTester:
    world = PluginTester()
    for name in ("one", "two"):
        world.plugin(name, PLUGIN.replace("disk", name), distribution=f"ren-dist-{name}")
    return world


@pytest.mark.parametrize(
    ("environment", "loaded"),
    [
        ({}, ["one", "two"]),
        ({"REN_PLUGINS": "one"}, ["one"]),
        ({"REN_PLUGINS": " Ren_Dist.Two , "}, ["two"]),
        ({"REN_PLUGINS": ""}, []),
        ({"REN_DISABLE_PLUGINS": "one"}, ["two"]),
        ({"REN_DISABLE_PLUGINS": "ren-dist-two,unknown"}, ["one"]),
        ({"REN_PLUGINS": "one,two", "REN_DISABLE_PLUGINS": "two"}, ["one"]),
        ({"REN_DISABLE_PLUGINS": ""}, ["one", "two"]),
    ],
)
def test_switches(environment: dict[str, str], loaded: list[str]) -> None:
    with two() as world:
        world.setenv(**environment)
        assert [r.name for r in world.records() if r.state == "loaded"] == loaded
        assert {r.state for r in world.records()} <= {"loaded", "disabled"}
        assert world.warnings == []
        imported = [v for n in ("one", "two") if (v := f"ren_tester_ren_dist_{n}_{n}") in sys.modules]
        assert imported == [f"ren_tester_ren_dist_{n}_{n}" for n in loaded]
        for name in {"one", "two"} - set(loaded):
            with pytest.raises(MissingPluginError, match="REN_PLUGINS or REN_DISABLE_PLUGINS"):
                world.manager.lookup(Kind.HANDLER, name)


def test_misspelt_name_in_allow_list_is_told() -> None:
    with two() as world:
        world.setenv(REN_PLUGINS="one,tow")
        world.reload()
        assert len(world.warnings) == 1 and "'tow'" in world.warnings[0] and "Installed: one, two" in world.warnings[0]


@pytest.mark.parametrize(
    ("name", "value"), [("REN_STRICT_PLUGINS", "perhaps"), ("REN_PREFER", "no-colon"), ("REN_TRACE_PLUGINS", "2")]
)
def test_malformed_switches_are_typed_errors(name: str, value: str) -> None:
    with two() as world:
        world.setenv(**{name: value})
        with pytest.raises(ConfigurationError, match=f"{name}.*(?:Set|Example)"):
            world.manager.registry  # noqa: B018


def test_trace_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with two() as world:
        world.setenv(REN_TRACE_PLUGINS="1")
        world.reload()
    out, err = capsys.readouterr()
    assert out == "" and "plugin one: imported" in err and "plugin two: loaded" in err


def test_tester_lets_nothing_in_or_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REN_PLUGINS", "")
    before = dict(sys.modules)
    with two() as world:
        assert [r.state for r in world.records()] == ["loaded", "loaded"]
        with pytest.raises(RuntimeError, match="reload"):
            world.entry("late", "nowhere")
    assert {n for n in sys.modules if n.startswith("ren_tester_")} == {n for n in before if n.startswith("ren_tester_")}
    import os

    assert os.environ["REN_PLUGINS"] == ""


def test_threads_load_once() -> None:
    with PluginTester() as world:
        world.module("ren_tester_count", "n = 0\n")
        world.plugin("disk", "import time, ren_tester_count\nren_tester_count.n += 1\ntime.sleep(0.02)\n" + PLUGIN)
        manager = PluginManager(lambda: list(world._entries))
        start = threading.Barrier(8)
        found: list[object] = []

        def look() -> None:
            start.wait()
            found.append(manager.lookup(Kind.HANDLER, "disk.op"))

        threads = [threading.Thread(target=look) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        import ren_tester_count  # type: ignore[import-not-found]

        assert ren_tester_count.n == 1 and len(found) == 8 and len({id(f) for f in found}) == 1

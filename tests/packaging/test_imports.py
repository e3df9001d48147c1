"""What imports what: core stays light, plugins keep apart, plugin modules only register."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("numba", "llvmlite", "cupy", "torch", "xdsl")
PLUGINS = ("ren_backend_cpu", "ren_backend_cuda", "ren_frontend_torch", "ren_passes")
#: What plugins may use of core.
PUBLIC = (
    "plugin",
    "backend",
    "engine.exec_unit",
    "engine.calibrate",
    "engine.calibration",
    "ops",
    "ring",
    "errors",
    "numtheory",
    "program",
    "schemes",
    "testing",
    "config",
)
#: Records every attempt to import one of HEAVY, installed or not, so the test proves something on any machine.
WATCH = f"""
import json, sys
class Watch:
    tried = []
    def find_spec(self, name, path, target=None):
        if name in {HEAVY!r}:
            self.tried.append(name)
sys.meta_path.insert(0, Watch())
"""


def fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", WATCH + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_ren_is_light_and_loads_no_plugin() -> None:
    out = fresh("import ren; print(json.dumps([Watch.tried, sorted(sys.modules)]))")
    tried, modules = json.loads(out)
    assert tried == []
    assert [m for m in modules if m.partition(".")[0] in (*HEAVY, *PLUGINS)] == []


def test_watch_notices_a_heavy_import() -> None:
    assert json.loads(
        fresh("try:\n    import cupy\nexcept ImportError:\n    pass\nprint(json.dumps(Watch.tried))")
    ) == ["cupy"]


def test_listing_plugins_and_devices_is_light_too() -> None:
    out = fresh(
        "from ren.plugin.manager import manager\nfrom ren.backend.select import get_backend\n"
        "names = [r.name for r in manager().records()]\nget_backend('reference')\nprint(json.dumps([names, sorted(sys.modules)]))"
    )
    names, modules = json.loads(out)
    assert set(names) >= {"cpu", "cuda", "passes", "torch"}
    assert [m for m in modules if m.partition(".")[0] in HEAVY] == []


@pytest.mark.parametrize("plugin", PLUGINS)
def test_plugin_module_imports_nothing_heavy(plugin: str) -> None:
    from ren.testing.plugin_tester import heavy_imports

    assert heavy_imports(f"{plugin}.plugin") == ()


def test_layers() -> None:
    from importlinter.cli import lint_imports

    assert lint_imports(config_filename=str(ROOT / ".importlinter"), no_cache=True) == 0, (
        "run lint-imports to see the chain"
    )


def imports(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """(file, line, module) of every import in the source files below `folder`, those inside functions included."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: relative import"
                assert node.module is not None
                yield path, node.lineno, node.module
                yield from (
                    (path, node.lineno, f"{node.module}.{alias.name}") for alias in node.names if node.module == "ren"
                )


def test_core_imports_only_numpy_pluggy_and_the_standard_library() -> None:
    core = ROOT / "ren_core" / "src" / "ren"
    allowed = {
        "": {"ren", "numpy", "pluggy"},
        "program": {"xdsl"},
        "testing": {"pytest", "_pytest", "hypothesis", "xdsl"},
    }
    wrong = []
    for path, line, module in imports(core):
        area = path.relative_to(core).parts[0]
        top = module.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in allowed[""] | allowed.get(area, set()):
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {module}")
    assert wrong == []


@pytest.mark.parametrize("plugin", PLUGINS)
def test_plugins_use_only_the_public_part_of_core(plugin: str) -> None:
    wrong = []
    for path, line, module in imports(ROOT / plugin / "src" / plugin):
        top, _, rest = module.partition(".")
        if top in PLUGINS and top != plugin:
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {module} belongs to another plugin")
        if top == "ren" and rest:
            public = any(rest == p or rest.startswith(p + ".") for p in PUBLIC)
            if not public or any(part.startswith("_") for part in rest.split(".")):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {module} is not public")
    assert wrong == []

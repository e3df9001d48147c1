"""`ren.jit` as a namespace: what it finds, and what it says about what is not there."""

import importlib
import subprocess
import sys

import pytest
import ren
from ren import jit
from ren.errors import MissingPluginError
from ren.plugin.manager import PluginManager, use_manager


def test_it_is_one_object_however_it_is_imported():
    assert jit is ren.jit
    assert callable(jit)
    assert importlib.import_module("ren.jit") is jit
    assert ren.jit is jit
    with pytest.raises(ImportError):
        importlib.import_module("ren.jit.trace")


def test_names_of_programs_are_those_of_ren_program():
    program = importlib.import_module("ren.program")
    for name in ("Program", "Workspace", "parse", "load", "run", "encrypted", "message", "plaintext", "static"):
        assert getattr(jit, name) is getattr(program, name)
        assert name in dir(jit)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = jit.nonsense
    with pytest.raises(AttributeError):
        _ = jit.NonsensePass


def test_names_of_absent_plugins_say_what_to_install(monkeypatch):
    monkeypatch.setenv("REN_PLUGINS", "")
    with use_manager(PluginManager()):
        for name in ("trace", "SvgGraphVisualizationPass"):
            with pytest.raises(MissingPluginError) as info:
                getattr(jit, name)
            assert "torch" in str(info.value) or "passes" in str(info.value)


def test_decorating_loads_no_plugin_and_nothing_heavy():
    code = (
        "import sys, ren\n"
        "@ren.jit\n"
        "def f(x): return x\n"
        "heavy = {'numba', 'cupy', 'torch', 'xdsl', 'ren_backend_cpu.backend'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from ren.plugin import manager\n"
        "assert manager._manager is None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "first", ["import ren.jit", "from ren import jit", "import ren; ren.jit", "from ren.jit import parse"]
)
def test_every_spelling_of_the_import_is_the_decorator(first: str) -> None:
    code = f"{first}\nimport ren.jit\nfrom ren import jit\nfrom ren.jit import parse\nassert ren.jit is jit is sys.modules['ren.jit']\nassert parse is jit.parse\nassert callable(jit)"
    subprocess.run([sys.executable, "-c", "import sys\n" + code], check=True)

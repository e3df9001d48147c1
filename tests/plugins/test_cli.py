"""The `ren` command."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ren.cli import main
from ren.testing import PluginTester
from ren.version import VERSION

GOOD = "from ren.plugin import PluginInfo\nPLUGIN = PluginInfo(name='good', api='1.0', summary='a summary', pending='half of it')\n"
LOUD = """
from ren.plugin import PluginInfo, hookimpl
from ren.backend.reference import ReferenceBackend
PLUGIN = PluginInfo(name="loud", api="1.0")
class Loud(ReferenceBackend):
    name = "loud"
    def warmup(self, progress):
        progress("kernel a in 1.5 s")
    def calibration(self):
        raise AssertionError
    def calibrate(self, progress):
        progress("measured")
@hookimpl
def ren_register_backends(registry):
    registry.add_backend("loud", Loud)
"""


def test_version_and_module_entry() -> None:
    done = subprocess.run([sys.executable, "-m", "ren", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ren {VERSION}\n"


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["no-such-command"])
    assert stop.value.code == 2 and "plugins" in capsys.readouterr().err


def test_plugins_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    with PluginTester() as world:
        world.plugin("bad", "raise ValueError('no')", distribution="ren-bad", version="3.1")
        world.plugin("good", GOOD)
        with world.active():
            assert main(["plugins"]) == 0
            text = capsys.readouterr().out
            assert main(["plugins", "--json"]) == 0
            records = json.loads(capsys.readouterr().out)
            world.setenv(REN_STRICT_PLUGINS="1")
            assert main(["plugins"]) == 1
            assert capsys.readouterr().out == text
    for words in (
        "bad ",
        "broken",
        "ren-bad 3.1",
        "why:",
        "ValueError: no",
        "fix:",
        "a summary",
        "not yet:   half of it",
    ):
        assert words in text
    assert [(r["name"], r["state"]) for r in records] == [("bad", "broken"), ("good", "loaded")]
    assert records[0]["cause"] == "ValueError: no" and records[0]["fix"]


def test_no_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    with PluginTester() as world, world.active():
        assert main(["plugins"]) == 0
    assert capsys.readouterr().out == "No plugins are installed.\n"


def test_backends_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    with PluginTester() as world:
        world.entry("cuda", "ren_backend_cuda.plugin", "ren-backend-cuda")
        world.plugin("loud", LOUD)
        with world.active():
            assert main(["backends"]) == 0
            text = capsys.readouterr().out
            assert main(["backends", "--json"]) == 0
            records = {r["name"]: r for r in json.loads(capsys.readouterr().out)}
    assert "* loud" in text and "cuda" in text
    assert records["loud"]["default"] and records["loud"]["facts"]["device_works"]
    assert not records["cuda"]["facts"]["device_works"] and records["cuda"]["facts"]["reason"]


def test_warmup(capsys: pytest.CaptureFixture[str]) -> None:
    with PluginTester() as world:
        world.plugin("loud", LOUD)
        with world.active():
            assert main(["warmup"]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert lines[0] == "loud: kernel a in 1.5 s" and lines[1].startswith("loud: measuring what kernels cost")
            assert lines[2] == "loud: measured" and lines[3].startswith("loud: ready after ")
            assert main(["warmup", "--no-calibrate"]) == 0
            assert "measur" not in capsys.readouterr().out
            assert main(["warmup", "--device", "reference"]) == 0
            assert capsys.readouterr().out.startswith("reference: nothing to compile\nreference: ready after ")
            assert main(["warmup", "--device", "tpu"]) == 1
            assert "[backend-unavailable]" in capsys.readouterr().err


WRONG = LOUD.replace("loud", "wrong").replace(
    "    def warmup(self, progress):",
    "    def copyout(self, memory, offset, words):\n        return super().copyout(memory, offset, words) * 0\n    def later(self, progress):",
)
RAISING = WRONG.replace("wrong", "raising").replace(
    "return super()", "raise OSError('cable unplugged')\n        return super()"
)


@pytest.mark.filterwarnings("ignore:transparent-ciphertext")
def test_check_computes_on_every_device_and_finds_the_wrong_one(capsys: pytest.CaptureFixture[str]) -> None:
    with PluginTester(REN_BAKEND="cpu") as world:
        world.plugin("bad", "raise ValueError('no')")
        world.plugin("raising", RAISING)
        world.plugin("wrong", WRONG)
        with world.active():
            assert main(["check", "--device", "reference"]) == 0
            assert "reference   ok" in capsys.readouterr().out
            assert main(["check"]) == 1
            lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("  raising     FAILED  OSError: cable unplugged") for line in lines)
    assert any(line.startswith("  wrong       FAILED") for line in lines)
    assert any(line.startswith("  reference   ok ") for line in lines)
    assert any("REN_BAKEND is set, but Ren has no such variable" in line for line in lines)
    assert any("'bad'" in line and "ValueError: no" in line for line in lines)

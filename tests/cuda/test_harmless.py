"""The plugin where there is no GPU (fault B51, user need 21), and the benchmark that says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from ren.testing import PluginTester

ROOT = Path(__file__).parents[2]

#: A process in which `import cupy` is watched, and CuPy is as `state` says.
PROLOGUE = """
import json, sys
class Watch:
    tried = []
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "cupy":
            self.tried.append(name)
sys.meta_path.insert(0, Watch())
"""
BROKEN = 'raise ImportError("libcuda.so.1: cannot open shared object file")\n'


def fresh(code, tmp_path, cupy=None):
    """Output of `code` in a new process, with a module `cupy` of this text."""
    path = [str(tmp_path), *(p for p in sys.path if p)]
    if cupy is not None:
        (tmp_path / "cupy.py").write_text(cupy)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    environment.pop("REN_BACKEND", None)
    done = subprocess.run([sys.executable, "-c", PROLOGUE + code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_importing_the_plugin_and_its_probe_never_imports_cupy(tmp_path):
    code = (
        "import ren, ren_backend_cuda, ren_backend_cuda.plugin, ren_backend_cuda.probe, ren_backend_cuda.backend\n"
        "import ren_backend_cuda.compiler, ren_backend_cuda.self_check\nprint(json.dumps(Watch.tried))"
    )
    assert fresh(code, tmp_path, BROKEN) == ("[]\n", "")


def test_a_machine_without_a_driver_is_not_disturbed(tmp_path):
    """CuPy installed, its import raises: the CPU is the default, silently; asking for the GPU says what is wrong and what to do."""
    code = """
import ren_backend_cuda.nvrtc as nvrtc
nvrtc.find = lambda major=None: "libnvrtc.so.13"
from ren.backend.select import backends, default_device, get_backend
from ren.errors import BackendUnavailableError
found = {b.name: b.facts for b in backends()}["cuda"]
try:
    get_backend("cuda")
except BackendUnavailableError as error:
    text = str(error)
print(json.dumps([default_device(), found.installed, found.importable, found.device_works, text]))
"""
    out, err = fresh(code, tmp_path, BROKEN)
    device, installed, importable, works, text = json.loads(out)
    assert (device, installed, importable, works) == ("cpu", True, False, False)
    assert "libcuda.so.1" in text and "NVIDIA driver" in text
    assert err == ""


#: What may call itself cupy or nvidia -> (installed, importable, in the reason, in the fix).
IMPOSTORS = {
    "raise SystemExit(3)": (True, False, "does not import: SystemExit: 3", "NVIDIA driver"),
    "": (True, False, "what imports as cupy is not CuPy", "Move "),
    None: (False, False, "is a folder of that name", 'pip install -e ".[cuda]"'),
}


@pytest.mark.parametrize("text", IMPOSTORS)
@pytest.mark.parametrize("before", ["", "import types; sys.modules['nvidia'] = types.ModuleType('nvidia')\n"])
def test_whatever_calls_itself_cupy_is_named_and_ends_nothing(tmp_path, text, before):
    code = """
import ren_backend_cuda.nvrtc as nvrtc
nvrtc.find(), setattr(nvrtc, "find", lambda major=None: "libnvrtc.so.13")
from ren.backend.select import backends, default_device
found = {b.name: b.facts for b in backends()}["cuda"]
print(json.dumps([default_device(), found.installed, found.importable, found.reason, found.fix]))
"""
    if text is None:
        (tmp_path / "cupy").mkdir()
    out, err = fresh(before + code, tmp_path, text)
    device, installed, importable, reason, fix = json.loads(out)
    expected = IMPOSTORS[text]
    assert (device, installed, importable) == ("cpu", *expected[:2])
    assert expected[2] in reason and expected[3] in fix and err == ""


def test_a_missing_compiler_is_not_a_missing_cupy(monkeypatch):
    from ren_backend_cuda import nvrtc, probe

    monkeypatch.setattr(probe.importlib.util, "find_spec", lambda name: SimpleNamespace(origin="cupy/__init__.py"))
    monkeypatch.setattr(nvrtc, "find", lambda major=None: None)
    found = probe.probe()
    assert not found.installed and found.reason.endswith("is not installed (CuPy is)")
    assert "pip install nvidia-cuda-nvrtc" in found.fix


def test_the_extra_needs_no_toolchain():
    """CuPy as machine code and NVRTC as a library: nothing that pip would have to build, no toolkit."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [d.partition(">")[0] for d in extras["cuda"]] == ["cupy-cuda13x", "nvidia-cuda-nvrtc"]
    assert [d.partition(">")[0] for d in extras["cuda12"]] == ["cupy-cuda12x", "nvidia-cuda-nvrtc-cu12"]


def bench(*arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "bench" / "gpu.py"), *arguments], capture_output=True, text=True
    )


def test_the_benchmark_says_that_there_is_no_gpu():
    done = bench()
    if done.returncode == 0:
        pytest.skip("there is a GPU")
    assert done.returncode == 1 and done.stdout.startswith("There is no GPU to measure: "), done.stderr


def test_the_benchmark_names_the_sets_it_knows():
    done = bench("--dry", "--set", "A,Z")
    assert done.returncode == 2 and "there is no Z, only A, B, C, 18, 34" in done.stderr


@pytest.mark.parametrize(
    ("device", "hint"),
    [
        ("gpu", "Did you mean 'cuda' (NVIDIA GPU"),
        ("GPU", "Did you mean 'cuda' (NVIDIA GPU"),
        ("cuda:0", "Did you mean 'cuda'? Devices have no number here; CUDA_VISIBLE_DEVICES chooses which GPU that is"),
        ("cdua", "Did you mean 'cuda'?"),
    ],
)
def test_other_names_for_a_gpu_lead_to_its_own(device, hint):
    from ren.backend.select import get_backend
    from ren.errors import BackendUnavailableError

    with PluginTester() as world:
        world.entry("cpu", "ren_backend_cpu.plugin")
        world.entry("cuda", "ren_backend_cuda.plugin", "ren-backend-cuda")
        with world.active(), pytest.raises(BackendUnavailableError) as error:
            get_backend(device)
    assert hint in str(error.value)


def test_ren_check_names_the_device_that_the_environment_asks_for(tmp_path):
    """Without a GPU `REN_BACKEND=cuda ren check` fails and says why, beside the devices that work."""
    code = """
import os
os.environ["REN_BACKEND"] = "cuda"
from ren.cli import main
print(main(["check"]))
"""
    out, _ = fresh(code, tmp_path, BROKEN)
    (line,) = [x for x in out.splitlines() if x.startswith("  cuda")]
    assert "FAILED" in line and out.splitlines()[-1] == "1"
    assert any(x.startswith("  cpu") and "ok" in x for x in out.splitlines())


def test_the_benchmark_counts_without_one():
    done = bench("--dry", "--set", "A", "--rows", "rotate,relinearize,NTT")
    rows = {line[2:35].strip(): line[35:].split() for line in done.stdout.splitlines()[1:]}
    assert {name: int(words[0]) for name, words in rows.items()} == {
        "NTT of all limbs": 2,
        "inverse NTT of all limbs": 2,
        "rotate": 8,
        "ct*ct + relinearize": 9,
        "ct*ct + relinearize + rescale": 10,
    }, done.stderr

"""Machine code without a GPU: the compiler, the report of its assembler, and the folder where code is kept."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path

import pytest
from ren.errors import BackendUnavailableError
from ren_backend_cuda.compiler import compile_module
from ren_backend_cuda.source import KERNELS, declarations

from ren_backend_cuda import compiler, nvrtc

HERE = Path(__file__).parent
needs_nvrtc = pytest.mark.skipif(nvrtc.find() is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc")

LOG = """ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes stack, 1028 bytes smem, 544 bytes cmem[0]
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 360 bytes cmem[0]
"""


def test_the_report_of_the_assembler_is_read():
    found = compiler.resources(LOG, "sm_90", {"one": 0, "two": 0})
    assert (found["one"].registers, found["one"].stack, found["one"].spills, found["one"].shared) == (40, 8, 16, 1028)
    assert (found["two"].registers, found["two"].stack, found["two"].spills, found["two"].shared) == (12, 0, 0, 0)


def test_a_report_that_is_silent_about_a_kernel_is_no_clean_report():
    with pytest.raises(ValueError, match="does not tell what three need"):
        compiler.resources(LOG, "sm_90", {"one": 0, "three": 0})


def test_a_missing_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvrtc, "find", lambda major=None: None)
    with pytest.raises(
        BackendUnavailableError, match="NVRTC for CUDA 13 is not installed.*pip install nvidia-cuda-nvrtc"
    ):
        nvrtc.load(13)


def test_a_broken_library_says_so(tmp_path, monkeypatch):
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libnvrtc.so.99").write_bytes(b"no library")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert nvrtc.find(99) == tmp_path / "lib64" / "libnvrtc.so.99"
    with pytest.raises(BackendUnavailableError, match="NVRTC does not load"):
        nvrtc.load(99)


class Counting:
    """A compiler that counts, in place of NVRTC."""

    identity = "13.5/1"

    def __init__(self):
        self.calls = []

    def compile(self, name, text, headers, options):
        self.calls.append((name, tuple(options)))
        log = "".join(
            LOG[: LOG.index("ptxas info    : Compiling entry function 'two'")].replace("one", k)
            for k in declarations(text)
        )
        return f"{name}{options}{len(self.calls)}".encode(), log


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A cache folder, a copy of the kernels' folder to change, and a counting compiler."""
    monkeypatch.setenv("REN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "_folder", [])
    kernels = tmp_path / "kernels"
    shutil.copytree(KERNELS, kernels)
    shutil.copy(HERE / "faults.cu", kernels / "faults.cu")
    return kernels, Counting()


def test_stored_code_is_used_again(place):
    kernels, counting = place
    first = compile_module("faults", {"A": 1}, "sm_90", counting, kernels=kernels)
    assert compile_module("faults", {"A": 1}, "sm_90", counting, kernels=kernels) == first
    assert len(counting.calls) == 1
    assert first.resources["clean"].registers == 40


@pytest.mark.parametrize("change", ["source", "header", "macro", "architecture", "compiler"])
def test_whatever_the_code_depends_on_is_in_its_name(place, change):
    kernels, counting = place
    first = compile_module("faults", {"A": 1}, "sm_90", counting, kernels=kernels)
    if change in ("source", "header"):
        file = kernels / ("faults.cu" if change == "source" else "ren_device.cuh")
        file.write_text(file.read_text() + "// changed\n")
    if change == "compiler":
        counting.identity = "13.6/1"
    architecture = "sm_80" if change == "architecture" else "sm_90"
    second = compile_module("faults", {"A": 2 if change == "macro" else 1}, architecture, counting, kernels=kernels)
    assert len(counting.calls) == 2 and second.cubin != first.cubin


@pytest.mark.parametrize("suffix", [".cubin", ".json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "other"])
def test_damaged_code_is_compiled_again(place, suffix, damage):
    kernels, counting = place
    compile_module("faults", {}, "sm_90", counting, kernels=kernels)
    (file,) = compiler.folder().glob(f"*{suffix}")
    data = file.read_bytes()
    file.unlink() if damage == "gone" else file.write_bytes(data[:7] if damage == "cut" else b"[]" + data[2:])
    again = compile_module("faults", {}, "sm_90", counting, kernels=kernels)
    assert len(counting.calls) == 2
    assert compile_module("faults", {}, "sm_90", counting, kernels=kernels) == again
    assert len(counting.calls) == 2, "the damaged file was not replaced"


@pytest.mark.parametrize("change", ["fields", "kernels", "brackets", "old form"])
def test_a_changed_report_is_compiled_again(place, change):
    """What the assembler said decides whether a launch is allowed, so it is as much content as the machine code."""
    kernels, counting = place
    first = compile_module("faults", {}, "sm_90", counting, kernels=kernels)
    (file,) = compiler.folder().glob("*.json")
    digest, _, text = file.read_text().partition("\n")
    told = json.loads(text)
    if change == "fields":
        told["clean"]["registers"] = "many"
    changed = {"kernels": "{}", "brackets": "[" * 100_000}.get(change, json.dumps(told))
    file.write_text(changed if change == "old form" else f"{digest}\n{changed}")
    assert compile_module("faults", {}, "sm_90", counting, kernels=kernels).resources == first.resources
    assert len(counting.calls) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("suffix", [".cubin", ".json"])
def test_a_pipe_in_place_of_a_file_is_replaced(place, suffix):
    kernels, counting = place
    compile_module("faults", {}, "sm_90", counting, kernels=kernels)
    (file,) = compiler.folder().glob(f"*{suffix}")
    file.unlink()
    os.mkfifo(file)
    again = compile_module("faults", {}, "sm_90", counting, kernels=kernels)
    assert compile_module("faults", {}, "sm_90", counting, kernels=kernels) == again
    assert len(counting.calls) == 2 and file.is_file()


def test_where_warnings_are_errors_kernels_are_compiled_all_the_same(place, tmp_path, monkeypatch, capsys):
    kernels, counting = place
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REN_CACHE_DIR", str(tmp_path / "file" / "below"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert compile_module("faults", {}, "sm_90", counting, kernels=kernels).path is None
    assert capsys.readouterr().err.count("cannot be kept") == 1


def test_without_a_place_kernels_are_compiled_with_one_warning(place, tmp_path, monkeypatch):
    kernels, counting = place
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REN_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.warns(compiler.CacheWarning, match="cannot be kept.*Set REN_CACHE_DIR"):
        compile_module("faults", {}, "sm_90", counting, kernels=kernels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_module("faults", {}, "sm_90", counting, kernels=kernels)
    assert len(counting.calls) == 2


def test_the_folder_is_private_and_forgets_what_is_long_unused(place):
    kernels, counting = place
    folder = compiler.folder()
    assert folder.stat().st_mode & 0o077 == 0
    compile_module("faults", {}, "sm_90", counting, kernels=kernels)
    old = folder / f"ntt-{'0' * 24}.cubin"
    foreign = folder / "notes.cubin"
    for file in (old, foreign):
        file.write_bytes(b"")
        os.utime(file, (0, 0))
    compiler._folder.clear()
    compiler.folder()
    assert not old.exists() and foreign.exists()
    assert len(list(folder.glob("faults-*"))) == 2


@needs_nvrtc
class TestNvrtc:
    def test_compiles_for_cards_that_are_not_here(self):
        text, library = (HERE / "faults.cu").read_text(), nvrtc.load()
        assert {80, 90} <= set(library.architectures())
        headers = {p.name: p.read_text() for p in KERNELS.glob("*.cuh")}
        options = ("--gpu-architecture=sm_80", *compiler.OPTIONS)
        cubin, log = library.compile("faults.cu", text, headers, options)
        assert cubin.startswith(b"\x7fELF")
        found = compiler.resources(log, "sm_80", declarations(text))
        assert found["uninitialised_static"].shared == 512 and found["clean"].registers > 0

    def test_an_error_names_the_line_and_the_options(self):
        with pytest.raises(nvrtc.CompileError, match=r"(?s)wrong.cu.*sm_90.*wrong.cu\(2\): error.*undeclared"):
            nvrtc.load().compile("wrong.cu", "\nint x = undeclared;", {}, ("--gpu-architecture=sm_90",))

    def test_an_unknown_card_is_an_error(self):
        with pytest.raises(nvrtc.CompileError, match="sm_12345"):
            nvrtc.load().compile("empty.cu", "", {}, ("--gpu-architecture=sm_12345",))

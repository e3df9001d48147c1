"""The emulated device as a device: memory, order, what may be changed or freed when."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from emulator import MISSING, EmulatedDevice, KernelFault, build
from ren_backend_cuda.device import Launch

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

HERE = Path(__file__).parent
N = 64


def rotation(device, x):
    """A recording that rotates the 64 words of x by one, and its argument block, which holds no reference to x."""
    block = device.alloc(1)
    device.upload(block, 0, np.array([x.address], np.uint64))
    return device.record([Launch(device.function("faults", {}, "clean"), (1, 1, 1), (N, 1, 1), (block,), N * 8)])


def words(device, values):
    memory = device.alloc(len(values))
    device.upload(memory, 0, np.array(values, np.uint64))
    return memory


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("mode", ["fast", "check"])
class TestMemory:
    def test_parts_are_written_and_read(self, mode, deferred):
        device = EmulatedDevice(mode, kernels=HERE, deferred=deferred)
        x = words(device, range(10))
        device.upload(x, 3, np.array([70, 80], np.uint64))
        assert x.words == 10 and x.address % 256 == 0
        assert device.download(x, 2, 4).tolist() == [2, 70, 80, 5]
        assert device.download(device.alloc(0), 0, 0).size == 0

    def test_what_was_uploaded_may_be_changed(self, mode, deferred):
        device = EmulatedDevice(mode, kernels=HERE, deferred=deferred)
        data = np.arange(N, dtype=np.uint64)
        x = device.alloc(N)
        device.upload(x, 0, data)
        data[:] = 0
        assert device.download(x, 0, N).tolist() == list(range(N))

    def test_what_was_downloaded_is_a_copy(self, mode, deferred):
        device = EmulatedDevice(mode, kernels=HERE, deferred=deferred)
        x = words(device, range(N))
        device.download(x, 0, N)[:] = 0
        assert device.download(x, 0, N).tolist() == list(range(N))

    def test_issued_work_is_done_in_order(self, mode, deferred):
        device = EmulatedDevice(mode, kernels=HERE, deferred=deferred)
        x = words(device, range(N))
        rotate = rotation(device, x)
        rotate.run()
        rotate.run()
        device.upload(x, 0, np.array([1000], np.uint64))
        rotate.run()
        assert device.download(x, 0, N).tolist() == [*range(3, N), 0, 1, 1000]

    def test_memory_lives_until_issued_work_is_done(self, mode, deferred):
        device = EmulatedDevice(mode, kernels=HERE, deferred=deferred)
        x = words(device, range(N))
        rotation(device, x).run()
        del x  # the recording is gone as well
        device.synchronize()


def test_deferred_work_waits():
    device = EmulatedDevice("fast", kernels=HERE, deferred=True)
    x = words(device, range(N))
    rotation(device, x).run()
    assert not device.launched
    device.synchronize()
    assert [launch.function.name for launch in device.launched] == ["clean"]


def test_a_deferred_fault_is_raised_where_somebody_waits():
    device = EmulatedDevice("check", kernels=HERE, deferred=True)
    x = words(device, range(N))
    block = words(device, [x.address])
    device.record([Launch(device.function("faults", {}, "wild"), (1, 1, 1), (N, 1, 1), (block,), 0)]).run()
    with pytest.raises(KernelFault, match="out-of-bounds"):
        device.synchronize()


def test_fresh_memory_counts_as_unwritten_even_where_other_memory_was():
    device = EmulatedDevice("check", kernels=HERE)
    for _ in range(20):
        x = words(device, range(N))
        y = device.alloc(N)
        block = words(device, [x.address, y.address])
        launch = Launch(device.function("faults", {}, "uninitialised_global"), (1, 1, 1), (N, 1, 1), (block,), 0)
        with pytest.raises(KernelFault, match="uninitialised"):
            device.record([launch]).run()
        device.upload(y, 0, np.zeros(N, np.uint64))
        device.record([launch]).run()
        del x, y, block


@pytest.mark.parametrize("mode", ["fast", "check"])
def test_threads_take_turns(mode):
    device = EmulatedDevice(mode, kernels=HERE)
    failures = []

    def work():
        try:
            for i in range(50):
                x = words(device, range(N))
                rotate = rotation(device, x)
                for _ in range(i % 3):
                    rotate.run()
                assert device.download(x, 0, N)[0] == i % 3
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_processes_share_the_cache_of_libraries(tmp_path, monkeypatch):
    """Several build the same library at once: one compiles, all get it whole."""
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "from pathlib import Path\nfrom emulator import build\n"
        f"print(build.module(Path({str(tmp_path)!r}) / 'k.cu', {{}}, 'fast', Path({str(tmp_path)!r})))\n"
    )
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(int* p) { p[0] = 1; }')
    monkeypatch.setenv("REN_EMULATOR_CACHE", str(tmp_path / "cache"))
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = {process.communicate(timeout=120)[0].strip() for process in started}
    assert len(found) == 1 and Path(found.pop()).exists()
    assert len(list((tmp_path / "cache").glob("*.so"))) == 2, "the module and the shim"


@pytest.mark.parametrize("variable", [("CXX", "true"), ("CXX", "no-such-compiler"), ("REN_EMULATOR_CACHE", "/proc/none")])
def test_without_a_compiler_or_a_folder_tests_are_skipped_and_say_why(variable):
    code = f"import sys; sys.path.insert(0, {str(HERE)!r})\nfrom emulator import MISSING\nprint(MISSING)"
    environment = os.environ | dict([variable])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "emulator of the tests cannot be built" in done.stdout, done.stderr


def test_a_changed_header_is_a_new_library(tmp_path):
    (tmp_path / "k.cu").write_text('#include "h.cuh"\nextern "C" __global__ void k(int* p) { p[0] = VALUE; }')
    found = []
    for value in (1, 2):
        (tmp_path / "h.cuh").write_text(f"#define VALUE {value}\n")
        found.append(build.module(tmp_path / "k.cu", {}, "fast", tmp_path))
    assert found[0] != found[1]


def test_errors_of_the_host_compiler_are_shown(tmp_path):
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(int* p) { p[0] = undeclared; }')
    with pytest.raises(RuntimeError, match="undeclared"):
        build.module(tmp_path / "k.cu", {}, "fast", tmp_path)


def test_plain_context_switches_give_the_same_bits():
    """Other CPUs than x86-64 take the C library's slower switch of fibers."""
    device = EmulatedDevice("fast", kernels=HERE, extra=("-DREN_SHIM_UCONTEXT",))
    x = words(device, range(N))
    rotation(device, x).run()
    assert device.download(x, 0, N).tolist() == np.roll(np.arange(N), -1).tolist()

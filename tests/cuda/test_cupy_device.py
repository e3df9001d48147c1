"""The GPU's side of the seam, against a fake of CuPy that is as asynchronous as a GPU may be. Nothing here has seen a GPU."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import threading

import numpy as np
import pytest
from emulator import MISSING
from fake_cupy import FakeCupy
from ren.errors import BackendUnavailableError, ForkedProcessError, KernelOperandError
from ren_backend_cuda.device import Launch
from ren_backend_cuda.self_check import first_wrong_word
from ren_backend_cuda.source import LaunchError

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

N = 256


@pytest.fixture
def fake():
    return FakeCupy()


@pytest.fixture
def module(fake, monkeypatch, tmp_path):
    return fake.install(monkeypatch, tmp_path)


@pytest.fixture
def device(module):
    return module.CupyDevice()


def check_launch(device, block):
    """The self-check kernel over the slots of `block`."""
    return Launch(device.function("self_check", {}, "self_check"), (1, 1, 1), (N, 1, 1), (block,), 8 * N)


def filled(device, words):
    memory = device.alloc(len(words))
    device.upload(memory, 0, np.asarray(words, np.uint64))
    return memory


def test_memory(device):
    x = filled(device, range(10))
    device.upload(x, 3, np.array([70, 80], np.uint64))
    assert x.words == 10
    assert device.download(x, 2, 4).tolist() == [2, 70, 80, 5]
    assert device.download(device.alloc(0), 0, 0).size == 0


def test_nothing_waits_but_downloads_and_synchronize(device, fake):
    block = filled(
        device, [filled(device, range(N)).address, filled(device, range(N)).address, device.alloc(4 * N).address]
    )
    recorded = device.record([check_launch(device, block)])
    for _ in range(5):
        device.upload(block, 0, np.zeros(3, np.uint64))
        recorded.run()
    assert not {"synchronize", "event.synchronize"} & set(fake.log)
    assert not fake.emulated.launched


def test_self_check_passes(device, fake):
    assert first_wrong_word(device) is None
    assert [n for n in fake.log if n in ("begin_capture", "end_capture", "graph") or n.startswith("launch")] == [
        "begin_capture",
        "launch self_check",
        "end_capture",
        "graph",
        "graph",
    ]


def test_uploads_may_be_changed_and_freed_at_once(device):
    data = np.arange(N, dtype=np.uint64)
    memories = []
    for i in range(20):
        memories.append(device.alloc(N))
        device.upload(memories[-1], 0, data + np.uint64(i))  # the sum dies here
        gc.collect()
    data[:] = 7
    for i, memory in enumerate(memories):
        assert device.download(memory, 0, N).tolist() == list(range(i, i + N))


def test_large_uploads_wait_instead_of_pinning_more(device, fake, module, monkeypatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 8 * 16)
    monkeypatch.setattr(module, "IN_FLIGHT_BYTES", 4 * 8 * 16)
    x = filled(device, range(1000))
    assert fake.log.count("upload") == 63 and "event.synchronize" in fake.log
    assert device.download(x, 0, 1000).tolist() == list(range(1000))


def test_freed_memory_is_used_again_in_stream_order(device, fake):
    """The second use of the block is issued before the first has run."""
    x, y, out, block = filled(device, range(N)), filled(device, range(N)), device.alloc(4 * N), device.alloc(3)
    device.upload(block, 0, np.array([x.address, y.address, out.address], np.uint64))
    recorded = device.record([check_launch(device, block)])
    recorded.run()
    address = x.address
    del x
    again = filled(device, [9] * N)
    assert again.address == address and "reuse" in fake.log
    assert device.download(out, 0, N).tolist() == [i * i for i in range(N)]
    assert device.download(again, 0, N).tolist() == [9] * N


def test_a_recording_may_die_while_it_runs(device):
    x, y, out = filled(device, range(N)), filled(device, range(N)), device.alloc(4 * N)
    block = filled(device, [x.address, y.address, out.address])
    device.record([check_launch(device, block)]).run()
    del block
    gc.collect()
    for _ in range(3):
        filled(device, [0] * 3)  # would take the block's memory
    assert device.download(out, 0, N).tolist() == [i * i for i in range(N)]
    device.synchronize()
    device.synchronize()
    assert not device.retired and not device._graves


def test_several_replays_are_in_flight(device):
    """Each with its own addresses, all issued before any has run."""
    x, block = filled(device, range(N)), device.alloc(3)
    recorded = device.record([check_launch(device, block)])
    outs = []
    for i in range(4):
        y, out = filled(device, [i] * N), device.alloc(4 * N)
        device.upload(block, 0, np.array([x.address, y.address, out.address], np.uint64))
        recorded.run()
        outs.append(out)
    for i, out in enumerate(outs):
        assert device.download(out, 0, N).tolist() == [i * k for k in range(N)]


def test_threads_record_while_others_allocate(device):
    failures = []

    def work(k):
        try:
            for i in range(10):
                x, y, out = filled(device, range(N)), filled(device, [k + i] * N), device.alloc(4 * N)
                block = filled(device, [x.address, y.address, out.address])
                device.record([check_launch(device, block)]).run()
                assert device.download(out, 0, N).tolist() == [(k + i) * j for j in range(N)]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_launches_are_checked_before_anything_is_issued(device, fake):
    launch = check_launch(device, device.alloc(3))
    before = list(fake.log)
    for wrong, text in (
        ({"arguments": (np.uint64(1),)}, "must be device memory"),
        ({"arguments": ()}, "takes 1 arguments"),
        ({"block": (512, 1, 1)}, "compiled for 256"),
        ({"shared_bytes": 228 * 1024}, "shared memory"),
        ({"grid": (1, 70000, 1)}, "a grid is at most"),
    ):
        parts = {k: getattr(launch, k) for k in ("function", "grid", "block", "arguments", "shared_bytes")} | wrong
        with pytest.raises(LaunchError, match=text):
            device.record([launch, Launch(**parts)])
    assert fake.log == before


def test_more_shared_memory_is_asked_for_before_the_capture(device, fake):
    launch = check_launch(device, device.alloc(3))
    parts = {k: getattr(launch, k) for k in ("function", "grid", "block", "arguments")}
    for shared in (100_000, 60_000, 200_000):
        device.record([Launch(**parts, shared_bytes=shared)])
    assert [n for n in fake.log if n.startswith("opt in")] == ["opt in 100000", "opt in 200000"]


def test_a_failure_inside_a_capture_ends_it(device, fake, monkeypatch):
    block = device.alloc(3)
    launch = check_launch(device, block)
    kernel = launch.function.kernel
    monkeypatch.setattr(type(kernel), "__call__", lambda *a, **k: (_ for _ in ()).throw(RuntimeError("driver")))
    with pytest.raises((RuntimeError, AssertionError)):
        device.record([launch])
    monkeypatch.undo()
    assert device._capture.captured is None


def test_nothing_to_launch(device, fake):
    device.record([]).run()
    assert "begin_capture" not in fake.log


def test_memory_of_another_device_is_refused(device, module):
    class Foreign:
        address, words, device = 256, 8, None

    for memory in (Foreign(), module.CupyDevice().alloc(8)):
        with pytest.raises(KernelOperandError, match="no memory of this device"):
            device.upload(memory, 0, np.zeros(1, np.uint64))
        with pytest.raises(KernelOperandError, match="no memory of this device"):
            device.download(memory, 0, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_every_use_raises_at_once(device):
    memory = filled(device, range(4))
    recorded = device.record([check_launch(device, device.alloc(3))])
    uses = (
        lambda: device.alloc(1),
        lambda: device.upload(memory, 0, np.zeros(1, np.uint64)),
        lambda: device.download(memory, 0, 1),
        lambda: device.record([check_launch(device, memory)]),
        recorded.run,
        device.synchronize,
    )
    child = os.fork()
    if not child:
        raised = 0
        for use in uses:
            try:
                use()
            except ForkedProcessError as error:
                raised += "spawn" in str(error)
        os._exit(raised)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(uses)
    assert device.download(memory, 0, 4).tolist() == list(range(4))


@pytest.mark.parametrize(
    ("capability", "known", "architecture"),
    [
        (90, (80, 90, 100), "sm_90"),
        (86, (80, 86, 90), "sm_86"),
        (89, (80, 86, 90), "sm_86"),
        (121, (90, 120), "sm_120"),
    ],
)
def test_the_nearest_architecture_is_chosen(module, capability, known, architecture):
    assert module.architecture_for(capability, known, "Card") == architecture


@pytest.mark.parametrize(("capability", "known"), [(70, (75, 80)), (130, (90, 120)), (80, (86, 90))])
def test_a_card_that_the_compiler_does_not_know(module, capability, known):
    with pytest.raises(BackendUnavailableError, match="compute capability .*Install a newer nvidia-cuda-nvrtc"):
        module.architecture_for(capability, known, "Card")


def test_the_calls_exist_in_cupy():
    """Where CuPy is installed: every name that the fake has, with the parameters it is called with."""
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed: pip install cupy-cuda13x")
    cupy = importlib.import_module("cupy")
    fake = FakeCupy().module
    for name in vars(fake.cuda):
        for member in (m for m in vars(getattr(fake.cuda, name)) if not m.startswith("_")):
            if member not in ("issue", "drain", "queue", "memory", "block", "offset"):
                assert hasattr(getattr(cupy.cuda, name), member), (name, member)
    assert cupy.cuda.runtime.streamCaptureModeThreadLocal == 1
    assert cupy.cuda.runtime.runtimeGetVersion() // 1000 in (12, 13)

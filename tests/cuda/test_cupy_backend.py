"""The whole backend on CupyDevice, over the fake of CuPy: kernels, plans, replays and the probe, as they would go on a GPU."""

from __future__ import annotations

import gc
import importlib.util
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import test_on_a_gpu
from emulator import MISSING
from fake_cupy import FakeCupy
from ren.backend.reference import ReferenceBackend
from ren.backend.select import facts, get_backend
from ren.ops import KERNELS
from ren.schemes import ckks
from ren.testing import BackendConformance, PluginTester, fixed_randomness
from ren.testing.cases import cases
from ren_backend_cuda.backend import CudaBackend

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture
def fake(monkeypatch, tmp_path):
    fake = FakeCupy()
    fake.cupy_device = fake.install(monkeypatch, tmp_path)
    monkeypatch.setattr("ren_backend_cuda.nvrtc.find", lambda major=None: "libnvrtc.so.13")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: SimpleNamespace(origin="cupy") if name == "cupy" else find_spec(name, *rest)
    )
    return fake


@pytest.fixture
def world(fake):
    """Ren with the CPU and the CUDA plugin, on a machine that has the fake GPU."""
    with PluginTester() as world:
        world.entry("cpu", "ren_backend_cpu.plugin")
        world.entry("cuda", "ren_backend_cuda.plugin", "ren-backend-cuda")
        with world.active():
            yield world


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels(fake, kernel):
    backend, kit = CudaBackend(fake.cupy_device.CupyDevice()), BackendConformance()
    for number, case in enumerate(cases(kernel, 16, (45,))):
        kit.check(backend, ReferenceBackend(), case)
        if number == 3:
            break


def test_plans_and_threads(fake):
    kit, backend, reference = BackendConformance(), CudaBackend(fake.cupy_device.CupyDevice()), ReferenceBackend()
    kit.test_plan(backend, reference)
    kit.test_memory_keeps_what_is_copied_in(backend)
    kit.test_copies_are_independent(backend)
    for kernel in ("mod_down", "key_switch", "ntt"):
        kit.test_compiled_units_are_reentrant(backend, reference, kernel)


def test_a_working_gpu_is_found_and_preferred(world, fake):
    found = facts("cuda")
    assert (found.device_works, found.detail) == (True, "Fake GPU")
    assert get_backend().name == "cuda" == get_backend("cuda").name
    assert get_backend().capabilities().details["device"] == "Fake GPU"


def test_a_gpu_that_computes_wrong_is_refused(world, fake, monkeypatch):
    device = fake.cupy_device.CupyDevice
    download = device.download
    monkeypatch.setattr(device, "download", lambda *a: download(*a) ^ np.uint64(1 << 40))
    found = facts("cuda")
    assert (found.device_present, found.device_works) == (True, False)
    assert "Fake GPU does not work: wrong results: run 1, low words of products" in found.reason
    assert get_backend().name == "cpu"


def test_a_gpu_that_fails_is_refused(world, fake, monkeypatch):
    def broken(*args):
        raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

    monkeypatch.setattr(fake.cupy_device.CupyDevice, "synchronize", broken)
    monkeypatch.setattr(fake.cupy_device.CupyDevice, "download", broken)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in facts("cuda").reason
    assert get_backend().name == "cpu"


def toy(device):
    params = ckks.CKKSParams.build(n=128, levels=3, scale_bits=40, toy=True)
    return ckks.keygen(params, device, seed=b"cupy")


def words(x):
    return b"".join(np.asarray(part.residues()).tobytes() for part in (x.a, x.b))


SCALARS = {
    "ct + (-0.25)": (lambda x: x + (-0.25), lambda v: v - 0.25),
    "ct - 0.25": (lambda x: x - 0.25, lambda v: v - 0.25),
    "0.25 - ct": (lambda x: 0.25 - x, lambda v: 0.25 - v),
    "ct * -1": (lambda x: x * -1, lambda v: -v),
    "ct + (-0.1-0.2j)": (lambda x: x + (-0.1 - 0.2j), lambda v: v - 0.1 - 0.2j),
}


def test_negative_and_complex_scalars_have_the_bits_of_the_other_backends(world):
    """Fault B08: adding a negative scalar was wrong on the GPU alone."""
    found = {}
    for device in ("reference", "cpu", "cuda"):
        engine = toy(device)
        v = np.random.default_rng(1).uniform(-1, 1, engine.num_slots)
        with engine, fixed_randomness(5):
            x = ckks.encrypt(ckks.encode(v))
            for name, (operation, expected) in SCALARS.items():
                y = operation(x)
                found[device, name] = words(y)
                assert np.abs(np.asarray(ckks.decode(ckks.decrypt(y))) - expected(v)).max() < 1e-6, (device, name)
    assert all(found[d, name] == found["reference", name] for d in ("cpu", "cuda") for name in SCALARS)


def test_the_first_key_switch_of_a_process_is_right(world):
    """User need 13: it was all NaN in a peer, because a block of its pool was reused while it was still written."""
    expected = {}
    for device in ("cpu", "cuda"):
        engine = toy(device)
        v = np.linspace(-1, 1, engine.num_slots)
        with engine, fixed_randomness(2):
            first, second = (words(ckks.encrypt(ckks.encode(v)).rotate(3)) for _ in range(2))
        expected[device] = first, second
    assert expected["cuda"] == expected["cpu"]


def test_what_waits_for_a_card_runs(world, fake):
    """Parts of test_on_a_gpu.py, at the smallest degree, on the path that a GPU takes."""
    kit = test_on_a_gpu.TestOnAGpu()
    kit.test_kernel(kit.make_backend(), ReferenceBackend(), "mod_down", 2)
    for name in test_on_a_gpu.PLANS:
        test_on_a_gpu.test_plans_have_the_bits_of_the_cpu(name, 6)


def test_the_stress_test_of_a_card_runs(world, fake):
    test_on_a_gpu.test_replays_of_many_threads_have_the_bits_of_the_cpu(threads=2, rounds=2)


def test_results_after_freeing_and_reallocating_and_in_threads(world, fake):
    """User need 13: the same bits on later calls, in memory that others had, from several threads."""
    engine = toy("cuda")
    v = np.linspace(-1, 1, engine.num_slots)
    with engine, fixed_randomness(3):
        x = ckks.encrypt(ckks.encode(v)).realize()
        expected = words(x * x + x)
        for _ in range(3):
            garbage = [x * k for k in (2, 3, 5)]
            assert words(x * x + x) == expected
            del garbage
            gc.collect()
    found = []

    def work():
        with engine:
            found.append(words(x * x + x))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [expected] * 4

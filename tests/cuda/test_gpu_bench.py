"""tests/bench/gpu.py where there is no GPU: the path that a card takes, over the fake of CuPy with a clock that is made up."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from emulator import MISSING, EmulatedDevice
from fake_cupy import FakeCupy
from ren.backend.capability import ALWAYS
from ren.testing import PluginTester
from ren_backend_cuda.compiler import compile_module, read_sources
from ren_backend_cuda.device import Launch
from ren_backend_cuda.tables import quotient

from ren_backend_cuda import nvrtc

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("gpu_bench", BENCH / "gpu.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_bench", module)
    spec.loader.exec_module(module)
    return module


def test_rows_and_circuit_on_the_path_of_a_card(bench, monkeypatch, tmp_path, capsys):
    fake = FakeCupy()
    fake.install(monkeypatch, tmp_path)
    monkeypatch.setattr("ren_backend_cuda.probe.probe", lambda: ALWAYS)
    ran = []

    def seconds(self, device, call, runs):
        ran.append((device, runs))
        call()
        return 1e-3

    monkeypatch.setattr(bench.Gpu, "seconds", seconds)
    monkeypatch.setattr(bench.Gpu, "bandwidth", lambda self: 1e9)
    monkeypatch.setattr(bench.Gpu, "instruction_rate", lambda self: 1e12)
    circuit = bench.circuit
    monkeypatch.setattr(bench, "circuit", lambda gpu, limits: circuit(gpu, limits, n=128, levels=3, times=2, toy=True))
    monkeypatch.setitem(bench.SETS, "tiny", (128, (50, 40, 40), (50,), 1))
    with PluginTester() as world:
        world.entry("cpu", "ren_backend_cpu.plugin")
        world.entry("cuda", "ren_backend_cuda.plugin", "ren-backend-cuda")
        with world.active():
            assert bench.main(["--set", "tiny", "--runs", "3"]) == 0
    head, title, *rows, last = capsys.readouterr().out.splitlines()
    assert head.startswith("Fake GPU: copy 0.00 TB/s, butterflies 1.0 T instructions/s") and title.startswith("set tiny")
    assert {"rotate", "rescale", "ct + ct", "ct*ct + relinearize"} <= {row[2:34].strip() for row in rows}
    for row in rows:
        size = float(re.search(r"([\d.]+) MB", row)[1])
        moved, issued, reached = (float(x) for x in re.findall(r"([\d.]+)%", row))
        assert moved == pytest.approx(size * 100, abs=0.6) and reached == max(moved, issued), row  # 1 GB/s for 1 ms
    assert re.match(r"2 times 2 x x - 1, n = 128, 3 levels, replay: [\d.]+ ms, \d+ launches; bandwidth .*largest error", last)
    assert float(last.rsplit(" ", 1)[1]) < 1e-6
    assert len(ran) == 2 * len(rows), "in flight, and one by one"


def test_the_rate_kernel_computes_butterflies():
    """So many levels of them, in residues that stay below 4q."""
    device = EmulatedDevice(kernels=BENCH)
    out, q, w, rounds = device.alloc(256), (1 << 61) - (1 << 20) + 1, 12345678901234567, 9
    arguments = (out, np.uint64(q), np.uint64(w), np.uint64(quotient(w, q)), np.uint32(rounds))
    device.record([Launch(device.function("gpu_rates", {}, "butterflies"), (1, 1, 1), (256, 1, 1), arguments, 0)]).run()
    expected = []
    for thread in range(256):
        x = [thread + k for k in range(8)]
        for _ in range(rounds):
            for k in range(4):
                a, b = min(x[k], (x[k] - 2 * q) % 2**64), (x[k + 4] * w - (x[k + 4] * quotient(w, q) >> 64) * q) % 2**64
                x[k], x[k + 4] = (a + b) % 2**64, (a - b + 2 * q) % 2**64
            assert max(x) < 4 * q
            x = x[1:] + x[:1]
        total = 0
        for word in x:
            total ^= word
        expected.append(total)
    assert device.download(out, 0, 256).tolist() == expected


@pytest.mark.skipif(nvrtc.find() is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc")
def test_the_rate_kernel_stays_in_registers(monkeypatch, tmp_path):
    monkeypatch.setattr("ren_backend_cuda.compiler.read_sources", lambda source, folder: ((BENCH / "gpu_rates.cu").read_text(), read_sources("self_check")[1]))
    used = compile_module("gpu_rates", {}, "sm_90", nvrtc.load()).resources["butterflies"]
    assert (used.stack, used.spills) == (0, 0)

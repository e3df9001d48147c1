"""`ren bench`: operations with their times and shares of the limits, on a toy set. Nothing here judges a speed."""

from __future__ import annotations

import json

import pytest
from ren import bench
from ren.backend.capability import Limits, Measurable
from ren.cli import main
from ren_backend_cpu.backend import CpuBackend

from ren_backend_cpu import limits as cpu_limits

TOY = ["bench", "--preset", "python-test", "--seconds", "0"]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def few_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_FEWEST", 1)


def test_the_cpu_backend_measures_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_limits, "_WORDS", 1 << 12)
    monkeypatch.setattr(cpu_limits, "_ROUNDS", 100)
    backend = CpuBackend()
    assert isinstance(backend, Measurable)
    limits = backend.limits()
    assert limits.bytes_per_second > 0
    assert limits.butterflies_per_second > 0


def test_times_beside_limits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(CpuBackend, "limits", lambda self: Limits(1e10, 1e9))
    assert main([*TOY, "--device", "cpu", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["limits"] == {"bytes_per_second": 1e10, "butterflies_per_second": 1e9}
    (only,) = report["sets"]
    assert (only["preset"], only["n"], only["toy"]) == ("python-test", 128, True)
    rows = {row["operation"]: row for row in only["rows"]}
    assert all(row["median_ms"] >= row["least_ms"] > 0 for row in rows.values())
    added, multiplied = rows["ciphertext + ciphertext"], rows["ciphertext * ciphertext, rescaled"]
    assert added["butterflies"] == 0
    # Two polynomials of 7 limbs each from two operands, at the bandwidth given above.
    assert added["memory"] * added["median_ms"] == pytest.approx(1e3 * 3 * 2 * 7 * 128 * 8 / 1e10)
    assert multiplied["butterflies"] > 0
    assert rows["encode"]["memory"] is None


def test_as_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(CpuBackend, "limits", lambda self: Limits(1e10, 1e9))
    monkeypatch.setattr(bench, "get_threads", lambda: 2)
    assert main([*TOY, "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "on cpu, 2 threads" in out
    assert "memory 10.0 GB/s, 1.00 butterflies per ns" in out
    assert "python-test: n = 128, 7 primes, no security" in out
    assert "one rotation key" in out


def test_a_device_that_knows_no_limits_is_timed_without(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TOY, "--device", "reference"]) == 0
    out = capsys.readouterr().out
    assert "limits" not in out
    assert "%" not in out


def test_an_unknown_set_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--preset", "huge"]) == 1
    assert "huge" in capsys.readouterr().err


def test_default_sets_exist() -> None:
    for preset in bench.PRESETS:
        assert not bench.ckks.CKKSParams.preset(preset).toy

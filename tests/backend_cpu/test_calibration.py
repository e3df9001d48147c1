"""Prices of this machine: measured, kept, checked when read, and replaced by the shipped ones with their name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ren.engine.calibrate import Scope
from ren.engine.calibration import Calibration
from ren.ops import KERNELS
from ren_backend_cpu.backend import CpuBackend

from ren_backend_cpu import cache, calibrate


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(calibrate, "file_in", lambda folder: tmp_path / f"prices-{calibrate.get_threads()}.json")
    calibrate.forget()
    yield tmp_path
    calibrate.forget()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small ring, one round: the real scope takes seconds."""
    wide = calibrate.scope()
    little = Scope((7,), wide.widths, wide.bits, 7, 1 << 16, (1 << 12, 1 << 13, 1 << 14, 1 << 15))
    monkeypatch.setattr(calibrate, "scope", lambda: little)
    monkeypatch.setattr("ren.engine.calibrate._ROUNDS", 1)
    monkeypatch.setattr("ren.engine.calibrate._MOST_REPEATS", 1)
    monkeypatch.setattr("ren.engine.stopwatch._FEWEST", 1)
    monkeypatch.setattr("ren.engine.stopwatch._SECONDS", 0.0)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring gives the shipped prices with another time per replay, at once."""

    def measure(backend: Any, scope: Any, *, machine: str, note: str, progress: Any) -> Calibration:
        return replace(calibrate.shipped(), machine=machine, note=note, replay=1.0)

    monkeypatch.setattr(calibrate, "measure", measure)


def test_the_shipped_prices_cover_every_kernel_and_say_what_they_are(folder: Path) -> None:
    found = CpuBackend().calibration()
    assert found.kernels.keys() == KERNELS.keys()
    assert "not measured on this machine" in found.note
    assert set(found.kernels["ntt"]) == set(calibrate.scope().log_ns)


def test_measured_prices_are_used_at_once_and_by_later_processes(folder: Path, small: None) -> None:
    lines: list[str] = []
    found = CpuBackend().calibrate(lines.append)
    assert found.note.startswith("measured on ") and lines[-1].endswith(str(calibrate.file_in(folder)))
    assert CpuBackend().calibration() is found
    calibrate.forget()
    assert CpuBackend().calibration() == found


def test_prices_of_another_machine_are_not_used(folder: Path, made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    CpuBackend().calibrate(lambda text: None)
    calibrate.forget()
    monkeypatch.setattr(calibrate, "cpu_model", lambda: "another CPU")
    assert "not measured on this machine" in CpuBackend().calibration().note


def test_prices_belong_to_a_number_of_threads(folder: Path, made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    one = CpuBackend().calibrate(lambda text: None)
    monkeypatch.setattr(calibrate, "get_threads", lambda: 7)
    assert "not measured on this machine" in CpuBackend().calibration().note
    monkeypatch.setattr(calibrate, "get_threads", lambda: 1)
    assert CpuBackend().calibration() is one


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2, "replay": NaN}', "\x00"])
def test_a_damaged_file_is_named_and_not_used(folder: Path, text: str) -> None:
    calibrate.file_in(folder).write_text(text)
    with pytest.warns(cache.CacheWarning, match=r"cannot be used.*ren warmup"):
        found = CpuBackend().calibration()
    assert "not measured on this machine" in found.note


def test_without_a_folder_this_process_alone_uses_them(made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "folder", lambda: None)
    calibrate.forget()
    lines: list[str] = []
    found: Any = CpuBackend().calibrate(lines.append)
    assert "this process only" in lines[-1]
    assert CpuBackend().calibration() is found
    calibrate.forget()

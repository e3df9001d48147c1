"""The benchmark page is what its raw samples say, and the programs that make both still run. Nothing here judges a speed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "tests" / "bench"
PAGE = ROOT / "docs" / "benchmarks"


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("numba")
    monkeypatch.syspath_prepend(str(BENCH))
    import report as module

    return module


FAKE = """
from workloads import Row, uniform
NAME = "Fake"
def version():
    print("a library that talks")
    return "1.2"
class Contestant:
    security = "none"
    def __init__(self, s):
        self.x = uniform(s.slots, 1)
    def rows(self):
        return {"right": Row(lambda: self.x, lambda r: r, self.x), "wrong": Row(lambda: self.x, lambda r: r + 0.5, self.x), "key": Row(lambda: None)}
    def key_bytes(self):
        return {"memory": 16, "stored": 8}
"""


def ask(folder: Path, module: str, *asked: dict[str, object]) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, str(BENCH / "contestant.py"), module, "A"],
        input="".join(json.dumps(a) + "\n" for a in asked),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_contestant_takes_turns_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "fake.py").write_text(FAKE)
    first, turn, right, wrong, key, peak = ask(
        tmp_path,
        "fake",
        {"do": "turn", "row": "right", "ms": 0},
        {"do": "errors", "row": "right"},
        {"do": "errors", "row": "wrong"},
        {"do": "errors", "row": "key"},
        {"do": "peak"},
    )
    assert (first["name"], first["version"], first["rows"]) == ("Fake", "1.2", ["right", "wrong", "key"])
    assert len(turn["times"]) == 1  # type: ignore[arg-type]
    assert right["errors"] == {"max": 0.0, "mean": 0.0}
    assert wrong["errors"] == {"max": 0.5, "mean": 0.5}
    assert key["errors"] is None
    assert float(peak["peak"]) > 1  # type: ignore[arg-type]


def test_a_peer_that_is_missing_says_why(tmp_path: Path) -> None:
    (tmp_path / "absent.py").write_text("import no_such_library\n")
    (only,) = ask(tmp_path, "absent")
    assert only["reason"] == "ModuleNotFoundError: No module named 'no_such_library'"


def results(folder: Path) -> Path:
    """Ren 2 ms; Peer 9 ms quiet, slower otherwise; Unlike's cheap rescale does not count; one peer that did not start."""

    def quiet(ms: float) -> dict[str, list[float]]:
        return {"quiet": [ms] * 7, "noisy": [100.0]}

    facts = {"version": "1", "python": "3", "security": "128", "key_bytes": {"memory": 2 << 20, "stored": 1 << 20}}
    rows = {
        "rescale": {"Ren": quiet(2.0), "Peer": quiet(9.0), "desilofhe": quiet(1.0)},
        "ct + ct": {"Ren": quiet(2.0), "Peer": {"quiet": [1.0], "noisy": [3.0]}},
    }
    data = {
        "set": "A",
        "machine": {
            "date": "today",
            "commit": "abc",
            "cpu": "cpu",
            "cores": 2,
            "vectors": ["avx2"],
            "system": "s",
            "python": "3",
        },
        "contestants": {
            **dict.fromkeys(("Ren", "Peer", "desilofhe"), facts),
            "Absent": {"reason": "ImportError: no"},
        },
        "rows": {row: {"date": "today", "commit": "abc", "samples": samples} for row, samples in rows.items()},
        "errors": {"Ren": {"rescale": {"max": 0.5, "mean": 0.25}}, "Peer": {"rescale": {"max": 0.5, "mean": 0.5}}},
        "peak_mib": {"Ren": 100.0, "Peer": 150.0, "desilofhe": 300.0},
    }
    folder.mkdir()
    (folder / "A.json").write_text(json.dumps(data))
    return folder


def test_tables_compare_like_with_like(report: ModuleType, tmp_path: Path) -> None:
    text = "\n".join(report.section(report.Results(results(tmp_path / "r") / "A.json")))
    assert "| rescale | 2 | 9 | 1† | 4.5 | 4 | 2^-2.0 | 2^-1.0 |" in text
    assert "| ct + ct | 2 | 2~ | - | 1.0 | memory bandwidth | - | - |" in text
    assert "| peak memory of the whole run, MiB | 100 | 150 | 300 | 1.50 | below | | |" in text
    assert "- Absent: not measured: ImportError: no" in text


def test_the_plot_is_a_drawing_with_a_bar_per_row(report: ModuleType, tmp_path: Path) -> None:
    drawn = ElementTree.fromstring(report.plot([report.Results(results(tmp_path / "r") / "A.json")]))
    bars = [e for e in drawn.iter() if e.tag.endswith("rect") and e.get("y") is not None]
    assert len(bars) == 2


def test_the_page_is_made_from_its_samples(report: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["report.py", str(PAGE / "samples"), "--to", str(tmp_path)])
    report.main()
    for name in ("tables.md", "ratios.svg"):
        assert (tmp_path / name).read_text() == (PAGE / name).read_text(), f"run tests/bench/report.py again: {name}"


def test_the_page_names_no_machine_path() -> None:
    for path in PAGE.rglob("*"):
        if path.is_file():
            assert not re.search(r"/(home|root|tmp|work|usr)/", path.read_text()), path

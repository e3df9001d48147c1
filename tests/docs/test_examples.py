"""The examples of the CKKS pages run, and print what their comparison with plain computation allows."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def run(*arguments: str, timeout: float = 300) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=EXAMPLES, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_data_are_fishers() -> None:
    with (EXAMPLES / "data" / "iris.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150
    assert [sum(row["species"] == name for row in rows) for name in ("setosa", "versicolor", "virginica")] == [50] * 3
    # Sums of the four columns (millimetres), known from Fisher's paper; the 35th and 38th rows tell its copies apart.
    totals = [sum(round(10 * float(row[name])) for row in rows) for name in list(rows[0])[:4]]
    assert totals == [8765, 4586, 5637, 1799]
    assert list(rows[34].values())[:4] == ["4.9", "3.1", "1.5", "0.2"]
    assert list(rows[37].values())[:4] == ["4.9", "3.6", "1.4", "0.1"]


def test_encrypted_statistics() -> None:
    text = run("encrypted_statistics.py", "--device", "reference")
    assert "correlation" in text and "0.9628654" in text


@pytest.mark.real
def test_first_demo() -> None:
    text = run("first_demo.py")
    assert "with_jit (us)" in text and "without_jit (us)" in text
    assert "predicted at most" in text and "correlation" in text


def test_tables(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from common import print_table

    print_table(["name", "count"], [["a", 1], ["long name", 20]])
    assert capsys.readouterr().out == "name       count\n---------  -----\na              1\nlong name     20\n"

"""The README's example runs as printed, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.real
def test_example() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.splitlines()) <= 15
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = [[float(word) for word in line.strip("[]").split()] for line in done.stdout.splitlines()]
    wanted = 2 * np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]) ** 2 - 1
    assert np.shape(found) == (2, 3) and np.abs(found - wanted).max() < 1e-6  # printed with eight digits; 40-bit scale


def test_links() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert [t for t in targets if not (ROOT / t).exists()] == []


def test_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from ren.cli import main

    for command in set(re.findall(r"`ren (\w+)", README)):
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0, command
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in re.findall(r"\bmake ([\w-]+)", README))

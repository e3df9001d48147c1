"""The example distribution, from its wheel: found, in the pipeline, right when decrypted; removed, a program that uses it says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "docs" / "examples" / "ren-pass-example"

TEXT = """builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !ren.encrypted<level=0, scale=s0, shape=full, parts=2, domain=coeff>) -> !ren.encrypted<shape=full> {
    %0 = "smooth.average"(%x) <{width = 3 : i64}> : (!ren.encrypted<level=0, scale=s0, shape=full, parts=2, domain=coeff>) -> !ren.encrypted<shape=full>
    %1 = "ren.semantic.multiply"(%0, %0) : (!ren.encrypted<shape=full>, !ren.encrypted<shape=full>) -> !ren.encrypted<shape=full>
    func.return %1 : !ren.encrypted<shape=full>
  }
}
"""

WITH = """
import numpy as np
from ren import jit
from ren.schemes import ckks
from ren.testing.program_kit import decoded, workspace_for
names = jit.default_pipeline().names
assert names.index("lower-smooth") < names.index("lower-semantic-to-logical"), names
source = jit.parse(TEXT)
assert jit.parse(source.to_text()).to_text() == source.to_text()
result = jit.default_pipeline().run(source)
program = result.program
report = next(r for r in result.reports if r.name == "lower-smooth")
assert (report.stats.matched, report.stats.inserted, report.stats.removed) == (1, 3, 1), report
assert program.to_text().count('"smooth.window"') == 1 and "smooth.average" not in program.to_text()
assert "cost: key switch" in program._repr_svg_()
engine = ckks.Engine("python-test", device="reference")
space = workspace_for(program, engine)
assert set(space["evaluation_keys"].rotations.steps) >= {1, 2}
assert program.readiness(space).runnable, program.readiness(space)
x = np.cos(np.arange(engine.num_slots))
mean = (x + np.roll(x, 1) + np.roll(x, 2)) / 3
assert abs(decoded(engine, program.run(x, workspace=space)) - mean * mean).max() < 1e-7
again = jit.default_pipeline().run(program)
assert again.program.to_text() == program.to_text()
print(program.to_text())
"""

WITHOUT = """
import sys
from ren import jit
text = sys.stdin.read()
program = jit.parse(text)
assert program.to_text() == text
program = jit.default_pipeline().run(program).program
report = program.readiness()
print([(d.code, d.subject) for d in report.errors if d.code == "missing-handler"])
"""


def run(code: str, *paths: Path, stdin: str = "") -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REN_")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    done = subprocess.run(
        [sys.executable, "-c", code], input=stdin, capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel of the example was installed."""
    folder = tmp_path_factory.mktemp("third_party")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(PROJECT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    install = [*pip, "install", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_installed_it_takes_part_and_removed_it_is_named(site: Path) -> None:
    lowered = run(f"TEXT = {TEXT!r}\n{WITH}", site)
    lowered = lowered.removesuffix("\n")
    assert "smooth.window" in lowered
    assert run(WITHOUT, stdin=lowered) == "[('missing-handler', 'smooth.window')]\n"
    assert run(WITHOUT.replace("assert program.to_text() == text\n", ""), stdin=TEXT).startswith(
        "[('missing-handler', 'smooth.average')"
    )

"""Sums of many rotations take baby steps and giant steps: right when decrypted, fewer rotations, only where it pays."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.program import PassPipeline, Program, Workspace, encrypted, message, types
from ren.program.edit import block_ops
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for
from ren_passes.analysis.rotation_steps import Split, best_split
from ren_passes.split_rotations import SplitRotationsPass

S = 64
X = np.cos(np.arange(S)) * 0.9
TAPS = np.sin(np.arange(S) + 1) / 4
MATRIX = np.cos(np.arange(S * S)).reshape(S, S) / 8


class Summed:
    """sum over steps of roll(x, step) * factor."""

    def __init__(self, **spec: Any) -> None:
        self.b = ProgramBuilder(x=encrypted(**spec), y=encrypted(**spec), w=message())
        self.x = self.b["x"]

    def roll(self, x: Any, step: int) -> Any:
        return self.b("ren.semantic.roll", x, shift=step) if step else x

    def term(self, step: int, factor: Any, *, left: bool = False, x: Any = None) -> Any:
        factor = self.b.constant(factor) if isinstance(factor, (int, float)) else factor
        rolled = self.roll(self.x if x is None else x, step)
        return self.b("ren.semantic.multiply", *((factor, rolled) if left else (rolled, factor)))

    def held(self, i: int) -> Any:
        return self.b("ren.material.ref", types=[types.message((S,), "float64")], symbol=f"d{i}", kind="tensor")

    def add(self, terms: list[Any]) -> Any:
        total = terms[0]
        for t in terms[1:]:
            total = self.b("ren.semantic.add", total, t)
        return total


def lowered(source: Program) -> Program:
    program: Program = jit.default_pipeline().run(source, Workspace()).program
    again = jit.default_pipeline().run(program, Workspace())
    assert again.program.to_text() == program.to_text()
    return program


def rotations(program: Program) -> tuple[int, int]:
    """(rotations in hoisted groups, rotations by themselves)."""
    found = Counter(op.name for op in program.walk())
    grouped = [op for op in program.walk() if op.name == "ren.ckks.rotate_group"]
    return sum(len(op.results) for op in grouped), found["ren.ckks.rotate"]


def test_a_filter_of_sixteen_taps(engine: Any) -> None:
    s = Summed()
    program = lowered(s.b.program(s.add([s.term(i, float(TAPS[i]), left=i % 2 == 0) for i in range(16)])))
    assert rotations(program) == (7, 1)
    result = program.run(X, X, X, workspace=workspace_for(program, engine))
    expected = sum(TAPS[i] * np.roll(X, i) for i in range(16))
    np.testing.assert_allclose(decoded(engine, result), expected, rtol=0, atol=1e-6)
    assert result.level == 1


@pytest.mark.parametrize("first", [0, -20, 5])
def test_a_matrix_by_its_diagonals(engine: Any, first: int) -> None:
    """y_j = sum over i of d_i[j] x[j - i], with held vectors; the steps may be negative and start anywhere."""
    steps = range(first, first + 40)
    s = Summed()
    program = lowered(s.b.program(s.add([s.term(i, s.held(i - first)) for i in steps])))
    grouped, single = rotations(program)
    assert grouped + single < 14
    space = workspace_for(program, engine, materials={f"d{k}": MATRIX[k] for k in range(40)})
    report = program.readiness(space)
    assert report.runnable, str(report)
    assert len(report.requirements.rotation_steps) < 14
    result = program.run(X, X, X, workspace=space)
    expected = sum(MATRIX[i - first] * np.roll(X, i) for i in steps)
    np.testing.assert_allclose(decoded(engine, result), expected, rtol=0, atol=1e-6)


def test_other_terms_and_two_sources_stay_in_the_sum(engine: Any) -> None:
    s = Summed()
    terms = [s.term(i, 0.25) for i in range(14)] + [s.term(i, s.b["w"], x=s.b["y"]) for i in range(3)]
    terms.insert(5, s.b("ren.semantic.square", s.b["y"]))
    program = lowered(s.b.program(s.add(terms)))
    grouped, single = rotations(program)
    assert (grouped, single) == (7 + 2, 1)
    y = X[::-1].copy()
    result = program.run(X, y, TAPS, workspace=workspace_for(program, engine))
    expected = sum(np.roll(X, i) / 4 for i in range(14)) + sum(TAPS * np.roll(y, i) for i in range(3)) + y * y
    np.testing.assert_allclose(decoded(engine, result), expected, rtol=0, atol=1e-6)


def test_a_vector_that_fills_its_frame(engine: Any) -> None:
    s = Summed(slots=16)
    x, w = X[:16], TAPS[:16]
    held = s.b("ren.material.ref", types=[types.message((16,), "float64")], symbol="w", kind="tensor")
    program = lowered(s.b.program(s.add([s.term(i, held) for i in range(16)])))
    assert sum(rotations(program)) == 8
    result = program.run(x, x, X, workspace=workspace_for(program, engine, materials={"w": w}))
    expected = sum(w * np.roll(x, i) for i in range(16))
    np.testing.assert_allclose(decoded(engine, result, 16), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("case", ["eight", "padded", "used-twice"])
def test_what_does_not_pay_or_cannot_be_rolled_stays(engine: Any, case: str) -> None:
    s = Summed(**({"slots": 13} if case == "padded" else {}))
    count = {"eight": 8, "padded": 13, "used-twice": 14}[case]
    terms = [s.term(i, 0.25) for i in range(count)]
    extra = terms if case == "used-twice" else []
    source = s.b.program(s.add(terms), *extra)
    at_pass = jit.default_pipeline().run(source, Workspace()).reports
    stats = next(r.stats for r in at_pass if r.name == "split-rotations")
    assert (stats.transformed, stats.inserted, stats.removed) == (0, 0, 0)


def test_counters_of_the_pass_alone() -> None:
    b = ProgramBuilder(x=encrypted())
    total: Any = None
    for i in range(16):
        rolled = b("ren.ckks.rotate", b["x"], shift=i) if i else b["x"]
        term = b("ren.logical.multiply.encrypted_public", rolled, b.constant(0.5))
        total = term if total is None else b("ren.logical.add.encrypted_encrypted", total, term)
    result = PassPipeline([SplitRotationsPass()]).run(b.program(total), Workspace())
    stats = result.reports[0].stats
    assert (stats.matched, stats.transformed, stats.skipped) == (16, 16, 0)
    found = Counter(op.name for op in block_ops(result.program.entry_block()))
    assert found["ren.ckks.rotate"] == 7 + 1
    assert found["ren.logical.multiply.encrypted_public"] == 16
    again = PassPipeline([SplitRotationsPass()]).run(result.program, Workspace())
    assert again.program.to_text() == result.program.to_text()


def test_splits() -> None:
    found = [best_split(range(n)) for n in (1, 2, 8, 12, 16, 64)]
    assert found == [None, None, None, Split(4, 0), Split(8, 0), Split(16, 0)]
    assert best_split(range(0, 64 * 16, 64)) == Split(512, 0)
    assert best_split(range(-5, 11)) == Split(8, -5)
    assert best_split([0, 1, 100, 1000, 10000]) is None
    for step in range(-40, 40):
        giant, baby = Split(8, -5).of(step)
        assert giant + baby == step
        assert giant % 8 == 0
        assert -5 <= baby < 3

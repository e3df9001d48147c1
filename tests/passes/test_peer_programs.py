"""Programs that a comparable system calls runnable and then fails on, or computes wrong: right here, or refused with where and why.

The arithmetic ones (`x*x + x`, mixed depths, padded rolls, ...) are in test_corpus.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.errors import ProgramNotReadyError, ProgramRunError
from ren.program import Program, encrypted, message, types
from ren.schemes import ckks
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for

S = 64
X = np.cos(np.arange(S)) / 2
HERE = jit.location("model.py", 12)


def lowered(source: Program) -> Program:
    return jit.default_pipeline().run(source).program


def test_ten_times_on_enough_levels_is_right() -> None:
    params = ckks.CKKSParams.build(n=128, levels=10, scale_bits=40, toy=True, name="ten-levels")
    engine = ckks.Engine(params, device="reference")
    b = ProgramBuilder(x=encrypted())
    x, want = b["x"], X
    for _ in range(10):
        double = b("ren.semantic.multiply", b.constant(2), x)
        x = b("ren.semantic.subtract", b("ren.semantic.multiply", double, x), b.constant(1))
        want = 2 * want * want - 1
    program = lowered(b.program(x))
    space = workspace_for(program, engine)
    report = program.readiness(space)
    assert report.runnable
    assert {d.code for d in report.diagnostics} == {
        "unchecked-result"
    }  # by the bounds alone it may overflow, unseen at the last level
    space["result_bound"] = 1.0
    assert not program.readiness(space).diagnostics
    result = program.run(X, workspace=space)
    assert result.level == 10
    # Each step multiplies an error by up to four.
    np.testing.assert_allclose(decoded(engine, result), want, rtol=0, atol=4**10 * 2**-34)


def test_ten_times_on_six_levels_is_refused(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    x = b["x"]
    for line in range(10):
        x = b("ren.semantic.square", x, loc=jit.location("model.py", line + 1))
    program = lowered(b.program(x))
    report = program.readiness(workspace_for(program, engine))
    assert report.codes == {"level-exhausted"}
    assert {(d.file, d.line) for d in report.errors} == {("model.py", 7)}


def test_a_level_that_the_engine_does_not_have(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(level=9))
    program = lowered(b.program(b("ren.semantic.negate", b["x"], loc=HERE)))
    report = program.readiness(workspace_for(program, engine))
    assert "level-exhausted" in report.codes
    assert any(d.subject == "x" for d in report.errors)


def test_the_result_of_one_program_is_an_input_of_another(engine: Any) -> None:
    """Scales are exact: what leaves at level 1 is what `encrypted(level=1)` declares."""
    b = ProgramBuilder(x=encrypted())
    first = lowered(b.program(b("ren.semantic.square", b["x"])))
    b = ProgramBuilder(y=encrypted(level=1), x=encrypted())
    second = lowered(b.program(b("ren.semantic.add", b["y"], b["x"])))
    square = first.run(X, workspace=workspace_for(first, engine))
    result = second.run(square, X, workspace=workspace_for(second, engine))
    np.testing.assert_allclose(decoded(engine, result), X * X + X, rtol=0, atol=1e-7)


def test_a_short_message_on_full_slots_is_refused(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    program = lowered(b.program(b("ren.semantic.multiply", b["x"], b["w"], loc=HERE)))
    space = workspace_for(program, engine)
    with pytest.raises(ProgramRunError, match=r"model\.py:12.*shape \(4,\)"):
        program.run(X, np.ones(4), workspace=space)


def test_rolling_by_all_but_one_needs_the_canonical_key(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = lowered(b.program(b("ren.semantic.roll", b["x"], shift=S - 1)))
    needed = jit.analyze_evaluation_key_requirements(program, engine=engine)
    assert len(needed.rotation_steps) == 1
    result = program.run(X, workspace=workspace_for(program, engine))
    np.testing.assert_allclose(decoded(engine, result), np.roll(X, -1), rtol=0, atol=1e-7)


def test_batches_keep_their_axes(engine: Any) -> None:
    batch = np.stack([X, 2 * X, -X])
    b = ProgramBuilder(x=encrypted(batch_mode="any"), w=message())
    out = b("ren.semantic.roll", b("ren.semantic.square", b["x"]), shift=1, dimension=-1)
    program = lowered(b.program(b("ren.semantic.add", out, b["w"])))
    results = program.run(batch, X, workspace=workspace_for(program, engine))
    assert results.shape == (3,)
    for item, row in zip(results.items, batch, strict=True):
        np.testing.assert_allclose(decoded(engine, item), np.roll(row * row, 1) + X, rtol=0, atol=1e-7)


def test_every_problem_is_in_one_report(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted(level=9))
    deep = b["x"]
    for line in range(7):
        deep = b("ren.semantic.square", deep, loc=jit.location("model.py", line + 1))
    called = b(
        "torch.call",
        b["x"],
        types=[types.encrypted()],
        loc=HERE,
        **{"ren.call.kind": "function", "ren.call.target": "torch.sin"},
    )
    program = lowered(b.program(deep, b["y"], called))
    report = program.readiness({})
    assert {"missing-engine", "missing-evaluation-keys", "missing-torch-handler"} <= report.codes
    bound = program.readiness(workspace_for(program, engine))
    assert {"level-exhausted", "missing-torch-handler"} <= bound.codes
    assert len([d for d in bound.errors if d.code == "level-exhausted"]) == 2
    with pytest.raises(ProgramNotReadyError):
        program.run(X, X, workspace=workspace_for(program, engine))


def test_a_meeting_that_takes_a_level_too_many_is_refused_before_anything_runs(engine: Any) -> None:
    """Levels behind a caller's plaintext are known when the program is called, and checked then."""
    b = ProgramBuilder(x=encrypted(bound=1.0), g=jit.plaintext())
    gained = b("ren.semantic.multiply", b["x"], b["g"])
    deep = b("ren.semantic.multiply", b["x"], b("ren.semantic.square", gained))
    for _ in range(2):
        deep = b("ren.semantic.square", deep)
    program = lowered(b.program(b("ren.semantic.multiply", deep, gained, loc=HERE)))
    space = workspace_for(program, engine)
    assert program.readiness(space).runnable
    gain = engine.plaintext(0.5, level=0)
    np.testing.assert_allclose(
        decoded(engine, program.run(X, gain, workspace=space)), (X * (X / 2) ** 2) ** 4 * X / 2, rtol=0, atol=1e-6
    )
    with pytest.raises(ProgramNotReadyError) as caught:
        program.run(X, engine.plaintext(0.5, level=3), workspace=space)
    assert caught.value.report.codes == {"level-exhausted"}

"""Bounds of public inputs: predicted errors follow from them, and a call that breaks one is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.errors import InputSpecError, ProgramInputError, ProgramNotReadyError
from ren.program import Program, Workspace, encrypted, message, plaintext, static, types
from ren.program.interpret import interpret
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for

S = 64
X = np.cos(np.arange(S))
W = np.linspace(-1, 1, S)


def lowered(make: Any, **inputs: Any) -> Program:
    b = ProgramBuilder(**inputs)
    return jit.default_pipeline().run(b.program(make(b)), Workspace()).program


def times_w(b: Any) -> Any:
    return b("ren.semantic.multiply", b("ren.semantic.square", b["x"]), b["w"])


def error_of(program: Program, engine: Any, space: Any, *arguments: Any) -> tuple[Any, float]:
    """(prediction, largest decrypted error of x^2 w)."""
    cost = program.cost(engine, workspace=space)
    result = program.run(X, *arguments, workspace=space)
    w = arguments[0] if arguments else space["materials"]["w"]
    found = decoded(engine, result)
    row = cost.row(program.entry_block().last_op.operands[0].owner)  # type: ignore[union-attr, arg-type]
    assert row is not None
    return row.error, float(np.abs(found - X * X * w).max())


@pytest.mark.parametrize("size", [1.0, 300.0])
def test_predicted_errors_follow_the_declared_bound(engine: Any, size: float) -> None:
    program = lowered(times_w, x=encrypted(bound=1.0), w=message(bound=size))
    space = workspace_for(program, engine)
    predicted, worst = error_of(program, engine, space, W * size)
    assert worst <= predicted.maximum
    small = lowered(times_w, x=encrypted(bound=1.0), w=message(bound=1.0)).cost(engine).rows[-1].error
    assert small is not None
    if size > 1:
        assert worst > small.maximum, "a prediction for values up to 1 would be broken"
    assert program.cost(engine, workspace=space).presumed == ()


def test_what_nobody_declares_is_named(engine: Any) -> None:
    program = lowered(times_w, x=encrypted(), w=message())
    cost = program.cost(engine)
    assert cost.presumed == ("input x", "input w")
    assert "errors: values up to 1 were taken for input x, input w" in str(cost)


def test_materials_are_measured_through_public_work(engine: Any) -> None:
    def make(b: Any) -> Any:
        w = b("ren.material.ref", types=[types.message((S,), "float64")], symbol="w", kind="tensor")
        return b("ren.semantic.multiply", b["x"], b("ren.public.reciprocal", w))

    program = lowered(make, x=encrypted(bound=1.0))
    held = np.linspace(0.001, 1, S)
    space = workspace_for(program, engine, materials={"w": held})
    cost = program.cost(engine, workspace=space)
    assert cost.presumed == ()
    worst = np.abs(decoded(engine, program.run(X, workspace=space)) - X / held).max()
    assert worst <= cost.rows[-1].error.maximum
    unknown = program.cost(engine)
    assert unknown.presumed == ("material w", "ren.public.reciprocal")
    assert worst > unknown.rows[-1].error.maximum


def test_plaintexts_of_any_size(engine: Any) -> None:
    program = lowered(
        lambda b: b("ren.semantic.multiply", b["x"], b["g"]), x=encrypted(bound=1.0), g=plaintext(bound=50.0)
    )
    space = workspace_for(program, engine)
    gain = engine.plaintext(50 * W, level=0)
    found = decoded(engine, program.run(X, gain, workspace=space))
    worst = np.abs(found - 50 * X * W).max()
    assert worst <= program.cost(engine).rows[-1].error.maximum
    # A message encoded without a bound carries the capacity of its level: what it holds counts.
    program.run(X, engine.encode(50 * W, msg_bound=None), workspace=space)


@pytest.mark.parametrize("run", [interpret, Program.run])
def test_a_call_that_breaks_its_bound_is_refused(engine: Any, run: Any) -> None:
    program = lowered(
        lambda b: b("ren.semantic.multiply", times_w(b), b["g"]),
        x=encrypted(bound=1.0),
        w=message(bound=2.0),
        g=plaintext(bound=0.5),
    )
    space = workspace_for(program, engine)
    gain = engine.plaintext(0.5, level=0)
    expected = X * X * W
    for _ in range(2):  # the second one is a replay
        np.testing.assert_allclose(decoded(engine, run(program, X, 2 * W, gain, workspace=space)), expected, atol=1e-6)
        with pytest.raises(ProgramInputError, match=r"input w reaches 2\.5, its declared bound is 2") as caught:
            run(program, X, 2.5 * W, gain, workspace=space)
        assert caught.value.subject == "w"
        with pytest.raises(ProgramInputError, match=r"input g reaches 0\.75"):
            run(program, X, W, engine.plaintext(0.75, level=0), workspace=space)
        with pytest.raises(ProgramInputError, match=r"input w reaches (inf|nan)"):
            run(program, X, np.full(S, np.nan), gain, workspace=space)
    with pytest.raises(ProgramInputError, match="takes numbers, got dict"):
        run(program, X, {}, gain, workspace=space)


def test_readiness_compares_materials_with_their_declared_bound(engine: Any) -> None:
    def make(b: Any) -> Any:
        declared = types.message((S,), "float64", bound=1.5)
        w = b("ren.material.ref", types=[declared], symbol="w", kind="tensor")
        return b("ren.semantic.multiply", b["x"], w)

    program = lowered(make, x=encrypted(bound=1.0))
    assert program.cost(engine).presumed == ()
    assert program.readiness(workspace_for(program, engine, materials={"w": W})).runnable
    space = workspace_for(program, engine, materials={"w": 2 * W})
    with pytest.raises(ProgramNotReadyError, match=r"material 'w' is declared with bound 1\.5, .* values up to 2"):
        program.run(X, workspace=space)


def test_debugging_takes_public_data_of_any_size(engine: Any) -> None:
    program = lowered(times_w, x=encrypted(bound=1.0), w=message())
    report = program.debug(X, 2000 * W, workspace=workspace_for(program, engine), reference=lambda x, w: x * x * w)
    assert report.ok, str(report)


def test_bounds_are_in_the_text_and_results_take_them_over(engine: Any) -> None:
    program = lowered(
        lambda b: b("ren.semantic.subtract", b["x"], b["w"]), x=encrypted(bound=1.0), w=message(bound=3.0)
    )
    again = Program.parse(program.to_text())
    assert again.to_text() == program.to_text()
    flow = again.readiness(workspace_for(again, engine)).flow
    returned = again.entry_block().last_op.operands[0]  # type: ignore[union-attr]
    assert flow.types[returned].data.bound == 4.0


def test_a_static_value_has_no_bound() -> None:
    with pytest.raises(InputSpecError, match="a static input has no bound"):
        jit.InputSpec("static", bound=1.0, static_value=1)
    assert static(3).bound is None

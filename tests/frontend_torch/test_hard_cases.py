"""Programs that a comparable system reported as runnable and then failed on, computed wrong, or could not trace: right here, or refused with file and line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from ren import jit
from ren.errors import DecryptionError, ProgramInputError, ProgramNotReadyError, ProgramRunError, UncheckedResultWarning
from test_run import assert_close, lowered, revealed, run

HERE = Path(__file__).name
SLOTS = 64
FULL = torch.linspace(-1, 1, SLOTS, dtype=torch.float64)


def refused(engine: Any, function: Any, **roles: Any) -> Any:
    """The errors of readiness after the default pipeline; each names a line of this file or an input."""
    captured = jit.trace(function, inputs=roles)
    program, workspace = lowered(captured, engine)
    report = program.readiness(workspace)
    assert not report.runnable
    with pytest.raises(ProgramNotReadyError) as caught:
        program.run(*([FULL] * len(roles)), workspace=workspace)
    assert len(caught.value.report.errors) == len(report.errors)
    assert all(d.file is None or Path(d.file).name == HERE for d in report.errors)
    return report.errors


def chebyshev(x: Any, times: int) -> Any:
    for _ in range(times):
        x = 2 * x * x - 1
    return x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x + x,
        lambda x: 2 * x + x,
        lambda x: 2 * x * x - 1,
        lambda x: (x * x) * 0.5 + (x * 0.25) * x,
        lambda x: x * x + 2 * x,
        lambda x: chebyshev(x, 6),
        lambda x: x**2 + x**3 * x - x * 0.5 + 1,
        lambda x: torch.roll(x, SLOTS - 1, -1),
        lambda x: torch.roll(x, -3 * SLOTS - 1),
        lambda x: (x - x.mean()) ** 2,
    ],
)
def test_mixed_depths_and_far_rolls(function: Any, engine: Any) -> None:
    captured = jit.trace(function, inputs={"x": jit.encrypted()})
    assert_close(run(engine, captured, FULL), function(FULL))


def test_a_roll_stays_inside_the_declared_slots(engine: Any) -> None:
    x = FULL[:32]
    for slots, value in ((32, x), (5, x[:5])):
        captured = jit.trace(lambda x: torch.roll(x, 3, -1) + x, inputs={"x": jit.encrypted(slots=slots)})
        assert_close(run(engine, captured, value), torch.roll(value, 3) + value)


def test_depth_exhaustion_is_said_before_anything_runs(engine: Any) -> None:
    found = refused(engine, lambda x: chebyshev(x, 7), x=jit.encrypted())
    assert {d.code for d in found} == {"level-exhausted"}
    found = refused(engine, lambda x: x + 1, x=jit.encrypted(level=9))
    assert "level-exhausted" in {d.code for d in found}


def test_results_are_arguments_of_other_programs(engine: Any) -> None:
    first = jit.trace(lambda x: x * x, inputs={"x": jit.encrypted()})
    program, workspace = lowered(first, engine)
    square = program.run(FULL, workspace=workspace)
    for scale in (None, square.scale):
        second = jit.trace(lambda x: x * x, inputs={"x": jit.encrypted(level=square.level, scale=scale)})
        program, workspace = lowered(second, engine)
        assert_close(revealed(engine, program.run(square, workspace=workspace)), FULL**4)
    with pytest.raises(ProgramInputError, match="level 0 is declared"):
        program, workspace = lowered(first, engine)
        program.run(square, workspace=workspace)


def test_short_public_data_is_never_padded_silently(engine: Any) -> None:
    captured = jit.trace(lambda x, w: x * w, inputs={"x": jit.encrypted(), "w": jit.message()})
    program, workspace = lowered(captured, engine)
    with pytest.raises(ProgramRunError, match=rf"{HERE}:\d+"):
        program.run(FULL, torch.ones(4, dtype=torch.float64), workspace=workspace)
    assert_close(revealed(engine, program.run(FULL, FULL, workspace=workspace)), FULL * FULL)


def test_static_none(engine: Any) -> None:
    captured = jit.trace(lambda x, y: x if y is None else x + y, inputs={"x": jit.encrypted(), "y": jit.static(None)})
    assert_close(run(engine, captured, FULL), FULL)


def test_all_problems_in_one_report(engine: Any) -> None:
    def many(x: Any, y: Any) -> Any:
        a = torch.sin(x)
        b = chebyshev(y, 8)
        return a + x, b, torch.sort(y)

    found = refused(engine, many, x=jit.encrypted(), y=jit.encrypted())
    codes = [d.code for d in found]
    assert codes.count("missing-torch-handler") == 2
    assert "level-exhausted" in codes


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: (x.mean() + w).sum(),
        lambda x, w: (w - x.sum()).mean() + (x.mean() * w).sum(),
        lambda x, w: ((x - x.mean()) * 0.3).sum() + ((x + 1) * 3).sum(),
        lambda x, w: (x[1] + w).sum() + (x * x[0]).mean(),
    ],
)
def test_padding_holds_what_arithmetic_left_there(function: Any, engine: Any) -> None:
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=3), "w": jit.message(shape=(3,))})
    x, w = FULL[5:8] + 2, FULL[20:23] - 1
    assert_close(run(engine, captured, x, w), function(x, w))


def test_padding_under_the_plaintext_of_a_caller(engine: Any) -> None:
    """An encoded constant fills every slot, padding too: what its owner left there is not ours to assume."""
    captured = jit.trace(lambda x, p: ((x + 1) * p).sum(), inputs={"x": jit.encrypted(slots=3), "p": jit.plaintext()})
    program, workspace = lowered(captured, engine)
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    result = program.run(x, engine.plaintext(0.5, level=0), workspace=workspace)
    assert_close(captured.decode(revealed(engine, result)), torch.tensor(4.5))


def test_one_element_keeps_its_axes(engine: Any) -> None:
    function = lambda x, w: torch.nn.functional.linear(x.mean() * w, torch.tensor([[0.0], [2.0]], dtype=torch.float64))  # noqa: E731
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=4), "w": jit.message(shape=(1,))})
    x, w = FULL[:4], FULL[9:10]
    assert_close(run(engine, captured, x, w), function(x, w))


def test_public_data_makes_no_batch_of_a_vector(engine: Any) -> None:
    """torch.sum would run over the new axis, a sum inside the ciphertext would not (with a declared shape it does: `test_broadcasts`)."""
    function = lambda x, w: (x * w).sum()  # noqa: E731
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=4), "w": jit.message()})
    program, workspace = lowered(captured, engine)
    with pytest.raises(ProgramRunError, match=rf"{HERE}:\d+.*without batch axes"):
        program.run(FULL[:4], FULL[:8].reshape(2, 4), workspace=workspace)


@pytest.mark.parametrize(
    ("function", "role", "code", "runnable"),
    [
        (lambda x: x * 1e7, jit.encrypted(level=5, bound=1.0), "unchecked-result", True),
        (lambda x: x + 1e7, jit.encrypted(level=6), "over-capacity", False),
        (lambda x: x * 1e15, jit.encrypted(level=5), "over-capacity", False),
    ],
)
def test_numbers_that_no_level_left_holds_are_found_before_the_run(
    function: Any, role: Any, code: str, runnable: bool, engine: Any
) -> None:
    program, workspace = lowered(jit.trace(function, inputs={"x": role}), engine)
    report = program.readiness(workspace)
    assert report.runnable is runnable
    assert {d.code for d in report.diagnostics} >= {code}
    assert all(d.line is not None for d in report.diagnostics)


def growing(x: Any) -> Any:
    v0 = x**3
    v2 = (v0 * x).sum(-1, keepdim=True)
    v4 = (v2 * v2).sum(-1, keepdim=True)
    return v4**3


@pytest.mark.parametrize("role", [jit.encrypted(), jit.encrypted(bound=1.0)])
def test_powers_of_sums_that_overflow_are_told_where_it_happens(role: Any, engine: Any) -> None:
    """With 64 slots of size 1 the result is 64^9: at the last level nothing shows that it wrapped around, so readiness and decryption both say so."""
    captured = jit.trace(growing, inputs={"x": role})
    program, workspace = lowered(captured, engine)
    report = program.readiness(workspace)
    found = [d for d in report.diagnostics if d.code == "unchecked-result"]
    assert found
    assert all(Path(str(d.file)).name == HERE and d.line is not None for d in found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = program.run(FULL, workspace=workspace)
    with pytest.raises((DecryptionError, UncheckedResultWarning)), warnings.catch_warnings():
        warnings.simplefilter("error", UncheckedResultWarning)
        engine.decrypt(result)


@pytest.mark.parametrize("keepdim", [False, True])
def test_a_result_whose_shape_a_message_decides_says_so_while_tracing(keepdim: bool, engine: Any) -> None:
    function = lambda x, w: x.sum(-1, keepdim=keepdim) * w  # noqa: E731
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=4), "w": jit.message()})
    (found,) = captured.diagnostics
    assert (found.code, Path(str(found.file)).name) == ("unknown-result-shape", HERE)
    assert "message(shape=...)" in found.message
    program, workspace = lowered(captured, engine)
    result = program.run(FULL[:4], 3.0, workspace=workspace)
    assert_close(revealed(engine, result)[:1], function(FULL[:4], 3.0).reshape(1))
    with pytest.raises(ProgramInputError, match=r"shape of this result is unknown.*message\(shape"):
        captured.decode(revealed(engine, result))
    for shape, w in (((), torch.tensor(3.0)), ((4,), FULL[4:8]), ((3,), FULL[4:7])):
        captured = jit.trace(function, inputs={"x": jit.encrypted(slots=4), "w": jit.message(shape=shape)})
        assert captured.diagnostics == ()
        assert_close(run(engine, captured, FULL[:4], w), function(FULL[:4], w))


LARGE = torch.full((4,), 1e200, dtype=torch.float64)


@pytest.mark.parametrize(
    ("function", "role"),
    [
        (lambda x: x * 1e300, jit.encrypted(slots=4)),
        (lambda x: x + 1e300, jit.encrypted(slots=4)),
        (lambda x: x @ LARGE, jit.encrypted(slots=4)),
        (lambda x: x * complex(1e200, 1e200), jit.encrypted(slots=4)),
        (lambda x: x * 10**400, jit.encrypted(slots=4)),
        (lambda x: x**200, jit.encrypted(slots=4, bound=100)),
        (lambda x: (x * x) ** 4, jit.encrypted(slots=4, bound=1e200)),
    ],
)
def test_numbers_beyond_all_capacity_are_refused_or_reported(function: Any, role: Any, engine: Any) -> None:
    """Squares of such numbers are beyond a double: nothing on the way may fail for that."""
    captured = jit.trace(function, inputs={"x": role})
    program, workspace = lowered(captured, engine)
    assert jit.parse(program.to_text()).to_text() == program.to_text()
    report = program.readiness(workspace)
    found = {d.code for d in report.diagnostics}
    assert found & {"over-capacity", "possible-overflow", "level-exhausted", "missing-torch-handler"}
    if "missing-torch-handler" in found:
        assert "1329 bits" in report.errors[0].message


def test_names_that_only_keyword_arguments_take(engine: Any) -> None:
    def function(**x: Any) -> Any:
        return {name: 2 * value for name, value in x.items()}

    for names in (("x",), ("x", "y"), ("z",)):
        captured = jit.trace(function, inputs={name: jit.encrypted(slots=4) for name in names})
        given = {name: FULL[i : i + 4] for i, name in enumerate(names)}
        assert_close(run(engine, captured, **given), function(**given))

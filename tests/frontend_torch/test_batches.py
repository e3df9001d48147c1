"""Batches: a program computes on each row alone, PyTorch aligns axes from the last one. What both would not do alike is refused where it is written."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from ren import jit
from ren.errors import ProgramRunError, TraceCheckError
from test_run import assert_close, lowered, revealed

HERE = Path(__file__).name
W = torch.linspace(0.5, 1.5, 8, dtype=torch.float64)
Y = torch.linspace(-1, 0.5, 8, dtype=torch.float64)
ONE = torch.full((1,), 1.5, dtype=torch.float64)
#: As many rows as a row has elements, where PyTorch mistakes one axis for the other without a word; fewer; one; none.
BATCHES: list[tuple[int, ...]] = [(8,), (3,), (1,), (), (2, 3)]
INPUTS = {"x": jit.encrypted(slots=8, batch_mode="any"), "y": jit.encrypted(slots=8)}

PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "row": lambda x, y: x,
    "sum": lambda x, y: x.sum(-1),
    "mean kept": lambda x, y: x.mean(-1, keepdim=True),
    "element": lambda x, y: x[..., 2],
    "element kept": lambda x, y: x[..., 2:3],
    "product": lambda x, y: x @ W,
    "unbound": lambda x, y: x.unbind(-1)[5],
    "selected": lambda x, y: x.select(-1, 1),
    "other": lambda x, y: y,
    "sum of other": lambda x, y: y.sum(),
    "public": lambda x, y: W,
    "public of one": lambda x, y: ONE,
    "number": lambda x, y: 0.25,
}
#: The parts that are of x.
OF_ROWS = ("row", "sum", "mean kept", "element", "element kept")
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "multiply": lambda a, b: a * b,
    "reversed": lambda a, b: torch.rsub(a, b) if isinstance(b, torch.Tensor) else b - a,
    "add product": lambda a, b: torch.addcmul(a, a, b) if isinstance(b, torch.Tensor) else a + a * b,
}


def samples(shape: tuple[int, ...]) -> torch.Tensor:
    count = 8 * int(torch.tensor(shape).prod()) if shape else 8
    return torch.cos(torch.arange(count, dtype=torch.float64) * 0.7).reshape(*shape, 8)


def by_rows(function: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """What the program computes: the function on every row."""
    rows = [function(row, Y) for row in x.reshape(-1, 8)]
    return torch.stack(rows).reshape((*x.shape[:-1], *rows[0].shape))


def agree(function: Callable[..., Any]) -> bool:
    """Whether PyTorch computes on every batch what it computes on each row."""
    for shape in BATCHES:
        x = samples(shape)
        try:
            found, expected = function(x, Y), by_rows(function, x)
        except RuntimeError:
            return False
        if found.shape != expected.shape or not torch.allclose(found, expected):
            return False
    return True


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("first", OF_ROWS)
def test_rows_and_batches_agree_or_are_refused(first: str, operation: str, engine: Any) -> None:
    """Every pair of operands: accepted exactly when PyTorch means the same for all batches, and then right under encryption."""
    for second in PARTS:

        def function(x: Any, y: Any, second: str = second) -> Any:
            return OPERATIONS[operation](PARTS[first](x, y), PARTS[second](x, y))

        captured = jit.trace(function, inputs=INPUTS)
        right = agree(function)
        assert right == (captured.diagnostics == ()), (first, second, captured.diagnostics)
        program, workspace = lowered(captured, engine)
        report = program.readiness(workspace)
        assert report.runnable == right, (first, second)
        if not right:
            assert all(d.file is not None and Path(d.file).name == HERE and d.line for d in report.errors)
            continue
        x = samples(BATCHES[0])
        found = captured.decode(revealed(engine, program.run(x, Y, workspace=workspace)))
        assert_close(found, function(x, Y))


REFUSED: list[Callable[[Any], Any]] = [
    lambda x: x - x.mean(-1),
    lambda x: x * x.sum(-1),
    lambda x: x * x[..., 0],
    lambda x: x * (x @ W),
    lambda x: x.unbind(-1)[0] + x,
    lambda x: torch.addcmul(x.sum(-1), x, x),
    lambda x: x.sum(-1) * W,
    lambda x: x.sum(-1) / W,
    lambda x: x.sum(-1) + ONE,
    lambda x: torch.inner(x, W) + W,
    lambda x: x.sum(-1).sum(-1),
    lambda x: x.sum(-1).mean(-1),
    lambda x: x[..., 0].sum(-1, keepdim=True),
    lambda x: torch.dot(x, W),
    lambda x: x[..., 0] * W,
    lambda x: x.sum(-1, keepdim=True) * torch.stack([W, W, W]),
]


@pytest.mark.parametrize("slots", [8, "full"])
@pytest.mark.parametrize("function", REFUSED)
def test_what_rows_would_do_otherwise_is_refused_at_its_line(function: Any, slots: Any, engine: Any) -> None:
    if slots == "full" and "W" in inspect.getsource(function):
        pytest.skip("the public vector has eight elements")
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=slots, batch_mode="any")})
    assert {d.code for d in captured.diagnostics} == {"missing-torch-handler"}
    assert {d.line for d in captured.diagnostics} == {inspect.getsourcelines(function)[1]}
    program, workspace = lowered(captured, engine)
    assert not program.readiness(workspace).runnable
    # The same function of a vector is no question.
    with_vector = jit.trace(function, inputs={"x": jit.encrypted(slots=8)}).diagnostics
    assert with_vector == () or "sum(-1)" in inspect.getsource(function)


def test_the_refusal_names_the_way_out() -> None:
    (found,) = jit.trace(REFUSED[0], inputs={"x": jit.encrypted(slots=8, batch_mode="any")}).diagnostics
    assert "keepdim=True" in found.message


@pytest.mark.parametrize("kept", [True, False])
def test_a_message_of_unknown_shape_does_not_meet_a_batch_of_numbers(kept: bool, engine: Any) -> None:
    role = jit.encrypted(slots=8, batch_mode="any")
    function = lambda x, w: x.sum(-1, keepdim=kept) * w  # noqa: E731
    (found,) = jit.trace(function, inputs={"x": role, "w": jit.message()}).diagnostics
    assert "message(shape=())" in found.message
    captured = jit.trace(function, inputs={"x": role, "w": jit.message(shape=())})
    program, workspace = lowered(captured, engine)
    result = program.run(samples((8,)), 0.5, workspace=workspace)
    assert_close(captured.decode(revealed(engine, result)), function(samples((8,)), 0.5))


def test_public_batches_meet_rows(engine: Any) -> None:
    """Leading axes of public data are batch axes, one of them too; batches that do not meet are refused as PyTorch refuses them."""
    table = torch.stack([W, -W, 2 * W])
    for public in (table, table[:1, :1], ONE.reshape(1, 1)):
        captured = jit.trace(lambda x, public=public: x * public, inputs={"x": INPUTS["x"]})
        assert captured.diagnostics == ()
        program, workspace = lowered(captured, engine)
        for shape in BATCHES:
            try:
                expected = samples(shape) * public
            except RuntimeError:
                with pytest.raises(ProgramRunError, match="batch axes do not meet"):
                    program.run(samples(shape), workspace=workspace)
                continue
            found = captured.decode(revealed(engine, program.run(samples(shape), workspace=workspace)))
            assert_close(found, expected)
            assert found.shape == expected.shape


def test_axes_of_one_element_are_kept(engine: Any) -> None:
    """Without batches too: an element that is spread keeps its axis, and a number of more axes gives them to what it meets."""
    cases: list[tuple[Any, dict[str, Any], tuple[int, ...]]] = [
        (lambda x, y: x[0:1] + y[1], {"x": jit.encrypted(slots=8), "y": jit.encrypted(slots=8)}, (8,)),
        (
            lambda x, y: x.sum((0, 1), keepdim=True) * y,
            {"x": jit.encrypted(slots=(1, 8)), "y": jit.encrypted(slots=8)},
            (1, 8),
        ),
    ]
    for function, inputs, shape in cases:
        captured = jit.trace(function, inputs=inputs)
        program, workspace = lowered(captured, engine)
        found = captured.decode(revealed(engine, program.run(W.reshape(shape), Y, workspace=workspace)))
        assert_close(found, function(W.reshape(shape), Y))
        assert found.shape == function(W.reshape(shape), Y).shape


@pytest.mark.parametrize("rows", [(8,), (2,)])
def test_the_check_tries_batches(rows: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the refusals taken away, and one batch shape at a time, the check finds what they would have refused."""
    from ren_frontend_torch import check
    from ren_frontend_torch import rows as alignment

    inputs = {"x": jit.encrypted(slots=8, batch_mode="any")}
    for function in (lambda x: x - x.mean(-1, keepdim=True), lambda x: torch.roll(x, 1, -1) * W + 1):
        assert jit.trace(function, inputs=inputs, check=True).diagnostics == ()
    assert rows in check._batches(jit.trace(REFUSED[0], inputs=inputs), 8)
    monkeypatch.setattr(alignment, "check_aligned", lambda e, a, b: None)
    monkeypatch.setattr(check, "_batches", lambda captured, slots: [rows])
    for function, reason in itertools.product(REFUSED[:2], [r"differs from|has shape|failed on a batch"]):
        with pytest.raises(TraceCheckError, match=reason):
            jit.trace(function, inputs=inputs, check=True)


def test_the_check_leaves_batches_that_neither_takes() -> None:
    table = torch.stack([W, -W, 2 * W])
    assert jit.trace(lambda x: x * table, inputs={"x": jit.encrypted(slots=8, batch_mode="any")}, check=True)

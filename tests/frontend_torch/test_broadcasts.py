"""Axes of several lengths: what PyTorch broadcasts or multiplies is decrypted and compared; what it refuses is refused at the line."""

from __future__ import annotations

import inspect
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from ren import jit
from ren.errors import InPlaceError, InputSpecTypeError
from test_run import assert_close, run

WIDE = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
SQUARE = torch.linspace(-0.5, 1, 16, dtype=torch.float64).reshape(4, 4)
ROW = torch.tensor([0.5, -1.0, 0.25, 2.0], dtype=torch.float64)


def same(engine: Any, function: Any, *args: Any, **roles: Any) -> None:
    """Decrypted, of the shape and values that PyTorch gives."""
    assert_close(run(engine, jit.trace(function, inputs=roles), *args), function(*args))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.sum(-1, keepdim=True),
        lambda x: x - x.mean(0, keepdim=True),
        lambda x: x - x.mean((0, 1), keepdim=True),
        lambda x: x * x[0],
        lambda x: x[1:2] + x,
        lambda x: x.sum(-1) * torch.ones(2, 3, dtype=torch.float64),
        lambda x: x.reshape(-1)[0] * SQUARE,
        lambda x: x.sum(0) + SQUARE,
    ],
)
def test_values_of_fewer_axes_are_copied(function: Any, engine: Any) -> None:
    same(engine, function, WIDE, x=jit.encrypted(slots=(3, 4)))


def test_a_column_meets_a_row(engine: Any) -> None:
    roles = {"x": jit.encrypted(slots=(3, 1)), "y": jit.encrypted(slots=(1, 4))}
    same(engine, lambda x, y: x * y, WIDE[:, :1], WIDE[:1], **roles)


def test_public_data_of_more_axes_makes_a_matrix_of_a_vector(engine: Any) -> None:
    """The sum is over both axes then, as PyTorch's is."""
    same(engine, lambda x, w: (x * w).sum(), ROW, WIDE, x=jit.encrypted(slots=4), w=jit.message(shape=(3, 4)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ SQUARE,
        lambda x: x.mm(SQUARE[:, :2]),
        lambda x: x @ ROW,
        lambda x: torch.mv(x, ROW),
        lambda x: WIDE.T @ x,
        lambda x: torch.mm(WIDE[:2].T[:, :1], x[:1]),
        lambda x: torch.linspace(0, 1, 3, dtype=torch.float64) @ x,
        lambda x: torch.nn.functional.linear(x, SQUARE[:3], ROW[:3]),
        lambda x: torch.inner(x, ROW),
        lambda x: x.T @ WIDE,
    ],
)
def test_matrices_meet_matrices(function: Any, engine: Any) -> None:
    same(engine, function, WIDE, x=jit.encrypted(slots=(3, 4)))


def test_batches_of_matrices(engine: Any) -> None:
    batch = torch.stack([WIDE, -WIDE, WIDE * 0.5])
    for function in (lambda x: x - x.mean(-1, keepdim=True), lambda x: x @ SQUARE):
        same(engine, function, batch, x=jit.encrypted(slots=(3, 4), batch_mode="any"))


# -- in place --------------------------------------------------------------------------------------------------------


def _grows(x: Any) -> Any:
    m = x.mean(-1, keepdim=True)
    m.mul_(ROW)
    return m


def _grows_by_operator(x: Any) -> Any:
    m = x.mean(-1, keepdim=True)
    m *= x
    return m


def _grows_axes(x: Any) -> Any:
    m = x * 1
    m += SQUARE
    return m


def _grows_by_out(x: Any) -> Any:
    m = x * 1
    torch.mul(x, SQUARE, out=m)
    return m


def _turns_complex(x: Any) -> Any:
    m = x * 1
    m += 1j
    return m


@pytest.mark.parametrize("batch", ["none", "any"])
@pytest.mark.parametrize("function", [_grows, _grows_by_operator, _grows_axes, _grows_by_out, _turns_complex])
def test_what_does_not_fit_in_place_is_refused_at_its_line(function: Any, batch: Any) -> None:
    if function is not _grows_by_out:  # PyTorch resizes an `out` that does not fit, with a warning
        with pytest.raises(RuntimeError):
            function(ROW.clone())
    with pytest.raises(InPlaceError, match="PyTorch refuses it too") as caught:
        jit.trace(function, inputs={"x": jit.encrypted(slots=4, batch_mode=batch)})
    assert caught.value.line == inspect.getsourcelines(function)[1] + 2


def test_what_fits_in_place_is_traced(engine: Any) -> None:
    def function(x: Any) -> Any:
        m = x.mean(-1, keepdim=True)
        m.mul_(ROW[:1]).add_(1)
        x = x * 1
        x.sub_(m).mul_(ROW)
        x.t_()
        return x, m

    found = run(engine, jit.trace(function, inputs={"x": jit.encrypted(slots=4)}), ROW)
    for a, b in zip(found, function(ROW), strict=True):
        assert_close(a, b)


# -- containers of roles ---------------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "values weights")


def test_a_named_tuple_arrives_as_one(engine: Any) -> None:
    captured = jit.trace(lambda p: p.values * p.weights, inputs={"p": Pair(jit.encrypted(slots=4), jit.message())})
    assert_close(run(engine, captured, Pair(ROW, ROW)), ROW * ROW)


@dataclass
class Both:
    values: Any
    weights: Any


@pytest.mark.parametrize("container", [Both, OrderedDict])
def test_containers_that_would_change_their_type_are_refused(container: Any) -> None:
    roles = container(values=jit.encrypted(slots=4), weights=jit.message())
    with pytest.raises(InputSpecTypeError, match=rf"p is an? {container.__name__}: what the function gets"):
        jit.trace(lambda p: p, inputs={"p": roles})


# -- what kind of object a value is ----------------------------------------------------------------------------------


def test_values_are_tensors_where_they_can_say_so(engine: Any) -> None:
    def function(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.__class__ is torch.Tensor and x.contiguous() is x and +x is x:
            return x * 2
        return x * 3

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=4)})
    assert captured.diagnostics == ()
    assert_close(run(engine, captured, ROW), function(ROW))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if type(x) is torch.Tensor else x * 3,
        lambda x: x * 2 if type(x) == torch.Tensor else x * 3,  # noqa: E721
        lambda x: x * 2 if type(x) in (torch.Tensor, torch.nn.Parameter) else x * 3,
    ],
)
def test_a_comparison_of_types_is_reported_at_its_line(function: Any) -> None:
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=4)})
    (found,) = captured.diagnostics
    assert (found.code, found.line) == ("frozen-type", inspect.getsourcelines(function)[1])
    assert "isinstance(x, torch.Tensor)" in found.message


class Typed:
    def __call__(self, x: Any) -> Any:
        return x * 2 if type(self) is Typed and type(x).__name__ else x


def test_other_uses_of_type_are_not(engine: Any) -> None:
    captured = jit.trace(Typed(), inputs={"x": jit.encrypted(slots=4)})
    assert captured.diagnostics == ()
    assert_close(run(engine, captured, ROW), ROW * 2)

"""Shapes of public data against encrypted values: what PyTorch broadcasts is computed right or refused before the run, at its line."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from ren import jit
from ren.errors import ProgramRunError, TraceError
from test_run import assert_close, lowered, revealed, run

HERE = Path(__file__).name
SHAPES = [(), (1,), (4,), (1, 1), (1, 4), (3, 4), (3, 1), (1, 3, 4), (2, 3, 4), (3,), (5,), (2, 4)]
FULL = torch.linspace(-1, 1, 64, dtype=torch.float64)
DATA = torch.linspace(-1, 1, 24, dtype=torch.float64)


def public(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.linspace(0.25, 1.5, math.prod(shape), dtype=torch.float64).reshape(shape)


def outcome(engine: Any, captured: Any, *args: Any) -> Any:
    """The decoded result, or None for a program that diagnostics refuse at a line of this file."""
    program, workspace = lowered(captured, engine)
    report = program.readiness(workspace)
    if report.runnable:
        return captured.decode(revealed(engine, program.run(*args, workspace=workspace)))
    assert all(Path(str(d.file)).name == HERE and d.line for d in report.errors), report
    return None


def function_of(name: str, other: Any) -> Any:
    functions = {
        "add": lambda x: x + other,
        "multiply": lambda x: x * other,
        "subtracted from": lambda x: other - x,
        "divide": lambda x: x / other,
        "add product": lambda x: torch.addcmul(x, x, other),
    }
    return functions[name]


@pytest.mark.parametrize("name", ["add", "multiply", "subtracted from", "divide", "add product"])
@pytest.mark.parametrize("declared", [(), (1,), (4,), (3, 4), (1, 4), (3, 1)], ids=str)
def test_captured_tensors_of_every_shape(name: str, declared: tuple[int, ...], engine: Any) -> None:
    for shape in SHAPES:
        x = DATA[: math.prod(declared)].reshape(declared)
        function = function_of(name, public(shape))
        try:
            expected = function(x)
        except RuntimeError:
            expected = None
        count = max(1, math.prod(declared))
        made = (lambda v: v[0]) if declared == () else (lambda v: v.reshape(declared))
        traced = lambda x, made=made, function=function: function(made(x))  # noqa: E731
        try:
            captured = jit.trace(traced, inputs={"x": jit.encrypted(slots=count)})
        except TraceError as error:
            assert Path(str(error.file)).name == HERE
            assert expected is None, (declared, shape)
            continue
        found = outcome(engine, captured, x.reshape(count))
        if expected is None:
            assert found is None, (declared, shape)
        elif found is not None:
            assert_close(found, expected)
        else:
            # Refused are only those that would make an encrypted value larger.
            assert expected.shape != x.shape, (declared, shape)


@pytest.mark.parametrize("shape", [(4,), (63,), (128,), (2, 64), (64,), (1,), (), (1, 1)], ids=str)
@pytest.mark.parametrize("product", [True, False], ids=["product", "sum"])
def test_full_slots(shape: tuple[int, ...], product: bool, engine: Any) -> None:
    """The slot count is the engine's: with it, readiness knows that four elements do not meet 64."""
    tensor = public(shape)
    function = (lambda x, w: x * w) if product else (lambda x, w: x + w)
    for captured, args in (
        (jit.trace(lambda x: function(x, tensor), inputs={"x": jit.encrypted()}), (FULL,)),
        (jit.trace(function, inputs={"x": jit.encrypted(), "w": jit.message(shape=shape)}), (FULL, tensor)),
    ):
        found = outcome(engine, captured, *args)
        if shape in ((64,), (1,), ()):
            assert_close(found, function(FULL, tensor))
        else:
            assert found is None


def test_the_diagnostic_of_full_slots(engine: Any) -> None:
    tensor = torch.ones(4)
    function = lambda x: x * tensor  # noqa: E731
    program, workspace = lowered(jit.trace(function, inputs={"x": jit.encrypted()}), engine)
    (found,) = program.readiness(workspace).errors
    assert (found.code, found.line) == ("invalid-layout", inspect.getsourcelines(function)[1])
    assert "shape (4,) does not meet an encrypted value of shape (64,)" in found.message
    assert "encrypted(slots=n)" in found.message


@pytest.mark.parametrize("shape", [(2, 8), (4, 1, 8), (2, 3, 1)], ids=str)
def test_batches_against_messages(shape: tuple[int, ...], engine: Any) -> None:
    captured = jit.trace(
        lambda x, w: x * w,
        inputs={"x": jit.encrypted(slots=8, batch_mode="any"), "w": jit.message(shape=shape)},
    )
    program, workspace = lowered(captured, engine)
    batch, w = DATA.reshape(3, 8), public(shape)
    if shape == (2, 8):
        with pytest.raises(ProgramRunError, match=rf"{HERE}:\d+.*batch axes do not meet: \(3,\) and \(2,\)"):
            program.run(batch, w, workspace=workspace)
        batch = batch[:1]
    found = captured.decode(revealed(engine, program.run(batch, w, workspace=workspace)))
    assert_close(found, batch * w)


KINDS = {
    "not contiguous": lambda: torch.arange(16.0, dtype=torch.float64)[::2],
    "expanded": lambda: torch.tensor([2.0], dtype=torch.float64).expand(8),
    "transposed": lambda: torch.arange(8.0).reshape(8, 1).T[0],
    "flipped": lambda: torch.arange(8.0).flip(0),
    "int64": lambda: torch.arange(8),
    "uint8": lambda: torch.arange(8, dtype=torch.uint8),
    "bool": lambda: torch.arange(8) % 2 == 0,
    "float16": lambda: torch.arange(8, dtype=torch.float16) / 4,
    "bfloat16": lambda: torch.arange(8, dtype=torch.bfloat16) / 4,
    "complex64": lambda: torch.arange(8) * (1 - 0.5j),
    "complex32": lambda: (torch.arange(8) * (1 - 0.5j)).to(torch.complex32),
    "conjugated": lambda: (torch.arange(8) * 1j).conj(),
    "negated imaginary part": lambda: (torch.arange(8) * 1j).conj().imag,
    "sparse": lambda: torch.eye(8)[3].to_sparse(),
    "with a gradient": lambda: torch.arange(8.0, requires_grad=True),
    "zero-d integer": lambda: torch.tensor(3),
    "zero-d bfloat16": lambda: torch.tensor(0.5, dtype=torch.bfloat16),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tensors(kind: str, engine: Any) -> None:
    tensor, x = KINDS[kind](), DATA[:8]
    captured = jit.trace(
        lambda x, w: (x * tensor, w + x),
        inputs={"x": jit.encrypted(slots=8), "w": jit.message(shape=tuple(tensor.shape))},
    )
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    wide = dense.to(torch.complex128 if dense.is_complex() else torch.float64)
    assert_close(run(engine, captured, x, tensor), (x * wide, wide + x))


RESULTS = {
    "element": lambda x: x[0],
    "last element": lambda x: x[-1],
    "ellipsis": lambda x: x[..., 0],
    "range": lambda x: x[:1],
    "select": lambda x: x.select(0, 0),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "unbind": lambda x: x.unbind(),
    "chunk": lambda x: x.chunk(1),
    "sum": lambda x: x.sum(),
    "sum of an axis": lambda x: x.sum(0),
    "sum kept": lambda x: x.sum(0, keepdim=True),
    "mean": lambda x: x.mean(-1),
    "sum of an element": lambda x: x[0].sum() + x[0].mean(),
    "dot": lambda x: x @ x,
    "product with a vector": lambda x: x @ torch.ones(len(x), dtype=torch.float64),
    "product with a matrix": lambda x: x @ torch.ones(len(x), 1, dtype=torch.float64),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "column": lambda x: x.view(-1, 1)[:, 0],
    "element of a column": lambda x: x.view(-1, 1)[0, 0],
    "row": lambda x: x.view(1, -1)[0],
    "rows": lambda x: x.view(1, -1)[0:1],
    "transposed": lambda x: x.view(1, -1).T,
    "flatten": lambda x: x.sum().flatten(),
    "element times vector": lambda x: x[0] * x,
    "element plus public": lambda x: x[0] + torch.ones(2, dtype=torch.float64),
    "steps": lambda x: x[::2],
    "mean of rows": lambda x: x.view(1, -1).mean(0),
    "mean of columns": lambda x: x.view(1, -1).mean(1),
    "sum of both": lambda x: x.view(1, -1).sum(keepdim=True, dim=(0, 1)),
    "linear": lambda x: torch.nn.functional.linear(x, torch.ones(1, len(x), dtype=torch.float64)),
    "square of an element": lambda x: x[0] ** 2,
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_results_have_the_shapes_of_torch(name: str, n: int, engine: Any) -> None:
    function, x = RESULTS[name], DATA[5 : 5 + n]
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=n)})
    assert captured.diagnostics == ()
    assert_close(run(engine, captured, x), function(x))

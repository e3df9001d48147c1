"""Operands of different shapes, in batches and in pairs, encrypted and public: as PyTorch broadcasts them (what it refuses: `test_broadcasts`)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from ren import jit
from test_run import lowered, revealed

W = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
ROWS = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)


def numbers(*shape: int) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) * 2 - 1


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.mean(-1, keepdim=True),
        lambda x: x - x.sum(-2, keepdim=True),
        lambda x: x * x[..., :1, :],
        lambda x: x.sum(-1, keepdim=True) * x.sum(-2, keepdim=True),
        lambda x: x @ W,
        lambda x: x @ W[:, 0],
        lambda x: F.linear(x, W.T, W[0]),
        lambda x: torch.inner(x, W.T),
        lambda x: W[:2].T @ x,
        lambda x: (x @ W) @ W.T + x,
    ],
)
def test_matrices_agree_with_pytorch(function: Any, batch: tuple[int, ...], engine: Any) -> None:
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=(2, 4), batch_mode="any" if batch else "none")})
    program, workspace = lowered(captured, engine)
    assert program.readiness(workspace).runnable
    x = numbers(*batch, 2, 4)
    expected = captured.reference(x).to(torch.complex128)
    found = captured.decode(revealed(engine, program.run(x, workspace=workspace)))
    assert found.shape == expected.shape
    torch.testing.assert_close(found.to(torch.complex128), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "left", "right"),
    [
        (lambda x, y: x * y, (4, 1), (1, 4)),
        (lambda x, y: x - y, (2, 3), (3,)),
        (lambda x, y: x + y, (3,), (2, 1)),
        (lambda x, y: x * y, (), (2, 3)),
        (lambda x, y: x * y + 1, (1, 1), (5,)),
    ],
)
@pytest.mark.parametrize("public", [False, True])
def test_two_operands_broadcast(function: Any, left: Any, right: Any, public: bool, engine: Any) -> None:
    if left == ():
        first, spec = numbers(1), jit.encrypted(slots=1)
        inner = function
        function = lambda x, y: inner(x[0], y)  # noqa: E731
    else:
        first, spec = numbers(*left), jit.encrypted(slots=left)
    role = jit.message(shape=right) if public else jit.encrypted(slots=right)
    captured = jit.trace(function, inputs={"x": spec, "y": role})
    program, workspace = lowered(captured, engine)
    assert program.readiness(workspace).runnable
    second = numbers(*right) / 2
    expected = captured.reference(first, second).to(torch.complex128)
    found = captured.decode(revealed(engine, program.run(first, second, workspace=workspace)))
    assert found.shape == expected.shape
    torch.testing.assert_close(found.to(torch.complex128), expected, rtol=1e-6, atol=1e-6)


def test_at_equals_makes_a_new_tensor(engine: Any) -> None:
    def function(x: Any) -> Any:
        m = x * 2
        old = m
        m @= torch.eye(8, dtype=torch.float64) * 3
        return m, old

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8)})
    program, workspace = lowered(captured, engine)
    x = numbers(8)
    found = captured.decode(tuple(revealed(engine, v) for v in program.run(x, workspace=workspace)))
    for a, b in zip(found, captured.reference(x), strict=True):
        torch.testing.assert_close(a.to(torch.complex128), b.to(torch.complex128), rtol=1e-6, atol=1e-6)


def test_readiness_repeats_why_a_call_was_kept(engine: Any) -> None:
    captured = jit.trace(lambda x: x / 0, inputs={"x": jit.encrypted(slots=8)})
    program, workspace = lowered(captured, engine)
    (found,) = program.readiness(workspace).errors
    assert "the divisor contains 0" in found.message

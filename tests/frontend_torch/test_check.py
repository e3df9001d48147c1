"""`jit.trace(..., check=True)` compares the lowered program with its function, in clear numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ren import jit
from ren.errors import TraceCheckError
from ren.program import PassResult
from ren_passes.lower_semantic_to_logical import LowerSemanticToLogicalPass

W = torch.cos(torch.arange(16, dtype=torch.float64))
M = torch.sin(torch.arange(12, dtype=torch.float64)).reshape(3, 4)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) ** 2


def rolled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return sum(torch.roll(x, i) * W for i in range(16)) * w + 0.5


RIGHT: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
    ("full slots", lambda x: (x * W + 1) * x - x.sum(), {"x": jit.encrypted(bound=1.0)}),
    ("vector", lambda x: {"mean": x.mean(), "rest": (x[1:3], x @ M.T[:, :2])}, {"x": jit.encrypted(slots=4)}),
    ("matrix", lambda x: torch.roll(x, 1, 0) - x.sum(), {"x": jit.encrypted(slots=(2, 4))}),
    ("module", Model().eval(), {"x": jit.encrypted(slots=4)}),
    ("message", rolled, {"x": jit.encrypted(), "w": jit.message()}),
    ("plaintext", lambda x, g: x * x * g, {"x": jit.encrypted(), "g": jit.plaintext()}),
    ("static", lambda x, n: sum(x**i for i in range(1, n)), {"x": jit.encrypted(slots=3), "n": jit.static(5)}),
    (
        "containers",
        lambda p, *, k: p["a"] * p["b"][0] - k,
        {"p": {"a": jit.encrypted(), "b": (jit.encrypted(),)}, "k": jit.encrypted()},
    ),
    ("public results", lambda x, w: (x + w, w * 2), {"x": jit.encrypted(slots=4), "w": jit.message()}),
]


@pytest.mark.parametrize(("function", "inputs"), [c[1:] for c in RIGHT], ids=[c[0] for c in RIGHT])
def test_right_captures_pass(function: Callable[..., Any], inputs: dict[str, Any]) -> None:
    assert jit.trace(function, inputs=inputs, check=True).program is not None


def counting() -> Callable[[torch.Tensor], torch.Tensor]:
    calls = itertools.count()
    return lambda x: x * float(next(calls))


def test_a_function_that_changes_from_call_to_call_is_refused() -> None:
    with pytest.raises(TraceCheckError, match="differs between two calls"):
        jit.trace(counting(), inputs={"x": jit.encrypted()}, check=True)


def test_what_cannot_run_is_refused_with_its_call() -> None:
    with pytest.raises(TraceCheckError, match=r"torch.call at .* has no clear meaning"):
        jit.trace(lambda x: torch.relu(x), inputs={"x": jit.encrypted()}, check=True)


def test_inputs_without_a_shape_that_the_function_needs() -> None:
    with pytest.raises(TraceCheckError, match="the function failed on sample inputs") as raised:
        jit.trace(lambda x, w: x * w[:, 3], inputs={"x": jit.encrypted(), "w": jit.message()}, check=True)
    assert "Declare shapes" in str(raised.value)


def test_a_pass_that_changes_the_meaning_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault in a lowering pass: every sum loses its second term."""
    right = LowerSemanticToLogicalPass.run

    def wrong(self: Any, program: Any, workspace: Any) -> PassResult:
        for op in list(program.walk()):
            if op.name == "ren.semantic.add":
                jit.Edit().replace_uses(op.results[0], op.operands[0])
        return right(self, program, workspace)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + x * 0.5

    assert jit.trace(function, inputs={"x": jit.encrypted()}, check=True)
    monkeypatch.setattr(LowerSemanticToLogicalPass, "run", wrong)
    with pytest.raises(TraceCheckError, match="result 0 differs from the function by") as raised:
        jit.trace(function, inputs={"x": jit.encrypted()}, check=True)
    assert raised.value.file == __file__
    assert raised.value.line == function.__code__.co_firstlineno

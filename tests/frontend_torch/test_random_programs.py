"""Random functions: what readiness calls runnable runs and decrypts to what PyTorch computes; text and passes keep the program."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ren import jit
from test_run import lowered, revealed

#: One step of a stack machine over encrypted values and one public vector: (operation, number).
STEPS = st.tuples(
    st.sampled_from(
        (
            "add",
            "sub",
            "mul",
            "dup",
            "swap",
            "square",
            "cube",
            "neg",
            "plus",
            "times",
            "divide",
            "public_add",
            "public_mul",
            "public_sub",
            "roll",
            "roll_back",
            "sum",
            "mean",
            "centre",
            "keepdim",
            "element",
            "matrix",
            "linear",
            "dot",
            "in_place",
            "input",
        )
    ),
    st.integers(-9, 9),
)
#: Reasons for which a random program may not run. Anything else is a fault.
LEGITIMATE = {"level-exhausted", "over-capacity", "unchecked-result"}


def build(steps: list[tuple[str, int]], n: int) -> Any:
    """A function of x, y (encrypted, n elements) and w (public, n elements) that keeps its values near 1."""
    matrix = torch.sin(torch.arange(float(n * n), dtype=torch.float64)).reshape(n, n) / n

    def function(x: Any, y: Any, w: Any) -> Any:
        stack = [y, x]
        for name, number in steps:
            a = stack.pop()
            if name in ("add", "sub", "mul", "swap", "dot") and not stack:
                stack.append(x)
            if name == "add":
                a = (stack.pop() + a) * 0.5 if number > 4 else stack.pop() + a
            elif name == "sub":
                a = stack.pop() - a
            elif name == "mul":
                a = stack.pop() * a
            elif name == "dup":
                stack.append(a)
            elif name == "swap":
                stack.append(a)
                a = stack.pop(-2)
            elif name == "square":
                a = torch.square(a)
            elif name == "cube":
                a = a**3
            elif name == "neg":
                a = -a
            elif name == "plus":
                a = number / 8 - a
            elif name == "times":
                a = a * (number / 8)
            elif name == "divide":
                a = a / (number or 2)
            elif name.startswith("public"):
                a = a + w if name == "public_add" else w - a if name == "public_sub" else a * w
            elif name == "roll":
                a = torch.roll(a, number, -1) if a.dim() else a
            elif name == "roll_back":
                a = a.roll(-number) + a if a.dim() else a
            elif name in ("sum", "mean"):
                a = a.sum() / n if name == "sum" else a.mean()
            elif name == "centre":
                a = a - a.mean()
            elif name == "keepdim":
                a = a.mean(-1, keepdim=True) if a.dim() else a
            elif name == "element":
                a = a * a[number % a.shape[0]] if a.dim() else a
            elif name == "matrix":
                a = a @ matrix if a.dim() and a.shape[0] == n else a
            elif name == "linear":
                a = torch.nn.functional.linear(a, matrix[:2]) @ matrix[:2] if a.dim() and a.shape[0] == n else a
            elif name == "dot":
                b = stack.pop()
                a = torch.dot(a, b) / n if a.dim() and b.dim() and a.shape == b.shape else a
            elif name == "in_place":
                a = a.clone()
                a += 0.25
                a *= 0.5
            else:
                stack.append(a)
                a = y if number > 0 else x
            stack.append(a)
        return tuple(stack)

    return function


# x - x and the like encrypt nothing, and say so.
@pytest.mark.filterwarnings("ignore::ren.errors.TransparentCiphertextWarning")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(steps=st.lists(STEPS, max_size=9), n=st.sampled_from((3, 4, 6, 8)), seed=st.integers(0, 1000))
def test_runnable_programs_run_right(engine: Any, steps: list[tuple[str, int]], n: int, seed: int) -> None:
    function = build(steps, n)
    roles = {"x": jit.encrypted(slots=n), "y": jit.encrypted(slots=n), "w": jit.message(shape=(n,))}
    captured = jit.trace(function, inputs=roles)
    assert captured.diagnostics == ()
    text = captured.program.to_text(include_locations=True)
    assert jit.parse(text).to_text(include_locations=True) == text
    program, workspace = lowered(captured, engine)
    again = jit.default_pipeline().run(program, workspace).program
    assert again.to_text() == program.to_text()
    report = program.readiness(workspace)
    if not report.runnable:
        assert {d.code for d in report.errors} <= LEGITIMATE, report.diagnostics
        return
    generator = torch.Generator().manual_seed(seed)
    x, y, w = (2 * torch.rand(n, generator=generator, dtype=torch.float64) - 1 for _ in range(3))
    found = captured.decode(revealed(engine, program.run(x, y, w, workspace=workspace)))
    expected = captured.reference(x, y, w)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b.to(torch.complex128), rtol=1e-6, atol=1e-6)


#: Shapes of captured tensors and messages, of which many do not meet the value.
PUBLIC = st.lists(st.sampled_from((1, 2, 3, 4, 6)), max_size=3).map(tuple)
#: (operation, shape, number) on a value of any shape.
SHAPED = st.tuples(
    st.sampled_from(
        (
            "add",
            "mul",
            "sub",
            "from",
            "divide",
            "message",
            "sum",
            "mean",
            "view",
            "move",
            "step",
            "pick",
            "square",
            "self",
        )
    ),
    PUBLIC,
    st.integers(-3, 3),
)


def shaped(steps: list[tuple[str, tuple[int, ...], int]]) -> Any:
    """A function of x (encrypted, 12 elements) and w (public) that takes shapes as they come; what PyTorch refuses is left out."""

    def function(x: Any, w: Any) -> Any:
        for name, shape, number in steps:
            a = torch.linspace(0.5, 1.0, math.prod(shape), dtype=torch.float64).reshape(shape)
            axis = number % len(x.shape) if x.shape else 0
            with contextlib.suppress(LeftOut):
                if name in ("add", "mul", "sub", "from", "divide", "message"):
                    other = w if name == "message" else a
                    meets(x.shape, other.shape)
                    x = {
                        "add": lambda x=x, a=a: x + a,
                        "mul": lambda x=x, a=a: x * a,
                        "sub": lambda x=x, a=a: x - a,
                        "from": lambda x=x, a=a: a - x,
                        "divide": lambda x=x, a=a: x / a,
                        "message": lambda x=x: x * w,
                    }[name]()
                elif name in ("sum", "mean") and x.shape:
                    x = x.mean(axis, keepdim=number > 0) if name == "mean" else x.sum(axis, keepdim=number > 0) / 4
                elif name == "view":
                    wanted = (*shape, -1)
                    x = x.reshape(wanted) if math.prod(x.shape) % math.prod(shape) == 0 else x
                elif name == "move" and len(x.shape) > 1:
                    x = x.transpose(0, axis)
                elif name == "step" and x.shape:
                    x = x[(slice(None),) * axis + (slice(None, None, 2),)]
                elif name == "pick" and x.shape:
                    x = x[(slice(None),) * axis + (0,)]
                elif name == "square":
                    x = x * x
                elif name == "self" and x.shape and x.shape[0] > 1:
                    x = x[1:] * x[:-1]
        return x

    return function


class LeftOut(Exception):
    """PyTorch has no result, or a larger one."""


def meets(shape: Any, other: Any) -> None:
    try:
        found = torch.broadcast_shapes(tuple(shape), tuple(other))
    except RuntimeError:
        raise LeftOut from None
    if found != tuple(shape):
        raise LeftOut


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(steps=st.lists(SHAPED, max_size=6), shape=PUBLIC, seed=st.integers(0, 1000))
def test_runnable_programs_of_any_shape_run_right(
    engine: Any, steps: list[tuple[str, tuple[int, ...], int]], shape: tuple[int, ...], seed: int
) -> None:
    function = shaped(steps)
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=12), "w": jit.message(shape=shape)})
    program, workspace = lowered(captured, engine)
    report = program.readiness(workspace)
    if not report.runnable:
        assert {d.code for d in report.errors} <= LEGITIMATE, report.diagnostics
        return
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.rand(12, generator=generator, dtype=torch.float64) - 1
    w = 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
    found = captured.decode(revealed(engine, program.run(x, w, workspace=workspace)))
    expected = captured.reference(x, w)
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected.to(torch.complex128), rtol=1e-6, atol=1e-6)


@pytest.mark.full
@pytest.mark.timeout(1800)
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(SHAPED, max_size=8), shape=PUBLIC, seed=st.integers(0, 1000))
def test_many_runnable_programs_of_any_shape_run_right(
    engine: Any, steps: list[tuple[str, tuple[int, ...], int]], shape: tuple[int, ...], seed: int
) -> None:
    test_runnable_programs_of_any_shape_run_right.hypothesis.inner_test(engine, steps, shape, seed)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore::ren.errors.TransparentCiphertextWarning")
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(STEPS, max_size=14), n=st.sampled_from((1, 2, 3, 4, 5, 6, 7, 8, 16, 64)), seed=st.integers(0, 1000)
)
def test_many_runnable_programs_run_right(engine: Any, steps: list[tuple[str, int]], n: int, seed: int) -> None:
    test_runnable_programs_run_right.hypothesis.inner_test(engine, steps, n, seed)

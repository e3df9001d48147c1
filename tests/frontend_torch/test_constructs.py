"""Constructs of PyTorch code: each is traced to a program that computes the same, or refused at the line where it stands."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from ren import jit
from ren.errors import (
    DataDependentError,
    InPlaceError,
    TraceError,
    TraceRandomnessError,
    TrainingModeError,
    UnknownShapeError,
)
from torch_plain import assert_same, run_plain

X = torch.linspace(-1, 1, 8, dtype=torch.float64)
W = torch.linspace(1, 2, 8, dtype=torch.float64)
CLOSED = torch.arange(8.0, dtype=torch.float64)
PARAMETER = nn.Parameter(torch.ones(8, dtype=torch.float64))
ARRAY = np.arange(8.0)
MATRIX = torch.arange(24.0, dtype=torch.float64).reshape(3, 8) / 10
torch.manual_seed(1)
LINEAR = nn.Linear(8, 4).double().eval()
HERE = Path(__file__).name


def traced(function: Any, **inputs: Any) -> Any:
    return jit.trace(function, inputs=inputs or {"x": jit.encrypted(slots=8), "w": jit.message()})


def line_of(function: Any, marker: str = "# here") -> int:
    """The line of a function that carries the marker."""
    lines, first = inspect.getsourcelines(function)
    return next(first + i for i, text in enumerate(lines) if marker in text)


# -- right -----------------------------------------------------------------------------------------------------------


class Obj:
    def method(self, x: Any, w: Any) -> Any:
        return x * w


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x: Any, w: Any) -> Any:
        return self.second(self.dropout(torch.square(self.first(x)))) + w + self.shift


def in_place_method(x: Any, w: Any) -> Any:
    y = x * 1.0
    y.mul_(w)
    return y


def in_place_alias(x: Any, w: Any) -> Any:
    y = x * 1.0
    z = y
    y += w
    return z


def out_keyword(x: Any, w: Any) -> Any:
    y = x * 1.0
    torch.add(x, w, out=y)
    return y


def in_place_chain(x: Any, w: Any) -> Any:
    y = x.clone()
    y.add_(w).mul_(2).sub_(x, alpha=3)
    y **= 2
    y /= 4
    return y


def in_place_of_a_copy_of_a_view(x: Any, w: Any) -> Any:
    y = x[2:6].clone()
    y += 1
    return y, x


def static_loop(x: Any, w: Any) -> Any:
    for i in range(3):
        x = x * w + i
    return x


def tensor_test(x: Any, w: Any) -> Any:
    if isinstance(x, torch.Tensor) and torch.is_tensor(w):
        return x + w
    return x - w


def several(x: Any, w: Any) -> Any:
    a, b = torch.chunk(x, 2)
    first, second, third = x.split([2, 3, 3])
    return a * b, first, second, third, torch.unbind(x)[3]


def accumulated(x: Any, w: Any) -> Any:
    return sum([x * w, x, w])


RIGHT: dict[str, Any] = {
    "x * 2 + w": lambda x, w: x * 2 + w,
    "reflected": lambda x, w: 2 - (3 * x) + (1 + w),
    "pow and div": lambda x, w: x**2 / 3 + x**3 / w,
    "pow spelled": lambda x, w: torch.pow(x, 3) + x.pow(2) + x**1 + torch.square(x) + x.square(),
    "neg spelled": lambda x, w: -x + torch.neg(x) + x.neg() + torch.negative(x) + (+x),
    "sub spelled": lambda x, w: torch.sub(x, w) + torch.subtract(w, x, alpha=2) + x.sub(1) + torch.rsub(x, w),
    "mul spelled": lambda x, w: torch.mul(x, w) * torch.multiply(w, x) + x.mul(input_scale(w)),
    "add alpha": lambda x, w: torch.add(x, w, alpha=2) + x.add(x, alpha=3) + torch.add(w, x, alpha=0.5),
    "input and other by name": lambda x, w: torch.add(input=x, other=w) + torch.sum(input=x),
    "addcmul": lambda x, w: torch.addcmul(x, w, x, value=2),
    "operator module": lambda x, w: operator.add(operator.mul(x, w), operator.neg(x)),
    "y.mul_(w); return y": in_place_method,
    "z = y; y += w; return z": in_place_alias,
    "torch.add(x, w, out=y)": out_keyword,
    "in-place chain": in_place_chain,
    "in-place of a copy of a view": in_place_of_a_copy_of_a_view,
    "x @ W.T": lambda x, w: x @ MATRIX.T,
    "W @ x": lambda x, w: MATRIX @ x + torch.mv(MATRIX, x),
    "matmul spelled": lambda x, w: torch.matmul(x, MATRIX.T) + x.matmul(MATRIX.T) + torch.inner(x, MATRIX),
    "dot with public": lambda x, w: torch.dot(x, CLOSED) + x @ CLOSED + CLOSED @ x,
    "dot of two": lambda x, w: x @ (x * w) + torch.dot(x, x),
    "F.linear": lambda x, w: F.linear(x, MATRIX),
    "F.linear with bias": lambda x, w: F.linear(x, MATRIX, bias=torch.ones(3, dtype=torch.float64)),
    "sum and mean": lambda x, w: x.sum() + x.mean(),
    "sum spelled": lambda x, w: (
        torch.sum(x, dim=-1) + x.sum(0) + x.sum(dim=(0,), dtype=torch.float64) + torch.mean(x, 0)
    ),
    "sum keepdim": lambda x, w: x.sum(-1, keepdim=True) + x.mean(dim=0, keepdim=True),
    "centred": lambda x, w: (x - x.mean()) * (x - x.mean()),
    "roll keywords": lambda x, w: (
        torch.roll(x, shifts=(1,), dims=(-1,)) + torch.roll(x, -2) + x.roll(3, 0) + x.roll(shifts=[2], dims=[0])
    ),
    "roll by nothing and far": lambda x, w: torch.roll(x, 0, 0) + torch.roll(x, 8, 0) + torch.roll(x, -23, -1),
    "roll of several": lambda x, w: torch.roll(x, (1, 2), (0, 0)),
    "slices": lambda x, w: x[2:6] + x[-4:] + x[:4] + x[..., 1:5] + x.narrow(0, 3, 4) + x[0:4:1],
    "elements": lambda x, w: x[0] + x[-1] + x[3] * 2 + x.select(0, 5),
    "element meets vector": lambda x, w: x * x[0] + x[-1],
    "whole slice": lambda x, w: x[:] + x[...] + x[0:8],
    "reshape": lambda x, w: x.reshape(2, 4) + torch.reshape(x, (2, -1)) + x.view(2, 4),
    "rows": lambda x, w: x.view(4, 2)[1:3].flatten() + x.view(2, 4)[1],
    "roll of rows": lambda x, w: (
        torch.roll(x.view(4, 2), 1, 0) + torch.roll(x.view(4, 2), 3) + x.view(4, 2).roll((1, 2), (1, 0))
    ),
    "squeeze": lambda x, w: x.unsqueeze(0).squeeze(0) + x.reshape(8, 1).squeeze() + x.ravel() + x.flatten(),
    "x.shape": lambda x, w: x * x.shape[0] + x.size(0) + x.size(-1) + x.numel() + x.ndim + x.dim(),
    "len(x)": lambda x, w: x * len(x),
    "zeros and ones like": lambda x, w: x + torch.zeros_like(x) + torch.ones_like(x),
    "conversions": lambda x, w: (
        x.double().to(torch.float64).contiguous().detach().cpu().to(x.device, x.dtype) + x.clone()
    ),
    "complex": lambda x, w: (x * 1j).conj() + torch.conj(x) * (1 - 2j),
    "chunk, split, unbind": several,
    "sum() of Python": accumulated,
    "partial": functools.partial(lambda k, x, w: x * k + w, 2.0),
    "partial by keyword": functools.partial(lambda x, w, k: x * k + w, k=2.0),
    "bound method": Obj().method,
    "closure nn.Linear": lambda x, w: LINEAR(x) + 1,
    "closure parameter": lambda x, w: x * PARAMETER,
    "closure array": lambda x, w: x * ARRAY + x * np.float64(2.0) - np.int64(3) + x[np.int64(2)],
    "closure twice": lambda x, w: (x + CLOSED) * CLOSED - CLOSED,
    "tensor on the left": lambda x, w: CLOSED - CLOSED * x,
    "static loop": static_loop,
    "isinstance": tensor_test,
    "tuple, list, dict": lambda x, w: {"a": x + w, "b": [x, 3], "c": (None, "text")},
    "public work": lambda x, w: (
        x * torch.cat((w[4:], w[:4])).roll(1).sin().clamp(min=0.25, max=float("inf")).reshape(8)
    ),
    "public dtype and shape": lambda x, w: x * w.to(torch.float32).repeat(1).double(),
    "public T": lambda x, w: x * w.reshape(2, 4).T.reshape(8),
    "public result": lambda x, w: (x, w * 2 + CLOSED),
    "returned closure": lambda x, w: (x, CLOSED),
    "returned input": lambda x, w: (x, x, w),
    "dropout in eval": lambda x, w: F.dropout(x, 0.5, False) + F.dropout(x, training=False),
}


def input_scale(w: Any) -> Any:
    return w * 2


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    function = RIGHT[name]
    captured = traced(function)
    expected = function(x=X.clone(), w=W.clone())
    assert_same(run_plain(captured, X, W), expected)
    assert_same(captured.reference(X.clone(), W.clone()), expected)
    assert captured.diagnostics == ()
    # Every operation knows where it was written.
    from ren.program.dialect import source_of

    for op in captured.program.entry_block("main").ops:
        source = source_of(op)
        assert source is not None, op.name
        assert source[0].endswith((HERE, "functional.py")), source
    # And the text says the same.
    text = captured.program.to_text(include_locations=True)
    assert jit.parse(text).to_text(include_locations=True) == text


def test_module() -> None:
    net = Net().eval()
    captured = traced(net)
    assert_same(run_plain(captured, X.float(), W.float()), net(X.float(), W.float()).detach())
    assert sorted(captured.workspace["materials"]) == [
        f"capture/tensor/{n}" for n in ("first.bias", "first.weight", "second.bias", "second.weight", "shift")
    ]
    assert captured.diagnostics == ()


def test_bound_forward_of_a_module() -> None:
    net = Net().eval()
    captured = traced(net.forward)
    assert_same(run_plain(captured, X.float(), W.float()), net(X.float(), W.float()).detach())


def test_sequential_with_a_square() -> None:
    class Square(nn.Module):
        def forward(self, x: Any) -> Any:
            return x**2

    net = nn.Sequential(nn.Linear(8, 5), Square(), nn.Linear(5, 3), nn.Identity(), nn.Dropout()).eval()
    captured = jit.trace(net, inputs={"input": jit.encrypted(slots=8)})
    assert_same(run_plain(captured, X.float()), net(X.float()).detach())


# -- refused, with file and line -------------------------------------------------------------------------------------


def view_changed(x: Any, w: Any) -> Any:
    y = x * 1.0
    v = y[2:]
    v += 1.0  # here
    return y


def viewed_changed(x: Any, w: Any) -> Any:
    y = x * 1.0
    v = y.view(2, 4)
    y += 1.0  # here
    return v


def set_item(x: Any, w: Any) -> Any:
    y = x * 1.0
    y[0] = 0  # here
    return y


def set_item_of_real(x: Any, w: Any) -> Any:
    y = torch.zeros(8)
    y[0] = x[0]  # here
    return y


def accumulate_in_real(x: Any, w: Any) -> Any:
    y = torch.zeros(8)
    y += x  # here
    return y


def set_data(x: Any, w: Any) -> Any:
    x.data = w  # here
    return x


def branch(x: Any, w: Any) -> Any:
    total = x.sum()
    if total > 0:  # here
        return x
    return w


def branch_caught(x: Any, w: Any) -> Any:
    try:
        if x.sum() > 0:  # here
            return x
    except Exception:
        pass
    return w


def loop(x: Any, w: Any) -> Any:
    while x.max() < 3:  # here
        x = x * 2
    return x


def iterate(x: Any, w: Any) -> Any:
    s = 0
    for v in x:  # here
        s = s + v
    return s


def asserted(x: Any, w: Any) -> Any:
    assert x.max() < 1  # here
    return x


def printed(x: Any, w: Any) -> Any:
    print(x)  # here
    return x


def formatted(x: Any, w: Any) -> Any:
    return x, f"{x}"  # here


def to_int(x: Any, w: Any) -> Any:
    return x * int(x[0])  # here


def to_float(x: Any, w: Any) -> Any:
    return x * math.sqrt(x[0])  # here


def to_item(x: Any, w: Any) -> Any:
    return x * x[0].item()  # here


def to_numpy(x: Any, w: Any) -> Any:
    return np.asarray(x)  # here


def as_index(x: Any, w: Any) -> Any:
    return [1, 2, 3][x]  # here


def contained(x: Any, w: Any) -> Any:
    return 1.0 in x  # here


def python_max(x: Any, w: Any) -> Any:
    return max(x, 1)  # here


def random_tensor(x: Any, w: Any) -> Any:
    return x + torch.rand(8)  # here


def random_like(x: Any, w: Any) -> Any:
    return x + torch.rand_like(x)  # here


def random_permutation(x: Any, w: Any) -> Any:
    return x * torch.randperm(8)  # here


def dropout(x: Any, w: Any) -> Any:
    return F.dropout(x, 0.5, True) * w  # here


def bernoulli(x: Any, w: Any) -> Any:
    return x.bernoulli_()  # here


def closure_changed(x: Any, w: Any) -> Any:
    CLOSED.add_(0.0)  # here
    return x + CLOSED


def failing(x: Any, w: Any) -> Any:
    return x + {}["missing"]  # here


def tensor_of(x: Any, w: Any) -> Any:
    return torch.tensor([x[0], 1.0])  # here


REFUSED: list[tuple[Any, type[TraceError], str | None]] = [
    (view_changed, InPlaceError, "v"),
    (viewed_changed, InPlaceError, "y"),
    (set_item, InPlaceError, None),
    (set_item_of_real, InPlaceError, None),
    (accumulate_in_real, InPlaceError, None),
    (set_data, InPlaceError, None),
    (branch, DataDependentError, None),
    (branch_caught, DataDependentError, None),
    (loop, DataDependentError, None),
    (iterate, DataDependentError, "x"),
    (asserted, DataDependentError, None),
    (printed, DataDependentError, "x"),
    (formatted, DataDependentError, "x"),
    (to_int, DataDependentError, None),
    (to_float, DataDependentError, None),
    (to_item, DataDependentError, None),
    (to_numpy, DataDependentError, "x"),
    (as_index, DataDependentError, "x"),
    (contained, DataDependentError, "x"),
    (python_max, DataDependentError, None),
    (random_tensor, TraceRandomnessError, None),
    (random_like, TraceRandomnessError, None),
    (random_permutation, TraceRandomnessError, None),
    (dropout, TraceRandomnessError, None),
    (bernoulli, TraceRandomnessError, None),
    (closure_changed, InPlaceError, None),
    (failing, TraceError, None),
    (tensor_of, TraceError, None),
]


@pytest.mark.parametrize(("function", "error", "variable"), REFUSED, ids=lambda v: getattr(v, "__name__", None))
def test_refused(function: Any, error: type[TraceError], variable: str | None, capsys: Any) -> None:
    workspace = jit.Workspace()
    with pytest.raises(error) as caught:
        jit.trace(function, inputs={"x": jit.encrypted(slots=8), "w": jit.message()}, workspace=workspace)
    found = caught.value
    assert Path(str(found.file)).name == HERE
    assert found.line == line_of(function)
    assert f"{HERE}:{found.line}" in str(found)
    if variable is not None:
        assert found.variable == variable
        assert repr(variable) in str(found)
    assert workspace == {}
    assert capsys.readouterr().out == ""


def test_branch_names_the_variable() -> None:
    def simple(x: Any) -> Any:
        if x:  # here
            return x
        return -x

    with pytest.raises(DataDependentError, match=r"'x', which is encrypted") as caught:
        jit.trace(simple, inputs={"x": jit.encrypted()})
    assert (caught.value.variable, caught.value.line) == ("x", line_of(simple))


@pytest.mark.parametrize("draw", [random.random, lambda: np.random.rand(8)], ids=["random", "numpy"])
def test_global_generators(draw: Any) -> None:
    def draws(x: Any, w: Any) -> Any:
        return x * draw()

    with pytest.raises(TraceRandomnessError, match="global generator"):
        traced(draws)


def test_training_mode() -> None:
    net = Net()
    with pytest.raises(TrainingModeError, match="'dropout' is in training mode"):
        traced(net)
    with pytest.raises(TrainingModeError):
        jit.trace(nn.BatchNorm1d(8), inputs={"input": jit.encrypted(slots=8)})

    def normalised(x: Any, w: Any) -> Any:
        return F.batch_norm(x.unsqueeze(0), None, None, training=True)  # here

    with pytest.raises(TrainingModeError) as caught:
        traced(normalised)
    assert caught.value.line == line_of(normalised)


def test_arrays_on_the_left() -> None:
    captured = traced(lambda x, w: ARRAY * x - np.float64(2.0) * x)
    assert_same(run_plain(captured, X, W), X * CLOSED - 2 * X)


@pytest.mark.parametrize(
    "question",
    [lambda x, w: x * x.shape[0], lambda x, w: x * len(x), lambda x, w: x * len(w), lambda x, w: x * w.shape[0]],
)
def test_shapes_that_nobody_declared(question: Any) -> None:
    with pytest.raises(UnknownShapeError, match=r"static\(n\)"):
        traced(question, x=jit.encrypted(), w=jit.message())


def test_compiled_functions_and_foreign_traces() -> None:
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(x)
        return x

    jit.trace(keeps, inputs={"x": jit.encrypted()})
    with pytest.raises(TraceError, match="after its trace had ended"):
        kept[0] + 1
    with pytest.raises(TraceError, match="two traces"):
        jit.trace(lambda x: x + kept[0], inputs={"x": jit.encrypted()})
    with pytest.raises(TraceError, match="compiled"):
        jit.trace(torch.jit.script(nn.Linear(2, 2)), inputs={"input": jit.encrypted()})


def test_max_ops() -> None:
    def endless(x: Any) -> Any:
        while True:
            x = x + 1  # here

    from ren.errors import TraceLimitError

    with pytest.raises(TraceLimitError, match="more than 1000") as caught:
        jit.trace(endless, inputs={"x": jit.encrypted()}, max_ops=1000)
    assert caught.value.line == line_of(endless)

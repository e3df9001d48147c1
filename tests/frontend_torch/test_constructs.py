"""Constructs of PyTorch code: each is traced to a program that computes the same, or refused at the line where it stands."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from queue import SimpleQueue
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
from torch_corpus import ARRAY, CLOSED, RIGHT, Net, W, X
from torch_plain import assert_same, run_plain

HERE = Path(__file__).name


def traced(function: Any, **inputs: Any) -> Any:
    return jit.trace(function, inputs=inputs or {"x": jit.encrypted(slots=8), "w": jit.message()})


def line_of(function: Any, marker: str = "# here") -> int:
    """The line of a function that carries the marker."""
    lines, first = inspect.getsourcelines(function)
    return next(first + i for i, text in enumerate(lines) if marker in text)


# -- right -----------------------------------------------------------------------------------------------------------


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
        assert source[0].endswith("torch_corpus.py"), source
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


def _inputs_doubled(module: Any, given: Any) -> Any:
    return (given[0] * 2, *given[1:])


def _weighed_by_input(module: Any, given: Any, out: Any) -> Any:
    return out + given[0].sum() * given[1].sum()


def _keywords_seen(module: Any, given: Any, named: Any) -> Any:
    assert list(named) == ["gain"]
    return given, {"gain": named["gain"] * 3}


@pytest.mark.parametrize(
    "register",
    [
        lambda net: net.register_forward_pre_hook(_inputs_doubled),
        lambda net: net.register_forward_hook(_weighed_by_input),
        lambda net: net.register_forward_pre_hook(_keywords_seen, with_kwargs=True),
    ],
)
def test_hooks_see_what_a_call_by_position_gives_them(register: Any) -> None:
    class Gained(Net):
        def forward(self, x: Any, w: Any, skipped: float = 1.0, gain: float = 2.0) -> Any:
            return super().forward(x, w) * gain * skipped

    net = Gained().eval()
    register(net)
    captured = jit.trace(
        net, inputs={"x": jit.encrypted(slots=8), "w": jit.message(shape=(8,)), "gain": jit.static(2.0)}
    )
    assert captured.diagnostics == ()
    expected = net(X.float(), W.float(), gain=2.0).detach()
    assert_same(run_plain(captured, X.float(), W.float()), expected)
    assert_same(captured.reference(X.float(), W.float()), expected)


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
    # Its contents are nobody's attribute: a list would be emptied again, and the trace refused.
    queue: SimpleQueue[Any] = SimpleQueue()

    def keeps(x: Any) -> Any:
        queue.put(x)
        return x

    jit.trace(keeps, inputs={"x": jit.encrypted()})
    kept = queue.get()
    with pytest.raises(TraceError, match="after its trace had ended"):
        kept + 1
    with pytest.raises(TraceError, match="two traces"):
        jit.trace(lambda x: x + kept, inputs={"x": jit.encrypted()})
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

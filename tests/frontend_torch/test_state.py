"""What a traced function changes outside of its arguments is put back and refused at its line: the program would freeze it."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
from ren import jit
from ren.errors import InPlaceError, TraceError
from torch_plain import assert_same, run_plain

X = torch.linspace(-1, 1, 8, dtype=torch.float64)
HERE = Path(__file__).name
COUNT = 0
LOG: list[Any] = []
TABLE: dict[str, Any] = {"kept": 1}
SPACE = SimpleNamespace(n=0)


def traced(function: Any, **more: Any) -> Any:
    return jit.trace(function, inputs={"x": jit.encrypted(slots=8)}, **more)


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("c", torch.ones(()))
        self.l = nn.Linear(8, 8)
        self.n = 1
        self.log: list[Any] = [1]
        self.table: dict[str, Any] = {"deep": {"a": 1}}
        self.seen = {1}
        self.queue = deque([1])
        self.array = np.ones(2)
        self.inner = SimpleNamespace(n=1)
        self.cache = None
        self.double().eval()


class Buffer(Base):
    def forward(self, x: Any) -> Any:
        self.c = self.c + 1  # here
        return x * self.c


class Number(Base):
    def forward(self, x: Any) -> Any:
        self.n += 1  # here
        return x * self.n


class Appended(Base):
    def forward(self, x: Any) -> Any:
        self.log.append(2)  # here
        return x * len(self.log)


class Item(Base):
    def forward(self, x: Any) -> Any:
        self.table["deep"]["a"] += 1  # here
        return x * self.table["deep"]["a"]


class Seen(Base):
    def forward(self, x: Any) -> Any:
        self.seen.add(2)  # here
        return x * len(self.seen)


class Queue(Base):
    def forward(self, x: Any) -> Any:
        self.queue.appendleft(2)  # here
        return x * len(self.queue)


class Array(Base):
    def forward(self, x: Any) -> Any:
        self.array[0] += 1  # here
        return x * float(self.array[0])


class Inner(Base):
    def forward(self, x: Any) -> Any:
        self.inner.n += 1  # here
        return x * self.inner.n


class Weight(Base):
    def forward(self, x: Any) -> Any:
        self.l.weight = nn.Parameter(self.l.weight * 2)  # here
        return self.l(x)


class Kept(Base):
    def forward(self, x: Any) -> Any:
        self.h = x * 2  # here
        return x


class Cached(Base):
    def forward(self, x: Any) -> Any:
        if self.cache is None:
            self.cache = torch.ones(8)  # here
        return x * self.cache


class Deleted(Base):
    def forward(self, x: Any) -> Any:
        del self.n  # here
        return x


class Submodule(Base):
    def forward(self, x: Any) -> Any:
        self.more = nn.Identity()  # here
        return self.more(x)


class Mode(Base):
    def forward(self, x: Any) -> Any:
        self.training = True  # here
        return x


class ByName(Base):
    def forward(self, x: Any) -> Any:
        setattr(self, "n", self.n + 1)  # noqa: B010  # here
        return x * self.n


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 1

    def scaled(self, x: Any) -> Any:
        self.n += 1  # here
        return x * self.n

    __call__ = scaled


class Shared:
    count = 1

    def scaled(self, x: Any) -> Any:
        type(self).count += 1  # here
        return x * self.count


def closure() -> Any:
    n = 1

    def function(x: Any) -> Any:
        nonlocal n
        n += 1  # here
        return x * n

    return function


def closure_list() -> Any:
    kept = [1]

    def function(x: Any) -> Any:
        kept.append(x)  # here
        return x * len(kept)

    return function


def decorated(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def global_number(x: Any) -> Any:
    global COUNT
    COUNT += 1  # here
    return x * COUNT


def global_list(x: Any) -> Any:
    LOG.append(1)  # here
    return x * len(LOG)


def global_item(x: Any) -> Any:
    TABLE["new"] = 1  # here
    return x * len(TABLE)


def global_space(x: Any) -> Any:
    SPACE.n += 1  # here
    return x * SPACE.n


def of_a_function(x: Any) -> Any:
    of_a_function.calls = getattr(of_a_function, "calls", 0) + 1  # type: ignore[attr-defined]  # here
    return x * of_a_function.calls  # type: ignore[attr-defined]


def called(x: Any) -> Any:
    return global_number(x)


def default(x: Any, kept: list[int] = []) -> Any:  # noqa: B006
    kept.append(1)
    return x * len(kept)


def of_a_partial(kept: list[int], x: Any) -> Any:
    kept.append(1)
    return x * len(kept)


CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "a buffer": (Buffer, "Buffer.c"),
    "a number": (Number, "Number.n"),
    "a list": (Appended, "Appended.log"),
    "an item of an item": (Item, "Item.table['deep']['a']"),
    "a set": (Seen, "Seen.seen"),
    "a deque": (Queue, "Queue.queue"),
    "an array": (Array, "Array.array"),
    "an object inside": (Inner, "Inner.inner.n"),
    "a weight of a module inside": (Weight, "Weight.l.weight"),
    "a traced value kept": (Kept, "Kept.h"),
    "a cache": (Cached, "Cached.cache"),
    "an attribute that is gone": (Deleted, "Deleted.n"),
    "a new module": (Submodule, "Submodule.more"),
    "the mode": (Mode, "Mode.training"),
    "setattr": (ByName, "ByName.n"),
    "a bound forward": (lambda: Number().forward, "Number.n"),
    "a module in a function": (lambda: (lambda model: lambda x: model(x))(Number()), "model.n"),
    "a slot": (lambda: Slotted().scaled, "Slotted.n"),
    "an object that is called": (Slotted, "Slotted.n"),
    "a class": (lambda: Shared().scaled, "Shared.count"),
    "a closure": (closure, "n"),
    "a list of a closure": (closure_list, "kept"),
    "a function below a decorator": (lambda: decorated(closure()), "n"),
    "a function below torch.no_grad": (lambda: torch.no_grad()(closure()), "n"),
    "a global": (lambda: global_number, "COUNT"),
    "a global list": (lambda: global_list, "LOG"),
    "an item of a global": (lambda: global_item, "TABLE['new']"),
    "an attribute of a global": (lambda: global_space, "SPACE.n"),
    "an attribute of the function": (lambda: of_a_function, "of_a_function.calls"),
    "a function called": (lambda: called, "COUNT"),
    "a default": (lambda: default, "a default of default"),
    "an argument of a partial": (lambda: functools.partial(of_a_partial, [1]), "an argument of the partial[0]"),
}


def state(made: Any) -> Any:
    """What the changes above can reach, by value."""
    owner = made if isinstance(made, nn.Module) else getattr(made, "__self__", made)
    held = dict(owner.state_dict()) if isinstance(owner, nn.Module) else {}
    fields = {k: repr(v) for k, v in getattr(owner, "__dict__", {}).items() if k not in ("_parameters", "_buffers")}
    cells = [repr(c.cell_contents) for c in getattr(made, "__closure__", None) or ()]
    return (
        {k: v.tolist() for k, v in held.items()},
        fields,
        cells,
        getattr(owner, "n", None),
        (COUNT, list(LOG), dict(TABLE), SPACE.n, Shared.count),
        (getattr(of_a_function, "calls", None), repr(default.__defaults__), repr(getattr(made, "args", None))),
    )


@pytest.mark.parametrize("kind", CHANGES)
def test_changes_are_put_back_and_refused(kind: str) -> None:
    make, path = CHANGES[kind]
    function = make()
    before, workspace = state(function), jit.Workspace()
    with pytest.raises(InPlaceError) as caught:
        traced(function, workspace=workspace)
    error = caught.value
    assert error.subject == path
    assert path in str(error)
    assert Path(str(error.file)).name == HERE
    line = Path(__file__).read_text().splitlines()[error.line - 1]
    if kind in ("a default", "an argument of a partial"):
        assert "def " in line
    else:
        assert line.endswith("# here")
        assert path.partition("[")[0].rpartition(".")[2] in line
    assert state(function) == before
    assert workspace == {}
    # Called, the function does what it did before.
    function(X)


def test_changes_before_a_failure_are_put_back_too() -> None:
    model = Number()

    def function(x: Any) -> Any:
        model(x)
        raise KeyError("own")

    with pytest.raises(TraceError, match="KeyError"):
        traced(function)
    assert model.n == 1


def test_several_changes_are_told_together() -> None:
    class Two(Base):
        def forward(self, x: Any) -> Any:
            self.n += 1
            self.log.append(3)
            return x * self.n

    with pytest.raises(InPlaceError) as caught:
        traced(Two())
    assert "Two.n is changed (1 before, 2 after)" in str(caught.value)
    assert "the contents of Two.log are changed" in str(caught.value)


def test_the_order_of_modules_is_put_back() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Identity()).double().eval()

    def function(x: Any) -> Any:
        first = model._modules.pop("0")
        model._modules["0"] = first
        return first(x)

    with pytest.raises(InPlaceError, match="the contents of model are changed"):
        traced(function)
    assert list(model._modules) == ["0", "1"]


class Lazy(Base):
    @functools.cached_property
    def factor(self) -> Any:
        return self.c * 3

    def forward(self, x: Any) -> Any:
        return x * self.factor


class Local(Base):
    def forward(self, x: Any) -> Any:
        made = SimpleNamespace(n=0, log=[])
        for i in range(3):
            made.n += i
            made.log.append(i)
        self.log.append(7)
        self.log.pop()
        self.n = int(1.0)
        self.table = {"deep": {"a": 1}}
        return x * made.n * len(made.log)


def normalised() -> Any:
    layer = nn.Linear(8, 8).double().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(layer)


#: Caches by declaration, state of the call's own, and new values that equal the old ones.
SAME: dict[str, Callable[[], Any]] = {
    "a cached property": Lazy,
    "state of the call": Local,
    "weights normalised at every call": normalised,
}


@pytest.mark.parametrize("kind", SAME)
def test_what_no_call_can_see_is_no_change(kind: str) -> None:
    model = SAME[kind]()
    attributes = dict(vars(model))
    name = next(iter(inspect.signature(model.forward).parameters))
    captured = jit.trace(model, inputs={name: jit.encrypted(slots=8)})
    assert vars(model) == attributes
    assert all(v is attributes[k] for k, v in vars(model).items())
    with torch.no_grad():
        assert_same(run_plain(captured, X), model(X))

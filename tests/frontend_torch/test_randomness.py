"""Nothing that differs from call to call is frozen into a program: draws of random numbers and unwritten memory are refused at the line that asked,
whatever module they come from; clocks are reported."""

from __future__ import annotations

import cProfile
import functools
import inspect
import os
import random
import secrets
import sys
import threading
import time
import uuid
from datetime import datetime
from os import urandom
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from ren import jit
from ren.errors import InPlaceError, TraceRandomnessError
from ren_frontend_torch.tracer import Tracer
from torch_plain import assert_same, run_plain

ONES = torch.ones(8, dtype=torch.float64)
GENERATOR = torch.Generator()
NUMPY = np.random.default_rng(1)
PYTHON = random.Random(2)
HELD = PYTHON.random
HELD_NUMPY = NUMPY.random
STATE = np.random.RandomState(3)
DEEP = SimpleNamespace(items=[{"rng": SimpleNamespace(inner=NUMPY)}])


def traced(function: Any, **more: Any) -> Any:
    return jit.trace(function, inputs={"x": jit.encrypted(slots=8)}, **more)


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(2)

    def noise(self) -> Any:
        return self.generator.normal()

    def forward(self, x: Any) -> Any:
        return x * self.noise()


class Shared:
    generator = np.random.default_rng(4)

    @staticmethod
    def draw() -> Any:
        return Shared.generator.random()


def nested(x: Any) -> Any:
    def inner() -> Any:
        return DEEP.items[0]["rng"].inner.random()

    return x * inner()


#: Drawn inside, from what is made inside or belongs to Python, the system or PyTorch: refused at the line.
DRAWS: dict[str, Any] = {
    "random.random": lambda x: x * random.random(),
    "random.Random()": lambda x: x * random.Random().random(),
    "random.gauss": lambda x: x * random.gauss(0, 1),
    "random.sample": lambda x: x * random.sample(range(9), 1)[0],
    "random.SystemRandom": lambda x: x * random.SystemRandom().random(),
    "a generator of the module": lambda x: x * PYTHON.uniform(0, 1),
    "a method held": lambda x: x * HELD(),
    "secrets.randbelow": lambda x: x * secrets.randbelow(4),
    "secrets.token_bytes": lambda x: x * secrets.token_bytes(2)[0],
    "secrets.choice": lambda x: x * secrets.choice([1, 2]),
    "os.urandom": lambda x: x * os.urandom(1)[0],
    "urandom imported by name": lambda x: x * urandom(1)[0],
    "uuid.uuid4": lambda x: x * (uuid.uuid4().int % 7),
    "default_rng()": lambda x: x * np.random.default_rng().random(),
    "RandomState()": lambda x: x * np.random.RandomState().rand(),
    "PCG64()": lambda x: x * np.random.Generator(np.random.PCG64()).random(),
    "torch.rand": lambda x: x * torch.rand(8),
    "torch.rand of a generator": lambda x: x * torch.rand(8, generator=GENERATOR),
    "torch.randint of a new generator": lambda x: x * torch.randint(0, 3, (8,), generator=torch.Generator()),
    "torch.randn_like of public data": lambda x: x * torch.randn_like(ONES),
    "uniform_": lambda x: x * torch.zeros(8).uniform_(),
    "normal_": lambda x: x * torch.zeros(8).normal_(generator=GENERATOR),
    "torch.bernoulli": lambda x: x * torch.bernoulli(ONES / 2),
    "torch.multinomial": lambda x: x * torch.multinomial(ONES, 8),
    "torch.Generator().seed()": lambda x: x * torch.Generator().seed(),
    "torch.seed": lambda x: x * torch.seed(),
    "dropout of public data": lambda x: x * F.dropout(ONES),
    "nn.Dropout": lambda x: nn.Dropout()(x),
    "a layer made inside": lambda x: nn.Linear(8, 2)(x),
    "torch.rand_like of a traced value": lambda x: x * torch.rand_like(x),
    "uniform_ of a traced value": lambda x: x.clone().uniform_(),
    "torch.empty": lambda x: x * torch.empty(8),
    "torch.empty, then arithmetic": lambda x: x * (torch.empty(8) + 1),
    "torch.empty, a view": lambda x: x * torch.empty(2, 4).view(8),
    "torch.empty, an element": lambda x: x * float(torch.empty(8)[0]),
    "torch.empty returned": lambda x: (x, torch.empty(8)),
    "torch.empty_like": lambda x: x * torch.empty_like(ONES),
    "torch.empty_like of a traced value": lambda x: x * torch.empty_like(x),
    "torch.empty_strided": lambda x: x * torch.empty_strided((8,), (1,)),
    "new_empty": lambda x: x * ONES.new_empty(8),
    "new_empty of a traced value": lambda x: x * x.new_empty(8),
    "torch.Tensor(8)": lambda x: x * torch.Tensor(8),
    "numpy.empty": lambda x: x * np.empty(8),
    "numpy.empty_like": lambda x: x * np.empty_like(np.ones(8)),
}

#: Drawn from NumPy's compiled generators that exist before: refused at the line where Python shows it (3.12), else at the function.
REACHED: dict[str, Any] = {
    "numpy.random.rand": lambda x: x * np.random.rand(8),
    "numpy.random.permutation": lambda x: x * np.random.permutation(8),
    "a global": lambda x: x * NUMPY.random(),
    "a global RandomState": lambda x: x * STATE.rand(),
    "a method held": lambda x: x * HELD_NUMPY(),
    "in a closure": (lambda own: lambda x: x * own.random())(np.random.default_rng(5)),
    "in a default": lambda x, own=NUMPY: x * own.random(),
    "in a partial": functools.partial(lambda own, x: x * own.random(), NUMPY),
    "deep inside an object": lambda x: x * DEEP.items[0]["rng"].inner.random(),
    "named by a function inside": nested,
    "of a class": lambda x: x * Shared.draw(),
    "of a module": Noisy().eval(),
    "of a bound method": Noisy().eval().forward,
}

#: The same numbers at every call.
ALLOWED: dict[str, Any] = {
    "torch.empty, filled": lambda x: x * torch.empty(8).fill_(2.0),
    "torch.empty, copied to": lambda x: x * torch.empty(8, dtype=torch.float64).copy_(ONES),
    "the shape of torch.empty": lambda x: x * torch.zeros_like(torch.empty(8)) + torch.empty(8).shape[0],
    "circular padding": lambda x: x * F.pad(torch.ones(1, 6), (1, 1), mode="circular").reshape(8),
    "numpy.full and linspace": lambda x: x * np.full(8, 2.0) + np.linspace(0, 1, 8),
    "dropout in eval mode": lambda x: nn.Dropout().eval()(x) * F.dropout(ONES, training=False),
    "generators that nobody draws from": lambda x: x * (random.Random(3) is not None and NUMPY is not None),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_refused_at_their_line(name: str) -> None:
    function, workspace = DRAWS[name], jit.Workspace()
    with pytest.raises(TraceRandomnessError) as caught:
        traced(function, workspace=workspace)
    if name != "torch.empty returned":  # returned by the function, noticed behind it
        assert (Path(str(caught.value.file)).name, caught.value.line) == (
            Path(__file__).name,
            inspect.getsourcelines(function)[1],
        )
    assert workspace == {}
    assert sys.getprofile() is None


@pytest.mark.parametrize("name", REACHED)
def test_generators_from_outside(name: str) -> None:
    with pytest.raises(TraceRandomnessError) as caught:
        traced(REACHED[name])
    assert Path(str(caught.value.file)).name == Path(__file__).name


@pytest.mark.parametrize("name", ALLOWED)
def test_what_never_differs_is_traced(name: str) -> None:
    captured = traced(ALLOWED[name])
    assert captured.diagnostics == ()
    assert_same(run_plain(captured, ONES), ALLOWED[name](ONES))


def test_drawn_outside_is_a_constant() -> None:
    noise = torch.rand(8, dtype=torch.float64)
    number = random.random()
    captured = traced(lambda x: x * noise + number)
    assert_same(run_plain(captured, ONES), noise + number)


def test_modules_that_are_imported_meanwhile_do_as_they_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch imports its own on first use; what one draws then is drawn once for all calls."""
    (tmp_path / "ren_test_draws_at_import.py").write_text("import random\nVALUE = random.Random().random()\n")
    monkeypatch.syspath_prepend(tmp_path)

    def function(x: Any) -> Any:
        import ren_test_draws_at_import as module

        return x * module.VALUE

    captured = traced(function)
    assert_same(run_plain(captured, ONES), function(ONES))


def test_a_refusal_that_is_caught_still_counts() -> None:
    def hides(x: Any) -> Any:
        try:
            return x * random.random()  # here
        except Exception:
            return x

    with pytest.raises(TraceRandomnessError) as caught:
        traced(hides)
    assert caught.value.line == inspect.getsourcelines(hides)[1] + 2


def test_tensors_from_outside_stay_protected_once_written_memory_is_known() -> None:
    def function(x: Any) -> Any:
        torch.empty(8)
        ONES.add_(0.0)
        return x

    with pytest.raises(InPlaceError):
        traced(function)


@pytest.mark.parametrize(
    "clock", [time.time, time.perf_counter, datetime.now, time.monotonic_ns, time.localtime, time.gmtime, time.ctime]
)
def test_clocks_are_reported(clock: Any) -> None:
    """What a clock said is frozen, but most code that asks it only measures or logs: a warning with its line, no refusal."""

    def function(x: Any) -> Any:
        start = clock()
        y = x * 2
        clock()
        return y if start else x

    captured = traced(function)
    first = inspect.getsourcelines(function)[1]
    assert [(d.code, d.severity, d.line) for d in captured.diagnostics] == [
        ("frozen-clock", "warning", first + 1),
        ("frozen-clock", "warning", first + 3),
    ]


def test_the_time_as_text_is_a_clock() -> None:
    day = datetime(2020, 1, 2)
    (found,) = traced(lambda x: x * int(time.strftime("%H")) + int(day.strftime("%d"))).diagnostics
    assert (found.code, found.subject) == ("frozen-clock", "strftime")


# -- what the watch leaves behind ------------------------------------------------------------------------------------


def test_the_tracer_itself_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share of the time is all but everything, so a program of 50,000 operations costs what it did."""
    call, inside = Tracer._call, []

    def spied(self: Any, *args: Any) -> Any:
        inside.append(sys.getprofile())
        return call(self, *args)

    monkeypatch.setattr(Tracer, "_call", spied)
    traced(lambda x: (x * 2 + ONES).sum())
    assert inside == [None] * 3


def test_a_profiler_of_the_user_goes_on() -> None:
    events: list[str] = []

    def profiler(frame: Any, event: str, arg: Any) -> None:
        events.append(frame.f_code.co_name)

    def function(x: Any) -> Any:
        return x * random.random()

    sys.setprofile(profiler)
    try:
        with pytest.raises(TraceRandomnessError):
            traced(function)
        traced(lambda x: x * 2)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert "function" in events


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring has room for several")
def test_a_profiler_in_c_is_left_alone_and_said_so() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with pytest.warns(RuntimeWarning, match="Profile is profiling"):
            traced(lambda x: x * 2)
        with pytest.warns(RuntimeWarning), pytest.raises(TraceRandomnessError):
            traced(lambda x: x * PYTHON.random())  # seen by its state
    finally:
        profiler.disable()


def test_threads_are_watched_each_for_itself() -> None:
    """Threads that draw what they like beside a trace do not disturb it; two traces see their own draws."""
    stop, failures = threading.Event(), []
    barrier = threading.Barrier(4)

    def draws() -> None:
        own = random.Random(1)
        while not stop.is_set():
            own.random(), os.urandom(1)

    def traces(function: Any, refused: bool) -> None:
        barrier.wait()
        for _ in range(20):
            try:
                traced(function)
                found = False
            except TraceRandomnessError:
                found = True
            if found is not refused:
                failures.append(function)

    quiet, noisy = (lambda x: x * 2 + 1), (lambda x: x * os.urandom(1)[0] + 1)
    workers = [threading.Thread(target=traces, args=(f, r)) for f, r in [(quiet, False), (noisy, True)] * 2]
    background = threading.Thread(target=draws)
    for thread in (background, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    background.join()
    assert failures == []
    assert sys.getprofile() is None


#: What other threads draw from while a function is traced that draws nothing.
ELSEWHERE: dict[str, Any] = {
    "random": lambda: random.random(),
    "numpy.random": lambda: np.random.rand(),
    "torch": lambda: torch.rand(1),
    "a generator": lambda: NUMPY.random(),
}


class Quiet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8).double()

    def forward(self, x: Any) -> Any:
        return self.inner(x * ONES).sum() + float(np.sqrt(4.0))


def while_drawing(draw: Any, work: Any) -> Any:
    """`work()`, while another thread draws; it has drawn before, and draws in between."""
    stop, drawn = threading.Event(), threading.Event()

    def draws() -> None:
        while not stop.is_set():
            draw()
            drawn.set()

    background = threading.Thread(target=draws)
    background.start()
    try:
        drawn.wait()
        return work()
    finally:
        stop.set()
        background.join()


@pytest.mark.parametrize("source", ELSEWHERE)
def test_draws_of_other_threads_are_theirs(source: str) -> None:
    model = Quiet().eval()
    draw = ELSEWHERE[source]

    def drawing(x: Any) -> Any:
        event.wait(10)  # the other thread draws during the trace
        return model(x)

    for function in (model, drawing):
        event = threading.Event()

        def drawn() -> None:
            draw()
            event.set()  # noqa: B023

        captured = while_drawing(drawn, lambda: traced(function))  # noqa: B023
        assert_same(run_plain(captured, ONES), model(ONES).detach())


def test_where_two_threads_may_have_drawn_the_refusal_says_so() -> None:
    """The function holds a generator that another thread uses: whose draw it was cannot be told."""

    entered, drawn = threading.Event(), threading.Event()

    def holds(x: Any) -> Any:
        entered.set()
        drawn.wait(10)
        return x * (1 if NUMPY is not None else 2)

    def draw() -> None:
        if entered.is_set():
            NUMPY.random()
            drawn.set()

    before = NUMPY.bit_generator.state
    with pytest.raises(TraceRandomnessError, match="unless another thread did meanwhile"):
        while_drawing(draw, lambda: traced(holds))
    assert NUMPY.bit_generator.state != before

"""The random generators that a function can reach, and their states: what shows that it drew from one where the call itself is not seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from ren_frontend_torch.locations import is_hidden
from ren_frontend_torch.reach import ITEMS, MOST, is_foreign, is_known, names

_LEAVES = (torch.Tensor, np.ndarray, np.generic, str, bytes, int, float, complex, type(None))
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator, torch.Generator)


#: Generators that code uses without holding one: their states, and the names by which code draws from them. Draws of PyTorch's need no such sign:
#: its dispatcher shows every one of the tracing thread.
_COMMON: dict[str, tuple[Callable[[], Any], frozenset[str]]] = {
    "Python's random": (random.getstate, frozenset(n for n in dir(random) if n[0] != "_")),
    "numpy.random": (lambda: _frozen(np.random.get_state()), frozenset(n for n in dir(np.random) if n[0] != "_")),
}


class States:
    """The states of all generators that `function` may draw from, as they are now."""

    def __init__(self, function: Any) -> None:
        self._reached = [(g, _state(g)) for g in reached(function)]
        self._common = {name: state() for name, (state, _) in _COMMON.items()}

    def changed(self, ran: Iterable[CodeType] | None) -> str | None:
        """The name of a generator whose state is another by now, of those that the code that `ran` can draw from. None for ran: that is not known."""
        found = next((f"a {type(g).__name__}" for g, state in self._reached if _state(g) != state), None)
        if found is not None:
            return found
        used = None if ran is None else {n for code in ran if not is_hidden(code) for n in names(code)}
        for name, (state, words) in _COMMON.items():
            if (used is None or used & words) and state() != self._common[name]:
                return name
        return None


def _state(generator: Any) -> Any:
    if isinstance(generator, random.SystemRandom):
        return None  # the system keeps it
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return _frozen(generator.bit_generator.state)
    if isinstance(generator, np.random.BitGenerator):
        return _frozen(generator.state)
    return _frozen(generator.get_state())


def _frozen(state: Any) -> Any:
    if isinstance(state, dict):
        return tuple((k, _frozen(v)) for k, v in state.items())
    if isinstance(state, (tuple, list)):
        return tuple(_frozen(v) for v in state)
    if isinstance(state, torch.Tensor):
        state = state.numpy()
    return state.tobytes() if isinstance(state, np.ndarray) else state


def reached(function: Any) -> list[Any]:
    """Generators in closures, in globals that the code names, in attributes and items, of the function and of what it can call."""
    found: list[Any] = []
    pending, seen = [function], dict[int, Any]()
    while pending and len(seen) < MOST:
        value = pending.pop()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, _GENERATORS):
            found.append(value)
        else:
            pending.extend(_inside(value))
    return found


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, FunctionType):
        return () if is_foreign(value.__code__) else _of_function(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [item for item, _ in zip(value, range(ITEMS), strict=False)]
    if isinstance(value, dict):
        return [item for item, _ in zip(value.values(), range(ITEMS), strict=False)]
    if isinstance(value, partial):
        return (value.func, value.args, value.keywords)
    if isinstance(value, MethodType):
        return (value.__self__, value.__func__)
    if isinstance(value, BuiltinMethodType):
        return () if isinstance(value.__self__, ModuleType) else (value.__self__,)
    if isinstance(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if isinstance(value, property):
        return (value.fget,)
    if isinstance(value, ModuleType):
        return ()
    if isinstance(value, type):
        return () if is_known(str(value.__module__)) else list(vars(value).values())
    held = getattr(value, "__dict__", None)
    # Methods reach what their class and the globals of its module hold.
    return [
        *(held.values() if isinstance(held, dict) else ()),
        *(c for c in type(value).__mro__ if not is_known(str(c.__module__))),
    ]


def _of_function(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # no value yet
            yield cell.cell_contents
    yield function.__defaults__
    yield function.__kwdefaults__
    used = set(names(function.__code__))
    for name in used & function.__globals__.keys():
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType) and not is_known(value.__name__):
            yield from (vars(value)[n] for n in used & vars(value).keys())

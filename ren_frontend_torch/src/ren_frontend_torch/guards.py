"""Watches what a function does outside its arguments while it is traced."""

from __future__ import annotations

import random
from types import CellType
from typing import Any, NoReturn

import numpy as np
import torch
import torch.utils._pytree as pytree
from ren.errors import InPlaceError, TraceError, TraceRandomnessError
from torch.utils._python_dispatch import TorchDispatchMode

from ren_frontend_torch.locations import user_source


class PublicWork(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees all work on real tensors: refuses random draws, and changes of tensors that were made outside, at the line that asked for them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        #: Set while the tracer itself works.
        self.paused = False
        self.refused: TraceError | None = None
        # Tensors made during the trace; holding them keeps their ids from being used again.
        self._own: dict[int, torch.Tensor] = {}

    def _refuse(self, kind: type[TraceError], message: str, hint: str) -> NoReturn:
        file, line = user_source()
        self.refused = kind(message, hint=hint, file=file, line=line)
        raise self.refused

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            self._refuse(
                TraceRandomnessError,
                f"{func} draws random numbers, which would be frozen into the program",
                "Draw outside and pass the result as message()",
            )
        if func._schema.is_mutable:
            for argument, value in zip(func._schema.arguments, args, strict=False):
                alias = argument.alias_info
                if (
                    alias is not None
                    and alias.is_write
                    and isinstance(value, torch.Tensor)
                    and id(value) not in self._own
                ):
                    self._refuse(
                        InPlaceError,
                        f"{func} changes a tensor that was made outside the traced function",
                        "Work on a copy: tensor.clone()",
                    )
        result = func(*args, **kwargs)
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._own[id(leaf)] = leaf
        return result


def generator_states(function: Any) -> tuple[Any, ...]:
    """States of the generators that code uses without naming one, and of those that a function holds: in its closure, in the globals it names, in
    the object it belongs to."""
    states: list[Any] = [random.getstate(), _hashable(np.random.get_state()), torch.get_rng_state().numpy().tobytes()]
    for value in _held(function):
        if isinstance(value, random.Random):
            states.append(value.getstate())
        elif isinstance(value, np.random.Generator):
            states.append(repr(value.bit_generator.state))
        elif isinstance(value, np.random.RandomState):
            states.append(_hashable(value.get_state()))
    return tuple(states)


def _held(function: Any) -> list[Any]:
    held: list[Any] = []
    while hasattr(function, "func"):  # partials
        held += [*function.args, *function.keywords.values()]
        function = function.func
    owner = (
        function
        if not hasattr(function, "__code__") and not hasattr(function, "__func__")
        else getattr(function, "__self__", None)
    )
    held += list(getattr(owner, "__dict__", {}).values())
    if isinstance(function, torch.nn.Module):
        function = function.forward
    elif not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        function = type(function).__call__
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        held += [c.cell_contents for c in function.__closure__ or () if _filled(c)]
        held += [function.__globals__[n] for n in code.co_names if n in function.__globals__]
        held += list(function.__defaults__ or ())
    return held


def _hashable(state: Any) -> tuple[Any, ...]:
    parts = state.items() if isinstance(state, dict) else state
    return tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in parts)


def _filled(cell: CellType) -> bool:
    """Whether a variable of a closure has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True

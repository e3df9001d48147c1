"""Watches what a function does outside its arguments while it is traced."""

from __future__ import annotations

import random
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


def generator_states() -> tuple[Any, ...]:
    """States of the generators that code uses without naming one."""
    return random.getstate(), _hashable(np.random.get_state()), torch.get_rng_state().numpy().tobytes()


def _hashable(state: Any) -> tuple[Any, ...]:
    return tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in state)

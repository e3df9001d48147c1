"""Watches what a function does outside its arguments while it is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
import torch.utils._pytree as pytree
from ren.errors import InPlaceError, TraceError, TraceRandomnessError
from torch.utils._python_dispatch import TorchDispatchMode

from ren_frontend_torch.locations import Source, outer_source, user_source
from ren_frontend_torch.targets import UNWRITTEN as UNWRITTEN_NAMES
from ren_frontend_torch.watch import CLOCK, UNWRITTEN

DRAW_OUTSIDE = "Draw outside and pass the result as message()"
_UNWRITTEN = frozenset(f"aten::{n}" for n in UNWRITTEN_NAMES)


class PublicWork(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees all work on real tensors: refuses, at the line that asked for it, random draws, reading memory before anything was written to it, and
    changes of tensors that were made outside. `found` is told what happens in C code beside PyTorch, see `watch`."""

    def __init__(self, report: Callable[[str, str, str, Source], None]) -> None:
        """report: takes code, message, subject, source of a warning."""
        super().__init__()  # type: ignore[no-untyped-call]
        #: Set while the tracer itself works.
        self.paused = False
        self.refused: TraceError | None = None
        self._report = report
        # Tensors made during the trace; holding them keeps their ids from being used again.
        self._own: dict[int, torch.Tensor] = {}
        # Memory to which nothing was written yet, held for the same reason.
        self._unwritten: dict[int, torch.UntypedStorage] = {}

    def _refuse(self, kind: type[TraceError], message: str, hint: str, source: Source | None = None) -> NoReturn:
        file, line = user_source() if source is None else source
        self.refused = kind(message, hint=hint, file=file, line=line)
        raise self.refused

    def found(self, what: str, name: str, source: Source) -> None:
        """A call into C that a program cannot repeat."""
        if what == CLOCK:
            message = (
                f"{name} is read while tracing: what it says then is part of the program, and the same at every run"
            )
            self._report("frozen-clock", message, name, source)
        elif what == UNWRITTEN:
            self._refuse(TraceRandomnessError, *_unwritten(name, "numpy.zeros"), source)
        else:
            message = f"{name} draws random numbers, which would be frozen into the program"
            self._refuse(TraceRandomnessError, message, DRAW_OUTSIDE, source)

    def compares_types(self, source: Source) -> None:
        """type(...) is compared with something at this line."""
        message = (
            "type(...) of a value that is traced is no torch.Tensor: a comparison with that says no, at every run. "
            "Ask isinstance(x, torch.Tensor), which says yes"
        )
        self._report("frozen-type", message, "type", source)

    def check_written(self, value: Any) -> None:
        """Refuse a tensor whose memory holds what was left there."""
        if self._unwritten and isinstance(value, torch.Tensor) and _storage(value) in self._unwritten:
            self._refuse(TraceRandomnessError, *_unwritten("the tensor", "torch.zeros"))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            self._refuse(
                TraceRandomnessError,
                f"{func} draws random numbers, which would be frozen into the program",
                DRAW_OUTSIDE,
                outer_source(),
            )
        if func._schema.is_mutable:
            self._check_written_to(func, args, kwargs)
        elif self._unwritten:
            self._check_read(func, args, kwargs)
        result = func(*args, **kwargs)
        made = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for tensor in made:
            self._own[id(tensor)] = tensor
            if func._schema.name in _UNWRITTEN and tensor.numel():
                storage = tensor.untyped_storage()
                if storage.data_ptr():  # not on the meta device
                    self._unwritten[storage.data_ptr()] = storage
        return result

    def _check_written_to(self, func: Any, args: Any, kwargs: Any) -> None:
        for value, writes, _ in _tensors(func, args, kwargs):
            if not writes:
                continue
            if id(value) not in self._own:
                self._refuse(
                    InPlaceError,
                    f"{func} changes a tensor that was made outside the traced function",
                    "Work on a copy: tensor.clone()",
                )
            self._unwritten.pop(_storage(value), None)

    def _check_read(self, func: Any, args: Any, kwargs: Any) -> None:
        word = func._schema.name.removeprefix("aten::")
        if word.endswith("_like") or word.startswith("new_"):
            return  # the shape alone matters
        for value, _, views in _tensors(func, args, kwargs):
            if not views:
                self.check_written(value)


def _storage(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0  # a tensor without memory: sparse, or a stand-in


def _tensors(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[torch.Tensor, bool, bool]]:
    """(tensor, whether the call writes to it, whether the result may be a view of it) of all arguments."""
    given = dict(zip([a.name for a in func._schema.arguments], args, strict=False)) | kwargs
    for argument in func._schema.arguments:
        alias = argument.alias_info
        for value in pytree.tree_leaves(given.get(argument.name)):
            if isinstance(value, torch.Tensor):
                yield value, alias is not None and alias.is_write, alias is not None


def _unwritten(what: str, instead: str) -> tuple[str, str]:
    return (
        f"{what} holds whatever its memory held before, which would be frozen into the program",
        f"Use {instead}, or write to it first",
    )

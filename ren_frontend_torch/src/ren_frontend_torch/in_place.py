"""What PyTorch allows a change in place: it keeps the shape and the kind of numbers of what it changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from ren.program.types import EncryptedType, MessageType
from xdsl.ir import SSAValue

from ren_frontend_torch import lookup
from ren_frontend_torch.handles import Handle

#: Changes in place of the shape itself.
_RESHAPING = frozenset(
    ("squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze", "detach", "resize", "set", "requires_grad")
)


def fault(word: str, receiver: SSAValue, made: SSAValue, others: Iterable[Any], turned_complex: bool) -> str | None:
    """Why PyTorch refuses that a call in place turns `receiver` into `made`; None where it does not. others: the values, tensors and arrays it met."""
    if turned_complex:
        return "the result is complex and does not fit into a real tensor"
    before, after = _dtype(receiver), _dtype(made)
    if before is not None and after is not None and not torch.can_cast(after, before):
        return f"the result of type {after} does not fit into a tensor of type {before}"
    if word in _RESHAPING:
        return None
    old, new = _shape(receiver), _shape(made)
    if _batched(made) and not _batched(receiver) and isinstance(made.type, EncryptedType):
        return "the result has batch axes, and it has none"
    if _batched(receiver) and old is not None:
        wide = next((s for s in map(_shape, others) if s is not None and len(s) > len(old)), None)
        if wide is not None:
            return f"it meets a value of shape {wide}, whose further axes would be batch axes of its own"
    if old is not None and new is not None and old != new:
        return f"its shape {old} would grow to {new}"
    return None


def _shape(x: Any) -> tuple[int, ...] | None:
    if isinstance(x, (torch.Tensor, np.ndarray)):
        return tuple(x.shape)
    if isinstance(x, SSAValue) and isinstance(x.type, MessageType):
        return x.type.data.shape
    if isinstance(x, SSAValue) and isinstance(x.type, EncryptedType):
        layout = x.type.data.layout
        return None if layout is None else layout.shape
    return None


def _batched(x: SSAValue) -> bool:
    return isinstance(x.type, EncryptedType) and x.type.data.batch == "any"


def _dtype(x: SSAValue) -> torch.dtype | None:
    known = x.type.data.dtype if isinstance(x.type, MessageType) else None
    return None if known is None else lookup.dtype(known)


def is_complex(x: Any) -> bool:
    """Whether an operand that is not traced is complex."""
    if type(x) is Handle:
        return False
    if isinstance(x, torch.Tensor):
        return x.is_complex()
    return isinstance(x, (complex, np.complexfloating)) or (isinstance(x, np.ndarray) and x.dtype.kind == "c")

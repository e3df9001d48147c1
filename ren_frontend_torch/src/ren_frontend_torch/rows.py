"""Where a program on one row means what PyTorch does to a whole batch.

A program computes on every row of a batch alone, and PyTorch aligns axes from the last one. Both agree as long as no operand puts an axis of its own where a row has
lost one: x - x.mean(-1) is [B, n] - [B], where PyTorch meets the n elements with the B rows.
"""

from __future__ import annotations

from ren.program.types import EncryptedType
from xdsl.ir import SSAValue

from ren_frontend_torch.emit import Emitter, Unsupported, encrypted_state


def check_aligned(e: Emitter, a: SSAValue, b: SSAValue) -> None:
    """Raise Unsupported unless an element-wise operation on rows gives the rows, and the shape, of that operation on batches.

    A batch meets what has at most as many axes as one of its rows; another batch has to have as many; public data may bring batch axes of its own, unless the row
    is reduced to one number: that grows to the shape of the data where it stands in every slot.
    """
    for rows, other in ((a, b), (b, a)):
        state = encrypted_state(rows)
        if state is None or state.batch != "any" or state.layout is None:
            continue
        rank, axes = e.rank(rows), _axes(e, other)
        if axes is None:
            if state.layout.is_replicated:
                raise Unsupported(
                    "with batch axes, a value that is reduced to one number meets data of known shape only: declare message(shape=())"
                )
            continue
        if e.batched(other):
            agree = axes == rank
        elif isinstance(other.type, EncryptedType):
            agree = axes <= rank
        else:
            agree = axes <= rank or (rank > 0 and not state.layout.is_replicated)
        if not agree:
            raise Unsupported(
                f"rows of {_counted(rank)} meet a value of {_counted(axes)}: with batch axes PyTorch aligns them otherwise. Keep the axis that was reduced: keepdim=True, or x[..., i:i+1] for an element"
            )


def _axes(e: Emitter, value: SSAValue) -> int | None:
    """Axes of an operand, batch axes of encrypted ones not counted; None when that is unknown."""
    state = encrypted_state(value)
    if state is not None:
        return None if state.layout is None else e.rank(value)
    shape = e.public_shape(value)
    return None if shape is None else len(shape)


def _counted(axes: int) -> str:
    return "no axes" if axes == 0 else f"{axes} axis" if axes == 1 else f"{axes} axes"

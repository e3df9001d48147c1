"""Element-wise operations on operands of different shapes, as PyTorch broadcasts them."""

from __future__ import annotations

import torch
from ren.program.rows import RuleError
from xdsl.ir import SSAValue

from ren_frontend_torch import moving, rows
from ren_frontend_torch.emit import Emitter, Unsupported, encrypted_state


def met(e: Emitter, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """An element-wise operation. What its rule does not lay out is copied first: one element to all slots, as a sum over itself; rows and columns by a product
    with a matrix of zeros and ones, for one level. Raises Unsupported where shapes do not broadcast."""
    rows.check_aligned(e, a, b)
    try:
        return e.build(name, [a, b])
    except RuleError as error:
        refused = error
    spread = [_everywhere(e, v) for v in (a, b)]
    if spread[0] is not a or spread[1] is not b:
        try:
            return e.build(name, spread)
        except RuleError:
            pass  # it meets more axes than it has: it is copied to their shape below
    shape = _common(e, a, b)
    if shape is None:
        raise refused
    grown = [_grown(e, v, shape) for v in (a, b)]
    if grown[0] is a and grown[1] is b:
        raise refused
    return e.build(name, grown)


def _everywhere(e: Emitter, x: SSAValue) -> SSAValue:
    if encrypted_state(x) is None or e.layout(x).elements != 1:
        return x
    return e.build("ren.semantic.sum", [x], {"keepdim": 1} if e.rank(x) else {})


def _shape(e: Emitter, x: SSAValue) -> tuple[int, ...] | None:
    return e.public_shape(x) if encrypted_state(x) is None else e.layout(x).shape


def _common(e: Emitter, a: SSAValue, b: SSAValue) -> tuple[int, ...] | None:
    """The shape that two operands broadcast to, without batch axes; None when one shape is unknown."""
    shapes = [_shape(e, v) for v in (a, b)]
    if shapes[0] is None or shapes[1] is None:
        return None
    known = [s for s in shapes if s is not None]
    batched = [e.rank(v) for v in (a, b) if e.batched(v)]
    if batched:
        # Further axes of public data are batch axes.
        known = [s[len(s) - max(batched) :] if len(s) > max(batched) else s for s in known]
    try:
        return tuple(torch.broadcast_shapes(*known))  # type: ignore[no-untyped-call]
    except RuntimeError:
        raise Unsupported(f"shapes {shapes[0]} and {shapes[1]} do not broadcast") from None


def _grown(e: Emitter, x: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    if encrypted_state(x) is None or e.layout(x).shape == shape:
        return x
    return moving.moved(e, x, lambda numbers: numbers.expand(shape))

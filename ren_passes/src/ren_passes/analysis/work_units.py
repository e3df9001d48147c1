"""A unit of work that needs no calibration: transforms of one limb, which take most of the time of every CKKS operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ren.program import row_of
from ren.program.edit import operands
from ren.program.requirements import span_steps
from ren.program.states import EncryptedState
from ren.program.types import EncryptedType, PlaintextType
from xdsl.ir import Attribute, Operation, SSAValue

if TYPE_CHECKING:
    from ren.schemes.ckks.params import CKKSParams


def limb_transforms(op: Operation, types: Mapping[SSAValue, Attribute], params: CKKSParams) -> int | None:
    """Forward and inverse transforms of one limb of n coefficients that an operation takes by itself, as its definition has them; None when its
    level is not known. A schedule shares and merges some of them, so sums over a program are upper bounds."""
    row = row_of(op)
    if row is None:
        return None
    values = (*operands(op), *op.results)
    states = [t.data for v in values if isinstance(t := types.get(v, v.type), (EncryptedType, PlaintextType))]
    levels = [s.level for s in states if s.level is not None]
    if not levels:
        return None
    limbs = params.levels + 1 - min(levels)
    parts = max((s.parts or 2 for s in states if isinstance(s, EncryptedState)), default=2)
    special, digits = len(params.special), -(-limbs // params.alpha)
    down = 2 * (special + limbs)
    switch = limbs + digits * (limbs + special) + down
    at = row.python_attributes(op.properties)
    match row.cost:
        case "ntt":
            return parts * limbs
        case "encode":
            return limbs
        case "rescale":
            return parts * limbs
        case "key_switch":
            return switch
        case "hoisted":
            return switch + down * (len(op.results) - 1)
        case "slot_sum":
            return switch * _steps(op, types, at, params)
        case "pointwise" | "multiply" | "free" | "public":
            return 0
        case _:
            return None


def _steps(op: Operation, types: Mapping[SSAValue, Attribute], at: Mapping[str, Any], params: CKKSParams) -> int:
    type_ = types.get(operands(op)[0], operands(op)[0].type)
    layout = type_.data.layout if isinstance(type_, EncryptedType) else None
    count = at.get("count") or (None if layout is None else layout.resolve(params.slot_count).frame)
    return len(span_steps(at.get("stride", 1), count or params.slot_count))

"""Types that claim nothing about levels, scales, parts and domains.

While operations are being inserted, those fields of whatever follows change. A type that knows less than its rule is legal, so values
carry only layout, batch and bound from lowering on, until `align-levels` infers everything again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ren.program.dialect import result_types
from ren.program.states import EncryptedState, PlaintextState
from ren.program.types import EncryptedType, PlaintextType
from xdsl.ir import Attribute, SSAValue


def weak(type_: Attribute) -> Attribute:
    """The type without level, scale, parts and domain."""
    if isinstance(type_, EncryptedType):
        state = type_.data
        return EncryptedType(EncryptedState(layout=state.layout, batch=state.batch, bound=state.bound))
    if isinstance(type_, PlaintextType):
        return PlaintextType(PlaintextState(layout=type_.data.layout, use=type_.data.use))
    return type_


def weak_results(
    name: str, operands: Sequence[SSAValue], attributes: Mapping[str, Any] | None = None
) -> tuple[Attribute, ...]:
    """Weakened result types of an operation. Raises RuleError when its rule refuses the operands."""
    return tuple(weak(t) for t in result_types(name, [v.type for v in operands], attributes))

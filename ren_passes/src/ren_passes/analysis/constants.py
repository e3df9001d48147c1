"""Constants that a program holds itself."""

from __future__ import annotations

from ren.program.literals import decode
from xdsl.ir import Operation, SSAValue

#: Larger factors would eat the headroom of a level; they are encoded like other numbers.
_LARGEST_FACTOR = 1 << 20


def number_of(value: SSAValue) -> complex | float | int | None:
    """The number that a value is, when it is a `ren.constant` of a finite number."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != "ren.constant":
        return None
    found = decode(owner.properties["value"])
    if isinstance(found, bool):
        return int(found)
    return found if isinstance(found, (int, float, complex)) else None


def integer_of(value: SSAValue) -> int | None:
    """The constant as a small integer, when it is one: a product with it takes neither level nor scale."""
    found = number_of(value)
    if isinstance(found, complex) or found is None:
        return None
    if found != found or abs(found) > _LARGEST_FACTOR or found != int(found):
        return None
    return int(found)

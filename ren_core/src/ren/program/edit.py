"""Editing a program while remembering what was touched, so that only that needs to be verified afterwards.

All positions are given by operations; nothing here walks a block. Values must be defined before they are used: insert before the
first user, or after the definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ren.errors import ProgramVerifyError
from ren.program import _xdsl
from ren.program._xdsl import block_ops, gc_paused, operands, operation_name, prev_op
from ren.program.dialect import build, encode_attributes, row_of, set_type

__all__ = ["Edit", "block_ops", "gc_paused", "operands", "operation_name", "prev_op"]


class Edit:
    """A set of changes. `touched` holds every operation that was inserted, changed, or lost or gained an operand, in order of first touch."""

    def __init__(self) -> None:
        self._touched: dict[Operation, None] = {}
        self.inserted = 0
        self.removed = 0

    @property
    def touched(self) -> tuple[Operation, ...]:
        return tuple(op for op in self._touched if op.parent is not None)

    def touch(self, op: Operation) -> None:
        """Record a change made without this object."""
        self._touched[op] = None

    # -- insertion ---------------------------------------------------------------------------------------------------

    def insert_before(self, anchor: Operation, op: Operation) -> Operation:
        _block_of(anchor).insert_op_before(op, anchor)
        return self._added(op)

    def insert_after(self, anchor: Operation, op: Operation) -> Operation:
        _block_of(anchor).insert_op_after(op, anchor)
        return self._added(op)

    def insert_first(self, block: Block, op: Operation) -> Operation:
        """At the start of a block."""
        first = block.first_op
        if first is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, first)
        return self._added(op)

    def build_before(
        self,
        anchor: Operation,
        name: str,
        operands: Sequence[SSAValue] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        loc: LocationAttr | None = None,
        result_types: Sequence[Attribute] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Operation:
        """`ren.program.build`, inserted before `anchor`, with its location unless `loc` is given."""
        op = build(
            name,
            operands,
            attributes,
            loc=anchor.location if loc is None else loc,
            result_types=result_types,
            extra=extra,
        )
        return self.insert_before(anchor, op)

    def build_after(
        self,
        anchor: Operation,
        name: str,
        operands: Sequence[SSAValue] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        loc: LocationAttr | None = None,
        result_types: Sequence[Attribute] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Operation:
        op = build(
            name,
            operands,
            attributes,
            loc=anchor.location if loc is None else loc,
            result_types=result_types,
            extra=extra,
        )
        return self.insert_after(anchor, op)

    def _added(self, op: Operation) -> Operation:
        self._touched[op] = None
        self.inserted += 1
        return op

    # -- change ------------------------------------------------------------------------------------------------------

    def replace_uses(self, old: SSAValue, new: SSAValue, *, keep: Sequence[Operation] = ()) -> int:
        """Let every user of `old` use `new`, except the operations in `keep`. Returns the number of operations changed.

        Linear in the number of uses, also when one operation uses the value many times.
        """
        spared = set(map(id, keep))
        users: dict[int, Operation] = {}
        for use in list(old.uses):
            if id(use.operation) not in spared:
                users[id(use.operation)] = use.operation
        for op in users.values():
            op.operands = [new if v is old else v for v in _xdsl.operands(op)]
            self._touched[op] = None
        if new.name_hint is None and not keep:
            new.name_hint = old.name_hint
        return len(users)

    def set_operand(self, op: Operation, index: int, value: SSAValue) -> None:
        operands = list(_xdsl.operands(op))
        operands[index] = value
        op.operands = operands
        self._touched[op] = None

    def set_operands(self, op: Operation, values: Sequence[SSAValue]) -> None:
        op.operands = tuple(values)
        self._touched[op] = None

    def set_attribute(self, op: Operation, name: str, value: Any) -> None:
        """Set (None: remove) an attribute: a property if the operation's row has one of that name, else a discardable attribute."""
        row = row_of(op)
        attr = None if row is None else row.attr(name)
        target = op.attributes if attr is None else op.properties
        if value is None:
            target.pop(name, None)
        elif attr is None:
            target[name] = encode_attributes({name: value})[name]
        else:
            target[name] = attr.make(value)
        self._touched[op] = None

    def set_type(self, value: SSAValue, type_: Attribute) -> None:
        """Change the type of a value; its definition and its users count as touched."""
        set_type(value, type_)
        if isinstance(value.owner, Operation):
            self._touched[value.owner] = None
        for use in value.uses:
            self._touched[use.operation] = None

    def replace(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """Let `values` stand for the results of `op` and erase it."""
        if len(values) != len(op.results):
            raise ProgramVerifyError(
                f"{op.name}: {len(values)} values cannot replace {len(op.results)} results", subject=op.name
            )
        for old, new in zip(op.results, values, strict=True):
            if old is not new:
                self.replace_uses(old, new)
        self.erase(op)

    def erase(self, op: Operation) -> None:
        """Remove an operation. Raises ProgramVerifyError while a result is in use."""
        if any(r.first_use is not None for r in op.results):
            raise ProgramVerifyError(f"{op.name} cannot be erased: a result is in use", subject=op.name)
        _block_of(op).detach_op(op)
        op.erase()
        self._touched.pop(op, None)
        self.removed += 1


def _block_of(op: Operation) -> Block:
    block = op.parent
    if block is None:
        raise ProgramVerifyError(f"{op.name} is in no block", subject=op.name)
    return block

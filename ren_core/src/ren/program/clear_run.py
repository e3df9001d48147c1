"""A lowered program on numbers, without engine, keys or encryption: what it means, as its operations say it."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from ren.errors import ProgramRunError
from ren.program import _xdsl
from ren.program._xdsl import operation_name
from ren.program.cleartext import ClearCase, framed
from ren.program.dialect import at, row_of
from ren.program.flow import flow_of
from ren.program.interpret import call
from ren.program.layout import Layout
from ren.program.machine import Machine
from ren.program.packing import logical_vector
from ren.program.program import Program
from ren.program.states import EncryptedState, PlaintextState
from ren.program.types import EncryptedType, PlaintextType


@dataclass(frozen=True, slots=True)
class _Slots:
    """All that public operations ask of an engine."""

    num_slots: int


def clear_results(
    program: Program, arguments: Sequence[Any], workspace: MutableMapping[Any, Any], slots: int, *, entry: str = "main"
) -> list[NDArray[Any] | Any]:
    """The results of a program, encrypted ones as arrays of batch axes and logical shape.

    arguments: an array or number for each, encrypted ones in their logical shape. workspace: materials and handlers. slots: of the slot vector.
    Raises ProgramRunError for an operation without a clear meaning, LayoutError for arguments that do not fit.
    """
    flow = flow_of(program.entry_function(entry))
    machine = Machine(workspace, _Slots(slots), flow.types)  # type: ignore[arg-type]
    block = program.entry_block(entry)
    values: dict[SSAValue, Any] = {}
    for argument, given in zip(block.args, arguments, strict=True):
        values[argument] = _argument(argument, given, slots)
    for op in _xdsl.block_ops(block):
        operands = _xdsl.operands(op)
        if isinstance(op, ReturnOp):
            return [_logical(values[v], flow.types[v], slots) for v in operands]
        found = tuple(values[v] for v in operands)
        row = row_of(op)
        if not any(isinstance(flow.types[r], (EncryptedType, PlaintextType)) for r in op.results):
            results = call(op, found, machine)
        elif row is None or row.clear is None:
            raise ProgramRunError(f"{operation_name(op)}{at(op)} has no clear meaning", subject=op.name)
        else:
            states = tuple(_encrypted_state(flow.types[v]) for v in operands)
            clear = row.clear(row.python_attributes(op.properties), found, ClearCase(slots, states))
            results = clear if isinstance(clear, tuple) else (clear,)
        values.update(zip(op.results, results, strict=True))
    return []


def _encrypted_state(type_: Any) -> EncryptedState | None:
    return type_.data if isinstance(type_, EncryptedType) else None


def _argument(argument: SSAValue, given: Any, slots: int) -> Any:
    type_ = argument.type
    if isinstance(type_, PlaintextType):
        return np.full(slots, given) if np.ndim(given) == 0 else np.asarray(given)
    if not isinstance(type_, EncryptedType):
        return given
    batch, rows, frame = logical_vector(given, type_.data.layout or Layout(), slots)
    return framed(np.array(rows).reshape((*batch, -1)), frame, slots)


def _logical(value: Any, type_: Any, slots: int) -> Any:
    if not isinstance(type_, (EncryptedType, PlaintextType)):
        return value
    state: EncryptedState | PlaintextState = type_.data
    layout = (state.layout or Layout()).resolve(slots)
    return value[..., : layout.elements].reshape((*value.shape[:-1], *(layout.shape or ())))

"""How large public data is, before a run: measured where all that it follows from is at hand.

Errors grow with what values are multiplied by, so a prediction has to know. Materials that are bound are measured, and so is what built-in and audited operations make of them and of
constants. Promises of inputs are in their types (`message(bound=...)`); of what remains `flow_of` takes a bound that is assumed, and keeps a list.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ren.program import _xdsl
from ren.program.dialect import row_of
from ren.program.interpret import builtin_handler
from ren.program.machine import Machine
from ren.program.requirements import reference_name
from ren.program.results import largest_element
from ren.program.types import MessageType
from ren.schemes.ckks.placeholders import PlanningEngine


def public_sizes(
    block: Block, types: Mapping[SSAValue, Attribute], engine: PlanningEngine, workspace: MutableMapping[Any, Any]
) -> dict[SSAValue, float]:
    """The largest absolute element of every public value that can be computed now. types: of all values."""
    machine = Machine(dict(workspace), engine, types)
    remaining: dict[SSAValue, int] = {}
    for op in _xdsl.block_ops(block):
        for v in _xdsl.operands(op):
            remaining[v] = remaining.get(v, 0) + 1
    known: dict[SSAValue, Any] = {}
    sizes: dict[SSAValue, float] = {}
    for op in _xdsl.block_ops(block):
        operands = _xdsl.operands(op)
        if isinstance(op, ReturnOp):
            break
        found = None
        if is_public(op) and all(v in known for v in operands):
            found = compute_public(op, tuple(known[v] for v in operands), machine)
        for result, value in zip(op.results, found or (), strict=False):
            known[result] = value
            size = largest_element(value)
            if size is not None:
                sizes[result] = size
        for v in operands:  # what nobody reads again need not be held
            remaining[v] -= 1
            if not remaining[v]:
                known.pop(v, None)
    return sizes


def is_public(op: Operation) -> bool:
    return bool(op.results) and all(isinstance(r.type, MessageType) for r in op.results)


def compute_public(op: Operation, operands: tuple[Any, ...], machine: Machine) -> tuple[Any, ...] | None:
    """The results of a public operation whose operands are known; None where computing it early might have effects, and where it fails, as a run will tell."""
    row = row_of(op)
    if row is None or row.handler is None or not _is_pure(op, machine.workspace):
        return None
    with suppress(Exception):
        found = builtin_handler(row.handler)(op, operands, machine)
        return tuple(found) if len(op.results) != 1 else (found,)
    return None


def _is_pure(op: Operation, workspace: Mapping[Any, Any]) -> bool:
    """Built-in and audited operations are, unless the workspace has somebody else do them."""
    if op.name == "ren.resource.ref":
        return False
    if op.name == "ren.material.ref":
        return workspace.get("material_resolver") is None
    return op.name != "torch.call" or reference_name(op) not in (workspace.get("torch_handlers") or {})

"""Forward inference: the state of every value from the declared inputs, by the rules of the op table."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from ren.program import _xdsl
from ren.program.dialect import infer, row_of
from ren.program.program import Program
from ren.program.rows import RuleError


def infer_function(
    function: FuncOp,
    *,
    report: Callable[[Operation, RuleError], None] | None = None,
    stages: frozenset[str] | None = None,
) -> tuple[Operation, ...]:
    """Set the result types of all operations of a function to what their rules give, and its type to what it returns.

    What was written by hand and is not implied by the rules is lost: inference is the truth. stages: only rows of these stages. report: called
    for operations whose operands a rule refuses, whose results keep their types; without it RuleError passes through. Returns the operations changed.
    """
    changed: list[Operation] = []
    for block in function.body.blocks:
        for op in _xdsl.block_ops(block):
            if stages is not None:
                row = row_of(op)
                if row is None or row.stage not in stages:
                    continue
            if infer(op, report):
                changed.append(op)
    if sync_function_type(function):
        changed.append(function)
    return tuple(changed)


def infer_states(
    program: Program, *, report: Callable[[Operation, RuleError], None] | None = None
) -> tuple[Operation, ...]:
    """`infer_function` over every function of a program, in place."""
    return tuple(op for function in program.functions for op in infer_function(function, report=report))


def sync_function_type(function: FuncOp) -> bool:
    """Make the type of a function follow its block arguments and what it returns; whether it changed. Call it after retyping values."""
    block = function.body.blocks.first
    if block is None or not isinstance(block.last_op, ReturnOp):
        return False
    inputs = [a.type for a in block.args]
    outputs = [v.type for v in _xdsl.operands(block.last_op)]
    now = function.function_type
    if list(now.inputs.data) == inputs and list(now.outputs.data) == outputs:
        return False
    function.properties["function_type"] = type(now).from_lists(inputs, outputs)
    return True

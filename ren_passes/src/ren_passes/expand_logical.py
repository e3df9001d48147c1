"""Write composite logical operations with simple ones: rolls of padded vectors, reductions, slices, powers, quotients, matrix products."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program, RuleError, row_of
from ren.program.cost_model import CostModel, cost_model_of
from ren.program.dialect import infer
from ren.program.edit import operands
from ren.program.inference import sync_function_type
from ren.program.layout import LayoutError
from xdsl.ir import Operation, SSAValue

from ren_passes.expansions import products, reductions, rolls
from ren_passes.expansions.emit import Emit
from ren_passes.work import Work, operations

_NAMES = frozenset(
    f"ren.logical.{name}"
    for name in (
        "roll.encrypted",
        "sum.encrypted",
        "mean.encrypted",
        "slice.encrypted",
        "reshape.encrypted",
        "power.encrypted",
        "divide.encrypted_public",
        "matmul.encrypted_public",
    )
)


@dataclass(frozen=True)
class ExpandLogicalPass:
    """What the layout or a shape decides is decided here; the result contains only operations that lower one by one. An operation whose
    layout does not allow it stays and is reported."""

    name: str = "expand-logical"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        model = cost_model_of(workspace)
        for op in operations(program):
            row = row_of(op)
            if row is None or row.stage != "logical":
                continue
            # Earlier expansions may have changed the layout of an operand.
            infer(op, lambda o, error: work.note(o, error.code, str(error)))
            if op.name in _NAMES:
                work.matched += 1
                self._expand(op, work, model)
        for function in program.functions:
            # An expansion may be the operand itself, whose type says more.
            if sync_function_type(function):
                work.edit.touch(function)
        return work.result(program)

    def _expand(self, op: Operation, work: Work, model: CostModel | None) -> None:
        emit = Emit(work.edit, op)
        try:
            value = _expanded(emit, op, model)
        except (LayoutError, RuleError, ZeroDivisionError, TypeError) as error:
            emit.undo()
            layout = "invalid-layout" if isinstance(error, LayoutError) else "invalid-operand"
            work.skip(op, getattr(error, "code", layout), str(error))
            return
        work.replace(op, (value,))
        work.transformed += 1


def _expanded(emit: Emit, op: Operation, model: CostModel | None) -> SSAValue:
    row = row_of(op)
    assert row is not None
    at = row.python_attributes(op.properties)
    x, *rest = operands(op)
    match op.name.split(".")[2]:
        case "roll":
            return rolls.roll(emit, x, at["shift"], at.get("dimension"))
        case "sum":
            return reductions.total(emit, x, bool(at.get("keepdim", 0)))
        case "mean":
            return reductions.mean(emit, x, bool(at.get("keepdim", 0)))
        case "slice":
            return reductions.part(emit, x, at["start"], at["stop"], bool(at.get("drop", 0)))
        case "reshape":
            return reductions.reshape(emit, x, tuple(at["shape"]))
        case "power":
            return products.power(emit, x, at["exponent"])
        case "divide":
            return products.divide(emit, x, rest[0])
        case _:
            return products.matmul(emit, x, rest[0], at["form"], model)

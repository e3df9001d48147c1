"""Rotations of one value share the decomposition of its key switches."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.cost_model import CostModel, cost_model_of
from ren.program.edit import block_ops, operands
from ren.program.literals import decode
from ren.program.types import EncryptedType
from xdsl.ir import Operation, SSAValue

from ren_passes.work import Work, blocks


@dataclass(frozen=True)
class HoistRotationsPass:
    """Replace two or more rotations of one value by one `ren.ckks.rotate_group` at the place of the first (hoisting: Halevi, Shoup,
    "Faster homomorphic linear transformations in HElib", ia.cr/2018/244, section 5). Equal shifts become one member. A group saves decompositions but stores the
    digits; with `workspace["cost_model"]` it is made only where that is predicted to be faster.

    Counters: matched counts rotations, transformed those that joined a group.
    """

    name: str = "hoist-rotations"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        model = cost_model_of(workspace)
        for block in blocks(program):
            groups: dict[SSAValue, list[Operation]] = {}
            for op in block_ops(block):
                if op.name == "ren.ckks.rotate":
                    work.matched += 1
                    groups.setdefault(operands(op)[0], []).append(op)
            for source, rotations in groups.items():
                if len(rotations) > 1 and (model is None or _pays(model, source, rotations)):
                    _group(work, source, rotations)
        return work.result(program)


def _pays(model: CostModel, source: SSAValue, rotations: list[Operation]) -> bool:
    """Whether a group is predicted to be faster than its members."""
    state = source.type.data if isinstance(source.type, EncryptedType) else None
    level = min(state.level or 0, model.params.levels) if state is not None else 0
    count = len({decode(op.properties["shift"]) for op in rotations})
    if count == 1:
        return True  # one rotation for all
    apart = model.rotations(count, level=level, hoisted=False)
    return model.rotations(count, level=level, hoisted=True) < apart


def _group(work: Work, source: SSAValue, rotations: list[Operation]) -> None:
    shifts = [int(decode(op.properties["shift"])) for op in rotations]
    distinct = list(dict.fromkeys(shifts))
    new = work.edit.build_before(rotations[0], "ren.ckks.rotate_group", (source,), {"shifts": distinct})
    for op, shift in zip(rotations, shifts, strict=True):
        work.edit.replace(op, (new.results[distinct.index(shift)],))
        work.transformed += 1

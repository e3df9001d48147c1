"""Rotations of one value share the decomposition of its key switches."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.edit import block_ops, operands
from ren.program.literals import decode
from xdsl.ir import Operation, SSAValue

from ren_passes.work import Work, blocks


@dataclass(frozen=True)
class HoistRotationsPass:
    """Replace two or more rotations of one value by one `ren.ckks.rotate_group` at the place of the first (hoisting: Halevi, Shoup,
    "Faster homomorphic linear transformations in HElib", ia.cr/2018/244, section 5). Equal shifts become one member.

    Counters: matched counts rotations, transformed those that joined a group.
    """

    name: str = "hoist-rotations"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            groups: dict[SSAValue, list[Operation]] = {}
            for op in block_ops(block):
                if op.name == "ren.ckks.rotate":
                    work.matched += 1
                    groups.setdefault(operands(op)[0], []).append(op)
            for source, rotations in groups.items():
                if len(rotations) > 1:
                    _group(work, source, rotations)
        return work.result(program)


def _group(work: Work, source: SSAValue, rotations: list[Operation]) -> None:
    shifts = [int(decode(op.properties["shift"])) for op in rotations]
    distinct = list(dict.fromkeys(shifts))
    new = work.edit.build_before(rotations[0], "ren.ckks.rotate_group", (source,), {"shifts": distinct})
    for op, shift in zip(rotations, shifts, strict=True):
        work.edit.replace(op, (new.results[distinct.index(shift)],))
        work.transformed += 1

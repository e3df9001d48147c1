"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.dialect import is_pure, obligations_of
from ren.program.edit import block_ops, operands
from xdsl.ir import Operation, SSAValue

from ren_passes.work import Work, blocks


@dataclass(frozen=True)
class MergeEqualValuesPass:
    """Let the results of a pure operation stand for those of later ones with the same name, operands, attributes and result types. Operands are
    compared after merging, so equal chains go in one walk (value numbering: Cocke, "Global common subexpression elimination", 1970).

    It runs when states are exact and before maintenance moves, so that the late passes see who really uses a value. Attributes with a dotted name are notes and do not make operations differ. A product that is summed without being relinearized first is
    merged too: what follows it decides nothing about its value.
    """

    name: str = "merge-equal-values"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            seen: dict[Hashable, Operation] = {}
            for op in block_ops(block):
                if not op.results or not is_pure(op):
                    continue
                first = seen.setdefault(_key(op), op)
                if first is not op:
                    work.matched += 1
                    work.transformed += 1
                    work.edit.replace(op, first.results)
        return work.result(program)


def _key(op: Operation) -> Hashable:
    values: tuple[SSAValue, ...] = tuple(operands(op))
    types = tuple(r.type for r in op.results)
    return op.name, values, tuple(sorted(op.properties.items(), key=lambda i: i[0])), types, obligations_of(op)

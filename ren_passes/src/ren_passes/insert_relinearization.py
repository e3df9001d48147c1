"""Products of three parts are relinearized."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.dialect import OBLIGATIONS_ATTRIBUTE, obligations_attribute, obligations_of
from ren.program.op_table import RELINEARIZE

from ren_passes.analysis.weak import weak
from ren_passes.work import Work, operations


@dataclass(frozen=True)
class InsertRelinearizationPass:
    """`ren.ckks.relinearize` right behind every operation that owes it; what else the result owes moves on to it."""

    name: str = "insert-relinearization"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for op in operations(program):
            owed = obligations_of(op)
            if RELINEARIZE not in owed:
                continue
            work.matched += 1
            rest = [o for o in owed if o != RELINEARIZE]
            condition = op.properties.get("rescale_condition")
            source = op.results[0]
            new = work.edit.build_after(
                op,
                "ren.ckks.relinearize",
                (source,),
                {} if condition is None else {"rescale_condition": condition},
                result_types=(weak(source.type),),
                extra={OBLIGATIONS_ATTRIBUTE: obligations_attribute(rest)} if rest else None,
            )
            work.edit.replace_uses(source, new.results[0], keep=(new,))
            work.edit.set_attribute(op, OBLIGATIONS_ATTRIBUTE, None)
            work.transformed += 1
        return work.result(program)

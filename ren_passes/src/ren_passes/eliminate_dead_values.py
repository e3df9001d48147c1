"""Remove what nothing needs."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.dialect import is_dead
from ren.program.edit import prev_op

from ren_passes.work import Work, blocks


@dataclass(frozen=True)
class EliminateDeadValuesPass:
    """Erase pure operations whose results nobody uses. What may have an effect stays: resources, kept calls, and operations that
    nobody registered. One walk from the end, so chains go at once."""

    name: str = "eliminate-dead-values"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            op = block.last_op
            while op is not None:
                previous = prev_op(op)
                if is_dead(op):
                    work.matched += 1
                    work.transformed += 1
                    work.edit.erase(op)
                op = previous
        return work.result(program)

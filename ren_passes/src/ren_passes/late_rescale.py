"""Rescale as late as possible: a sum of products pays once."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.edit import operands
from ren.program.scales import SymbolicScale
from xdsl.ir import Operation, SSAValue

from ren_passes.align_levels import known
from ren_passes.analysis.consumers import sole_consumer
from ren_passes.sinking import Sink
from ren_passes.work import Work, blocks


@dataclass(frozen=True)
class LateRescalePass:
    """Move rescales below sums whose terms all end in one (`ren_passes.sinking`). A term that was aligned from a shallower level joins them: its
    alignment ends in a rescale too, so it is only multiplied by the constant in front of that.

    No rescale crosses the consumer of a caller's plaintext, whose level and scale are fixed. Counters: matched counts unconditional
    rescales, transformed those that moved or were merged into one that did.
    """

    name: str = "late-rescale"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            Sink(work, _is_rescale, one_sided=False, adopt=_Adopt(work)).run(block)
        return work.result(program)


def _is_rescale(op: Operation) -> bool:
    return op.name == "ren.ckks.rescale" and len(operands(op)) == 1


class _Adopt:
    def __init__(self, work: Work) -> None:
        self.edit = work.edit

    def __call__(self, op: Operation, other: SSAValue, source: Operation) -> SSAValue | None:
        """An aligned value as it was before the rescale that ends its alignment, at the level and scale of what `source` rescales."""
        align = other.owner
        if not isinstance(align, Operation) or align.name != "ren.ckks.align" or sole_consumer(other) is not op:
            return None
        x = operands(align)[0]
        start, target = known(x), known(operands(source)[0])
        if start is None or target is None or target[1] != SymbolicScale.at_level(target[0]) ** 2:
            return None
        (level, scale), (wanted, product) = start, target
        if scale != SymbolicScale.at_level(level) or known(other) != known(source.results[0]) or wanted < level:
            return None
        value = x
        if wanted > level:
            value = self.edit.build_before(align, "ren.ckks.mod_switch", (x,), {"levels": wanted - level}).results[0]
        attributes = {"value": 1.0, "scale": product / scale}
        new = self.edit.build_before(align, "ren.ckks.multiply_scalar", (value,), attributes).results[0]
        self.edit.replace(align, (new,))
        return new

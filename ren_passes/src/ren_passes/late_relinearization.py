"""Relinearize as late as possible: a sum of products pays for one key switch."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from xdsl.ir import Operation

from ren_passes.sinking import Sink
from ren_passes.work import Work, blocks


@dataclass(frozen=True)
class LateRelinearizationPass:
    """Move relinearizations below sums (`ren_passes.sinking`), across terms of two parts where another product follows. Where the sum is rescaled,
    the relinearization ends in front of the rescale and is carried out in the same division.

    Counters: matched counts relinearizations, transformed those that moved or were merged into one that did.
    """

    name: str = "late-relinearization"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            Sink(work, _is_relinearization, one_sided=True).run(block)
        return work.result(program)


def _is_relinearization(op: Operation) -> bool:
    return op.name == "ren.ckks.relinearize"

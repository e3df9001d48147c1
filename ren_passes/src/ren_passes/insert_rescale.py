"""Products are rescaled."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.dialect import OBLIGATIONS_ATTRIBUTE, obligations_of
from ren.program.edit import operands
from ren.program.op_table import RESCALE

from ren_passes.analysis.weak import weak
from ren_passes.work import Work, operations


@dataclass(frozen=True)
class InsertRescalePass:
    """`ren.ckks.rescale` right behind every operation that owes nothing else. A product with a plaintext goes back to the coefficient domain
    first, where its sums are formed; a caller's plaintext decides at run time whether its product is rescaled (not when its scale is 1).

    An operation that owes something else first is skipped.
    """

    name: str = "insert-rescale"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for op in operations(program):
            owed = obligations_of(op)
            if RESCALE not in owed:
                continue
            work.matched += 1
            if owed != (RESCALE,):
                work.skip(op, "pending-obligation", f"owes {', '.join(owed)} before it can be rescaled")
                continue
            source = op.results[0]
            types = (weak(source.type),)
            last = op
            if op.name == "ren.ckks.multiply_plaintext":
                last = work.edit.build_after(op, "ren.ckks.from_ntt", (source,), result_types=types)
            condition = op.properties.get("rescale_condition")
            runtime = condition is not None and condition.data == "plaintext_scale_not_one"  # type: ignore[attr-defined]
            values = (last.results[0], operands(op)[1]) if runtime else (last.results[0],)
            attributes = {"condition": condition if runtime else "always"}
            new = work.edit.build_after(last, "ren.ckks.rescale", values, attributes, result_types=types)
            work.edit.replace_uses(source, new.results[0], keep=(last, new))
            work.edit.set_attribute(op, OBLIGATIONS_ATTRIBUTE, None)
            work.transformed += 1
        return work.result(program)

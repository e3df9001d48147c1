"""The pass: `smooth.average` becomes `smooth.window` and a product that the passes behind it lower."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import Edit, PassResult, PassStats, Program, row_of
from ren.program.edit import block_ops


@dataclass(frozen=True)
class LowerSmoothPass:
    name: str = "lower-smooth"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        edit, matched = Edit(), 0
        for function in program.functions:
            for block in function.body.blocks:
                for op in block_ops(block):
                    row = row_of(op)
                    if row is None or row.name != "smooth.average":
                        continue
                    matched += 1
                    width = row.python_attributes(op.properties)["width"]
                    window = edit.build_before(op, "smooth.window", op.operands, {"width": width})
                    share = edit.build_before(op, "ren.constant", (), {"value": 1.0 / width})
                    product = edit.build_before(op, "ren.semantic.multiply", (window.results[0], share.results[0]))
                    edit.replace(op, product.results)
        stats = PassStats(matched=matched, transformed=matched, inserted=edit.inserted, removed=edit.removed)
        return PassResult(program, stats, touched=edit.touched)

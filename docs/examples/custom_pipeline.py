"""Customize and audit a pipeline: an analysis and a transformation of your own among the default passes, and a report of each.

The analysis leaves what it found in the workspace, which the passes and the caller share. The transformation replaces x * x by
`ren.semantic.square` before anything is lowered.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import add_engine_args, make_engine, print_table
from ren import jit
from ren.program.edit import block_ops
from ren.testing.program_kit import ProgramBuilder, workspace_for

TOLERANCE = 3e-5


@dataclass(frozen=True)
class CountOperations:
    """An analysis: how many operations of each kind there are, under workspace["counts"][when]."""

    when: str

    @property
    def name(self) -> str:
        return f"count-operations-{self.when}"

    def run(self, program: jit.Program, workspace: MutableMapping[Any, Any]) -> jit.PassResult:
        found = Counter(op.name for op in program.walk())
        workspace.setdefault("counts", {})[self.when] = found
        return jit.PassResult.unchanged(program, matched=sum(found.values()))


@dataclass(frozen=True)
class RecognizeSquares:
    """A transformation: x * x is a square, which takes one product less inside."""

    name: str = "recognize-squares"

    def run(self, program: jit.Program, workspace: MutableMapping[Any, Any]) -> jit.PassResult:
        edit, matched, transformed = jit.Edit(), 0, 0
        for function in program.functions:
            for block in function.body.blocks:
                for op in block_ops(block):
                    if op.name != "ren.semantic.multiply":
                        continue
                    matched += 1
                    left, right = op.operands
                    if left is right:
                        edit.replace(op, edit.build_before(op, "ren.semantic.square", (left,)).results)
                        transformed += 1
        stats = jit.PassStats(matched, transformed, edit.inserted, edit.removed)
        return jit.PassResult(program, stats, touched=edit.touched)


def source_program() -> jit.Program:
    """(x * x - 0.5) * x + 3 y, built by hand; `jit.trace` and `jit.parse` give the same kind of object."""
    b = ProgramBuilder(x=jit.encrypted(), y=jit.encrypted())
    square = b("ren.semantic.multiply", b["x"], b["x"])
    inner = b("ren.semantic.subtract", square, b.constant(0.5))
    left = b("ren.semantic.multiply", inner, b["x"])
    return b.program(b("ren.semantic.add", left, b("ren.semantic.multiply", b.constant(3), b["y"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_engine_args(parser, default_preset="slots8192-scale40-levels7")
    parser.add_argument("--draw", type=Path, default=None, help="write the lowered program as SVG to this path")
    args = parser.parse_args()
    engine = make_engine(args)

    pipeline = (
        jit.default_pipeline()
        .before("lower-semantic-to-logical", CountOperations("semantic"), RecognizeSquares())
        .after("insert-rescale", CountOperations("maintained"))
        .then(CountOperations("final"))
    )
    if args.draw is not None:
        pipeline = pipeline.then(jit.SvgGraphVisualizationPass(args.draw, overwrite=True))

    source, workspace = source_program(), jit.Workspace()
    result = pipeline.run(source, workspace)
    if result.workspace is not workspace:
        raise SystemExit("a pipeline returns the workspace that it was given")
    print_table(
        ["pass", "matched", "transformed", "inserted", "removed", "skipped", "ms"],
        [
            [r.name, s.matched, s.transformed, s.inserted, s.removed, s.skipped, f"{1e3 * r.seconds:.2f}"]
            for r in result.reports
            for s in (r.stats,)
        ],
    )
    counts = workspace["counts"]
    kinds = (
        "ren.semantic.multiply",
        "ren.ckks.multiply",
        "ren.ckks.square",
        "ren.ckks.relinearize",
        "ren.ckks.rescale",
        "ren.ckks.align",
    )
    print()
    print_table(["operation", *counts], [[kind, *(counts[when][kind] for when in counts)] for kind in kinds])

    space = workspace_for(result.program, engine)
    x = np.cos(np.arange(engine.num_slots)) / 2
    y = np.sin(np.arange(engine.num_slots)) / 2
    decoded = engine.decode(engine.decrypt(result.program.run(x, y, workspace=space)))
    error = float(np.abs(decoded - ((x * x - 0.5) * x + 3 * y)).max())
    print()
    print_table(["max abs error"], [[f"{error:.2e}"]])
    if error > TOLERANCE:
        raise SystemExit(f"error {error:.2e} is above {TOLERANCE:.0e}")


if __name__ == "__main__":
    main()

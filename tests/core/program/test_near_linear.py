"""Time grows nearly linearly: 50,000 operations take at most 13 times the time of 5,000 (processor time, best of several, collector restored)."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from ren.program import Edit, PassPipeline, PassResult, PassStats, Program, build, encrypted, parse
from ren.program.edit import block_ops, gc_paused
from ren.testing.program_kit import ProgramBuilder

SMALL, LARGE, MOST = 5_000, 50_000, 13.0


def program_of(count: int) -> Program:
    """A chain of sums and rotations."""
    b = ProgramBuilder(x=encrypted(), y=encrypted())
    x, y = b["x"], b["y"]
    for i in range(count):
        op = build("ren.ckks.rotate", [x], {"shift": i % 7}) if i % 4 == 0 else build("ren.ckks.add", [x, y])
        b.block.add_op(op)
        y, x = x, op.results[0]
    return b.program(x)


@dataclass(frozen=True)
class Rebuild:
    """Replaces every tenth operation by its equal."""

    offset: int

    @property
    def name(self) -> str:
        return f"rebuild-{self.offset}"

    def run(self, program: Program, workspace: Any) -> PassResult:
        edit, matched = Edit(), 0
        for i, op in enumerate(block_ops(program.entry_block())):
            if i % 10 == self.offset and op.results:
                matched += 1
                attributes = dict(op.properties)
                edit.replace(op, edit.build_before(op, op.name, op.operands, attributes).results)
        stats = PassStats(matched=matched, transformed=matched, inserted=edit.inserted, removed=edit.removed)
        return PassResult(program, stats, touched=edit.touched)


PIPELINE = PassPipeline([Rebuild(i) for i in range(5)])


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """Best processor time of `work`; the collector is left as it was."""
    was = gc.isenabled()
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
        assert gc.isenabled() is was
    return best


def _paused(count: int) -> Program:
    # As tracing does it: with the collector on, its passes over the growing program dominate.
    with gc_paused():
        return program_of(count)


#: The bar at full size; at a fifth of it one that no other load on the machine can reach, and what is quadratic (100) does.
SIZES = [(SMALL // 5, LARGE // 5, 30.0), pytest.param(SMALL, LARGE, MOST, marks=pytest.mark.full)]


@pytest.mark.parametrize(("few", "many", "most"), SIZES)
@pytest.mark.parametrize("what", ["build", "pipeline", "readiness", "text"])
def test_ten_times_the_operations_take_at_most_thirteen_times_the_time(
    what: str, few: int, many: int, most: float, record_property: Any
) -> None:
    def work_on(count: int) -> Callable[[], Any]:
        if what == "build":
            return lambda: _paused(count)
        program = program_of(count)
        if what == "text":
            # Parsing 50,000 operations takes seconds: printing here, parsing in the full run.
            return program.to_text
        if what == "pipeline":
            return lambda: PIPELINE.run(program)
        # Another Program each time, for which nothing is remembered.
        return lambda: Program._trusted(program.module).readiness()

    small, large = seconds(work_on(few), 3), seconds(work_on(many), 2)
    record_property("seconds", (small, large))
    print(f"{what}: {few} operations {small:.3f} s, {many} operations {large:.3f} s, ratio {large / small:.1f}")
    assert large <= most * small


@pytest.mark.full
def test_parsing_is_nearly_linear() -> None:
    small, large = program_of(SMALL).to_text(), program_of(LARGE).to_text()
    a, b = seconds(lambda: parse(small), 3), seconds(lambda: parse(large), 2)
    print(f"parse: {a:.3f} s, {b:.3f} s, ratio {b / a:.1f}")
    assert b <= MOST * a


@pytest.mark.full
@pytest.mark.timeout(120)
def test_200_000_flat_unknown_operations_parse_within_a_minute() -> None:
    lines = ['%0 = "app.op"() : () -> i32'] + [
        f'%{i + 1} = "app.op"(%{i}) {{k = 1 : i64}} : (i32) -> i32' for i in range(200_000)
    ]
    start = time.process_time()
    program = parse("\n".join(lines))
    assert time.process_time() - start < 60
    assert sum(1 for _ in program.walk()) == 200_001


def test_a_long_chain_never_meets_the_recursion_limit() -> None:
    program = program_of(3_000)
    again = parse(program.clone().to_text())
    assert len(again.requirements().operations) == 3_000

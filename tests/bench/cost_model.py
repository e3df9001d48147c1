"""Predicted against measured time of programs: the corpus of the pass tests and the documents' examples, lowered in several ways.

    taskset -c 1 python tests/bench/cost_model.py --params slots8192-scale40-levels7-int64 [--calibrate] [--variants default,plain,alone] [--rows polynomial]

`plain`: the passes that lower and no more; `alone`: plain and one optimisation, for each of them; `default`: the default pipeline. Equal plans are measured once.

A plan is replayed in pieces of about half a millisecond, in their order, on buffers of zeros, so that caches hold what they hold in a run. Prices are those of a machine
that nobody disturbs, and no machine is: the unit that the calibration took as its reference runs before and after each piece, and the piece's time is divided by how much
slower than then the reference was. Of each piece the median of all rounds counts. Beside it stands the time of whole replays as the clock shows it. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ren import jit
from ren.backend.select import get_backend
from ren.engine.exec_unit import ExecUnit
from ren.engine.forecast import Forecast, forecast
from ren.engine.stopwatch import Reference, Runs, seconds
from ren.errors import ProgramNotReadyError
from ren.program import Workspace
from ren.program.cost import _ready
from ren.program.cost_graph import graph_of
from ren.schemes.ckks import CKKSParams
from ren.schemes.ckks.placeholders import PlanningEngine
from ren.testing.program_kit import ProgramBuilder

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "passes"), str(ROOT / "docs" / "examples")]

from passes_corpus import CASES, Sem  # noqa: E402
from test_each_alone import ALONE, pipeline  # noqa: E402

#: Predicted seconds of a piece: long beside a call, short beside the spells of a disturbed machine.
PIECE = 5e-4
CLOSE = 0.2


@dataclass(frozen=True)
class Measured:
    """predicted: seconds of a replay, from its start to its end. quiet: the same as measured, as a machine like that of the calibration would take. clock: median of whole replays. drift: how much
    slower than at the calibration the reference was."""

    predicted: float
    quiet: float
    clock: float
    drift: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.quiet


# -- programs ----------------------------------------------------------------------------------------------------------


def sources(params: CKKSParams) -> Iterator[tuple[str, Any, Any]]:
    """(name, program as written, workspace). Programs written for 64 slots keep their layouts: a frame of 64 slots is repeated."""
    for case in CASES:
        builder = ProgramBuilder(**case.inputs)
        out = case.build(Sem(builder))
        yield case.name, builder.program(*(out if isinstance(out, tuple) else (out,))), Workspace()
    import trace_matvec

    inputs = {
        "x": jit.encrypted(),
        "weight": jit.message(),
        "bias": jit.message(),
        "gain": jit.plaintext(),
        "size": jit.static(8),
        "repeats": jit.static(params.slot_count // 8),
    }
    captured = jit.trace(trace_matvec.affine_then_quadratic, inputs=inputs)
    yield "matvec (document)", captured.program, captured.workspace
    builder = ProgramBuilder(x=jit.encrypted())
    s = Sem(builder)
    x: Any = s["x"]
    for _ in range(min(10, params.levels)):
        x = s.sub(s.mul(s.mul(2, x), x), 1)
    yield "2x2-1, every level", builder.program(x), Workspace()


def plan_of(program: Any, params: CKKSParams, backend: Any, calibration: Any) -> Forecast | None:
    """What a run would execute; None where the program does not fit the parameters or computes nothing."""
    engine = PlanningEngine(params, backend.name)
    try:
        flow = _ready(program, engine, Workspace(), "main")
    except ProgramNotReadyError:
        return None
    found = forecast(graph_of(program.entry_block(), engine, Workspace(), flow.types).results, backend, calibration)
    return found if found.units else None


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(plan: Forecast, backend: Any, reference: Reference, rounds: int) -> Measured:
    assert plan.calibration is not None and plan.seconds is not None
    runs = Runs(backend, [slot.words for slot in plan.slots])
    total = sum(plan.seconds)
    times = max(1, round(PIECE / max(total, 1e-7)))  # short plans follow themselves
    pieces = list(_pieces(plan.units, plan.seconds, runs)) if times == 1 else [runs.of(plan.units * times)]
    whole = runs.of(plan.units * times)
    whole()
    samples: list[list[float]] = []
    drifts, clock = [], []
    best = plan.calibration.reference or reference.best
    for _ in range(rounds):
        row, before = [], reference.now()
        for piece in pieces:
            took = seconds(piece) - reference.call
            after = reference.now()
            drift = (before + after) / 2 / best
            row.append(took / drift / times)
            drifts.append(drift)
            before = after
        samples.append(row)
        clock.append(seconds(whole) / times)
    quiet = sum(statistics.median(column) for column in zip(*samples, strict=True))
    replay = plan.calibration.replay
    return Measured(total + replay, quiet + replay, statistics.median(clock) + replay, statistics.median(drifts))


def _pieces(units: Sequence[ExecUnit], predicted: Sequence[float], runs: Runs) -> Iterator[Callable[[], object]]:
    start, so_far = 0, 0.0
    for i, took in enumerate(predicted):
        so_far += took
        if so_far >= PIECE or i + 1 == len(units):
            yield runs.of(units[start : i + 1])
            start, so_far = i + 1, 0.0


# -- report ------------------------------------------------------------------------------------------------------------


def distribution(name: str, found: Sequence[Measured]) -> str:
    """One line of a Markdown table: predicted/measured."""
    ratios = np.array([m.ratio for m in found])
    close = np.mean(np.abs(ratios - 1) <= CLOSE)
    low, middle, high = np.percentile(ratios, [5, 50, 95])
    raw = np.mean([abs(m.predicted / m.clock - 1) <= CLOSE for m in found])
    drift = statistics.median(m.drift for m in found)
    return f"| {name} | {len(found)} | {100 * close:.0f} % | {low:.2f} | {middle:.2f} | {high:.2f} | {100 * raw:.0f} % | {drift:.2f} |"


def saving(name: str, pairs: Sequence[tuple[Measured, Measured]]) -> str:
    """One line: what an optimisation saves over the programs whose plans it changes."""
    if not pairs:
        return f"| {name} | 0 | | | |"
    before, after = (sum(x) for x in zip(*((a.quiet, b.quiet) for a, b in pairs), strict=True))
    expected, then = (sum(x) for x in zip(*((a.predicted, b.predicted) for a, b in pairs), strict=True))
    off = statistics.median(abs((1 - b.quiet / a.quiet) - (1 - b.predicted / a.predicted)) for a, b in pairs)
    return f"| {name} | {len(pairs)} | {100 * (1 - after / before):.1f} % | {100 * (1 - then / expected):.1f} % | {100 * off:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", default="slots8192-scale40-levels7-int64")
    parser.add_argument("--calibrate", action="store_true", help="measure this machine first")
    parser.add_argument("--variants", default="default", help="comma-separated: default, plain, alone")
    parser.add_argument("--rows", default="", help="comma-separated substrings of program names; empty = all")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--list", action="store_true", help="a line for every program")
    options = parser.parse_args()
    params, backend = CKKSParams.preset(options.params), get_backend("cpu")
    wanted = options.variants.split(",")
    lowerings = {name: pipeline(None if name == "plain" else name) for name in ("plain", *ALONE)}
    lowerings["default"] = jit.default_pipeline()
    chosen = [v for v in lowerings if v in wanted or (v in ALONE and "alone" in wanted)]
    lowered = [
        (name, variant, lowerings[variant].run(source, space).program)
        for name, source, space in sources(params)
        if not options.rows or any(part in name for part in options.rows.split(","))
        for variant in chosen
    ]
    calibration = backend.calibrate(print) if options.calibrate else backend.calibration()  # type: ignore[attr-defined]
    print(f"{params!r}\nprices: {calibration.note}", flush=True)
    start = time.perf_counter()
    reference = Reference(backend)
    known: dict[Any, Measured] = {}
    found: dict[str, dict[str, Measured]] = {variant: {} for variant in chosen}
    skipped = []
    for name, variant, program in lowered:
        plan = plan_of(program, params, backend, calibration)
        if plan is None:
            skipped.append(f"{name} ({variant})")
            continue
        key = plan.units, plan.slots
        if key not in known:
            known[key] = measure(plan, backend, reference, options.rounds)
        found[variant][name] = known[key]
        if options.list:
            m = known[key]
            times = f"predicted {m.predicted * 1e6:8.0f} us  measured {m.quiet * 1e6:8.0f}  clock {m.clock * 1e6:8.0f}"
            print(f"{name:28} {variant:22} {times}  ratio {m.ratio:5.2f}  drift {m.drift:4.2f}", flush=True)
    print(
        f"{len(known)} plans in {time.perf_counter() - start:.0f} s; nothing to run or not runnable: {', '.join(skipped)}"
    )
    print("\n| lowering | programs | within 20 % | 5 % | median | 95 % | by the clock | drift |\n|" + " --- |" * 8)
    for variant in chosen:
        print(distribution(variant, list(found[variant].values())))
    print("\n| optimisation | plans it changes | saves | predicted | off by (median, points) |\n|" + " --- |" * 5)
    for variant in [v for v in chosen if v != "plain"] if "plain" in chosen else ():
        names = [n for n in found["plain"] if n in found[variant]]
        pairs = [(found["plain"][n], found[variant][n]) for n in names]
        print(saving(variant, [(a, b) for a, b in pairs if a is not b]))


if __name__ == "__main__":
    main()

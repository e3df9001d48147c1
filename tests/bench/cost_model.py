"""Predicted against measured time of programs: the corpus of the pass tests, and the documents' examples.

    taskset -c 1 python tests/bench/cost_model.py --params slots8192-scale40-levels7-int64 [--calibrate] [--rows polynomial]

Each program is lowered by the default pipeline; its plan, the one that a run with these parameters executes, is replayed on its own buffers. Prints both times and
their ratio for each program, and how many lie within 20 %. With --calibrate the machine is measured first. Prices are those of a machine without other work, so the
shortest replay of several rounds is what they are compared with first, then the median. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ren import jit
from ren.backend.select import get_backend
from ren.engine.plan import Plan, build_plan
from ren.engine.schedule import normalise
from ren.program.cost import _ready
from ren.program.cost_graph import graph_of
from ren.program.workspace import Workspace
from ren.schemes.ckks import CKKSParams
from ren.schemes.ckks.placeholders import PlanningEngine
from ren.testing.program_kit import ProgramBuilder

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "passes"))
sys.path.insert(0, str(ROOT / "docs" / "examples"))

from test_corpus import CASES, Sem  # noqa: E402


def programs(params: CKKSParams) -> dict[str, Any]:
    """Lowered programs by name. Those written for 64 slots keep their layouts: a frame of 64 slots is repeated."""
    found = {}
    for case in CASES:
        builder = ProgramBuilder(**case.inputs)
        out = case.build(Sem(builder))
        outputs = out if isinstance(out, tuple) else (out,)
        found[case.name] = jit.default_pipeline().run(builder.program(*outputs)).program
    found["matvec (document)"] = matvec(params)
    found["2x2-1 ten times"] = chebyshev(params)
    return found


def matvec(params: CKKSParams) -> Any:
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
    return jit.default_pipeline().run(captured.program, captured.workspace).program


def chebyshev(params: CKKSParams) -> Any:
    builder = ProgramBuilder(x=jit.encrypted())
    s = Sem(builder)
    x: Any = s["x"]
    for _ in range(min(10, params.levels)):
        x = s.sub(s.mul(s.mul(2, x), x), 1)
    return jit.default_pipeline().run(builder.program(x)).program


def replay(program: Any, params: CKKSParams, backend: Any) -> Callable[[], Any]:
    """One replay of the plan of a program, on buffers of zeros."""
    engine = PlanningEngine(params, backend.name)
    flow = _ready(program, engine, Workspace(), "main")
    graph = graph_of(program.entry_block(), engine, Workspace(), flow.types)
    normal = normalise(graph.results)
    plan: Plan = build_plan(normal.key, backend)
    buffers = []
    for node in normal.inputs:
        buffer = plan.pool.take(node.words)
        backend.copyin(buffer.memory, 0, np.zeros(node.words, np.uint64))
        buffers.append(buffer)
    scalars = [node.params for node in normal.scalars]
    return lambda: plan.run(buffers, scalars, [])


def measured(call: Callable[[], Any], seconds: float) -> list[float]:
    """Times of a call, after two that warm the caches."""
    call()
    call()
    samples: list[float] = []
    start = time.perf_counter()
    while len(samples) < 5 or time.perf_counter() < start + seconds:
        begin = time.perf_counter()
        call()
        samples.append(time.perf_counter() - begin)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--params", default="slots8192-scale40-levels7-int64")
    parser.add_argument("--calibrate", action="store_true", help="measure this machine first")
    parser.add_argument("--rows", default="", help="comma-separated substrings; empty = all")
    parser.add_argument("--seconds", type=float, default=0.2, help="per program and round")
    parser.add_argument(
        "--rounds", type=int, default=3, help="over all programs: phases of noise hit only some of them"
    )
    options = parser.parse_args()
    params, backend = CKKSParams.preset(options.params), get_backend(None)
    if options.calibrate:
        backend.calibrate(lambda text: print(text, flush=True))  # type: ignore[attr-defined]
    print(f"{params!r} on {backend.name}; {backend.calibration().note}")  # type: ignore[attr-defined]
    predicted: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    found = programs(params)
    for number in range(options.rounds):
        for name, program in found.items():
            if options.rows and not any(part in name for part in options.rows.split(",")):
                continue
            if number == 0:
                try:
                    cost = program.cost(params, device=backend.name)
                except jit.ProgramNotReadyError as error:
                    print(f"{name:28} not runnable with these parameters: {sorted(error.report.codes)}")
                    continue
                if cost.units:
                    predicted[name], samples[name] = cost.total.seconds, []
            if name in predicted:
                samples[name] += measured(replay(program, params, backend), options.seconds)
        print(f"round {number + 1} of {options.rounds}", flush=True)
    ratios = []
    for name, took in samples.items():
        least, median = min(took), statistics.median(took)
        ratios.append((predicted[name] / least, predicted[name] / median))
        times = f"predicted {predicted[name] * 1e6:7.0f} us  shortest {least * 1e6:7.0f}  median {median * 1e6:7.0f}"
        mark = "" if abs(ratios[-1][0] - 1) <= 0.2 else "  <--"
        print(f"{name:28} {times}  ratios {ratios[-1][0]:5.2f} {ratios[-1][1]:5.2f}{mark}")
    for what, values in zip(("shortest", "median"), zip(*ratios, strict=True), strict=True):
        close = sum(abs(r - 1) <= 0.2 for r in values)
        share = 100 * close / len(values)
        middle = statistics.median(values)
        print(f"{what}: {close} of {len(values)} within 20 % ({share:.0f} %), median ratio {middle:.3f}")


if __name__ == "__main__":
    main()

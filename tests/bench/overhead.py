"""What Python adds to the kernels: undecorated operations (graph, look-up of the plan, dispatch) and replays of captured ones.

    taskset -c 1 python tests/bench/overhead.py [--seconds 1] [--profile ROW]

A toy ring of 16 coefficients, so that kernels cost next to nothing; what they do cost, the compiled loop over the same plan on the same
memory, is timed in turns with the call and subtracted. Prints the least of many samples (timing.py), in microseconds, beside the goals: 50 per undecorated operation,
20 and half a microsecond per unit for a replay. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ren
from ren.engine.plan import Plan
from ren.engine.plan_cache import PLANS
from ren.engine.run import backend_of
from ren.engine.schedule import normalise
from ren.schemes import ckks
from ren.schemes.ckks.params import CKKSParams

sys.path.insert(0, str(Path(__file__).parent))

from timing import alternate  # noqa: E402

EAGER_GOAL = 50.0
REPLAY_GOAL, UNIT_GOAL = 20.0, 0.5
#: Calls per sample.
CALLS = 20


def kernels_of(value: Any) -> tuple[Callable[[], None], int]:
    """The compiled loop alone over the plan of an unrealized value, on memory of its own; and how many units it has."""
    nodes = [p._node for p in (value.a, value.b)]
    normal = normalise(nodes)
    plan = PLANS.plan(normal.key, backend_of(nodes[0].device))
    return _loop(plan, normal.buffers, [n.params for n in normal.scalars])


def _loop(plan: Plan, buffers: Any, scalars: Any) -> tuple[Callable[[], None], int]:
    bound: list[Any] = []
    plan.run(buffers, scalars, [], lambda _, views: bound.extend(views))
    runner: Any = plan._runner
    slots = array("q", [0, *(m.address + 8 * o for m, o in bound)])
    address, drive, table = slots.buffer_info()[0], runner._drive, runner._plan

    def run(keep: Any = (bound, slots)) -> None:
        drive(table, address)

    return run, len(plan.units)


def rows(x: Any, y: Any, deep: Any, wide: Any, plaintext: Any) -> dict[str, Callable[[], Any]]:
    """Operations as a user writes them; each gives an unrealized ciphertext."""
    return {
        "x + y": lambda: x + y,
        "x - y": lambda: x - y,
        "x + plaintext": lambda: x + plaintext,
        "x + 1.5": lambda: x + 1.5,
        "x * 3": lambda: x * 3,
        "x * 0.5": lambda: x * 0.5,
        "x * plaintext": lambda: x * plaintext,
        "x * y": lambda: x * y,
        "x * y, one deeper": lambda: x * deep,
        "x + y, one deeper": lambda: x + deep,
        "x.rotate(1)": lambda: x.rotate(1),
        "x.rescale()": lambda: wide.rescale(),
        "4 * x * y - x + 1": lambda: 4 * x * y - x + 1,
    }


#: Where a row is not one operation.
OPERATIONS = {"4 * x * y - x + 1": 4}


def circuits(x: Any, y: Any) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions to capture, with their arguments."""

    def one_sum(a: Any, b: Any) -> Any:
        return a + b

    def one_product(a: Any, b: Any) -> Any:
        return a * b

    def chebyshev(a: Any) -> Any:
        for _ in range(6):
            a = 2 * a * a - 1
        return a

    def list_of_sums(values: Any) -> Any:
        return [v + values[0] for v in values]

    return {
        "a + b": (one_sum, (x, y)),
        "a * b": (one_product, (x, y)),
        "2a^2 - 1, 6 times": (chebyshev, (x,)),
        "8 sums of a list": (list_of_sums, ([x, y, x + 1, x + 2, x + 3, y + 1, y + 2, y + 3],)),
    }


def batch(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            call()

    return run


def measured(call: Callable[[], Any], kernels: Callable[[], None], seconds: float) -> tuple[float, float]:
    """Least times of both, microseconds per call, in turns: on a core with a busy sibling the median is up to twice as long."""
    samples = alternate({"call": batch(call), "kernels": batch(kernels)}, budget_s=seconds, repeats=60)
    total, inside = (samples[name].minimum / CALLS * 1e3 for name in ("call", "kernels"))
    return total, inside


def profiled(call: Callable[[], Any]) -> None:
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(5000):
        call()
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="per row")
    parser.add_argument("--profile", help="a row's name: print where its time goes instead")
    options = parser.parse_args()
    params = CKKSParams.build(n=16, levels=8, scale_bits=40, toy=True)
    with ckks.keygen(params, "cpu"):
        x, y = (ckks.encrypt(ckks.encode(np.linspace(-s, s, 8))).realize() for s in (0.5, 0.25))
        deep = (x * y).realize()
        plaintext = ckks.encode(np.linspace(-1, 1, 8))
        wide = ckks.multiply(x, plaintext, rescale=False).realize()
        x.rotate(1).realize()
        print(f"{'undecorated':24} {'call':>8} {'kernels':>8} {'Python':>8} {'per op':>8}   goal {EAGER_GOAL:.0f}")
        for name, make in rows(x, y, deep, wide, plaintext).items():

            def call(make: Callable[[], Any] = make) -> Any:
                return make().realize()

            if options.profile == name:
                profiled(call)
            if options.profile:
                continue
            kernels, _ = kernels_of(make())
            total, inside = measured(call, kernels, options.seconds)
            each = (total - inside) / OPERATIONS.get(name, 1)
            print(f"{name:24} {total:8.1f} {inside:8.1f} {total - inside:8.1f} {each:8.1f}", flush=True)
        print(f"{'replayed':24} {'call':>8} {'kernels':>8} {'Python':>8} {'units':>8} {'goal':>8}")
        for name, (function, arguments) in circuits(x, y).items():
            captured = ren.jit(function)
            captured(*arguments)

            def replay(f: Callable[..., Any] = captured, given: tuple[Any, ...] = arguments) -> Any:
                return f(*given)

            if options.profile == name:
                profiled(replay)
            if options.profile:
                continue
            (plan,) = captured._plans.values()
            (segment,) = plan.segments
            buffers: list[Any] = segment.buffers.copy()
            handles = _handles(arguments)
            for leaf, at in segment.given:
                buffers[leaf] = handles[at]._node.realized
            kernels, units = _loop(segment.plan, buffers, segment.scalars)
            total, inside = measured(replay, kernels, options.seconds)
            goal = REPLAY_GOAL + UNIT_GOAL * units
            print(f"{name:24} {total:8.1f} {inside:8.1f} {total - inside:8.1f} {units:8} {goal:8.1f}", flush=True)


def _handles(arguments: tuple[Any, ...]) -> list[Any]:
    """Polynomials of the arguments in the order in which plans number them."""
    found: list[Any] = []
    for argument in arguments:
        for value in argument if isinstance(argument, list) else [argument]:
            found += [value.a, value.b]
    return found


if __name__ == "__main__":
    main()

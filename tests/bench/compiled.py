"""The documents' matrix-vector example three ways in turns: the compiled program, what an expert writes by hand, and its kernels alone.

    taskset -c 1 python tests/bench/compiled.py [--params slots8192-scale40-levels7-int64] [--rounds 31]

By hand: hoisted rotations, products summed before the one rescale, one relinearization, plaintexts encoded once, under `ren.jit`. Kernels: the units of the compiled plan on the
memory of one of its calls, without arguments, results or checks; and each of them called alone, in order, with its shortest time counted. Each time is
divided by how much slower than at its best a reference unit beside it was. Medians, and of the ratios of each round the median, the quartiles and a 95 % interval for the median; results are decrypted and compared. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import math
import statistics
from typing import Any

import numpy as np
import ren
from cost_model import sources
from ren import jit
from ren.backend.select import get_backend
from ren.engine.stopwatch import Reference, seconds
from ren.schemes import ckks
from ren.schemes.ckks import CKKSParams
from ren.testing.program_kit import workspace_for

SIZE, GAIN = 8, 0.75


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", default="slots8192-scale40-levels7-int64")
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    params = CKKSParams.preset(options.params)
    engine, random = ckks.Engine(params), np.random.default_rng(5)
    repeats = engine.num_slots // SIZE
    x, weight, bias = (
        random.uniform(-1, 1, SIZE),
        random.uniform(-1, 1, (SIZE, SIZE)) / SIZE,
        random.uniform(-1, 1, SIZE) / 4,
    )
    found = {name: (source, space) for name, source, space in sources(params)}
    source, space = found["matvec (document)"]
    program = jit.default_pipeline().run(source, space).program
    space.update(workspace_for(program, engine))
    compiled = program.compile(space)
    with engine:
        ct = ckks.encrypt(ckks.encode(np.tile(x, repeats), msg_bound=1.0))
        gain = engine.plaintext(GAIN, level=2, scale=params.scale_at(2))
        rows = [np.tile([weight[j, (j - r) % SIZE] for j in range(SIZE)], repeats) for r in range(SIZE)]
        diagonals = [ckks.encode(row, msg_bound=1.0) for row in rows]
        plus = ckks.encode(np.tile(bias, repeats), msg_bound=1.0, level=1)
    data = _as_torch(weight), _as_torch(bias)

    def by_hand(x: Any, diagonals: list[Any], bias: Any, gain: Any) -> Any:
        turned = [x, *ckks.rotate_many(x, range(1, SIZE))]
        total = ckks.multiply(turned[0], diagonals[0], rescale=False)
        for r, d in zip(turned[1:], diagonals[1:], strict=True):
            total = total + ckks.multiply(r, d, rescale=False)
        a = ckks.rescale(total) + bias
        return (a + 0.25) * (a - 0.5) * gain

    jitted = ren.jit(by_hand)
    calls = {
        "compiled": lambda: compiled(ct, *data, gain),
        "by hand": lambda: jitted(ct, diagonals, plus, gain).realize(),
    }
    a = weight @ x + bias
    with engine:
        for name, call in calls.items():
            call()
            got = ckks.decode(ckks.decrypt(call()), length=SIZE)
            print(f"{name}: largest error {np.abs(got - (a + 0.25) * (a - 0.5) * GAIN).max():.1e}")
        report(calls, compiled, options.rounds)


def _as_torch(array: Any) -> Any:
    import torch

    return torch.tensor(array)


def _views_of(plan: Any, call: Any) -> list[Any]:
    """The memory that a call binds to the slots of its plan."""
    found: list[Any] = []
    whole = plan._runner
    plan._runner = lambda views: (found.append(views), whole(views))
    call()
    plan._runner = whole
    return found[0]  # type: ignore[no-any-return]


def report(calls: dict[str, Any], compiled: Any, rounds: int) -> None:
    backend = get_backend("cpu")
    (plan,) = compiled.plans[0].plans
    views = _views_of(plan, calls["compiled"])
    whole = plan._runner
    calls = {**calls, "kernels": lambda: whole(views)}
    units = [
        (run, [(views[o.slot][0], views[o.slot][1] + o.offset) for o in ops]) for run, ops in plan.compiled_units()
    ]
    alone = [lambda run=run, own=own: run(own) for run, own in units]
    reference = Reference(backend)
    times: dict[str, list[float]] = {name: [] for name in calls}
    shortest = [float("inf")] * len(units)
    order = list(calls)
    for _ in range(rounds):
        for name in order:
            calls[name]()  # each follows itself: what ran before decides what is in the caches
            before = reference.now()
            took = seconds(calls[name])
            times[name].append(took * 2 * reference.best / (before + reference.now()))
        order = [*order[1:], order[0]]
        shortest = [min(best, seconds(call) - reference.call) for best, call in zip(shortest, alone, strict=True)]
    print(f"{len(units)} units; a call of nothing {reference.call * 1e6:.1f} us")
    for name, found in times.items():
        print(
            f"{name:20} median {1e3 * statistics.median(found):7.2f} ms  to kernels {_ratios(found, times['kernels'])}"
        )
    print(f"{'kernels, each alone':20} shortest, summed {1e3 * sum(shortest):7.2f} ms")
    print(f"compiled to by hand: {_ratios(times['compiled'], times['by hand'])}")


def _ratios(found: list[float], base: list[float]) -> str:
    """Median of the ratios of each round, their quartiles, and where the true median lies with 95 % confidence: between two ranks, whatever the distribution (sign test)."""
    ratios = sorted(a / b for a, b in zip(found, base, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    reach = 0.98 * math.sqrt(len(ratios))
    first = max(0, math.floor(len(ratios) / 2 - reach) - 1)
    last = min(len(ratios) - 1, math.ceil(len(ratios) / 2 + reach))
    return f"{middle:.3f} ({low:.3f} to {high:.3f}; 95 %: {ratios[first]:.3f} to {ratios[last]:.3f})"


if __name__ == "__main__":
    main()

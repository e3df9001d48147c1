"""Times of single CPU kernels, in microseconds per limb, beside their targets.

    taskset -c 1 python tests/bench/kernels.py [filter]

Each row is a plan of many equal units, so the cost of a call from Python vanishes. "hot": one limb again and again (second-level
cache); "L=24": 24 limbs with tables of their own, one after the other. Transforms run in place. Samples are gated as in `timing`; a `~` marks rows without
enough quiet ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice

import numpy as np
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.ring import RingSpec
from ren_backend_cpu.backend import CpuBackend
from timing import alternate

_BACKEND = CpuBackend()
_REPEATS = 20


def _ring(log_n: int, bits: int, limbs: int) -> RingSpec:
    n = 1 << log_n
    return RingSpec(n, tuple(islice(ntt_primes_below(1 << bits, n), limbs)))


def _plan(
    ring: RingSpec, kernel: str, params: tuple[object, ...], inputs: int, outputs: int, in_place: bool = False
) -> Callable[[], None]:
    """A call that runs the unit `_REPEATS` times on one set of random operands."""
    words = ring.n * ring.limbs
    operands = [Operand(0 if in_place else k, 0, words) for k in range(inputs + outputs)]
    unit = ExecUnit(kernel, ring, params, tuple(operands[:inputs]), (), tuple(operands[inputs:]))
    scratch = _BACKEND.scratch_words(unit)
    slots = [Slot(SlotKind.INPUT, words)] * (inputs + outputs)
    if scratch:
        unit = ExecUnit(*(kernel, ring, params, unit.inputs, (), unit.outputs), (Operand(len(slots), 0, scratch),))
        slots.append(Slot(SlotKind.TEMPORARY, scratch))
    rng = np.random.default_rng(1)
    views = [(_BACKEND.alloc(s.words), 0) for s in slots]
    for memory, _ in views[:inputs]:
        row = np.concatenate([rng.integers(0, q, ring.n, np.uint64) for q in ring.moduli])
        _BACKEND.copyin(memory, 0, row)
    runner = _BACKEND.graph([unit] * _REPEATS, slots)
    return lambda: runner(views)


def _elementwise(
    ring: RingSpec, inputs: int, program: tuple[tuple[object, ...], ...], results: tuple[int, ...]
) -> Callable[[], None]:
    return _plan(ring, "elementwise", (inputs, 0, program, results, Domain.NTT), inputs, len(results))


#: (row, ring, kernel, target in us per limb or 0)
_TRANSFORMS = (
    ("2^13 45 bit hot", (13, 45, 1), (4.5, 5.0)),
    ("2^14 45 bit hot", (14, 45, 1), (9, 10)),
    ("2^15 45 bit hot", (15, 45, 1), (20, 22)),
    ("2^16 45 bit hot", (16, 45, 1), (43, 50)),
    ("2^14 45 bit L=24", (14, 45, 24), (10, 0)),
    ("2^15 45 bit L=24", (15, 45, 24), (0, 0)),
    ("2^16 45 bit L=24", (16, 45, 24), (70, 70)),
    ("2^14 50 bit hot", (14, 50, 1), (14, 0)),
    ("2^14 60 bit hot", (14, 60, 1), (22, 0)),
)
_TENSOR = (("mul", 0, 2), ("mul", 0, 3), ("mac", 1, 2, 5), ("mul", 1, 3))
_PROGRAMS = (
    ("add 2^14", (14, 45, 1), 2, (("add", 0, 1),), (2,), 0.11 * 16.384),
    ("multiply 2^10 (L1)", (10, 45, 1), 2, (("mul", 0, 1),), (2,), 0),
    ("multiply 2^14 (L2)", (14, 45, 1), 2, (("mul", 0, 1),), (2,), 0.15 * 16.384),
    ("multiply 2^14 L=8 (L3)", (14, 45, 8), 2, (("mul", 0, 1),), (2,), 0.25 * 16.384),
    ("multiply 2^14 60 bit", (14, 60, 1), 2, (("mul", 0, 1),), (2,), 0),
    ("tensor product 2^14 L=8", (14, 45, 8), 4, _TENSOR, (4, 6, 7), 0),
    ("add two pairs 2^14 L=8", (14, 45, 8), 4, (("add", 0, 2), ("add", 1, 3)), (4, 5), 0),
    ("chain of 8 adds 2^14 L=8", (14, 45, 8), 2, (("add", 0, 1), *(("add", k, 1) for k in range(2, 9))), (9,), 0),
)


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    rows: list[tuple[str, float, int, int, Callable[[], Callable[[], None]]]] = []
    for name, shape, targets in _TRANSFORMS:
        for kernel, target in zip(("ntt", "intt"), targets, strict=True):
            ring = _ring(*shape)
            make = lambda ring=ring, kernel=kernel: _plan(ring, kernel, (), 1, 1, in_place=True)  # noqa: E731
            rows.append((f"{kernel} {name}", target, ring.limbs, ring.n, make))
    for name, shape, inputs, program, results, target in _PROGRAMS:
        ring = _ring(*shape)
        make = lambda ring=ring, i=inputs, p=program, r=results: _elementwise(ring, i, p, r)  # noqa: E731
        rows.append((name, target, ring.limbs, ring.n, make))
    print(f"{'kernel':<32}{'min us':>9}{'median':>9}{'target':>9}{'ns/word':>9}")
    for name, target, limbs, n, make in rows:
        if wanted not in name:
            continue
        samples = alternate({name: make()}, repeats=9, budget_s=1.0)[name]
        per_limb = 1e3 / (_REPEATS * limbs)
        low, mid = samples.minimum * per_limb, samples.median * per_limb
        goal = f"{target:.2f}" if target else ""
        mark = " " if samples.gated else "~"
        print(f"{name:<32}{low:>8.2f}{mark}{mid:>9.2f}{goal:>9}{1e3 * low / n:>9.3f}", flush=True)


if __name__ == "__main__":
    main()

"""Measuring the prices of `ren.engine.calibration` on this machine, through nothing but the backend protocol.

For each kernel and ring dimension a handful of units of different shapes is timed on data that stays near, and prices that are not negative are fitted by least squares of
relative errors. What far data costs a kernel is the difference to the same units after everything they touch was driven out of the caches. Kernels do not look at what they compute with, so
all operands are zeros. `ren.engine.stopwatch` says how time is taken on a machine whose speed drifts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ren.backend.protocol import Backend
from ren.engine.calibrate_units import SHAPES, moduli_of, unit_of
from ren.engine.calibration import STREAM, Calibration
from ren.engine.cost import work_of
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.engine.least_squares import non_negative
from ren.engine.plan import Layout, Plan
from ren.engine.reuse import Accesses, reuse_of
from ren.engine.stopwatch import Call, Reference, Runs, seconds
from ren.numtheory.primes import ntt_primes_below
from ren.ring import RingSpec

#: How strongly the price of a piece of work inside a larger kernel is held to that of the same work alone.
_TIE = 0.2
#: Rounds over everything, seconds apart: slow spells of a machine last that long.
_ROUNDS = 3
#: Shorter units are repeated in one plan.
_SAMPLE_SECONDS = 1.5e-4
_MOST_REPEATS = 256
#: How many units of each kernel are timed on far data, and how often in each round.
_FAR_UNITS, _FAR_ROUNDS = 5, 8
#: Rows of n coefficients in the largest units: what fits into this many words, so that large rings do not take minutes.
_MOST_WORDS = 12 << 15

#: Kernels that do several kinds of work, fitted after those that do one alone.
_COMPOSED = frozenset({"mod_down", "decompose", "key_switch"})
_ALONE = {"forward": "ntt", "inverse": "intt", "convert": "basis_extend", "product": "gadget_product"}
_FIT_ORDER = sorted(SHAPES, key=lambda kernel: kernel in _COMPOSED)


@dataclass(frozen=True, slots=True)
class Scope:
    """What to measure. log_ns: ring dimensions, ascending. widths: upper bounds of the width classes of moduli; bits: a width in each class.
    far_at: dimension at which data comes from far away. far_bytes: how far, more than common caches hold. sets: working sets of the copies that show what distance costs.
    constants: kind of work -> rows of constants that the backend's kernels read for it."""

    log_ns: tuple[int, ...]
    widths: tuple[int, ...]
    bits: tuple[int, ...]
    far_at: int
    far_bytes: int = 64 << 20
    sets: tuple[int, ...] = tuple(sorted([1 << k for k in range(18, 28)] + [3 << k for k in range(21, 25)]))
    constants: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Sample:
    """A unit, the seconds one run took, and the bytes it touched with their reuse distances. far: the same with everything far away."""

    unit: ExecUnit
    seconds: float
    accesses: Accesses
    far: tuple[float, Accesses] | None = None

    def shorter(self, other: _Sample) -> _Sample:
        """Of two samples of one unit, the shorter times."""
        far = self.far if self.far is None or other.far is None else min(self.far, other.far, key=lambda f: f[0])
        return replace(self, seconds=min(self.seconds, other.seconds), far=far)


def calibrate(
    backend: Backend, scope: Scope, *, machine: str, note: str, progress: Callable[[str], None] = lambda text: None
) -> Calibration:
    """Measure all kernels that `backend` declares. Takes a minute; other work on the machine at the same time makes prices too high."""
    reference = Reference(backend, min(1 << 12, 1 << scope.far_at))
    wanted = [k for k in SHAPES if k in backend.capabilities().kernels]
    samples: dict[tuple[str, int], list[_Sample]] = {}
    curves: list[list[float]] = []
    for number in range(_ROUNDS):
        curves.append(_copies(backend, reference, scope))
        for log_n in scope.log_ns:
            started = time.perf_counter()
            for kernel in wanted:
                found = _samples(backend, reference, kernel, log_n, scope)
                before = samples.setdefault((kernel, log_n), found)
                samples[kernel, log_n] = [a.shorter(b) for a, b in zip(before, found, strict=True)]
            took = time.perf_counter() - started
            progress(f"n = 2^{log_n}, round {number + 1} of {_ROUNDS}: {len(wanted)} kernels in {took:.2f} s")
    far = _far_curve(scope.sets, [min(times) for times in zip(*curves, strict=True)])
    progress(f"memory: {far[-1][1] * 1e9:.2f} ns per byte more from {far[-1][0] >> 20} MiB away than from near")
    probe = Calibration(
        backend.name, machine, note, scope.widths, {"copy": {scope.far_at: {}}}, far, dict(scope.constants)
    )
    kernels: dict[str, dict[int, dict[str, float]]] = {}
    for kernel in sorted(wanted, key=_FIT_ORDER.index):
        stream = _stream(probe, samples[kernel, scope.far_at])
        for log_n in scope.log_ns:
            tied: dict[str, float] = {}
            for kind, name in _ALONE.items():
                if kernel in _COMPOSED and name in kernels:
                    tied |= {k: v for k, v in kernels[name][log_n].items() if k.split(".")[0] == kind}
            prices = _fit(probe, samples[kernel, log_n], stream, tied)
            kernels.setdefault(kernel, {})[log_n] = {**prices, STREAM: stream}
    return replace(probe, kernels=kernels, replay=_replay_time(backend), reference=reference.best)


# -- samples -----------------------------------------------------------------------------------------------------------


def _samples(backend: Backend, reference: Reference, kernel: str, log_n: int, scope: Scope) -> list[_Sample]:
    """Times of the units of one kernel at one ring dimension."""
    n = 1 << log_n
    shapes = SHAPES[kernel](moduli_of(n, scope.bits))
    units = [unit_of(backend, kernel, n, *s) for s in shapes if len(s[0]) * n <= _MOST_WORDS or len(s[0]) <= 4]
    found = [_near(backend, reference, unit, scope.constants) for unit in units]
    if log_n == scope.far_at:
        flush = _flush(backend, scope)
        for i in range(-min(_FAR_UNITS, len(found)), 0):
            found[i] = replace(found[i], far=_far(backend, reference, flush, found[i], scope.far_bytes))
    return found


def _near(backend: Backend, reference: Reference, unit: ExecUnit, constants: Mapping[str, float]) -> _Sample:
    """The unit again and again on the same data."""
    runs = Runs(backend, [o.words for o in unit.operands])
    once = runs.of([unit])
    once()
    repeats = int(min(max(_SAMPLE_SECONDS / max(seconds(once), 1e-7), 1), _MOST_REPEATS))
    (shortest,) = reference.shortest([runs.of([unit] * repeats)])
    return _Sample(unit, shortest / repeats, reuse_of([unit], constants)[0])


def _flush(backend: Backend, scope: Scope) -> Call:
    """Reads and writes `far_bytes` of other memory."""
    n = 1 << scope.far_at
    ring = RingSpec(n, (next(ntt_primes_below(1 << scope.bits[0], n)),))
    words = max(n, scope.far_bytes // 16 // n * n)
    rows = [(Operand(0, at, n),) for at in range(0, words, n)]
    return Runs(backend, [words, words]).of(
        [ExecUnit("copy", ring, (), row, outputs=(replace(row[0], slot=1),)) for row in rows]
    )


def _far(backend: Backend, reference: Reference, flush: Call, near: _Sample, distance: int) -> tuple[float, Accesses]:
    """The unit after everything it touches was driven out."""
    unit = near.unit
    once = Runs(backend, [o.words for o in unit.operands]).of([unit])
    _, shortest = reference.shortest([flush, once], _FAR_ROUNDS)
    return shortest, [(size, distance) for size, _ in near.accesses]


def _copies(backend: Backend, reference: Reference, scope: Scope) -> list[float]:
    """Seconds per byte, read or written, of copies within working sets of growing size."""
    n = 1 << scope.far_at
    ring = RingSpec(n, (next(ntt_primes_below(1 << scope.bits[0], n)),))
    found = []
    for size in scope.sets:
        count = max(1, size // (16 * n))
        runs = Runs(backend, [n] * (2 * count))
        copies = [
            ExecUnit("copy", ring, (), (Operand(2 * i, 0, n),), outputs=(Operand(2 * i + 1, 0, n),))
            for i in range(count)
        ]
        if count < _MOST_REPEATS:  # so many that a call is short beside them
            pieces = [runs.of(copies * (_MOST_REPEATS // count))]
            each = 16 * n * count * (_MOST_REPEATS // count)
        else:
            pieces = [
                runs.of(copies[i : i + _MOST_REPEATS]) for i in range(0, count - _MOST_REPEATS + 1, _MOST_REPEATS)
            ]
            each = 16 * n * _MOST_REPEATS
        found.append(float(np.median(reference.shortest(pieces))) / each)
    return found


def _far_curve(sets: Sequence[int], per_byte: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """(bytes, seconds per byte more than from the nearest cache). No distance is cheaper than a smaller one: what seems so was a disturbance of the smaller."""
    least = [min(per_byte[i:]) for i in range(len(per_byte))]
    return tuple((size, price - least[0]) for size, price in zip(sets, least, strict=True))


def _replay_time(backend: Backend) -> float:
    """What running a plan of one small unit takes."""
    n = 8
    ring = RingSpec(n, (next(ntt_primes_below(1 << 20, n)),))
    unit = ExecUnit("copy", ring, (), (Operand(0, 0, n),), outputs=(Operand(1, 0, n),))
    slots = (Slot(SlotKind.INPUT, n), Slot(SlotKind.OUTPUT, n))
    plan = Plan(backend, (unit,), slots, Layout(-1, -1, (), -1, (), ((0, 0),), ((1, n),)), ())
    given = plan.pool.take(n)
    backend.copyin(given.memory, 0, np.zeros(n, np.uint64))
    return min(seconds(lambda: plan.run([given], [], [])) for _ in range(300))


# -- fitting -----------------------------------------------------------------------------------------------------------


def _stream(probe: Calibration, samples: Sequence[_Sample]) -> float:
    """How much a kernel feels of what far data costs a copy: from the differences of the same units on far and on near data."""
    felt = [
        (s.far[0] - s.seconds, probe.far_time(s.far[1]) - probe.far_time(s.accesses))
        for s in samples
        if s.far is not None
    ]
    more, expected = (sum(x) for x in zip(*felt, strict=True))
    return max(more / expected, 0.0) if expected > 0 else 0.0


def _fit(probe: Calibration, samples: Sequence[_Sample], stream: float, tied: dict[str, float]) -> dict[str, float]:
    """Prices, not negative, with the least sum of squared relative errors. tied: prices that some are held to, since the shapes of a composed kernel alone do not
    tell its pieces apart."""
    rows = []
    for sample in samples:
        row: dict[str, float] = {}
        for (kind, q), count in work_of(sample.unit).items():
            name = probe.kind(kind, q)
            row[name] = row.get(name, 0.0) + count
        rows.append(row)
    names = sorted({name for row in rows for name, count in row.items() if count})
    # A price of 1 unit stands for the mean time per unit of work, so that one tolerance serves all.
    matrix = np.array(
        [[row.get(name, 0.0) / s.seconds for name in names] for row, s in zip(rows, samples, strict=True)]
    )
    target = np.array([max(1 - stream * probe.far_time(s.accesses) / s.seconds, 0.0) for s in samples])
    for name, price in tied.items():
        if name in names and price:
            line = np.zeros((1, len(names)))
            line[0, names.index(name)] = _TIE / price
            matrix, target = np.concatenate([matrix, line]), np.append(target, _TIE)
    prices = non_negative(matrix, target)
    return {name: float(p) for name, p in zip(names, prices, strict=True)}

"""Measuring the prices of `ren.engine.calibration` on this machine, through nothing but the backend protocol.

For each kernel and ring dimension a handful of units of different shapes is timed, on data that stays near and on data that comes from far away, and
prices that are not negative are fitted by least squares of relative errors. Kernels do not look at what they compute with, so all operands are zeros.

The speed of a machine drifts (clock rate, other guests of the host). Samples are taken when a small reference unit runs as fast as it ever did, and in rounds that
lie seconds apart; of each unit the fastest one counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.backend.protocol import Backend
from ren.engine.calibration import STREAM, Calibration
from ren.engine.cost import work_of
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.engine.plan import Layout, Plan
from ren.engine.reuse import reuse_of
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.ring import RingSpec

#: How strongly the price of a piece of work inside a larger kernel is held to that of the same work alone, and that of far data to that of a copy.
_TIE = 0.2
_ROUNDS = 2
_SAMPLES = 3
#: A sample counts when the reference takes at most so much of its best time; after so many tries it counts anyway.
_QUIET, _TRIES = 1.1, 20
#: Shorter units are repeated in one plan, longer ones are timed alone and fewer times.
_SAMPLE_SECONDS = 3e-4
_MOST_REPEATS = 32
#: Rows of n coefficients in the largest units: what fits into this many words, so that large rings do not take minutes.
_MOST_WORDS = 12 << 15
_NTT, _COEFF = Domain.NTT, Domain.COEFF


@dataclass(frozen=True, slots=True)
class Scope:
    """What to measure. log_ns: ring dimensions, ascending. widths: upper bounds of the width classes of moduli; bits: a width in each class.
    far_at: dimension at which operands come from far away. far_bytes: how far, more than common caches hold. sets: working sets of the copies that show what distance costs."""

    log_ns: tuple[int, ...]
    widths: tuple[int, ...]
    bits: tuple[int, ...]
    far_at: int
    far_bytes: int = 48 << 20
    sets: tuple[int, ...] = tuple(1 << k for k in range(18, 28))


def calibrate(
    backend: Backend, scope: Scope, *, machine: str, note: str, progress: Callable[[str], None] = lambda text: None
) -> Calibration:
    """Measure all kernels that `backend` declares. Takes some seconds; other work on the machine at the same time makes prices too high."""
    reference = Reference(backend, min(1 << 12, 1 << scope.far_at))
    far = _far_curve(backend, scope)
    progress(
        f"memory: {far[-1][1] * 1e9:.2f} ns per byte more from {far[-1][0] >> 20} MiB away than from the nearest cache"
    )
    probe = Calibration(backend.name, machine, note, scope.widths, {"copy": {scope.far_at: {}}}, tuple(far))
    wanted = [k for k in _SHAPES if k in backend.capabilities().kernels]
    samples: dict[tuple[str, int], list[_Sample]] = {}
    for number in range(_ROUNDS):
        for log_n in scope.log_ns:
            started = time.perf_counter()
            for kernel in wanted:
                found = _samples(backend, reference, kernel, log_n, scope)
                before = samples.setdefault((kernel, log_n), found)
                samples[kernel, log_n] = [
                    min(a, b, key=lambda s: s.seconds) for a, b in zip(before, found, strict=True)
                ]
            took = time.perf_counter() - started
            progress(f"n = 2^{log_n}, round {number + 1} of {_ROUNDS}: {len(wanted)} kernels in {took:.2f} s")
    kernels: dict[str, dict[int, dict[str, float]]] = {}
    for log_n in scope.log_ns:
        for kernel in sorted(wanted, key=_FIT_ORDER.index):
            tied = {STREAM: 1.0}
            for kind, name in _ALONE.items():
                if kernel in _COMPOSED and name in kernels:
                    tied |= {k: v for k, v in kernels[name][log_n].items() if k.split(".")[0] == kind}
            kernels.setdefault(kernel, {})[log_n] = _fit(probe, samples[kernel, log_n], tied)
    for sizes in kernels.values():  # felt alike at all dimensions
        stream = sizes[scope.far_at].get(STREAM, 0.0)
        for prices in sizes.values():
            prices[STREAM] = stream
    return replace(probe, kernels=kernels, replay=_replay_time(backend), reference=reference.best)


def _samples(backend: Backend, reference: Reference, kernel: str, log_n: int, scope: Scope) -> list[_Sample]:
    """Times of the units of one kernel at one ring dimension."""
    n = 1 << log_n
    shapes = [s for s in _SHAPES[kernel](_moduli(n, scope)) if len(s[0]) * n <= _MOST_WORDS or len(s[0]) <= 4]
    units = [_unit(backend, kernel, n, *shape) for shape in shapes]
    found = [_near(backend, reference, u) for u in units]
    return found + ([_far(backend, reference, u, scope.far_bytes) for u in units[-2:]] if log_n == scope.far_at else [])


# -- shapes: (ring, params, words of inputs, words of scalars, words of outputs) in rows -------------------------------

Moduli = Sequence[Sequence[int]]
Shape = tuple[tuple[int, ...], tuple[Any, ...], tuple[int, ...], tuple[int, ...]]


def _moduli(n: int, scope: Scope) -> list[list[int]]:
    """Distinct primes of each width class: many of the first, few of the others."""
    found: list[list[int]] = []
    used: set[int] = set()
    for c, bits in enumerate(scope.bits):
        count = 18 if c == 0 else 4
        primes = list(islice((q for q in ntt_primes_below(1 << bits, n) if q not in used), count))
        used.update(primes)
        if primes:
            found.append(primes)
    return found


def _transform(m: Moduli) -> Iterator[Shape]:
    for moduli in (*(c[:2] for c in m), m[0][:1], m[0][:4], m[0][:12]):
        yield tuple(moduli), (), (len(moduli),), (len(moduli),)


def _elementwise(m: Moduli) -> Iterator[Shape]:
    add = (("add", 0, 1),)
    product = (("mul", 0, 1),)
    tensor = (("mul", 0, 2), ("mul", 0, 3), ("mac", 1, 2, 5), ("mul", 1, 3))
    chain = (("mul", 0, 1), ("mac", 2, 3, 8), ("mac", 4, 5, 9), ("mac", 6, 7, 10))
    sums = (("add", 0, 1), ("sub", 4, 2), ("add", 5, 3))
    for moduli in (*(c[:2] for c in m), m[0][:1], m[0][:4], m[0][:12]):
        for program, inputs, outputs in (
            (add, 2, (2,)),
            (product, 2, (2,)),
            (sums, 4, (6,)),
            (chain, 8, (11,)),
            (tensor, 4, (4, 6, 7)),
        ):
            k = len(moduli)
            yield tuple(moduli), (inputs, 0, program, outputs, _NTT), (k,) * inputs, (k,) * len(outputs)


def _automorphism(m: Moduli) -> Iterator[Shape]:
    for domain in (_COEFF, _NTT):
        for k in (1, 4, 12):
            yield tuple(m[0][:k]), (5, domain), (k,), (k,)


def _rows(m: Moduli) -> Iterator[Shape]:
    for k in (1, 4, 12):
        yield tuple(m[0][:k]), (), (k,), (k,)


def _mod_down(m: Moduli) -> Iterator[Shape]:
    for moduli, k, z, domain in (
        (m[0][:3], 1, 0, _COEFF),
        (m[0][:9], 2, 7, _COEFF),
        *((c[:3], 1, 0, _NTT) for c in m),
        *((c[:4], 2, 2, _NTT) for c in m),
        ([m[-1][0], *m[0][:7], *m[-1][1:3]], 2, 8, _NTT),
        (m[0][:10], 2, 8, _NTT),
        (m[0][:10], 3, 8, _NTT),
        (m[0][:16], 4, 12, _NTT),
        (m[0][:2], 1, 0, _NTT),
        (m[0][:9], 1, 0, _NTT),
        (m[0][:12], 3, 0, _NTT),
    ):
        yield tuple(moduli), (k, z, domain), (len(moduli), z) if z else (len(moduli),), (len(moduli) - k,)


def _basis_extend(m: Moduli) -> Iterator[Shape]:
    for mode in ("approximate", "centred", "exact"):
        for k, new in ((1, 1), (2, 3), (4, 8)):
            yield tuple(m[0][:k]), (mode, tuple(m[0][k : k + new])), (k,), (k + new,)


def _switches(m: Moduli) -> Iterator[tuple[tuple[int, ...], int, tuple[int, ...], Domain]]:
    for chain, alpha, special in (
        *((c[:2], 1, c[2:3]) for c in m),
        *((c[:2], 2, c[2:4]) for c in m),
        (m[0][:4], 2, m[0][12:14]),
        ([m[-1][0], *m[0][:3]], 2, m[-1][1:3]),
        (m[0][:8], 4, m[0][12:16]),
        (m[0][:12], 4, m[0][12:16]),
        (m[0][:12], 6, m[0][12:18]),
        (m[0][:8], 2, m[0][12:14]),
    ):
        yield tuple(chain), alpha, tuple(special), _NTT
    yield tuple(m[0][:6]), 2, tuple(m[0][12:14]), _COEFF


def _decompose(m: Moduli) -> Iterator[Shape]:
    for chain, alpha, special, domain in _switches(m):
        digits, wide = -(-len(chain) // alpha), len(chain) + len(special)
        yield chain, (alpha, special, domain), (len(chain),), (digits * wide,)


def _key_switch(m: Moduli) -> Iterator[Shape]:
    for chain, alpha, special, domain in _switches(m):
        digits, wide = -(-len(chain) // alpha), len(chain) + len(special)
        params = (alpha, special, domain, wide, tuple(range(wide)))
        yield chain, params, (len(chain), digits * 2 * wide), (wide, wide)


def _gadget_product(m: Moduli) -> Iterator[Shape]:
    for digits, moduli in (*((2, c[:2]) for c in m), (1, m[0][:4]), (4, m[0][:4]), (2, m[0][:12]), (4, m[0][:10])):
        k = len(moduli)
        yield tuple(moduli), (digits, k, tuple(range(k))), (digits * k, digits * 2 * k), (k, k)


def _sample(m: Moduli) -> Iterator[Shape]:
    for distribution, argument in (("uniform", None), ("ternary", None), ("gaussian", "3.19")):
        for moduli in (*(c[:1] for c in m), m[0][:4], m[0][:12]):
            yield tuple(moduli), (distribution, argument, 0), (-4,), (len(moduli),)


def _from_float(m: Moduli) -> Iterator[Shape]:
    for k in (1, 4, 12):
        yield tuple(m[0][:k]), (), (-1,), (k,)


def _lift(m: Moduli) -> Iterator[Shape]:
    for k in (1, 2, 3):
        yield tuple(m[0][:k]), (), (k,), (-1,)


_SHAPES: dict[str, Callable[[Moduli], Iterator[Shape]]] = {
    "ntt": _transform,
    "intt": _transform,
    "elementwise": _elementwise,
    "automorphism": _automorphism,
    "copy": _rows,
    "mod_down": _mod_down,
    "basis_extend": _basis_extend,
    "decompose": _decompose,
    "gadget_product": _gadget_product,
    "key_switch": _key_switch,
    "sample": _sample,
    "from_float": _from_float,
    "lift": _lift,
}


#: Kernels that do several kinds of work, fitted after those that do one alone.
_COMPOSED = frozenset({"mod_down", "decompose", "key_switch"})
_ALONE = {"forward": "ntt", "inverse": "intt", "convert": "basis_extend", "product": "gadget_product"}
_FIT_ORDER = sorted(_SHAPES, key=lambda kernel: kernel in _COMPOSED)


def _unit(
    backend: Backend,
    kernel: str,
    n: int,
    moduli: tuple[int, ...],
    params: tuple[Any, ...],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
) -> ExecUnit:
    """A unit with a slot per operand. Sizes are in rows; -1 is a row of floats with its count, -4 a seed."""
    words = [{-1: n + 1, -4: 4}.get(rows, rows * n) for rows in (*inputs, *outputs)]
    places = [Operand(slot, 0, size) for slot, size in enumerate(words)]
    unit = ExecUnit(kernel, RingSpec(n, moduli), params, tuple(places[: len(inputs)]), (), tuple(places[len(inputs) :]))
    scratch = backend.scratch_words(unit)
    return replace(unit, scratch=(Operand(len(places), 0, scratch),)) if scratch else unit


# -- timing ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sample:
    """A unit, the seconds one run took, and the bytes it touched with their reuse distances."""

    unit: ExecUnit
    seconds: float
    accesses: list[tuple[int, int]]


class Reference:
    """How fast the machine is now: a transform of one small row, whose data stays in the nearest cache. best: the shortest time seen, in seconds."""

    def __init__(self, backend: Backend, n: int = 1 << 12) -> None:
        ring = RingSpec(n, (next(ntt_primes_below(1 << 40, n)),))
        unit = ExecUnit("ntt", ring, (), (Operand(0, 0, n),), outputs=(Operand(0, 0, n),))
        once = _runner(backend, [unit], [n])
        once()
        self._count = int(min(max(1e-4 / max(_seconds(once), 1e-7), 1), 50))
        self._run = _runner(backend, [unit] * self._count, [n])
        self.best = float("inf")
        for _ in range(50):
            self.now()

    def now(self) -> float:
        """The shorter of two runs now."""
        found = _seconds(self._run, 2) / self._count
        self.best = min(self.best, found)
        return found

    def quiet(self) -> bool:
        """Whether the machine is about as fast as it ever was."""
        return self.now() <= _QUIET * self.best

    def wait(self) -> None:
        """Wait until it is, but not for long."""
        for _ in range(_TRIES):
            if self.quiet():
                return


def _runner(backend: Backend, units: Sequence[ExecUnit], slot_words: Sequence[int]) -> Callable[[], None]:
    """Runs units on zeroed memory and waits for them."""
    slots = [Slot(SlotKind.INPUT, words) for words in slot_words]
    views = []
    for words in slot_words:
        memory = backend.alloc(words)
        backend.copyin(memory, 0, np.zeros(words, np.uint64))
        views.append((memory, 0))
    graph = backend.graph(units, slots)
    if graph is None:
        compiled = [(backend.compile(u), u.operands) for u in units]

        def one_by_one() -> None:
            for run, operands in compiled:
                run([(views[o.slot][0], o.offset) for o in operands])
            backend.synchronize()

        return one_by_one

    def whole() -> None:
        graph(views)
        backend.synchronize()

    return whole


def _seconds(call: Callable[[], None], samples: int = _SAMPLES) -> float:
    """The shortest of a few runs."""
    best = float("inf")
    for _ in range(samples):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def _words(unit: ExecUnit) -> list[int]:
    return [o.words for o in unit.operands]


def _near(backend: Backend, reference: Reference, unit: ExecUnit) -> _Sample:
    """The unit again and again on the same data."""
    reference.wait()
    once = _runner(backend, [unit], _words(unit))
    once()
    alone = _seconds(once, 2)
    if alone > 2 * _SAMPLE_SECONDS:
        return _Sample(unit, min(alone, _seconds(once)), reuse_of([unit])[0])
    repeats = int(min(max(_SAMPLE_SECONDS / max(alone, 1e-7), 1), _MOST_REPEATS))
    # Two lengths: their difference is free of what a call costs.
    long = _seconds(_runner(backend, [unit] * (2 * repeats), _words(unit)))
    short = _seconds(_runner(backend, [unit] * repeats, _words(unit)))
    seconds = (long - short) / repeats
    if not 0.5 * long < 2 * repeats * seconds < 2 * long:  # disturbed
        seconds = long / (2 * repeats)
    return _Sample(unit, seconds, reuse_of([unit])[0])


def _far(backend: Backend, reference: Reference, unit: ExecUnit, distance: int) -> _Sample:
    """The unit on operands that take turns, so that each comes from about `distance` bytes away."""
    words = _words(unit)
    sets = max(2, distance // (8 * sum(words)))
    units = [_moved(unit, len(words) * i) for i in range(sets)]
    run = _runner(backend, units, words * sets)
    run()
    reference.wait()
    return _Sample(unit, _seconds(run) / sets, reuse_of(units)[-1])


def _moved(unit: ExecUnit, slots: int) -> ExecUnit:
    def move(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(Operand(o.slot + slots, o.offset, o.words) for o in operands)

    return replace(unit, inputs=move(unit.inputs), outputs=move(unit.outputs), scratch=move(unit.scratch))


def _far_curve(backend: Backend, scope: Scope) -> list[tuple[int, float]]:
    """(bytes, seconds per byte more than near) for copies within working sets of growing size."""
    n = 1 << scope.far_at
    ring = RingSpec(n, (next(ntt_primes_below(1 << scope.bits[0], n)),))
    per_byte = []
    for size in scope.sets:
        count = max(1, size // (16 * n))
        units = [
            ExecUnit("copy", ring, (), (Operand(2 * i, 0, n),), outputs=(Operand(2 * i + 1, 0, n),))
            for i in range(count)
        ]
        run = _runner(backend, units * max(1, scope.sets[3] // size), [n] * (2 * count))
        run()
        per_byte.append(_seconds(run) / (16 * n * count * max(1, scope.sets[3] // size)))
    near = min(per_byte)
    return [(size, max(per_byte[: i + 1]) - near) for i, size in enumerate(scope.sets)]


def _replay_time(backend: Backend) -> float:
    """What running a plan of one small unit takes."""
    n = 8
    ring = RingSpec(n, (next(ntt_primes_below(1 << 20, n)),))
    unit = ExecUnit("copy", ring, (), (Operand(0, 0, n),), outputs=(Operand(1, 0, n),))
    slots = (Slot(SlotKind.INPUT, n), Slot(SlotKind.OUTPUT, n))
    plan = Plan(backend, (unit,), slots, Layout(-1, -1, (), -1, (), ((0, 0),), ((1, n),)), ())
    given = plan.pool.take(n)
    backend.copyin(given.memory, 0, np.zeros(n, np.uint64))
    for _ in range(100):
        plan.run([given], [], [])
    start = time.perf_counter()
    for _ in range(100):
        plan.run([given], [], [])
    return (time.perf_counter() - start) / 100


# -- fitting -----------------------------------------------------------------------------------------------------------


def _fit(probe: Calibration, samples: Sequence[_Sample], tied: dict[str, float]) -> dict[str, float]:
    """Prices, not negative, with the least sum of squared relative errors. tied: prices that some are held to, since the shapes of a composed kernel alone do not
    tell its pieces apart."""
    rows = []
    for sample in samples:
        row: dict[str, float] = {}
        for (kind, q), count in work_of(sample.unit).items():
            name = probe.kind(kind, q)
            row[name] = row.get(name, 0.0) + count
        row[STREAM] = probe.far_time(sample.accesses)
        rows.append(row)
    names = sorted({name for row in rows for name, count in row.items() if count})
    # A price of 1 unit stands for the mean time per unit of work, so that one tolerance serves all.
    matrix = np.array(
        [[row.get(name, 0.0) / s.seconds for name in names] for row, s in zip(rows, samples, strict=True)]
    )
    target = np.ones(len(rows))
    for name, price in tied.items():
        if name in names and price:
            line = np.zeros((1, len(names)))
            line[0, names.index(name)] = _TIE / price
            matrix, target = np.concatenate([matrix, line]), np.append(target, _TIE)
    prices = non_negative(matrix, target)
    return {name: float(p) for name, p in zip(names, prices, strict=True)}


def non_negative(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x >= 0 with the least |matrix x - target| (Lawson and Hanson, "Solving Least Squares Problems", 1974, algorithm 23.10)."""
    size = np.linalg.norm(matrix, axis=0)
    a = matrix / np.where(size > 0, size, 1.0)
    count = a.shape[1]
    x = np.zeros(count)
    free = np.zeros(count, bool)
    for _ in range(10 * count):
        gradient = a.T @ (target - a @ x)
        candidates = ~free & (gradient > 1e-9)
        if not candidates.any():
            break
        free[np.argmax(np.where(candidates, gradient, -np.inf))] = True
        while True:
            solved = np.zeros(count)
            solved[free] = np.linalg.lstsq(a[:, free], target, rcond=None)[0]
            if (solved[free] > 0).all():
                x = solved
                break
            blocked = free & (solved <= 0)
            step = np.min(x[blocked] / (x[blocked] - solved[blocked]))
            x = x + step * (solved - x)
            free &= x > 1e-12
            x[~free] = 0.0
    result: NDArray[np.float64] = x / np.where(size > 0, size, 1.0)
    return result

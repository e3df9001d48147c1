"""Times of units on a machine whose speed drifts: clock rates, other guests of the host, whoever shares the core.

What is asked for is the time that work takes when nothing disturbs it. Such moments can be shorter than the work, so it is cut into pieces that are timed apart, in their
order and again and again; of each piece the shortest time counts. A small reference unit that runs before and after says whether the machine was quiet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from ren.backend.protocol import Backend, View
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.numtheory.primes import ntt_primes_below
from ren.ring import RingSpec

Call = Callable[[], object]
#: The machine is quiet when the reference takes at most so much of its best time.
_QUIET = 1.08
#: Rounds: so many quiet ones are enough; after the most, or after so many seconds (but the fewest), what was found counts.
_ENOUGH, _FEWEST, _MOST, _SECONDS = 4, 4, 40, 0.06


class Runs:
    """Runs units on memory of zeros, one block of words per slot."""

    def __init__(self, backend: Backend, words: Sequence[int]) -> None:
        self._backend = backend
        self._slots = [Slot(SlotKind.INPUT, size) for size in words]
        self._views: list[View] = []
        for size in words:
            memory = backend.alloc(size)
            backend.copyin(memory, 0, np.zeros(size, np.uint64))
            self._views.append((memory, 0))

    def of(self, units: Sequence[ExecUnit]) -> Call:
        """A call that runs these units and waits for them."""
        backend, views = self._backend, self._views
        graph = backend.graph(units, self._slots)
        if graph is None:
            compiled = [(backend.compile(u), [(views[o.slot][0], o.offset) for o in u.operands]) for u in units]

            def one_by_one() -> None:
                for run, operands in compiled:
                    run(operands)
                backend.synchronize()

            return one_by_one
        whole = graph

        def at_once() -> None:
            whole(views)
            backend.synchronize()

        return at_once


def seconds(call: Call) -> float:
    """Of one run."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Reference:
    """How fast the machine is now: a transform of one small row, whose data stays in the nearest cache. best: the shortest time seen, in seconds. call: seconds
    that a run of anything takes beside its units."""

    def __init__(self, backend: Backend, n: int = 1 << 12) -> None:
        ring = RingSpec(n, (next(ntt_primes_below(1 << 40, n)),))
        unit = ExecUnit("ntt", ring, (), (Operand(0, 0, n),), outputs=(Operand(0, 0, n),))
        runs = Runs(backend, [n])
        once = runs.of([unit])
        once()
        self._count = int(min(max(5e-5 / max(seconds(once), 1e-7), 1), 50))
        self._run = runs.of([unit] * self._count)
        self.best = float("inf")
        for _ in range(50):
            self.now()
        self.call = self._call_time(runs, unit)

    @staticmethod
    def _call_time(runs: Runs, unit: ExecUnit) -> float:
        one, two = (runs.of([unit] * count) for count in (1, 2))
        times = [(seconds(one), seconds(two)) for _ in range(_MOST)]
        return max(2 * min(once for once, _ in times) - min(twice for _, twice in times), 0.0)

    def now(self) -> float:
        """The shorter of two runs now."""
        found: float = min(seconds(self._run), seconds(self._run)) / self._count
        self.best = min(self.best, found)
        return found

    def quiet(self) -> bool:
        """Whether the machine is about as fast as it ever was."""
        return self.now() <= _QUIET * self.best

    def shortest(self, pieces: Sequence[Call], rounds: int = _MOST) -> list[float]:
        """The shortest time of each piece, without that of its call, from rounds over all of them. rounds: the most."""
        best = [float("inf")] * len(pieces)
        quiet, start, before = 0, time.perf_counter(), self.quiet()
        for number in range(rounds):
            for i, piece in enumerate(pieces):
                best[i] = min(best[i], seconds(piece))
            after = self.quiet()
            quiet += before and after
            before = after
            if quiet >= _ENOUGH or (number + 1 >= _FEWEST and time.perf_counter() > start + _SECONDS):
                break
        return [max(t - self.call, 1e-9) for t in best]

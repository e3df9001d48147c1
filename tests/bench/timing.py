"""Noise-gated timing for benchmarks on a shared machine.

Another job on the same host can halve vector throughput for seconds at a time. Each sample is bracketed by a short calibration
loop (dependent floating-point multiply-adds in registers: it touches no memory, so only lost cycles slow it down) and counts as
quiet when both calibrations ran within 6 % of the best ever seen. Medians are taken over quiet samples when there are enough,
over all of them otherwise, and say so.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from numba import njit


@njit(cache=False)
def _spin(rounds: int) -> float:
    a, b, c, d = 1.0, 1.1, 1.2, 1.3
    for _ in range(rounds):
        a = a * 0.999999 + 1e-7
        b = b * 0.999999 + 1e-7
        c = c * 0.999999 + 1e-7
        d = d * 0.999999 + 1e-7
    return a + b + c + d


_ROUNDS = 4000
_TOLERANCE = 1.06
_best = float("inf")


def _calibrate() -> float:
    global _best
    start = time.perf_counter()
    _spin(_ROUNDS)
    took = time.perf_counter() - start
    _best = min(_best, took)
    return took


@dataclass
class Samples:
    """Wall times of one row, in milliseconds."""

    quiet: list[float] = field(default_factory=list)
    noisy: list[float] = field(default_factory=list)

    @property
    def used(self) -> list[float]:
        return self.quiet if len(self.quiet) >= 7 else self.quiet + self.noisy

    @property
    def median(self) -> float:
        return statistics.median(self.used)

    @property
    def minimum(self) -> float:
        return min(self.used)

    @property
    def gated(self) -> bool:
        return len(self.quiet) >= 7


@dataclass
class Watch:
    """quiet: whether the machine was nobody else's right before and after."""

    quiet: bool = False


class QuietMachine:
    """Tells quiet samples from noisy ones, whatever is timed in between."""

    def __init__(self) -> None:
        for _ in range(300):
            _calibrate()

    @contextmanager
    def watch(self) -> Iterator[Watch]:
        _calibrate()  # the first one after a large kernel pays for cold caches
        before, watch = _calibrate(), Watch()
        yield watch
        after = _calibrate()
        watch.quiet = max(before, min(after, _calibrate())) <= _TOLERANCE * _best


def alternate(
    rows: dict[str, Callable[[], object]], *, repeats: int = 9, budget_s: float = 4.0, warmup: int = 2
) -> dict[str, Samples]:
    """Time competing callables in turn, sample by sample, so that drift hits all alike. At least `repeats` samples each."""
    machine = QuietMachine()
    out = {name: Samples() for name in rows}
    for call in rows.values():
        for _ in range(warmup):
            call()
    begin = time.perf_counter()
    rounds = 0
    while rounds < repeats or (time.perf_counter() - begin < budget_s and rounds < 60):
        for name, call in rows.items():
            with machine.watch() as watch:
                start = time.perf_counter()
                result = call()
                took = (time.perf_counter() - start) * 1e3
            del result
            (out[name].quiet if watch.quiet else out[name].noisy).append(took)
        rounds += 1
    return out


def geometric_mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values)

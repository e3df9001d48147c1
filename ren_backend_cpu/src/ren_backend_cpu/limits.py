"""What this core and its memory can do at most, measured on the spot: what `ren bench` compares operations with."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from ren.backend.capability import Limits
from ren.numtheory.primes import ntt_primes_below

from ren_backend_cpu.kernels import peak
from ren_backend_cpu.tables import aligned_words, limb_table

#: Words per array: three of them are several times larger than any cache of one core.
_WORDS = 1 << 23
_ROUNDS = 20_000
_SAMPLES = 7


def measure() -> Limits:
    """One core, the best of several runs each: a limit is what was reached when nobody else was in the way."""
    return Limits(bytes_per_second=_bandwidth(), butterflies_per_second=_butterflies())


def _best(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_SAMPLES):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _bandwidth() -> float:
    """Two arrays read and one written, as an addition does it."""
    x, y, out = (np.zeros(_WORDS, np.uint64) for _ in range(3))
    np.add(x, y, out=out)  # the memory exists only once it has been written
    return 3 * 8 * _WORDS / _best(lambda: np.add(x, y, out=out))


def _butterflies() -> float:
    n = 1 << 14
    table = limb_table(n, next(ntt_primes_below(1 << 40, n)))
    data = aligned_words(peak.DATA_WORDS)
    data[:] = 0
    address = int(data.ctypes.data)
    rates = []
    for pairs, function in peak.FUNCTIONS:
        run = function.made
        seconds = _best(lambda run=run: run(table.address, address, _ROUNDS))  # type: ignore[misc]
        rates.append(_ROUNDS * pairs * peak.PATH.lanes / seconds)
    return max(rates)

"""Compile ahead what first use would compile, with times."""

from __future__ import annotations

import time
from collections.abc import Callable

from ren.numtheory.primes import ntt_primes_below

from ren_backend_cpu import lower, tables
from ren_backend_cpu.driver import Runner
from ren_backend_cpu.kernels import embedding, sampling
from ren_backend_cpu.kernels.jit import ROW, Compiled, Entry

#: (log2 n, bits of q) that between them need every transform of the usual parameter sets: scale primes, a first prime ten bits wider,
#: and moduli of full width.
_USUAL = ((14, 40), (15, 40), (14, 50), (14, 60))


def warmup(progress: Callable[[str], None]) -> None:
    """Make the machine code of every kernel that CKKS at the usual sizes needs, reading what the disk has.

    progress: called with one line of text per step.
    """
    start = time.perf_counter()
    for log_n, bits in _USUAL:
        n = 1 << log_n
        tables.limb_table(n, next(ntt_primes_below(1 << bits, n)))
    for entry in list(Entry.registry.values()):
        if (entry.signature is ROW and entry.compiles) or entry is sampling.key_words:
            entry.made  # noqa: B018 - asking for it compiles
    Runner([], [])  # the driver
    ready: list[Compiled] = [e for e in Entry.registry.values() if e.ready]
    for function in (embedding.to_integers, embedding.to_slots):
        function.made  # noqa: B018
        ready.append(function)
    for made in sorted(ready, key=lambda e: -e.seconds):
        source = "read from disk" if made.from_disk else "compiled"
        progress(f"{made.name}: {source} in {made.seconds:.2f} s")
    progress(f"{len(ready)} kernels for {len(lower.LOWERINGS)} operations ready in {time.perf_counter() - start:.2f} s")

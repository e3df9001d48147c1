"""Compilation ahead of time: every module of kernels, for the degrees of secure parameter sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ren_backend_cuda.device import Device
from ren_backend_cuda.source import KERNELS, declarations

#: log2 of the degrees that `ntt.cu` is compiled for; others are at their first use.
LOG_N = (14, 15, 16)


def modules() -> Iterator[tuple[str, dict[str, int]]]:
    """(source, macros) of each module."""
    for path in sorted(KERNELS.glob("*.cu")):
        if path.stem == "ntt":
            yield from (("ntt", {"REN_LOG_N": k}) for k in LOG_N)
        else:
            yield path.stem, {}


def warmup(device: Device, progress: Callable[[str], None]) -> None:
    """Compile and load all of them; what is in the cache already is only loaded. progress: one line of text per module."""
    for source, macros in modules():
        start = time.perf_counter()
        first = next(iter(declarations((KERNELS / f"{source}.cu").read_text())))
        device.function(source, macros, first)
        suffix = "".join(f" n=2^{k}" for k in macros.values())
        progress(f"{source}{suffix}: {time.perf_counter() - start:.1f} s")

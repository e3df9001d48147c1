"""A test of the tests: with any one barrier removed from a kernel, the check build reports a race.

So every barrier is there for a reason, and none is missing where these shapes run.
"""

from __future__ import annotations

import re
import shutil
from itertools import islice

import pytest
from emulator import MISSING, EmulatedDevice, KernelFault
from ren.testing.cases import cases
from ren.testing.runner import run_apart, unit_of
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.source import KERNELS

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

BARRIER = re.compile(r"^( *)(if constexpr \(level == 0\) )?(__syncthreads|Rows<W>::sync)\(\);", re.MULTILINE)
#: Source -> (degree, kernels that go through all its barriers).
SHAPES = {
    "ntt": (1 << 12, ("ntt", "intt", "key_switch")),
    "ntt_block": (64, ("ntt", "intt")),
    "sampling": (256, ("sample",)),
}


def barriers(source):
    return [m.span() for m in BARRIER.finditer((KERNELS / f"{source}.cu").read_text())]


def faults(kernels, source):
    """Kinds of what the check build finds in the kernels of a folder, on one case each."""
    degree, names = SHAPES[source]
    backend = CudaBackend(EmulatedDevice("check", kernels=kernels))
    found = set()
    for kernel in names:
        # The sparse draw is the only sampler with barriers.
        chosen = (
            c for c in cases(kernel, degree, (61,)) if kernel != "sample" or c.params[:2] == ("sparse_ternary", 256)
        )
        for case in islice(chosen, 1):
            unit = unit_of(case, backend)
            try:
                run_apart(backend, unit, backend.compile(unit), *case.operands[-1])
            except KernelFault as fault:
                found.update(fault.kinds)
    return found


#: Those of `make test` where it does not try all: the exchange of columns, and one of rows.
QUICK = {"ntt": (0, 3), "sampling": (0,)}
MUTANTS = [
    pytest.param(
        source, number, id=f"{source}-{number}", marks=[] if number in QUICK.get(source, (number,)) else [pytest.mark.full]
    )
    for source in SHAPES
    for number in range(len(barriers(source)))
]


def test_all_barriers_are_tried():
    for source in {p.stem for p in KERNELS.glob("*.cu")} - {"self_check"}:  # no kernel of a unit, tested by itself
        text = (KERNELS / f"{source}.cu").read_text()
        defined = len(re.findall(r"(?:if constexpr \(lanes <= 32\) __syncwarp|else __syncthreads)\(\);", text))
        assert len(re.findall(r"__sync\w+\(\)|Rows<W>::sync\(\)", text)) - defined == len(barriers(source)), source
        assert source in SHAPES or not barriers(source)


@pytest.mark.parametrize(("source", "number"), MUTANTS)
def test_a_missing_barrier_is_found(source, number, tmp_path):
    kernels = tmp_path / "kernels"
    shutil.copytree(KERNELS, kernels)
    text = (KERNELS / f"{source}.cu").read_text()
    start, stop = barriers(source)[number]
    (kernels / f"{source}.cu").write_text(f"{text[:start]}{' ' * (stop - start)}{text[stop:]}")
    assert "race" in faults(kernels, source)


@pytest.mark.parametrize("source", SHAPES)
def test_the_kernels_themselves_are_clean(source):
    assert faults(KERNELS, source) == set()

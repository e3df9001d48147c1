"""Every kernel once per launch shape in the check build: bounds, races, uninitialised reads, alignment, undefined behaviour.

Addresses do not depend on data, so one run of a shape shows every access that the shape can make; the result is compared all the same.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from emulator import MISSING, EmulatedDevice
from ren.backend.reference import ReferenceBackend
from ren.backend.select import get_backend
from ren.ops import KERNELS
from ren.testing import BackendConformance
from ren.testing.cases import cases
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.source import KERNELS as FOLDER
from ren_backend_cuda.source import declarations

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

#: Degrees: fewer words than a warp, less than a block, a block, several blocks, the smallest that takes two kernels.
QUICK = (2, 4, 64, 512, 4096)


@pytest.fixture(scope="module")
def device():
    return EmulatedDevice("check")


@pytest.fixture(scope="module")
def backend(device):
    return CudaBackend(device)


def shapes(device):
    """(kernel, grid, block, shared bytes) of what ran."""
    return {(x.function.name, x.grid, x.block, x.shared_bytes) for x in device.launched}


@pytest.mark.parametrize("n", [*QUICK, *(pytest.param(1 << k, marks=pytest.mark.full) for k in (1, 3, 8, 11, 13, 14))])
@pytest.mark.parametrize("kernel", KERNELS)
def test_unit(backend, device, kernel, n):
    oracle = ReferenceBackend() if n <= 64 else get_backend("cpu")
    before, seen = shapes(device), 0
    for case in cases(kernel, n, (61,)):
        few = case.operands[-1:] if n > 64 else case.operands[:2]
        BackendConformance().check(backend, oracle, replace(case, operands=few))
        seen += 1
        if n >= 512 and seen == (4 if n == 512 else 2):
            break
    assert seen and (shapes(device) - before or len(before) > 40)


def test_every_kernel_has_run(device, backend):
    """Of every source: a kernel that no unit reaches would not be tested by anything."""
    for n in (8, 4096):
        for kernel in KERNELS:
            case = next(cases(kernel, n, (40,)))
            BackendConformance().check(backend, get_backend("cpu"), replace(case, operands=case.operands[-1:]))
    ran = {(x.function.library.stem.partition("-")[0], x.function.name) for x in device.launched}
    every = {(f.stem, name) for f in FOLDER.glob("*.cu") for name in declarations(f.read_text())}
    assert every - ran - {("self_check", "self_check")} == set()

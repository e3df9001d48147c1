"""The CUDA backend under the conformance kit, on the emulated device: small rings in full, one case of every kernel and whole plans at each large degree.

The same in the check build: test_check_build.py. On a GPU: test_on_a_gpu.py. That these comparisons see a wrong index: test_mutants.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from emulator import MISSING, EmulatedDevice
from plans import PLANS, differ, results
from ren.backend.select import get_backend
from ren.ops import KERNELS
from ren.testing import BackendConformance
from ren.testing.cases import cases
from ren_backend_cuda.backend import CudaBackend

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

#: Kernels whose code depends on the degree, above the one from which transforms take two kernels.
TRANSFORMING = ("ntt", "intt", "mod_down", "decompose", "key_switch")


class TestEmulated(BackendConformance):
    backend_name = "cuda"
    sizes = (2, 64)
    every_width_up_to = 0
    large_size = 0
    test_large_ring = None  # below, one case a degree

    def make_backend(self):
        return CudaBackend(EmulatedDevice())


@pytest.mark.full
class TestEmulatedEveryWidth(TestEmulated):
    sizes = tuple(1 << k for k in range(1, 14))
    every_width_up_to = 256


@pytest.fixture(scope="module")
def backend():
    return CudaBackend(EmulatedDevice())


def one_case(backend, kernel, n, bits):
    """The first case of the kit, its last operands, against the CPU backend: the reference backend takes seconds here."""
    case = next(cases(kernel, n, (bits,)))
    BackendConformance().check(backend, get_backend("cpu"), replace(case, operands=case.operands[-1:]))


@pytest.mark.parametrize("kernel", KERNELS)
def test_largest_ring_of_one_block(backend, kernel):
    one_case(backend, kernel, 1 << 11, 61)


@pytest.mark.parametrize("kernel", TRANSFORMING)
def test_smallest_ring_of_two_kernels(backend, kernel):
    """Narrow moduli; 61 bits are what the check build compares there."""
    one_case(backend, kernel, 1 << 12, 30)


@pytest.mark.full
@pytest.mark.parametrize("log_n", [13, 14, 15, 16, 17])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_large_degree(backend, kernel, log_n):
    one_case(backend, kernel, 1 << log_n, 61)


@pytest.mark.parametrize("log_n", [pytest.param(k, marks=[] if k == 13 else pytest.mark.full) for k in range(13, 18)])
@pytest.mark.parametrize("name", PLANS)
def test_plans_of_every_large_degree(backend, name, log_n):
    plan = PLANS[name](1 << log_n)
    assert differ(results(backend, plan), results(get_backend("cpu"), plan)) == []

"""What the kernels access, in the check build: bounds, races, uninitialised reads, alignment, undefined behaviour.

Addresses do not depend on data (samplers excepted), so one run of a launch shape shows every access that the shape can make. Single units: every
case of the kit at small degrees, and at larger ones a case of each kind of parameters. Plans, as the engine makes them: several units in one
launch, a division fused with an automorphism, keys of a higher level, key switches in chunks. Results are compared all the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from emulator import MISSING, EmulatedDevice
from plans import PLANS, differ, results
from ren.backend.reference import ReferenceBackend
from ren.backend.select import get_backend
from ren.ops import KERNELS, Domain
from ren.testing.cases import KernelCase, cases, special_moduli
from ren.testing.runner import assert_same, run_apart, run_in_place_crossed, unit_of
from ren.testing.vectors import generator, operand, ring_of_width
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.source import KERNELS as FOLDER
from ren_backend_cuda.source import declarations

from ren_backend_cuda import lower_key_switch

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

#: Degrees: fewer words than a warp, less than a block, several blocks, the smallest that takes two kernels.
QUICK = (2, 4, 64, 512, 4096)


@pytest.fixture(scope="module")
def device():
    return EmulatedDevice("check")


@pytest.fixture(scope="module")
def backend(device):
    return CudaBackend(device)


def kind(case):
    """What decides which kernels run, over which words: not the instructions of a program, a Galois element or the values of moduli."""
    p = case.params
    if case.kernel == "elementwise":
        return bool(p[1]), p[4]
    if case.kernel == "automorphism":
        return p[1]
    if special_moduli(case.kernel, p):
        p = (p[0], len(p[1]), *p[2:])
    return p, case.ring.limbs


def chosen(kernel, n):
    """All cases of small rings, the first one of each kind of large ones."""
    if n <= 64:
        return list(cases(kernel, n, (61,)))
    found = {}
    # At large degrees the kit gives each width another share of the parameters; integers for basis_extend take Python long to make.
    for case in cases(kernel, n, (61,) * (2 if kernel == "basis_extend" else 5)):
        found.setdefault(kind(case), case)
    return list(found.values())


def run(backend, oracle, case):
    """In memories of their own, where the end of each is the end of what may be touched, and in place where that is allowed."""
    operands = case.operands[-1]
    unit, plain = unit_of(case, backend), unit_of(case, oracle)
    expected = run_apart(oracle, plain, oracle.compile(plain), *operands)
    compiled = backend.compile(unit)
    assert_same(case, run_apart(backend, unit, compiled, *operands), expected, 0, "apart")
    if case.in_place:
        assert_same(case, run_in_place_crossed(backend, unit, compiled, *operands), expected, 0, "in place")


@pytest.mark.parametrize("n", QUICK)
@pytest.mark.parametrize("kernel", KERNELS)
def test_unit(backend, kernel, n):
    """At 4096 a third of the kinds, samplers excepted: plans are of the others, and the long run below."""
    oracle = ReferenceBackend() if n <= 64 else get_backend("cpu")
    found = chosen(kernel, n)
    for case in found[:: 3 if n == 4096 and kernel != "sample" else 1]:
        run(backend, oracle, case)


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("n", [1 << k for k in (3, 8, 11, 12, 13)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_unit_of_every_kind(backend, kernel, n):
    for case in chosen(kernel, n):
        run(backend, get_backend("cpu"), case)


def test_rows_that_are_longer_than_a_warp(backend, device):
    """Only at 2^17: `key_rows` then needs block barriers, and all rows a third exchange. Two digits, one after the other in the same shared memory."""
    n = 1 << 17
    ring, rng = ring_of_width(n, 61, 2), generator("longest rows")
    inputs = operand(ring, "mixed", rng), np.concatenate([operand(ring, "mixed", rng) for _ in range(4)])
    params = (1, (), Domain.COEFF, 2, (0, 1))
    run(backend, get_backend("cpu"), KernelCase("key_switch", ring, params, ((inputs, ()),), (2 * n, 2 * n)))
    assert device.launched[-1].function.name == "key_rows"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("n", [64, 4096, *(pytest.param(1 << k, marks=pytest.mark.full) for k in (1, 9, 11, *range(13, 18)))])
@pytest.mark.parametrize("name", PLANS)
def test_plan(device, monkeypatch, name, n):
    """As the engine makes them. Products switch keys in chunks of two targets."""
    plan = PLANS[name](n)
    if name == "product":
        monkeypatch.setattr(lower_key_switch, "_CHUNK_WORDS", 2 * (3 if n <= 4096 else 2) * n)
    device.launched.clear()
    found = results(CudaBackend(device), plan)
    assert differ(found, results(get_backend("cpu"), plan)) == []
    both = {x.function.name for x in device.launched if x.grid[2] == 2}
    assert both >= ({"divide_rows", "inverse_rows"} if n >= 4096 else {"convert_divide", "inverse"}), "one by one"
    names = [x.function.name for x in device.launched]
    if n >= 4096:
        assert names.count("key_rows") == (1 if name == "rotation" else 4 if n == 4096 else 3)
    assert "automorphism_values" not in names, "the automorphism is not part of the division"


def test_these_units_reach_every_kernel():
    """Of every source: a kernel that no unit launches would not be tested by anything."""
    ran = set()

    class Noting(EmulatedDevice):
        def record(self, launches):
            ran.update((x.function.library.stem.partition("-")[0], x.function.name) for x in launches)
            return super().record(launches)

    backend = CudaBackend(Noting())
    for n in (4, 4096):
        for kernel in KERNELS:
            for case in chosen(kernel, n):
                backend.compile(unit_of(case, backend))
    every = {(f.stem, name) for f in FOLDER.glob("*.cu") for name in declarations(f.read_text())}
    assert every - ran - {("self_check", "self_check")} == set()

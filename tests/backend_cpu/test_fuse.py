"""Units that `fuse` merges: the words of the plan as it was, and plans that must stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import ren
from numpy.typing import NDArray
from ren.backend.select import get_backend
from ren.engine.exec_unit import ExecUnit, Operand, SlotKind
from ren.engine.plan import Plan, build_plan
from ren.engine.schedule import normalise
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes import ckks
from ren.schemes.ckks.encryption import encrypt_with_public
from ren_backend_cpu.driver import Runner
from ren_backend_cpu.fuse import fuse
from ren_backend_cpu.memory import CpuMemory

from ren_backend_cpu import driver

Words = NDArray[np.uint64]
SEED = bytes(range(32))


def ring_of(n: int, *bits: int) -> RingSpec:
    moduli: list[int] = []
    for b in bits:
        moduli.append(next(q for q in ntt_primes_below(1 << b, n) if q not in moduli))
    return RingSpec(n, tuple(moduli))


def plan_of(*polys: Poly) -> Plan:
    return build_plan(normalise([p._node for p in polys]).key, get_backend("cpu"))


def run(plan: Plan, units: Sequence[ExecUnit]) -> list[Words]:
    """The output slots after a run on inputs that follow from the plan alone; outputs and temporaries start as garbage."""
    rng = np.random.default_rng(3)
    views = []
    for slot in plan.slots:
        memory = CpuMemory(slot.words)
        memory.array[:] = rng.integers(
            0, 1 << 30, slot.words, np.uint64
        )  # residues of every modulus used here, and tiny doubles
        if slot.words % 2:  # a FLOAT: integers, many of them negative
            memory.array[:-1] = np.rint(rng.normal(0, 2.0**38, slot.words - 1)).view(np.uint64)
        views.append((memory, 0))
    Runner(units, [s.words for s in plan.slots])(views)
    return [m.array.copy() for (m, _), s in zip(views, plan.slots, strict=True) if s.kind is SlotKind.OUTPUT]


def check(plan: Plan, fused: int) -> list[ExecUnit]:
    """`fused` groups are merged, and every output keeps its words."""
    units = fuse(plan.units, plan.slots)
    assert sum(u.kernel.endswith("_ntt") for u in units) == fused, [u.kernel for u in units]
    for found, expected in zip(run(plan, units), run(plan, plan.units), strict=True):
        assert np.array_equal(found, expected)
    return units


def leaf(ring: RingSpec, domain: Domain) -> Poly:
    return Poly.from_residues(np.zeros((ring.limbs, ring.n), np.uint64), ring, domain, "cpu")


def small(ring: RingSpec, distribution: str = "gaussian", argument: object = "3.19") -> Poly:
    return Poly.sample(distribution, argument, ring, SEED, device="cpu")


RINGS = [ring_of(n, 50, 40, 41, last) for n in (128, 1024) for last in (33, 45, 50)] + [ring_of(256, 61, 47, 33, 45)]


@pytest.mark.parametrize("ring", [ring_of(n, 61, 50, 40, 33) for n in (2, 64, 128, 4096)], ids=lambda r: r.n)
@pytest.mark.parametrize("draw", [("gaussian", "3.19"), ("gaussian", "50"), ("ternary", None), ("sparse_ternary", 2)])
def test_samples_and_their_transform(ring: RingSpec, draw: tuple[str, object]) -> None:
    units = check(plan_of(small(ring, *draw).ntt()), 1)
    assert [u.kernel for u in units] == ["sample_ntt"]


@pytest.mark.parametrize("ring", [ring_of(n, 61, 50, 40, 33) for n in (2, 64, 128, 4096)], ids=lambda r: r.n)
def test_doubles_and_their_transform(ring: RingSpec) -> None:
    plan = plan_of(Poly.from_integers(np.zeros(ring.n), ring, "cpu").ntt())
    assert [u.kernel for u in check(plan, 1)] == ["from_float_ntt"]


def test_what_is_wanted_in_both_domains_stays_apart() -> None:
    x = small(ring_of(256, 40, 41))
    check(plan_of(x, x.ntt()), 0)
    check(plan_of(small(ring_of(256, 40, 41), "uniform", None).ntt()), 0)


def masked(ring: RingSpec, error: Poly, difference: Callable[[Poly, Poly], Poly] = lambda e, r: e - r) -> Poly:
    """The middle of an encryption (`ren.schemes.ckks.encryption`)."""
    kept = ring.limbs - 1
    rest = leaf(ring.take(kept, kept + 1), Domain.NTT).intt() + error.limbs(kept, kept + 1)
    remainder = rest.mod_raise(ring.moduli[:kept], "centred").limbs(1, kept + 1)
    return difference(error.limbs(0, kept), remainder).ntt()


@pytest.mark.parametrize("ring", RINGS, ids=lambda r: f"{r.n}-{r.moduli[-1].bit_length()}")
@pytest.mark.parametrize("draw", [("gaussian", "3.19"), ("ternary", None), ("sparse_ternary", 7)])
def test_the_remainder_of_an_encryption(ring: RingSpec, draw: tuple[str, object]) -> None:
    units = check(plan_of(masked(ring, small(ring, *draw))), 1)
    assert [u.kernel for u in units if u.kernel not in ("intt", "elementwise")] == ["sample", "remainder_ntt"]
    assert units[0].ring.moduli == ring.moduli[-1:], "the error is drawn for one limb"


def test_two_remainders_share_memory() -> None:
    ring = RINGS[0]
    second = Poly.sample("gaussian", "3.19", ring, bytes(32), device="cpu")
    check(plan_of(masked(ring, small(ring)), masked(ring, second)), 2)


@pytest.mark.parametrize(
    "ring", [ring_of(128, 40, 41, 51), ring_of(64, 40, 41, 45)], ids=["a wide last modulus", "a small ring"]
)
def test_remainders_that_the_kernel_does_not_take(ring: RingSpec) -> None:
    check(plan_of(masked(ring, small(ring))), 0)


def test_threads_share_the_limbs_of_merged_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "SHARED_WORDS", 0)
    ring, before = RINGS[0], ren.get_threads()
    doubles = Poly.from_integers(np.zeros(ring.n), ring, "cpu")
    plans = [plan_of(masked(ring, small(ring))), plan_of(small(ring, "ternary", None).ntt(), doubles.ntt())]
    merged = [check(plan, count) for plan, count in zip(plans, (1, 2), strict=True)]
    alone = [run(plan, units) for plan, units in zip(plans, merged, strict=True)]
    try:
        ren.set_threads(3)
        for _ in range(20):
            for plan, units, expected in zip(plans, merged, alone, strict=True):
                assert all(np.array_equal(x, y) for x, y in zip(run(plan, units), expected, strict=True))
    finally:
        ren.set_threads(before)


def test_errors_that_others_need_stay_whole() -> None:
    ring = RINGS[0]
    error = small(ring)
    check(plan_of(masked(ring, error), error.limbs(0, 2)), 0)
    error = small(ring)
    check(plan_of(masked(ring, error), error.limbs(1, 2) * 3), 0)
    check(plan_of(masked(ring, small(ring, "uniform", None))), 0)
    check(plan_of(masked(ring, leaf(ring, Domain.COEFF))), 0)
    check(plan_of(masked(ring, small(ring), lambda e, r: r - e)), 0)
    check(plan_of(masked(ring, small(ring, "gaussian", "50"))), 1)


def test_the_extension_that_others_need_stays() -> None:
    ring = RINGS[0]
    kept = ring.limbs - 1
    error = small(ring)
    rest = leaf(ring.take(kept, kept + 1), Domain.NTT).intt() + error.limbs(kept, kept + 1)
    raised = rest.mod_raise(ring.moduli[:kept], "centred")
    check(plan_of((error.limbs(0, kept) - raised.limbs(1, kept + 1)).ntt(), raised.limbs(2, 3)), 0)


def test_memory_written_in_between_is_respected() -> None:
    """The planner never does this; a plan that did must not be merged."""
    ring = RINGS[0]
    plan = plan_of(masked(ring, small(ring)))
    at = next(i for i, u in enumerate(plan.units) if u.kernel == "basis_extend")
    (sample,) = (u for u in plan.units if u.kernel == "sample")
    row = sample.outputs[0]
    n = ring.n
    last = Operand(row.slot, row.offset + row.words - n, n)
    for other in (last, Operand(row.slot, row.offset, n)):
        one = ring.take(0, 1)
        again = replace(sample, ring=one, outputs=(other,))
        units = (*plan.units[:at], again, *plan.units[at:])
        assert not any(u.kernel == "remainder_ntt" for u in fuse(units, plan.slots))


def test_outputs_are_not_scratch() -> None:
    ring = RINGS[0]
    plan = plan_of(masked(ring, small(ring)))
    kept = tuple(replace(s, kind=SlotKind.OUTPUT) if s.kind is SlotKind.TEMPORARY else s for s in plan.slots)
    assert not any(u.kernel == "remainder_ntt" for u in fuse(plan.units, kept))


def test_an_encryption_has_all_of_them() -> None:
    params = ckks.CKKSParams.preset("slots8192-scale40-levels7")
    with ckks.keygen(params, device="cpu") as engine:
        plain = ckks.encode([0.5, -0.25])
        assert plain.poly is not None
        b, a = encrypt_with_public(engine.public_key, plain.poly)
        plan = plan_of(b, a)
        kernels = [u.kernel for u in fuse(plan.units, plan.slots)]
    assert kernels.count("remainder_ntt") == 2 and kernels.count("sample_ntt") == 1
    assert "basis_extend" not in kernels and "ntt" not in kernels

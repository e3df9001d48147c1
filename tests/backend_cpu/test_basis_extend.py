"""Base conversion: more terms than an accumulator holds, mixed widths, and what each mode promises about the integer."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import KernelOperandError
from ren.numtheory.crt import recombine_centred, residues
from ren.ring import RingSpec
from ren.testing.cases import KernelCase, cases
from ren.testing.vectors import generator, integers_near_edges, operand, primes_of_width, ring_of_many_widths
from ren_backend_cpu.lower_conversion import lower_basis_extend

MODES = ("approximate", "centred", "exact")


@pytest.mark.parametrize("n", [2, 64, 128, 512])
def test_agrees_with_the_reference(n: int, agree) -> None:
    for case in cases("basis_extend", n, (20, 40, 46, 50, 51, 61)):
        agree(case)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n", "limbs", "width"), [(8, 30, 61), (128, 15, 50), (128, 22, 45), (256, 9, 61)])
def test_many_limbs(n: int, limbs: int, width: int, mode: str, agree) -> None:
    moduli = primes_of_width(n, width, limbs + 2)
    ring, new = RingSpec(n, moduli[:limbs]), moduli[limbs:]
    rng = generator("many", n, limbs, mode)
    runs = [((operand(ring, p, rng),), ()) for p in ("minus_one", "half", "mixed")]
    runs.append(((residues(integers_near_edges(ring.modulus, n, rng), ring.moduli).reshape(-1),), ()))
    agree(KernelCase("basis_extend", ring, (mode, new), tuple(runs), ((limbs + 2) * n,)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("n", "limbs", "width"),
    [(128, 4, 50), (128, 5, 50), (128, 8, 50), (128, 9, 50), (128, 63, 46), (128, 16, 61), (128, 17, 61), (8, 33, 61)],
)
def test_largest_sums(n: int, limbs: int, width: int, mode: str, agree) -> None:
    """Every term at its largest, with as many terms as one sum may hold without a reduction in between, and one more."""
    moduli = primes_of_width(n, width, limbs + 3)
    ring, new = RingSpec(n, moduli[:limbs]), moduli[limbs:]
    largest = [q // 2 if mode == "centred" else q - 1 for q in ring.moduli]
    cofactors = [ring.modulus // q % q for q in ring.moduli]
    rows = [[y * c % q] * n for y, c, q in zip(largest, cofactors, ring.moduli, strict=True)]
    x = np.array(rows, np.uint64).reshape(-1)
    agree(KernelCase("basis_extend", ring, (mode, new), (((x,), ()),), ((limbs + 3) * n,)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [8, 128])
def test_mixed_widths(n: int, mode: str, agree) -> None:
    moduli = ring_of_many_widths(n, 9).moduli
    for old, new in ((moduli[:4], moduli[4:]), (moduli[4:], moduli[:4]), (moduli[::2], moduli[1::2])):
        ring = RingSpec(n, old)
        x = operand(ring, "mixed", generator("mixed widths", n, mode))
        agree(KernelCase("basis_extend", ring, (mode, new), (((x,), ()),), (9 * n,)))


@pytest.mark.parametrize("limbs", [1, 3, 12])
def test_exact_keeps_the_centred_value(limbs: int, compute) -> None:
    n = 128
    moduli = primes_of_width(n, 45, limbs + 1)
    ring = RingSpec(n, moduli[:limbs])
    values = integers_near_edges(ring.modulus, n, generator("exact", limbs))
    rows = residues(values, ring.moduli)
    (out,) = compute("basis_extend", ring, ("exact", moduli[limbs:]), [rows.reshape(-1)], [(limbs + 1) * n])
    assert np.array_equal(out.reshape(-1, n)[:limbs], rows), "the old rows come first"
    centred = recombine_centred(rows, ring.moduli)
    # Fixed point decides up to limbs 2^-55 Q from Q/2; closer than that either neighbour is allowed.
    margin = limbs * ring.modulus >> 55
    clear = np.array([ring.modulus // 2 - abs(int(v)) > margin for v in centred])
    assert clear.sum() > n // 2
    assert np.array_equal(out[limbs * n :][clear], residues(centred, moduli[limbs:])[0][clear])


def test_approximate_forms_differ_by_multiples_of_the_modulus(compute) -> None:
    n, limbs = 128, 4
    moduli = primes_of_width(n, 40, limbs + 8)
    ring, new = RingSpec(n, moduli[:limbs]), moduli[limbs:]
    x = operand(ring, "random", generator("multiples"))
    exact = recombine_centred(x.reshape(limbs, n), ring.moduli)
    assert prod(new) > 100 * ring.modulus, "the new limbs alone hold the integer"
    for mode, low, high in (("approximate", 0, limbs), ("centred", -limbs // 2, limbs // 2)):
        (out,) = compute("basis_extend", ring, (mode, new), [x], [(limbs + len(new)) * n])
        overflow = (recombine_centred(out.reshape(-1, n)[limbs:], new) - exact) // ring.modulus
        assert all(
            (int(v) - int(e)) % ring.modulus == 0 for v, e in zip(exact + overflow * ring.modulus, exact, strict=True)
        )
        assert low <= min(overflow) <= max(overflow) <= high


def test_unknown_mode_is_refused() -> None:
    ring = RingSpec(64, primes_of_width(64, 40, 1))
    unit = ExecUnit(
        "basis_extend", ring, ("rounded", primes_of_width(64, 41, 1)), (Operand(0, 0, 64),), (), (Operand(1, 0, 128),)
    )
    with pytest.raises(KernelOperandError, match="mode"):
        lower_basis_extend(unit)

"""Division by dropped moduli: many dropped limbs, mixed widths, rounding to the nearest."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import KernelOperandError
from ren.numtheory.crt import recombine_centred, residues
from ren.ops import Domain
from ren.ring import RingSpec
from ren.testing.cases import KernelCase, cases
from ren.testing.vectors import generator, integers_near_edges, operand, primes_of_width, ring_of_many_widths
from ren_backend_cpu.lower_mod_down import lower_mod_down


@pytest.mark.parametrize("n", [2, 64, 128, 512])
def test_agrees_with_the_reference(n: int, agree) -> None:
    for case in cases("mod_down", n, (20, 40, 46, 50, 51, 61)):
        agree(case)


@pytest.mark.parametrize("domain", list(Domain))
@pytest.mark.parametrize(("k", "z_limbs"), [(1, 0), (2, 10), (9, 3), (10, 4), (11, 0), (11, 12)])
def test_many_dropped_limbs(k: int, z_limbs: int, domain: Domain, agree) -> None:
    """More than one accumulator holds (7 terms), with a z on the kept limbs, on some dropped ones, on all."""
    n = 128
    ring = RingSpec(n, primes_of_width(n, 49, 12))
    rng = generator("many", k, z_limbs, domain)
    runs = []
    for pattern in ("minus_one", "mixed"):
        x = operand(ring, pattern, rng)
        runs.append(((x, operand(ring.take(0, z_limbs), pattern, rng)) if z_limbs else (x,), ()))
    agree(KernelCase("mod_down", ring, (k, z_limbs, domain), tuple(runs), ((12 - k) * n,)))


@pytest.mark.parametrize("width", [20, 40, 47, 50])
@pytest.mark.parametrize("last", [20, 40, 50])
def test_divisions_that_end_their_transforms(width: int, last: int, agree) -> None:
    """On the float path the transform takes the correction as it is and ends in the division: every form of it at the widest primes of
    both its arithmetics, on residues that are all q - 1, with corrections far wider and far narrower than the limb."""
    n = 4096
    low = primes_of_width(n, width, 4)
    ring = RingSpec(n, (*low, *[q for q in primes_of_width(n, last, 6) if q not in low][:2]))
    rng = generator("fused", width, last)
    for k, z_limbs in ((1, 0), (1, 5), (1, 6), (2, 0), (2, 4), (2, 5), (2, 6)):
        runs = []
        for pattern in ("minus_one", "mixed"):
            x = operand(ring, pattern, rng)
            runs.append(((x, operand(ring.take(0, z_limbs), pattern, rng)) if z_limbs else (x,), ()))
        agree(KernelCase("mod_down", ring, (k, z_limbs, Domain.NTT), tuple(runs), ((6 - k) * n,)))


@pytest.mark.parametrize("n", [8, 128, 256])
@pytest.mark.parametrize("reverse", [False, True])
def test_wide_limbs_onto_narrow_ones_and_back(n: int, reverse: bool, agree) -> None:
    """Residues too wide for the 52-bit and the float path are converted to limbs that are on those paths."""
    moduli = ring_of_many_widths(n, 8).moduli
    ring = RingSpec(n, moduli[::-1] if reverse else moduli)
    x = operand(ring, "mixed", generator("widths", n))
    for k in (1, 3, 7):
        agree(KernelCase("mod_down", ring, (k, 0, Domain.NTT), (((x,), ()),), ((8 - k) * n,)))


@pytest.mark.parametrize("n", [16, 128])
@pytest.mark.parametrize("width", [30, 45, 50, 60])
def test_rescale_is_the_nearest_integer(n: int, width: int, compute) -> None:
    """k = 1 against exact fractions, on integers at and next to the half-way points."""
    ring = RingSpec(n, primes_of_width(n, width, 3))
    q, kept = ring.moduli[-1], ring.drop(1)
    rng = generator("nearest", n, width)
    multiples = [int(m) * q + int(d) for m, d in zip(rng.integers(-1000, 1000, n), rng.integers(-2, 3, n), strict=True)]
    halves = [m + q // 2 for m in multiples]
    for values in (multiples, halves, integers_near_edges(ring.modulus, n, rng)):
        rows = residues(values, ring.moduli)
        (out,) = compute("mod_down", ring, (1, 0, Domain.COEFF), [rows.reshape(-1)], [kept.limbs * n])
        centred = recombine_centred(rows, ring.moduli)
        expected = residues([round(Fraction(int(v), q)) for v in centred], kept.moduli)
        assert np.array_equal(out.reshape(-1, n), expected)


@pytest.mark.parametrize("params", [(0, 0, Domain.NTT), (3, 0, Domain.NTT), (2, 4, Domain.NTT), (1, 1, Domain.NTT)])
def test_impossible_shapes_are_refused(params) -> None:
    ring = RingSpec(64, primes_of_width(64, 40, 3))
    unit = ExecUnit("mod_down", ring, params, (Operand(0, 0, 192),), (), (Operand(1, 0, 64),), (Operand(2, 0, 999),))
    with pytest.raises(KernelOperandError):
        lower_mod_down(unit)

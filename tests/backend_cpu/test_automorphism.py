"""Automorphisms: the in-register form against the index table, and both domains against each other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import KernelOperandError
from ren.numtheory.primes import ntt_primes_above, ntt_primes_below
from ren.numtheory.roots import ntt_automorphism_index
from ren.ops import Domain
from ren.ring import RingSpec
from ren.testing.cases import cases
from ren.testing.vectors import generator, operand
from ren_backend_cpu.kernels.automorphism import BLOCK, block_patterns, block_table
from ren_backend_cpu.lower_automorphism import lower_automorphism

Words = NDArray[np.uint64]


def ring(n: int) -> RingSpec:
    return RingSpec(n, (next(ntt_primes_below(1 << 61, n)), next(ntt_primes_above(2, n))))


@pytest.mark.parametrize("n", [2, 4, 64, 256])
def test_agrees_with_the_reference(n: int, agree) -> None:
    for case in cases("automorphism", n, (20, 45, 61)):
        agree(case)


def by_blocks(n: int, g: int) -> NDArray[np.int64]:
    """The permutation that `automorphism_ntt_blocks` performs with its tables, step by step in NumPy."""
    table, patterns = block_table(n, g), block_patterns(g)
    out = np.empty(n, np.int64)
    for block, word in enumerate(table.tolist()):
        first, c = word & ((1 << 40) - 1), word >> 40
        rows = (first + np.arange(BLOCK)).reshape(8, 8)[:, patterns[8 * (c % 8) : 8 * (c % 8) + 8]].T
        for r in range(8):
            carry = (int(patterns[128 + r]) + c >> 3) % 8
            rows[r] = rows[r][patterns[64 + 8 * carry : 72 + 8 * carry]]
        out[BLOCK * block : BLOCK * (block + 1)] = rows.T.reshape(-1)
    return out


@pytest.mark.parametrize("n", [64, 128, 1024])
def test_blocks_hold_every_automorphism(n: int) -> None:
    """All odd g at n = 64, where every pattern occurs; a spread of them above."""
    for g in range(1, 2 * n, 2 if n == 64 else 2 * (n // 32) + 2 * 7):
        assert np.array_equal(by_blocks(n, g), ntt_automorphism_index(n, g)), g


@pytest.mark.parametrize("n", [8, 64, 128])
def test_all_group_elements(n: int, compute) -> None:
    """Each is undone by its inverse, in both domains; the coefficient form is the definition."""
    r = ring(n)
    words = r.limbs * n
    x = operand(r, "mixed", generator("automorphisms", n))
    for g in range(1, 2 * n, 2):
        for domain in Domain:
            (y,) = compute("automorphism", r, (g, domain), [x], [words])
            (z,) = compute("automorphism", r, (pow(g, -1, 2 * n), domain), [y], [words])
            assert np.array_equal(z, x), (g, domain)


def test_domains_agree(compute) -> None:
    n, g = 256, 5
    r = ring(n)
    words = r.limbs * n
    x = operand(r, "mixed", generator("domains"))
    (moved,) = compute("automorphism", r, (g, Domain.COEFF), [x], [words])
    (there,) = compute("ntt", r, (), [moved], [words])
    (values,) = compute("ntt", r, (), [x], [words])
    (expected,) = compute("automorphism", r, (g, Domain.NTT), [values], [words])
    assert np.array_equal(there, expected)


@pytest.mark.parametrize("g", [0, 2, -1, 128])
def test_even_or_large_g_is_refused(g: int) -> None:
    unit = ExecUnit("automorphism", ring(64), (g, Domain.NTT), (Operand(0, 0, 128),), (), (Operand(1, 0, 128),))
    with pytest.raises(KernelOperandError, match="g must be odd"):
        lower_automorphism(unit)

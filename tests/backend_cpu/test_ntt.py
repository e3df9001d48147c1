"""Transforms of the CPU backend against Python integers, on the arithmetic that REN_CPU_FEATURES leaves (`test_paths` runs all)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray
from ren.numtheory.primes import ntt_primes_below
from ren.numtheory.roots import ntt_exponents, primitive_root_2n
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.emit import caller

from ren_backend_cpu import features, tables

Words = NDArray[np.uint64]

_call3 = caller(3)
_call5 = caller(5)


@njit
def _forward(function, record, src, dst):
    _call3(function, record, src, dst)


@njit
def _inverse(function, record, src, dst, scale, centred):
    _call5(function, record, src, dst, scale, centred)


def forward(table: tables.LimbTable, row: Words, in_place: bool = False) -> Words:
    src = aligned(row)
    out = src if in_place else aligned(np.zeros_like(row))
    _forward(int(table.record[limb.FORWARD_FN]), table.address, src.ctypes.data, out.ctypes.data)
    assert in_place or np.array_equal(src, row), "the input changed"
    return out


def inverse(
    table: tables.LimbTable, row: Words, factor: int = 1, centred: bool = False, in_place: bool = False
) -> Words:
    src = aligned(row)
    out = src if in_place else aligned(np.zeros_like(row))
    scale = table.scale_pair(factor)
    function = int(table.record[limb.INVERSE_FN])
    _inverse(function, table.address, src.ctypes.data, out.ctypes.data, scale.ctypes.data, int(centred))
    assert in_place or np.array_equal(src, row), "the input changed"
    return out


def aligned(row: Words) -> Words:
    words = tables.aligned_words(row.size)
    words[:] = row
    return words


def defined(coefficients: list[int], n: int, q: int) -> list[int]:
    """The transform by its definition: values at psi^e for the exponents of the contract."""
    psi = primitive_root_2n(q, n)
    points = [pow(psi, int(e), q) for e in ntt_exponents(n)]
    return [sum(c * pow(x, i, q) for i, c in enumerate(coefficients)) % q for x in points]


def rows(n: int, q: int) -> list[list[int]]:
    """Random, all q - 1, and a mix of the two extremes: the inputs that reach the ends of each path's range."""
    rng = random.Random(n * q)
    return [[rng.randrange(q) for _ in range(n)], [q - 1] * n, [rng.choice((0, q - 1)) for _ in range(n)]]


def prime(n: int, bound: int) -> int:
    return next(ntt_primes_below(bound, n))


@pytest.mark.parametrize("bits", (13, 20, 30, 45, 46, 47, 48, 50, 51, 60, 61))
@pytest.mark.parametrize("n", (2, 4, 8, 16, 32, 64, 128, 256))
def test_values_are_those_of_the_definition(n: int, bits: int) -> None:
    q = prime(n, 1 << bits)
    table = tables.LimbTable(n, q)
    for coefficients in rows(n, q):
        row = np.array(coefficients, np.uint64)
        values = forward(table, row)
        assert values.tolist() == defined(coefficients, n, q)
        assert forward(table, row, in_place=True).tolist() == values.tolist()
        assert inverse(table, values).tolist() == coefficients
        assert inverse(table, values, in_place=True).tolist() == coefficients


def _bounds(n: int) -> list[int]:
    """Where a path ends: q just below each of these is the worst case of one."""
    log_n = n.bit_length() - 1
    return [
        -(-(1 << 52) // max(4 * log_n + 1, 64)),
        (1 << 52) // (4 * log_n + 7),
        1 << 47,
        1 << 50,
        1 << 61,
    ]


@pytest.mark.parametrize("log_n", range(9, 18))
def test_every_path_at_its_limit_equals_the_scalar_one(log_n: int) -> None:
    n = 1 << log_n
    rng = np.random.default_rng(log_n)
    for bound in _bounds(n):
        q = prime(n, bound)
        table, scalar = tables.LimbTable(n, q), tables.LimbTable(n, q, limb.SCALAR)
        for row in (
            rng.integers(0, q, n, np.uint64),
            np.full(n, q - 1, np.uint64),
            rng.integers(0, 2, n, np.uint64) * np.uint64(q - 1),
        ):
            values = forward(table, row)
            assert np.array_equal(values, forward(scalar, row)), limb.PATH_NAMES[table.path]
            assert np.array_equal(inverse(table, values), row), limb.PATH_NAMES[table.path]
            assert np.array_equal(inverse(table, row), inverse(scalar, row)), limb.PATH_NAMES[table.path]


@pytest.mark.parametrize("bits", (30, 45, 49, 60))
@pytest.mark.parametrize("n", (2, 64, 128, 1024))
def test_a_factor_and_centring_are_folded_into_the_inverse(n: int, bits: int) -> None:
    q = prime(n, 1 << bits)
    table = tables.LimbTable(n, q)
    for factor in (1, 0, q - 1, q // 3, -5):
        for coefficients in rows(n, q):
            values = forward(table, np.array(coefficients, np.uint64))
            plain = [c * factor % q for c in coefficients]
            assert inverse(table, values, factor).tolist() == plain
            assert inverse(table, values, factor, centred=True).tolist() == [(c + q // 2) % q for c in plain]


@pytest.mark.parametrize("n", (128, 256, 512, 1024, 4096))
def test_compressed_tails_give_the_same_values(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "MIN_COMPRESSED_N", 128)
    log_n = n.bit_length() - 1
    for q in (prime(n, 1 << 30), prime(n, (1 << 52) // max(4 * log_n + 7, 64))):
        table, scalar = tables.LimbTable(n, q), tables.LimbTable(n, q, limb.SCALAR)
        assert table.compressed == (limb.IFMA_LAZY in features.target().paths)
        for coefficients in rows(n, q):
            row = np.array(coefficients, np.uint64)
            assert np.array_equal(forward(table, row), forward(scalar, row))
            assert np.array_equal(inverse(table, row), inverse(scalar, row))


def test_tables_are_built_once_and_cannot_change() -> None:
    n, q = 256, prime(256, 1 << 40)
    assert tables.limb_table(n, q) is tables.limb_table(n, q)
    with pytest.raises(ValueError, match="read-only"):
        tables.limb_table(n, q).record[0] = 3


def test_plans_use_long_passes_and_radix_two_only_alone() -> None:
    for stages in range(1, 18):
        plan = tables.radices(stages)
        assert sum(plan) == stages
        assert 1 not in plan or plan == [1]
        assert len(plan) <= -(-stages // 3) + 1

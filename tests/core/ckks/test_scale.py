"""Exact scales: equality by exponents, numbers correct to the last bit, text that reads back."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ren.errors import ParameterError
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.scale import Scale

PRIMES = (1099511922689, 1099512938497, 1099510054913, 1125899904679937)


def ladder(levels: int) -> Scale:
    s = Scale.of(2.0**40)
    for level in range(levels):
        s = s * s / PRIMES[level % len(PRIMES)]
    return s


@pytest.mark.parametrize("levels", [1, 3, 6])
def test_float_is_the_correctly_rounded_fraction(levels: int) -> None:
    s = ladder(levels)
    exact = s.as_fraction()
    assert float(s) == exact.numerator / exact.denominator  # Python divides integers with correct rounding
    assert s.log2 == pytest.approx(math.log2(exact.numerator) - math.log2(exact.denominator), abs=1e-9)


def test_forty_levels_keep_exact_equality_and_a_number() -> None:
    p = CKKSParams.preset("slots32768-scale40-levels40")
    s = p.scale_at(40)
    assert s == p.scale_at(39) ** 2 / p.prime_dropped_at(39)
    assert s / s == 1 and s * p.chain[1] / p.chain[2] != s
    assert 0.99 < float(s) / 2.0**40 < 1.01 and max(e for _, e in s.terms) > 2**40
    with pytest.raises(ParameterError, match="bits"):
        s.as_fraction()


def test_numbers_outside_the_doubles_raise() -> None:
    for s in (Scale.of(2) ** 2000, Scale.of(3) ** 2000, Scale.of(3) ** -2000):
        with pytest.raises(OverflowError):
            float(s)
        assert s.log2 == pytest.approx(s.terms[0][1] * math.log2(s.terms[0][0]))


def test_scales_differing_by_one_prime_factor_are_ordered_exactly() -> None:
    s = ladder(30)
    q, p = PRIMES[0], PRIMES[1]  # q < p
    assert s * q < s * p and s * p > s * q and s * q <= s * q
    assert Scale.of(2**100) < 2**100 + 1 and Scale.of(2**100) > 2**100 - 1


def test_a_float_stands_for_its_binary_value() -> None:
    assert Scale.of(0.1).as_fraction() == Fraction(0.1) != Fraction(1, 10)
    assert float(Scale.of(0.1)) == 0.1
    assert Scale.of(np.float32(0.5)) == Scale.of(np.int64(1)) / 2
    assert Scale.of(15) == Scale.of(3) * Scale.of(5.0), "composite bases are taken apart"
    assert Scale(((4, 3), (8, -1))) == Scale.of(8)


def test_equal_numbers_hash_equal() -> None:
    for x in (2**40, 2.0**40, 3.75, 2**61 - 1, 12345678901234567):
        assert Scale.of(x) == x and hash(Scale.of(x)) == hash(x)
    assert Scale.of(2**40) != 2**40 + 1 and Scale.of(3) / 7 != 3 / 7
    assert Scale.of(1) > 0 and Scale.of(1) < math.inf and not Scale.of(1) < math.nan


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, -math.inf, math.nan])
def test_scales_are_positive_and_finite(bad: float) -> None:
    with pytest.raises(ParameterError, match="finite and positive"):
        Scale.of(bad)


@pytest.mark.parametrize("bad", ["2", None, 1j, True, [2.0]])
def test_other_types_are_refused(bad: object) -> None:
    with pytest.raises(TypeError):
        Scale.of(bad)  # type: ignore[arg-type]
    assert Scale.of(2).__mul__(None) is NotImplemented  # type: ignore[arg-type]


def test_text_reads_back() -> None:
    s = ladder(5)
    assert Scale.parse(str(s)) == s and str(Scale.of(2.0**40)) == "2^40" and Scale.parse("1") == 1
    assert f"{Scale.of(2.0**40):.6e}" == "1.099512e+12" and f"{s}" == str(s)
    assert len(repr(ladder(30))) < 100


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "2^",
        "^3",
        "2**3",
        "2^3^4",
        "a^2",
        "2^1.5",
        "0^2",
        "1^5",
        "2^" + "9" * 100,
        "x" * 10_000,
        "-2^3",
        "2^--3",
        "18446743979220271189",
    ],
)
def test_other_text_is_refused(bad: str) -> None:
    with pytest.raises(ParameterError):
        Scale.parse(bad)


def test_immutable_copyable_picklable() -> None:
    s = ladder(3)
    with pytest.raises(AttributeError):
        s.terms = ()
    with pytest.raises(AttributeError):
        del s.terms
    assert copy.copy(s) is s and copy.deepcopy(s) is s
    assert pickle.loads(pickle.dumps(s)) == s


def test_nearest_integer_and_relative_error() -> None:
    s = Scale.of(2**80) / PRIMES[0]
    exact = s.as_fraction()
    assert s.nearest_integer() == round(exact)
    assert s.relative_error(round(exact)) == pytest.approx(float(round(exact) / exact - 1), rel=1e-12)
    assert (Scale.of(10**9) ** 3).nearest_integer() == 10**27
    assert (Scale.of(1) / 3).nearest_integer() == 0


def test_an_integer_that_cannot_be_factored_is_refused_not_approximated() -> None:
    with pytest.raises(ParameterError, match="exactly"):
        Scale.of((2**61 - 1) * (2**89 - 1))


terms = st.lists(st.tuples(st.sampled_from((2, 3, 12, *PRIMES)), st.integers(-4, 4)), max_size=4).map(tuple)


@given(terms, terms, st.integers(-3, 3))
def test_arithmetic_agrees_with_fractions(
    a: tuple[tuple[int, int], ...], b: tuple[tuple[int, int], ...], k: int
) -> None:
    x, y = Scale(a), Scale(b)
    u, v = x.as_fraction(), y.as_fraction()
    assert u == math.prod(Fraction(p) ** e for p, e in a)
    assert (x * y).as_fraction() == u * v
    assert (x / y).as_fraction() == u / v
    assert (x**k).as_fraction() == u**k
    assert (x == y) == (u == v) and (x < y) == (u < v)
    assert Scale.parse(str(x)) == x

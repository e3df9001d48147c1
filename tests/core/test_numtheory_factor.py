"""Factorisation: products of known primes come apart, in order, with their exponents."""

from __future__ import annotations

import math
import random

import pytest
from ren.numtheory.factor import factor
from ren.numtheory.primes import is_prime


@pytest.mark.parametrize(
    "m", [*range(1, 200), 2**61 - 1, 1009**2, 1009**3, 65537**3, (2**32 - 5) * (2**32 - 17), 4093 * 4099 * 16411]
)
def test_factors_are_prime_ascending_and_multiply_back(m: int) -> None:
    found = factor(m)
    assert math.prod(p**e for p, e in found) == m
    assert all(is_prime(p) and e > 0 for p, e in found)
    assert [p for p, _ in found] == sorted({p for p, _ in found})


def test_random_53_bit_numbers() -> None:
    rng = random.Random(2)
    for _ in range(50):
        m = rng.getrandbits(53) | 1
        assert math.prod(p**e for p, e in factor(m)) == m and all(is_prime(p) for p, _ in factor(m))


@pytest.mark.parametrize("bad", [0, -6])
def test_only_positive_integers(bad: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        factor(bad)

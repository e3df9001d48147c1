"""The planning of level and scale alignment: exact, symmetric, accurate, and honest about what it cannot do."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ren.errors import LevelExhaustedError
from ren.schemes import ckks
from ren.schemes.ckks import alignment
from ren.schemes.ckks.scale import Scale

SETS = [
    ckks.CKKSParams.python_test(),
    ckks.CKKSParams.preset("slots8192-scale30-levels6"),
    ckks.CKKSParams.preset("slots8192-scale50-levels4"),
    ckks.CKKSParams.default(),
]


@pytest.mark.parametrize("params", SETS, ids=repr)
def test_the_ladder_is_reached_from_every_level_within_2_to_the_minus_30(params: ckks.CKKSParams) -> None:
    for low, high in itertools.combinations(range(params.levels + 1), 2):
        plan = alignment.adjustment(params, low, params.scale_at(low), high, params.scale_at(high))
        assert plan is not None
        assert plan.drop + plan.rescales == high - low
        assert plan.rescales >= 1
        prime = Scale()
        for level in range(high - plan.rescales, high):
            prime = prime * params.prime_dropped_at(level)
        reached = params.scale_at(low) * plan.multiplier / prime
        assert abs((params.scale_at(high) / params.scale_at(low) * prime).relative_error(plan.multiplier)) <= 2.0**-30
        assert abs(reached.log2 - params.scale_at(high).log2) < 2.0**-29


@pytest.mark.parametrize("params", SETS, ids=repr)
def test_sums_take_the_deeper_state_whatever_the_order(params: ckks.CKKSParams) -> None:
    for l1, l2 in itertools.product(range(params.levels + 1), repeat=2):
        x, y = (l1, params.scale_at(l1)), (l2, params.scale_at(l2))
        plan, mirror = alignment.for_sum(params, x, y), alignment.for_sum(params, y, x)
        deep = max(l1, l2)
        assert (plan.level, plan.scale) == (deep, params.scale_at(deep)) == (mirror.level, mirror.scale)
        assert (plan.first, plan.second) == (mirror.second, mirror.first)


@pytest.mark.parametrize("params", SETS, ids=repr)
def test_products_land_on_the_ladder(params: ckks.CKKSParams) -> None:
    for l1, l2 in itertools.product(range(params.levels), repeat=2):
        x, y = (l1, params.scale_at(l1)), (l2, params.scale_at(l2))
        plan = alignment.for_product(params, x, y)
        level, s, t = plan.level, plan.first_scale, plan.second_scale
        assert level == max(l1, l2)
        assert s * t / params.prime_dropped_at(level) == params.scale_at(level + 1)


def test_an_unrescaled_product_meets_a_ciphertext_without_a_level() -> None:
    params = SETS[0]
    s = params.scale_at(1)
    plan = alignment.for_sum(params, (1, s**2), (1, s))
    assert (plan.level, plan.scale) == (1, s**2)
    assert plan.first == alignment.Adjustment(0, 1, 0)
    assert plan.second.rescales == 0 and abs(s.relative_error(plan.second.multiplier)) < 2.0**-39
    shallow = alignment.for_sum(params, (0, params.scale_at(0) ** 2), (3, params.scale_at(3)))
    assert shallow.level == 3


def test_integer_ratios_are_exact_and_free() -> None:
    params = SETS[0]
    s = params.scale_at(2)
    plan = alignment.for_sum(params, (2, s), (2, s * 6))
    assert (plan.level, plan.scale, plan.first.multiplier, plan.second.multiplier) == (2, s * 6, 6, 1)


def test_close_scales_at_one_level_cost_a_level_and_the_last_one_says_so() -> None:
    params = SETS[0]
    other = Scale.of(2.0**40 + 3.0)
    plan = alignment.for_sum(params, (2, params.scale_at(2)), (2, other))
    assert plan.level == 3 and plan.scale == params.scale_at(3)
    with pytest.raises(LevelExhaustedError, match="levels left: 0") as caught:
        alignment.for_sum(params, (6, params.scale_at(6)), (6, other), "subtract")
    assert caught.value.subject == "subtract"


@pytest.mark.parametrize("value", [0, 1, -3, 10**30, 0.5, -0.1, 1e-300, 2.0**-1074, 1.7e308, 1 / 3])
@pytest.mark.parametrize("level", [0, 1, 4, 16])
def test_scaled_integers_are_rounded_exactly(value: float, level: int) -> None:
    params = SETS[3]
    scale = params.scale_at(level)
    found = alignment.scaled_integer(value, scale)
    # An independent value of the scale to 400 bits.
    fixed = (scale * Scale.power_of_two(400)).nearest_integer()
    exact = Fraction(value) * Fraction(fixed, 1 << 400)
    assert abs(found - exact) <= Fraction(1, 2) + abs(exact) / 2**200


def test_scales_do_not_drift_in_long_mixed_chains(lab: Any) -> None:
    """near-equal scales are neither refused nor forced equal: a chain that mixes depths keeps its value to the predicted precision."""
    y = lab.encrypt()
    a = lab.encrypt()
    for _ in range(3):
        a = (a * a) * 0.9 + y
        assert a.ct.scale == lab.engine.params.scale_at(a.ct.level)
        a.check()
    assert a.ct.level == 6


def test_explicit_scales_are_kept_exactly(lab: Any) -> None:
    params = lab.engine.params
    values = lab.values()
    p = lab.engine.encode(values, level=1, scale=2.0**38)
    assert p.scale == Scale.power_of_two(38)
    x = lab.encrypt(level=1)
    product = x.ct * p
    assert product.scale == params.scale_at(1) * Scale.power_of_two(38) / params.prime_dropped_at(1)
    assert np.abs(lab.open(product) - x.exact * values).max() < 8 * (x * values).bound()
    found = product + lab.encrypt(values, level=2).ct
    assert found.scale == params.scale_at(3) and found.level == 3

"""Polynomials: right, and in the least number of levels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ren.errors import EncodingError, LevelExhaustedError
from ren.schemes import ckks
from ren.schemes.ckks import noise, polynomial
from ren.schemes.ckks.noise import Noise


def predicted(lab: Any, degree: int, c: Any, derivative: float) -> Noise:
    """A worst case that no evaluation order exceeds: the input's error times the largest slope, and for every product of the tree an error of a
    product, amplified by the sum of the coefficients' sizes (values stay within [-1, 1])."""
    params = lab.engine.params
    depth = degree.bit_length()
    one = noise.relinearize_rescale(params, 0, params.scale_at(1)) + noise.encoding(params.n, params.scale_at(0))
    fresh = noise.fresh(params, public=False)
    amplification = 4.0**depth * max(1.0, float(np.abs(c).sum()))
    return fresh.scaled(max(1.0, derivative)) + one.scaled(amplification)


@pytest.mark.parametrize("basis", ["power", "chebyshev"])
@pytest.mark.parametrize("degree", [*range(1, 18), 23, 31, 32, 47, 63])
def test_value_and_depth(lab: Any, basis: str, degree: int) -> None:
    x = lab.encrypt()
    c = lab.rng.uniform(-1, 1, degree + 1)
    module = np.polynomial.polynomial if basis == "power" else np.polynomial.chebyshev
    value, slope = (module.polyval, module.polyder) if basis == "power" else (module.chebval, module.chebder)
    found = ckks.polyval(x.ct, c, basis=basis)
    depth = math.ceil(math.log2(degree + 1))
    assert (found.level, found.scale) == (depth, lab.engine.params.scale_at(depth))
    derivative = float(np.abs(value(x.exact, slope(c))).max())
    x._made(found, value(x.exact, c), predicted(lab, degree, c, derivative)).check()


def test_precision_is_that_of_a_good_evaluation(lab: Any) -> None:
    """The bound above is a worst case; a typical error is that of a few products, so a wrong scale anywhere would show."""
    x = lab.encrypt()
    c = lab.rng.uniform(-1, 1, 16)
    error = np.abs(lab.open(ckks.polyval(x.ct, c)) - np.polynomial.polynomial.polyval(x.exact, c))
    assert error.mean() < 2.0**-27


@pytest.mark.parametrize("basis", ["power", "chebyshev"])
def test_complex_coefficients(lab: Any, basis: str) -> None:
    x = lab.encrypt()
    c = lab.rng.uniform(-1, 1, 8) + 1j * lab.rng.uniform(-1, 1, 8)
    value = np.polynomial.polynomial.polyval if basis == "power" else np.polynomial.chebyshev.chebval
    found = ckks.polyval(x.ct, c, basis=basis)
    assert found.level == 3 and not found.is_real
    x._made(found, value(x.exact, c), predicted(lab, 7, c, 64.0)).check()


@pytest.mark.parametrize(
    "c",
    [
        [0, 0, 0, 1.0],
        [0, 1.0, 0, -0.5, 0, 0.25],
        [1, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 3],
        [1, 2],
        [0.5, 0, 0, 0, 1, 0, 0],
    ],
)
def test_sparse_and_integer_coefficients(lab: Any, c: Any) -> None:
    x = lab.encrypt()
    found = ckks.polyval(x.ct, c)
    degree = max(i for i, v in enumerate(c) if v)
    assert found.level == degree.bit_length()
    x._made(found, np.polynomial.polynomial.polyval(x.exact, c), predicted(lab, degree, c, 16.0)).check()


def test_complex_argument_and_start_below_the_top(lab: Any) -> None:
    x = lab.encrypt(level=2, complex_=True)
    c = [0.5, -1.0, 0.25, 0.125]
    found = ckks.polyval(x.ct, c)
    assert found.level == 4
    x._made(found, np.polynomial.polynomial.polyval(x.exact, c), predicted(lab, 3, c, 4.0)).check()


def test_a_constant_is_transparent_and_costs_nothing(lab: Any) -> None:
    x = lab.encrypt(level=6)
    with pytest.warns(match="transparent"):
        found = ckks.polyval(x.ct, [0.75, 0.0])
    assert found.level == 6 and found.is_transparent


def test_approximations_by_interpolation(lab: Any) -> None:
    x = lab.encrypt()
    c = ckks.chebyshev_coefficients(np.exp, 12)
    found = ckks.polyval(x.ct, c, basis="chebyshev")
    assert found.level == 4
    x._made(found, np.polynomial.chebyshev.chebval(x.exact, c), predicted(lab, 12, c, math.e)).check()
    assert np.abs(np.polynomial.chebyshev.chebval(x.exact, c) - np.exp(x.exact)).max() < 1e-11


def test_bounds_follow_the_coefficients(lab: Any) -> None:
    x = lab.encrypt().ct
    assert ckks.polyval(x, [0.5, -2.0, 1.0]).bound == 3.5
    assert ckks.polyval(x.assume_bound(0.5), [0.5, -2.0, 1.0]).bound == 1.75
    assert ckks.polyval(x, [0.0, 0.0, 0.0, 1.0], basis="chebyshev").bound == 1.0


def test_errors(lab: Any) -> None:
    x = lab.encrypt(level=4).ct
    with pytest.raises(LevelExhaustedError, match=r"degree 4 needs 3 levels.*levels left: 2"):
        ckks.polyval(x, [1.0] * 5)
    for wrong, match in (([], "at least one"), ([1.0, float("nan")], "finite")):
        with pytest.raises(EncodingError, match=match):
            ckks.polyval(x, wrong)
    with pytest.raises(EncodingError, match="basis"):
        ckks.polyval(x, [1.0, 2.0], basis="legendre")
    with pytest.raises(TypeError):
        ckks.polyval(x, ["1"])
    with pytest.raises(TypeError):
        ckks.polyval(3, [1.0])


def test_fewer_products_than_splitting_to_the_bottom() -> None:
    """Paterson and Stockmeyer: about 2 sqrt(d) products instead of d / 2."""
    for degree, most in ((15, 8), (31, 13), (63, 18), (127, 27)):
        baby = polynomial._baby_bits(degree)
        assert polynomial._products(degree, baby) <= most

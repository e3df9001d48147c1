"""Every operator on ciphertexts, with every kind of operand on either side, at equal and different levels: decrypted and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren.errors import LevelExhaustedError, UnsupportedOperandError
from ren.schemes import ckks

pytestmark = pytest.mark.filterwarnings("error")

REAL_SCALARS = [0.25, -0.75, 1e-3, 3.5, np.float64(-0.5), np.float32(0.125), np.array(0.3)]
INTEGERS = [1, -1, 2, -3, 1000, np.int64(5), np.uint8(7), True]
COMPLEX_SCALARS = [0.3 + 0.4j, -0.1 - 0.2j, 1j, np.complex128(0.5 - 0.5j)]


def test_public_and_secret_encryption(lab: Any) -> None:
    for public in (False, True):
        for complex_ in (False, True):
            lab.encrypt(public=public, complex_=complex_).check()


@pytest.mark.parametrize("level", range(7))
def test_encryption_at_every_level(lab: Any, level: int) -> None:
    for public in (False, True):
        x = lab.encrypt(level=level, public=public).check()
        assert (x.ct.level, x.ct.levels_left) == (level, 6 - level)
        assert x.ct.scale == lab.engine.params.scale_at(level)


def test_sum_difference_product(lab: Any) -> None:
    x, y = lab.encrypt(), lab.encrypt(complex_=True)
    (x + y).check()
    (x - y).check()
    product = (x * y).check()
    assert product.ct.level == 1
    assert product.ct.scale == lab.engine.params.scale_at(1)
    assert (x.ct.level, y.ct.level) == (0, 0)


def test_negation_and_plus(lab: Any) -> None:
    x = lab.encrypt()
    x._made(-x.ct, -x.exact, x.noise).check()
    assert +x.ct is x.ct


def test_square_is_the_product_with_itself(lab: Any) -> None:
    x = lab.encrypt()
    y = (x * x).check()
    y._made(x.ct.square(), x.exact**2, y.noise).check()


@pytest.mark.parametrize("scalar", REAL_SCALARS + COMPLEX_SCALARS, ids=repr)
def test_scalars_on_either_side(lab: Any, scalar: Any) -> None:
    x = lab.encrypt()
    total = (x + scalar).check()
    total._made(scalar + x.ct, scalar + x.exact, total.noise).check()
    rest = (x - scalar).check()
    rest._made(scalar - x.ct, scalar - x.exact, rest.noise).check()
    product = (x * scalar).check()
    assert product.ct.level == 1
    assert product.ct.scale == lab.engine.params.scale_at(1)
    product._made(scalar * x.ct, scalar * x.exact, product.noise).check()


@pytest.mark.parametrize("scalar", INTEGERS, ids=repr)
def test_integers_cost_no_level(lab: Any, scalar: Any) -> None:
    x = lab.encrypt()
    number = int(scalar)
    product = (x * number).check()
    product._made(scalar * x.ct, number * x.exact, product.noise).check()
    product._made(x.ct * scalar, number * x.exact, product.noise).check()
    assert (scalar * x.ct).level == 0
    total = (x + number).check()
    total._made(scalar + x.ct, number + x.exact, total.noise).check()
    total._made(scalar - x.ct, number - x.exact, total.noise).check()
    assert (x.ct - scalar).level == 0


def test_division_by_public_numbers(lab: Any) -> None:
    x = lab.encrypt()
    for divisor in (4, -0.5, 3.0, 0.3 - 0.4j):
        y = x * (1 / divisor)
        y._made(x.ct / divisor, x.exact / divisor, y.noise).check()
    array = lab.rng.uniform(1, 2, lab.slots)
    y = x * (1 / array)
    y._made(x.ct / array, x.exact / array, y.noise).check()
    with pytest.raises(ZeroDivisionError):
        x.ct / 0
    with pytest.raises(ZeroDivisionError, match="index 3"):
        x.ct / np.array([1.0, 2.0, 3.0, 0.0])
    with pytest.raises(UnsupportedOperandError, match="division by an encrypted value"):
        1 / x.ct
    with pytest.raises(UnsupportedOperandError, match="divide"):
        x.ct / x.ct


@pytest.mark.parametrize("kind", ["real", "complex", "list", "integers", "view", "short"])
def test_arrays_on_either_side(lab: Any, kind: str) -> None:
    x = lab.encrypt()
    values: Any = lab.values(complex_=kind == "complex")
    if kind == "list":
        values = values.tolist()
    elif kind == "integers":
        values = np.arange(lab.slots) % 5 - 2
    elif kind == "view":
        values = np.repeat(values, 2)[::2]
    elif kind == "short":
        values = values[:5]
    exact = np.zeros(lab.slots, np.result_type(np.asarray(values), float))
    exact[: len(values)] = values
    for mine, theirs in (((x + exact), x.ct + values), ((x - exact), x.ct - values), ((x * exact), x.ct * values)):
        mine._made(theirs, mine.exact, mine.noise).check()
    swapped = x + exact
    swapped._made(values + x.ct, exact + x.exact, swapped.noise).check()
    swapped._made(values - x.ct, exact - x.exact, swapped.noise).check()
    product = x * exact
    product._made(values * x.ct, exact * x.exact, product.noise).check()


@pytest.mark.parametrize("plain_level", [0, 1, 3])
@pytest.mark.parametrize("cipher_level", [0, 1, 3])
def test_plaintexts_meet_ciphertexts_at_the_deeper_level(lab: Any, plain_level: int, cipher_level: int) -> None:
    x, values = lab.encrypt(level=cipher_level), lab.values()
    p = lab.engine.encode(values, level=plain_level)
    deeper = max(plain_level, cipher_level)
    reference = lab.encrypt(values, level=plain_level)  # noisier than the plaintext, so its bounds hold
    for found, exact, tracked, level in (
        (x.ct + p, x.exact + values, x + reference, deeper),
        (p + x.ct, x.exact + values, x + reference, deeper),
        (x.ct - p, x.exact - values, x - reference, deeper),
        (p - x.ct, values - x.exact, x - reference, deeper),
        (x.ct * p, x.exact * values, x * reference, deeper + 1),
        (p * x.ct, x.exact * values, x * reference, deeper + 1),
    ):
        assert (found.level, found.scale) == (level, lab.engine.params.scale_at(level))
        tracked._made(found, exact, tracked.noise).check()


@pytest.mark.parametrize("value", [3, -2, 0.5, 0.25 - 0.5j])
def test_constant_plaintexts(lab: Any, value: Any) -> None:
    x = lab.encrypt()
    p = ckks.Plaintext.const(value)
    level = 0 if isinstance(value, int) else 1
    product = x * value
    for found in (x.ct * p, p * x.ct):
        assert found.level == level
        product._made(found, product.exact, product.noise).check()
    total = x + value
    total._made(x.ct + p, total.exact, total.noise).check()
    total._made(p + x.ct, total.exact, total.noise).check()
    total._made(p - x.ct, value - x.exact, total.noise).check()


MIXED: list[tuple[str, Callable[[Any, Any], Any], int]] = [
    ("sum", lambda x, y: x + y, 0),
    ("difference", lambda x, y: x - y, 0),
    ("product", lambda x, y: x * y, 1),
]


@pytest.mark.parametrize(("name", "op", "extra"), MIXED, ids=[m[0] for m in MIXED])
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_mixed_levels_in_both_orders(
    lab: Any, name: str, op: Callable[[Any, Any], Any], extra: int, depth: int
) -> None:
    x, low = lab.encrypt(), lab.encrypt()
    for _ in range(depth):
        low = low * low
    assert low.ct.level == depth
    for found in (op(low, x).check(), op(x, low).check()):
        assert found.ct.level == depth + extra
        assert found.ct.scale == lab.engine.params.scale_at(depth + extra)


def test_powers_take_the_least_levels(lab: Any) -> None:
    x = lab.encrypt()
    tracked = x
    powers = {1: x}
    for k in range(2, 14):
        high = 1 << ((k - 1).bit_length() - 1)
        powers[k] = powers[high] * powers[k - high]
        tracked = powers[k]
        found = x.ct**k
        assert found.level == (k - 1).bit_length()
        tracked._made(found, x.exact**k, tracked.noise).check()
    assert x.ct**1 is x.ct
    with pytest.raises(UnsupportedOperandError, match="exponent"):
        x.ct ** (-1)
    with pytest.raises(TypeError):
        x.ct**0.5


def test_products_stay_apart_until_they_are_relinearized(lab: Any) -> None:
    x, y, u, v = (lab.encrypt() for _ in range(4))
    first = ckks.multiply(x.ct, y.ct, relinearize=False, rescale=False)
    second = ckks.multiply(u.ct, v.ct, relinearize=False, rescale=False)
    assert isinstance(first, ckks.CiphertextProduct)
    assert (first.level, first.scale) == (0, lab.engine.params.scale_at(0) ** 2)
    one, two = x * y, u * v
    total = one + two
    found = (first + second).relinearize(rescale=True)
    assert (found.level, found.scale) == (1, lab.engine.params.scale_at(1))
    total._made(found, x.exact * y.exact + u.exact * v.exact, total.noise).check()
    total._made(first - second, x.exact * y.exact - u.exact * v.exact, total.noise).check()
    total._made(first + x.ct, x.exact * y.exact + x.exact, total.noise).check()
    total._made(x.ct - first, x.exact - x.exact * y.exact, total.noise).check()
    total._made(first * 3 + 0.5, 3 * x.exact * y.exact + 0.5, total.noise.scaled(3)).check()
    rescaled = total.noise + lab.three_part_rescale(1)
    total._made(ckks.rescale(first), x.exact * y.exact, rescaled).check()
    total._made(ckks.rescale(first).relinearize(), x.exact * y.exact, rescaled).check()
    with pytest.raises(UnsupportedOperandError, match="relinearize"):
        first * x.ct
    with pytest.raises(UnsupportedOperandError, match="relinearize"):
        ckks.rotate(first, 1)


def test_explicit_rescale_and_drop(lab: Any) -> None:
    params = lab.engine.params
    x, y = lab.encrypt(), lab.encrypt()
    product = ckks.multiply(x.ct, y.ct, rescale=False)
    assert (product.level, product.scale) == (0, params.scale_at(0) ** 2)
    tracked = x * y
    tracked._made(product, tracked.exact, tracked.noise).check()
    tracked._made(ckks.rescale(product), tracked.exact, tracked.noise).check()
    dropped = ckks.mod_drop(x.ct, 2)
    assert (dropped.level, dropped.scale, dropped.levels_left) == (2, params.scale_at(0), 4)
    x._made(dropped, x.exact, x.noise).check()
    moved = ckks.adjust(x.ct, 2)
    assert (moved.level, moved.scale) == (2, params.scale_at(2))
    low = x + lab.encrypt(level=2)
    low._made(moved, x.exact, low.noise).check()


def test_levels_run_out_with_an_error_that_can_be_acted_on(lab: Any) -> None:
    x = lab.encrypt(level=6)
    for operation, name in (
        (lambda: x.ct * x.ct, "multiply"),
        (lambda: x.ct * 0.5, "multiply"),
        (lambda: x.ct / 3, "multiply"),
        (lambda: ckks.rescale(x.ct), "rescale"),
        (lambda: ckks.mod_drop(x.ct, 1), "mod_drop"),
        (lambda: x.ct * lab.engine.encode(x.exact, level=0), "multiply"),
    ):
        with pytest.raises(LevelExhaustedError) as caught:
            operation()
        assert caught.value.subject == name
        assert "levels left: 0" in str(caught.value)
    assert (
        "level 6" in str(caught.value) and "more levels" in str(caught.value) and "multiply less" in str(caught.value)
    )
    x.check()  # still usable
    (x + 1.0).check()
    (x * 2).check()


@pytest.mark.parametrize("other", ["text", b"bytes", None, object(), {1: 2}], ids=lambda v: type(v).__name__)
def test_other_types_are_refused(lab: Any, other: Any) -> None:
    x = lab.encrypt().ct
    for operation in (
        lambda: x + other,
        lambda: other + x,
        lambda: x - other,
        lambda: x * other,
        lambda: other * x,
        lambda: x / other,
    ):
        with pytest.raises(TypeError):
            operation()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), complex(0, float("inf"))], ids=repr)
def test_scalars_must_be_finite(lab: Any, value: Any) -> None:
    x = lab.encrypt().ct
    for operation in (lambda: x + value, lambda: x * value, lambda: value - x, lambda: ckks.Plaintext.const(value)):
        with pytest.raises(ValueError, match="finite"):
            operation()
    with pytest.raises(ValueError, match=r"values\[1\]"):
        x + [1.0, value]


def test_truth_of_an_encrypted_value_is_refused(lab: Any) -> None:
    with pytest.raises(TypeError, match="truth value"):
        bool(lab.encrypt().ct)


def test_random_circuits_stay_within_the_prediction(lab: Any) -> None:
    """Sums, products, scalars and rotations in random order over values at whatever levels they have reached."""
    for _ in range(6):
        pool = [lab.encrypt() for _ in range(3)]
        for _ in range(14):
            i, j, kind = (int(lab.rng.integers(k)) for k in (len(pool), len(pool), 6))
            x, y = pool[i], pool[j]
            deep = max(x.ct.level, y.ct.level)
            if kind == 0:
                z = (x + y) * 1 if x.size + y.size < 4 else x
            elif kind == 1:
                z = x - y if x.size + y.size < 4 and x.ct.a is not y.ct.a else y
            elif kind == 2 and deep < 6:
                z = x * y
            elif kind == 3 and x.ct.level < 6:
                z = x * float(lab.rng.uniform(-1, 1))
            elif kind == 4:
                k = int(lab.rng.integers(-70, 70))
                z = x.switched(x.ct.rotate(k), np.roll(x.exact, k))
            else:
                z = x + float(lab.rng.uniform(-1, 1)) if x.size < 4 else x
            pool.append(z.check())


def test_the_model_is_not_vacuous(lab: Any) -> None:
    """Measured errors are close to the predicted ones, so that the bounds above would notice a defect."""
    for make in (
        lambda: lab.encrypt(),
        lambda: lab.encrypt(public=True),
        lambda: lab.encrypt() * lab.encrypt(),
        lambda: lab.encrypt() * 0.5,
    ):
        ratios = []
        for _ in range(20):
            x = make()
            error = np.sqrt(np.mean(np.abs(lab.engine.decode(lab.engine.decrypt(x.ct), is_real=False) - x.exact) ** 2))
            ratios.append(error / x.noise.rms)
        assert 0.4 < np.mean(ratios) < 1.6

"""No silent wrong number: unrescaled products, odd scales, scales below the noise, constants beyond the modulus; and random circuits over all of them."""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from ren.errors import CapacityError, LevelExhaustedError, LevelMismatchError, RenError, ScaleTooSmallError
from ren.schemes import ckks
from ren.schemes.ckks import accuracy, alignment, noise

KINDS = (
    *("add", "sub", "mul", "mul", "keep", "raw", "long", "relin", "rescale", "number", "number", "array", "arrayadd"),
    *("rsub", "rotate", "adjust", "drop", "poly", "plain", "matrix"),
)
BITS = (20, 24, 30, 41, 45, 50, 60, 75, 90)


def _unit(params: ckks.CKKSParams, *, parts: int = 2) -> float:
    """What one key switch and one rescale add to a slot at scale 1, by the noise model, but for a chance of 2^-40."""
    one = noise.key_switch(params, 0, 1.0) + noise.rounding(params.n, 1, 1.0)
    bound = one.bound(params.slot_count)
    return bound if parts == 2 else bound * math.sqrt(2 * params.n)


@dataclass
class Value:
    """A ciphertext, its exact slots, and a bound on the error of every slot."""

    ct: Any
    exact: Any
    error: float

    @property
    def size(self) -> float:
        return float(np.abs(self.exact).max())


def _after(params: ckks.CKKSParams, ct: Any, exact: Any, error: float, *operands: Value, size: float = 1.0) -> Value:
    """The error of a result: what came in, and the noise of aligning (at most six divisions), each at the smallest scale that takes part."""
    smallest = min(float(ct.scale), 2.0 ** (params.scale_bits - 1), *(float(v.ct.scale) for v in operands))
    largest = max(1.0, size, *(v.size for v in operands))
    parts = 3 if any(isinstance(v.ct, ckks.CiphertextProduct) for v in (*operands, Value(ct, exact, 0.0))) else 2
    return Value(ct, exact, error + 6 * largest * _unit(params, parts=parts) / smallest + largest**2 * 2.0**-28)


def _check(lab: Any, value: Value) -> None:
    found = lab.engine.decode(lab.engine.decrypt(value.ct), is_real=False)
    worst = float(np.abs(found - value.exact).max())
    assert worst <= value.error, f"error {worst:.3e}, bound {value.error:.3e}, {value.ct!r}"


def _fresh(lab: Any, rng: random.Random) -> Value:
    params = lab.engine.params
    exact = np.array([rng.uniform(-1, 1) for _ in range(lab.slots)])
    level = rng.choice((0, 0, 1, 3, params.levels - 1))
    scale = None if rng.random() < 0.5 else 2.0 ** rng.choice(BITS[:7])
    ct = lab.engine.encrypt(lab.engine.encode(exact, level=level, scale=scale))
    return _after(params, ct, exact.astype(complex), 0.0)


def _step(lab: Any, rng: random.Random, x: Value, y: Value, w: Any) -> Value:
    """One random public operation and what it should give."""
    params, a, b = lab.engine.params, x.exact, y.exact
    number = rng.choice((1.5, 3, -0.25, 0.5j, 2))
    products = x.error * y.size + y.error * x.size + x.error * y.error
    sums = x.error + y.error
    kind = rng.choice(KINDS)
    if kind == "add":
        return _after(params, x.ct + y.ct, a + b, sums, x, y)
    if kind == "sub":
        return _after(params, x.ct - y.ct, a - b, sums, x, y)
    if kind == "mul":
        return _after(params, x.ct * y.ct, a * b, products, x, y)
    if kind == "keep":
        return _after(params, ckks.multiply(x.ct, y.ct, rescale=False), a * b, products, x, y)
    if kind == "raw":
        ct = ckks.multiply(x.ct, y.ct, relinearize=False, rescale=False)
        return _after(params, ct, a * b, products, x, y)
    if kind == "long":
        return _after(params, ckks.multiply(x.ct, y.ct, relinearize=False), a * b, products, x, y)
    if kind == "relin":
        return _after(params, ckks.relinearize(x.ct, rescale=rng.random() < 0.5), a, x.error, x)
    if kind == "rescale":
        return _after(params, ckks.rescale(x.ct), a, x.error, x)
    if kind == "number":
        return _after(params, x.ct * number, a * number, x.error * abs(number), x, size=abs(number))
    if kind == "array":
        keep = rng.random() < 0.3
        return _after(params, ckks.multiply(x.ct, w, rescale=not keep), a * w, x.error, x)
    if kind == "arrayadd":
        return _after(params, w - x.ct, w - a, x.error, x)
    if kind == "rsub":
        return _after(params, number - x.ct, number - a, x.error, x, size=abs(number))
    if kind == "rotate":
        return _after(params, ckks.rotate(x.ct, 3), np.roll(a, 3), x.error, x)
    if kind == "adjust":
        return _after(params, ckks.adjust(x.ct, min(params.levels, x.ct.level + rng.randrange(3))), a, x.error, x)
    if kind == "drop":
        return _after(params, ckks.mod_drop(x.ct, rng.randrange(3)), a, x.error, x)
    if kind == "poly":
        exact = 0.5 + a - 0.25 * a**2 + 0.125 * a**3
        slope = 1 + 0.5 * (x.size + x.error) + 0.375 * (x.size + x.error) ** 2
        return _after(params, ckks.polyval(x.ct, [0.5, 1, -0.25, 0.125]), exact, slope * x.error, x, size=x.size**3)
    if kind == "matrix":
        m = np.eye(lab.slots) * 0.5 + np.roll(np.eye(lab.slots), 1, axis=0)
        return _after(params, ckks.linear_transform(x.ct, m), m @ a, 1.5 * x.error, x)
    scale = 2.0 ** rng.choice(BITS)
    p = lab.engine.encode(w, level=rng.randrange(params.levels), scale=scale)
    encoded = _after(params, p, w, 0.0)
    return _after(params, x.ct * p, a * w, x.error + encoded.error * (x.size + x.error), x, encoded)


@pytest.mark.parametrize("block", range(15))
def test_random_circuits_are_right_or_refused(lab: Any, block: int) -> None:
    """Ten circuits of eight steps each: every result that was given without a warning is within the noise model, everything else is a typed error."""
    done = 0
    for seed in range(10 * block, 10 * block + 10):
        rng = random.Random(seed)
        w = np.array([rng.uniform(-1, 1) for _ in range(lab.slots)])
        pool = [_fresh(lab, rng) for _ in range(3)]
        for _ in range(8):
            x, y = rng.choice(pool), rng.choice(pool)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    result = _step(lab, rng, x, y, w)
                except RenError as error:
                    assert str(error) and error.hint
                    continue
                if math.isinf(result.ct.bound):  # a possible overflow was announced
                    continue
                _check(lab, result)
            done += 1
            if result.size < 20 and result.error < 1e-2:
                pool.append(result)
    assert done >= 20


def _product(lab: Any, level: int = 0) -> tuple[Any, Any]:
    """A product without its rescale, and its slots."""
    x, y = lab.encrypt(level=level), lab.encrypt(level=level)
    return ckks.multiply(x.ct, y.ct, rescale=False), x.exact * y.exact


def _close(lab: Any, ct: Any, exact: Any) -> None:
    assert np.abs(lab.open(ct) - exact).max() < 20 * _unit(lab.engine.params) / 2.0 ** (
        lab.engine.params.scale_bits - 1
    )


def test_an_unrescaled_product_is_rescaled_before_the_next_one(lab: Any) -> None:
    u, p = _product(lab)
    y, w = lab.encrypt(), lab.values()
    cases = (
        (1.5 * u, 1.5 * p),
        (u / 2, p / 2),
        (u * w, p * w),
        (u * 0.5j, p * 0.5j),
        (u * u, p * p),
        (u * y.ct, p * y.exact),
        (y.ct * ckks.mod_drop(u, 3), p * y.exact),
        (ckks.polyval(u, [1, 0.5]), 1 + 0.5 * p),
        (ckks.linear_transform(u, np.eye(lab.slots)), p),
        (u * lab.engine.encode(w), p * w),
    )
    for ct, exact in cases:
        assert ct.scale == lab.engine.params.scale_at(ct.level)
        found = lab.engine.decode(lab.engine.decrypt(ct), is_real=False)
        assert np.abs(found - exact).max() < 1e-9
    deep, q = _product(lab, 2)
    _close(lab, y.ct * deep, y.exact * q)
    x, z = lab.encrypt(), lab.encrypt()
    raw = ckks.multiply(x.ct, z.ct, relinearize=False, rescale=False)
    _close(lab, ckks.relinearize(raw + raw) * 0.5, x.exact * z.exact)


def test_without_a_level_for_that_rescale_the_product_is_refused(lab: Any) -> None:
    u, p = _product(lab, 5)
    y = lab.encrypt(level=5)
    for attempt in (lambda: u * 0.5, lambda: u * p, lambda: u * u, lambda: u * y.ct, lambda: ckks.polyval(u, [1, 0.5])):
        with pytest.raises(LevelExhaustedError, match="level 5|level 6") as caught:
            attempt()
        assert caught.value.hint
    _close(lab, u * 3, 3 * p)


@pytest.mark.parametrize("bits", BITS)
def test_odd_scales_lose_nothing_in_products(lab: Any, bits: int) -> None:
    params = lab.engine.params
    v, w = lab.values(), lab.values()
    z = lab.engine.encrypt(lab.engine.encode(v, scale=2.0**bits))
    other = lab.encrypt(w, level=3)
    tolerance = 20 * _unit(params) * (2.0**-39 + 2.0**-bits)
    for ct, exact in (
        (z * w, v * w),
        (z * 0.3, v * 0.3),
        (z * other.ct, v * w),
        (ckks.polyval(z, [0, 1, 0.5]), v + 0.5 * v**2),
    ):
        assert np.abs(lab.open(ct) - exact).max() < tolerance


def test_scales_below_the_noise_are_refused(lab: Any) -> None:
    x = lab.encrypt()
    small = lab.engine.encrypt(lab.engine.encode(x.exact, scale=2.0**20))
    for attempt in (
        lambda: ckks.rescale(x.ct),
        lambda: lab.engine.encode(x.exact, scale=3.0),
        lambda: lab.engine.encode(x.exact, scale=0.5),
        lambda: lab.engine.plaintext(0.5, scale=8.0),
        lambda: small * small,
        lambda: ckks.multiply(small, small, relinearize=False),
        lambda: ckks.relinearize(ckks.multiply(small, small, relinearize=False, rescale=False), rescale=True),
        lambda: ckks.adjust(x.ct, 1, ckks.Scale.of(4.0)),
    ):
        with pytest.raises(ScaleTooSmallError, match=r"scale would be 2\^") as caught:
            attempt()
        assert isinstance(caught.value, ValueError) and caught.value.hint


@pytest.mark.parametrize("name", ["python-test", "default", "slots32768-scale30-levels40", "slots8192-scale50-levels4"])
def test_the_floors_are_those_of_the_noise_model(name: str) -> None:
    params = ckks.CKKSParams.preset(name)
    floor = accuracy.value_floor(params)
    assert noise.rescale(params, 2.0**floor).bound(params.slot_count) == pytest.approx(2.0**-7)
    for level in range(params.levels + 1):
        assert floor < params.scale_at(level).log2
    factor = 2.0 ** accuracy.factor_floor(params, 0)
    rounding = params.n / 12 / factor**2
    assert rounding == pytest.approx(noise.rescale(params, params.default_scale).variance)
    for level in range(params.levels):
        plan = alignment.for_factor(params, level, params.scale_at(level), True)
        assert plan.rescales == 0 and plan.factor == alignment.partner_scale(params, level, params.scale_at(level))


def test_public_numbers_beyond_the_modulus_are_refused(lab: Any) -> None:
    x = lab.encrypt().ct
    modulus = lab.engine.params.ring.modulus
    for attempt in (
        lambda: x + 1.04e92,
        lambda: 1.04e92 - x,
        lambda: x * 1.04e92,
        lambda: x * modulus,
        lambda: x + modulus,
        lambda: x + 1e92j,
        lambda: ckks.polyval(x, [1e92, 1]),
        lambda: x + ckks.Plaintext.const(1e92),
    ):
        with pytest.raises(CapacityError, match="does not fit"):
            attempt()


def test_a_prepared_matrix_takes_ciphertexts_of_its_level_whatever_their_scale(lab: Any) -> None:
    x = lab.encrypt()
    matrix = lab.rng.uniform(-1, 1, (lab.slots, lab.slots)) / lab.slots
    prepared = ckks.prepare_linear_transform(matrix, level=2)
    for ct in (x.ct, ckks.mod_drop(x.ct, 1), ckks.mod_drop(x.ct, 2)):
        _close(lab, ckks.linear_transform(ct, prepared), matrix @ x.exact)
    with pytest.raises(LevelMismatchError, match="prepared for level 2, the ciphertext is at level 3"):
        ckks.linear_transform(ckks.mod_drop(x.ct, 3), prepared)

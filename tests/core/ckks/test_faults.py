"""Kinds of faults that users of other libraries have reported, made impossible here. Sources: public issue trackers, named in each docstring."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import ren
from ren.errors import (
    CapacityError,
    DecryptionError,
    LevelExhaustedError,
    PossibleOverflowWarning,
    TransparentCiphertextWarning,
)
from ren.schemes import ckks
from ren.schemes.ckks import noise

Make = Callable[..., ckks.Engine]


def test_a_result_that_does_not_fit_is_never_a_small_number() -> None:
    """google/heir #1823, microsoft/SEAL #570: 7 * 8 decrypted to about 1e-10."""
    engine = ckks.keygen(ckks.CKKSParams.build(n=128, levels=1, scale_bits=40, toy=True), "reference")
    with engine:
        x, y = (ckks.encrypt(ckks.encode([v] * 64, msg_bound=v)) for v in (7.0, 8.0))
        np.testing.assert_allclose(ckks.decode(ckks.decrypt(x * y)), 56, atol=1e-4)
        big = ckks.encrypt(ckks.encode([20.0] * 64, msg_bound=20.0))
        with pytest.warns(PossibleOverflowWarning, match=r"possible-overflow: multiply.*2\^8\.6"):
            product = big * big  # 400, above 2^50 / 2^40 / 4
        with pytest.raises(DecryptionError):
            ckks.decrypt(product)


def test_strict_bounds_make_a_possible_overflow_an_error() -> None:
    engine = ckks.keygen(
        ckks.CKKSParams.build(n=128, levels=1, scale_bits=40, toy=True), "reference", strict_bounds=True
    )
    with engine:
        x = ckks.encrypt(ckks.encode([20.0] * 64, msg_bound=20.0))
        with pytest.raises(CapacityError, match="possible-overflow"):
            x * x
        assert (x.assume_bound(1.0) * x.assume_bound(1.0)).bound == 1.0
        np.testing.assert_allclose(ckks.decode(ckks.decrypt(x)), 20, atol=1e-4)  # the operand is as it was


@pytest.mark.parametrize("value", [2.0**70, -(2.0**70)])
def test_both_signs_of_a_value_beyond_its_bound(lab: Any, value: float) -> None:
    """tuneinsight/lattigo #102."""
    with pytest.raises(ValueError, match=r"values\[0\].*msg_bound"):
        ckks.encode([value] * 64, msg_bound=1.0)


def test_large_scalars_do_not_wrap(lab: Any) -> None:
    """openfheorg/openfhe-development #393."""
    x = ckks.encrypt(ckks.encode([0.5] * 64, msg_bound=2.0**41))
    np.testing.assert_allclose(lab.open(x + float(2**40)), 2**40 + 0.5, rtol=1e-12)
    np.testing.assert_allclose(lab.open(x - float(2**40)), 0.5 - 2**40, rtol=1e-12)


def test_negative_times_negative(lab: Any) -> None:
    """KyoohyungHan/FullRNS-HEAAN #2, #3."""
    x = lab.encrypt(np.full(64, -22.5))
    (x * x).check()
    np.testing.assert_allclose(lab.open(x.ct * x.ct), 506.25, atol=1e-4)


def test_operators_leave_their_operands_alone(lab: Any) -> None:
    """OpenMined/TenSEAL #354."""
    x, y = ckks.encrypt(ckks.encode([4.0], msg_bound=4.0)), ckks.encrypt(ckks.encode([0.5]))
    before = [p.tobytes() for p in (x.a, x.b, y.a, y.b)]
    z = x * y
    other = z = x
    z *= y
    other -= 1
    for found, exact in ((x, 4.0), (y, 0.5), (z, 2.0), (other, 3.0)):
        assert lab.open(found, 1)[0] == pytest.approx(exact, abs=1e-6)
    assert (x.level, y.level, z.level) == (0, 0, 1)
    assert before == [p.tobytes() for p in (x.a, x.b, y.a, y.b)]


def test_near_equal_scales_align_without_drift(lab: Any) -> None:
    """Huelse/SEAL-Python #98, #104."""
    x, y = lab.encrypt(), lab.encrypt()
    total = (x * x * x + y).check()
    assert total.ct.scale == lab.engine.params.scale_at(2)


def test_alignment_works_in_every_direction(lab: Any) -> None:
    """ibarrond/Pyfhel #145."""
    x = lab.encrypt()
    low = x * x * x
    p = ckks.encode(x.exact)
    levels = set()
    for tracked, found in (
        (low + x, low.ct + x.ct),
        (x + low, x.ct + low.ct),
        (low - x, low.ct - x.ct),
        (x - low, x.ct - low.ct),
        (low + x, low.ct + p),
        (low + x, p + low.ct),
    ):
        tracked._made(found, tracked.exact, tracked.noise).check()
        levels.add(found.level)
    assert levels == {2}
    for found in (low.ct * x.ct, x.ct * low.ct, low.ct * p, p * low.ct):
        product = low * x
        product._made(found, product.exact, product.noise).check()
        assert found.level == 3


def test_depth_runs_out_once_and_usably(lab: Any) -> None:
    """OpenMined/TenSEAL #216, #217."""
    x, steps = lab.encrypt(), 0
    with pytest.raises(LevelExhaustedError, match="levels left: 0"):
        while True:
            x = x * x
            steps += 1
    assert steps == 6 == x.ct.level
    x.check()
    (x + x).check()


def transparent_cases(x: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    zero = ckks.encode(np.zeros(64))
    return [
        ("x - x", lambda c: c - c),
        ("x * 0", lambda c: c * 0),
        ("x * 0.0", lambda c: c * 0.0),
        ("x + (-x)", lambda c: c + (-c)),
        ("(-x) + x", lambda c: (-c) + c),
        ("x * zeros", lambda c: c * zero),
        ("x ** 0 - 1", lambda c: c**0 - 1),
    ]


@pytest.mark.parametrize("index", range(7))
@pytest.mark.parametrize("jitted", [False, True])
def test_transparent_results_are_defined_flagged_and_told(lab: Any, index: int, jitted: bool) -> None:
    """microsoft/SEAL #224, ibarrond/Pyfhel #192: a crash, or an error that not even maintainers agree on."""
    x = lab.encrypt().ct
    _, make = transparent_cases(x)[index]
    function = ren.jit(make) if jitted else make
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            result = function(x)
            found = lab.open(result)
    assert np.abs(found).max() < 1e-6
    assert result.is_transparent and not x.is_transparent
    assert any(issubclass(w.category, TransparentCiphertextWarning) for w in caught)
    twin = ckks.from_bytes(ckks.to_bytes(result), lab.engine)
    assert twin.is_transparent


def test_an_iteration_to_the_last_level_stays_within_the_prediction_or_raises() -> None:
    """microsoft/SEAL #362: a sudden blow-up deep in a circuit, nothing raised. 2 x^2 - 1 near 1 and -1, 50 inputs sets."""
    params = ckks.CKKSParams.build(n=32, levels=12, scale_bits=40, toy=True)
    engine = ckks.keygen(params, "reference")
    rng = np.random.default_rng(5)
    predicted = noise.fresh(params, public=False).bound(params.slot_count)
    for level in range(params.levels):
        added = noise.relinearize_rescale(params, level, params.scale_at(level + 1)).bound(params.slot_count)
        predicted = 4 * predicted + 2 * predicted**2 + added
    with engine, warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleOverflowWarning)
        step = ren.jit(lambda x: [x := 2 * x * x - 1 for _ in range(params.levels)][-1])
        for _ in range(50):
            values = rng.choice([-1.0, 1.0], 16) * (1 - rng.uniform(0, 1e-9, 16))
            exact = values
            for _ in range(params.levels):
                exact = 2 * exact * exact - 1
            try:
                found = ckks.decode(ckks.decrypt(step(ckks.encrypt(ckks.encode(values))).assume_bound(1.0)))
            except DecryptionError:
                continue
            assert np.abs(found - exact).max() <= predicted


def test_bounds_warn_once_and_only_where_they_are_crossed(lab: Any) -> None:
    x = lab.encrypt(level=3).ct
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        big = x * (1 << 150)
        again = big * 2 + big
    assert [w.category for w in caught] == [PossibleOverflowWarning]
    assert caught[0].filename == __file__
    assert again.bound == float("inf") and again.assume_bound(1.0).bound == 1.0
    with pytest.raises(ValueError, match="bound"):
        x.assume_bound(float("nan"))


def test_the_bound_of_every_operation(lab: Any) -> None:
    x, y = lab.encrypt().ct, lab.encrypt().ct.assume_bound(3.0)
    p = ckks.encode([0.5], msg_bound=0.5)
    for found, bound in (
        (x + y, 4.0),
        (x - y, 4.0),
        (x * y, 3.0),
        (y + 2, 5.0),
        (2 - y, 5.0),
        (y * -2, 6.0),
        (y * 0.5, 1.5),
        (y * (0.3 + 0.4j), 1.5),
        (y + p, 3.5),
        (y * p, 1.5),
        (-y, 3.0),
        (y.rotate(3), 3.0),
        (y.conjugate(), 3.0),
        (y.sum_slots(), 192.0),
        (y**3, 27.0),
        (y / 2, 1.5),
        (y * [1.0, -2.0], 6.0),
        (ckks.multiply(y, y, relinearize=False, rescale=False), 9.0),
        (y.mod_drop(), 3.0),
    ):
        assert found.bound == pytest.approx(bound)

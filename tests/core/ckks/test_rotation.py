"""Rotations: one convention, any step, keys named when they are missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren.errors import KeyMismatchError, MissingKeyError, UnsupportedOperandError
from ren.schemes import ckks


@pytest.mark.parametrize("k", [1, -1, 2, -3, 4, 31, 63, -63, 64, 65, 1000, -1000, np.int64(5)])
def test_rotation_is_roll(lab: Any, k: Any) -> None:
    x = lab.encrypt(complex_=True)
    rolled = x.switched(x.ct.rotate(k), np.roll(x.exact, int(k))).check()
    assert (rolled.ct.level, rolled.ct.scale, rolled.ct.bound) == (0, x.ct.scale, x.ct.bound)


@pytest.mark.parametrize("level", [0, 2, 6])
def test_rotation_at_every_depth(lab: Any, level: int) -> None:
    x = lab.encrypt(level=level)
    x.switched(x.ct.rotate(5), np.roll(x.exact, 5)).check()


def test_step_zero_is_free(new_engine: Callable[..., ckks.Engine]) -> None:
    engine = new_engine(auto_keys=False)
    x = engine.encrypt(engine.encode([1.0, 0.5], level=6))
    for k in (0, 64, -64, 640):
        assert engine.rotate(x, k) is x
    assert engine.rotate(x, 0, keys=ckks.EvaluationKeySet()) is x
    assert engine.evaluation_keys.members() == ()


def test_missing_keys_are_named_with_what_is_there(new_engine: Callable[..., ckks.Engine]) -> None:
    engine = new_engine(auto_keys=False)
    engine.rotation_keys([1, 2, 4])
    x = engine.encrypt(engine.encode([1.0, 0.5, 0.25]))
    for _ in range(2):  # a second try is no different
        with pytest.raises(MissingKeyError) as caught:
            engine.rotate(x, -61)
        assert "step 3" in str(caught.value) and "1, 2, 4" in str(caught.value)
    with pytest.raises(MissingKeyError, match=r"step -5 \(normalised: 59\)"):
        engine.keys.rotation_key(-5)
    with pytest.raises(MissingKeyError):
        engine.rotate_many(x, [1, 3, 4])
    with pytest.raises(MissingKeyError):
        engine.sum_slots(x)
    for k in (1, 2, 4):
        np.testing.assert_allclose(
            engine.decode(engine.decrypt(engine.rotate(x, k)), 8), np.roll([1, 0.5, 0.25, 0, 0, 0, 0, 0], k), atol=1e-6
        )


@pytest.mark.parametrize("k", [-3, -2, 1, 4])
def test_negative_steps_with_only_their_keys(new_engine: Callable[..., ckks.Engine], k: int) -> None:
    engine = new_engine(auto_keys=False)
    keys = engine.rotation_keys([-3, -2, 1, 4])
    assert keys.steps == (1, 4, 61, 62)
    values = np.arange(1, 65) / 64
    x = engine.encrypt(engine.encode(values))
    np.testing.assert_allclose(
        engine.decode(engine.decrypt(engine.rotate(x, k, keys=keys))), np.roll(values, k), atol=1e-6
    )


def test_a_group_shares_one_decomposition_and_gives_the_same_bits(lab: Any) -> None:
    x = lab.encrypt()
    steps = [0, 1, -1, 7, 1, 64]
    together = x.ct.rotate_many(steps)
    ckks.realize(*together)
    for k, found in zip(steps, together, strict=True):
        alone = x.ct.rotate(k)
        assert found.a == alone.a and found.b == alone.b
        x.switched(found, np.roll(x.exact, k)).check()
    assert together[1] is together[4]


def test_sum_over_slots(lab: Any) -> None:
    x = lab.encrypt()
    total = x.ct.sum_slots()
    assert (total.level, total.bound) == (0, 64.0)
    predicted = x
    for i in range(6):
        rolled = predicted.switched(predicted.ct, np.roll(predicted.exact, 1 << i))
        predicted = predicted + rolled
    predicted._made(total, np.full(lab.slots, x.exact.sum()), predicted.noise).check()


@pytest.mark.parametrize("slots", [1, 2, 8, 32])
def test_sparse_packing_rotates_modulo_its_extent(lab: Any, slots: int) -> None:
    engine = lab.engine
    values = lab.rng.uniform(-1, 1, slots)
    x = engine.encrypt(engine.encode(values, slots=slots))
    assert x.slots == slots
    tracked = lab.encrypt(np.tile(values, 64 // slots))
    for k in (1, -1, slots, 5):
        found = x.rotate(k)
        assert found.slots == slots
        error = np.abs(lab.open(found) - np.roll(values, k)).max()
        assert error <= tracked.switched(found, tracked.exact).bound()
    assert engine.rotate(x, slots) is x
    assert np.abs(lab.open(x.sum_slots()) - values.sum()).max() <= slots * tracked.switched(x, tracked.exact, 6).bound()


def test_conjugation(lab: Any) -> None:
    x = lab.encrypt(complex_=True)
    once = x.switched(x.ct.conjugate(), np.conj(x.exact)).check()
    once.switched(once.ct.conjugate(), x.exact).check()
    real = lab.encrypt()
    real.switched(real.ct.conjugate(), real.exact).check()


def test_conjugation_without_its_key(new_engine: Callable[..., ckks.Engine]) -> None:
    engine = new_engine(auto_keys=False)
    x = engine.encrypt(engine.encode([0.3 + 0.4j, -0.5j, 0.2]))
    with pytest.raises(MissingKeyError, match="conjugation key"):
        engine.conjugate(x)
    key = engine.conjugation_key
    np.testing.assert_allclose(
        engine.decode(engine.decrypt(engine.conjugate(x)), 3), [0.3 - 0.4j, 0.5j, 0.2], atol=1e-6
    )
    found = engine.conjugate(x, keys=ckks.EvaluationKeySet(conjugation=key))
    np.testing.assert_allclose(engine.decode(engine.decrypt(found), 3), [0.3 - 0.4j, 0.5j, 0.2], atol=1e-6)


def test_explicit_key_sets_are_the_only_ones_used(lab: Any, new_engine: Callable[..., ckks.Engine]) -> None:
    x = lab.encrypt()
    with pytest.raises(MissingKeyError, match="keys present: none"):
        ckks.rotate(x.ct, 3, keys=ckks.EvaluationKeySet())
    with pytest.raises(MissingKeyError):
        ckks.conjugate(x.ct, keys=ckks.EvaluationKeySet())
    foreign = new_engine()
    with pytest.raises(KeyMismatchError):
        ckks.rotate(x.ct, 3, keys=foreign.rotation_keys([3]))
    own = lab.engine.rotation_keys([3])
    x.switched(ckks.rotate(x.ct, 3, keys=own), np.roll(x.exact, 3)).check()


@pytest.mark.parametrize("k", [1.0, "1", None, True])
def test_steps_are_ints(lab: Any, k: Any) -> None:
    with pytest.raises(UnsupportedOperandError, match="step"):
        lab.encrypt().ct.rotate(k)

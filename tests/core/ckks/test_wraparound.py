"""Overflow is never a wrong number in silence: decryption takes a proof, or room in which a wrapped value would show, or says so."""

from __future__ import annotations

import dataclasses
import random
import warnings
from typing import Any

import numpy as np
import pytest
from ren.errors import DecryptionError, UncheckedResultWarning
from ren.schemes import ckks
from ren.schemes.ckks import wraparound

pytestmark = pytest.mark.filterwarnings("ignore::ren.errors.PossibleOverflowWarning")


@pytest.fixture(scope="module")
def engine() -> ckks.Engine:
    return ckks.Engine("python-test", device="reference")


def constant(engine: Any, value: float, bound: float, level: int) -> Any:
    """One number in every slot: a polynomial with a single coefficient, the hardest case."""
    return engine.encrypt(engine.encode([value] * engine.num_slots, msg_bound=bound, level=level))


@pytest.mark.parametrize("value", [32.003, 45.3, 64.0004, 90.7])
def test_a_wrapped_constant_at_the_last_level_is_never_silent(engine: Any, value: float) -> None:
    """value^2 is 1024.2, 2052, ..: modulo 2^50 / 2^40 next to 0, where no look at the result can tell."""
    x = constant(engine, value, 100.0, 5)
    with pytest.warns(UncheckedResultWarning, match="no bound shows that the result fits"):
        engine.decrypt(x * x)


def test_a_result_without_a_bound_is_read_where_there_is_room(engine: Any) -> None:
    x = constant(engine, 0.5, 2.0**200, 0) * 0.5 * constant(engine, 3.0, 2.0**200, 0)
    assert x.bound == float("inf")
    for level in range(x.level, 6):
        found = engine.decode(engine.decrypt(ckks.mod_drop(x, level - x.level)))
        np.testing.assert_allclose(found, 0.75, atol=1e-6)
    last = ckks.mod_drop(x, 6 - x.level)
    with pytest.warns(UncheckedResultWarning, match="assume_bound"):
        np.testing.assert_allclose(engine.decode(engine.decrypt(last)), 0.75, atol=1e-6)
    np.testing.assert_allclose(engine.decode(engine.decrypt(last.assume_bound(1.0))), 0.75, atol=1e-6)


def test_a_broken_promise_is_noticed(engine: Any) -> None:
    x = constant(engine, 30.0, 100.0, 6).assume_bound(1.0)
    with pytest.raises(DecryptionError, match="promised bound does not hold"):
        engine.decrypt(x)


def test_a_bound_at_the_capacity_is_a_proof(engine: Any) -> None:
    """The value itself leaves the noise some room below the quarter."""
    limit = engine.bounds.limit(6, engine.params.scale_at(6))
    x = engine.encrypt_message([0.999 * limit] * 64, level=6)
    assert x.bound == limit
    np.testing.assert_allclose(engine.decode(engine.decrypt(x)), 0.999 * limit, rtol=1e-6)
    assert not wraparound.is_proven(float("inf"), 1 << 3000, engine.params.scale_at(6))


def test_narrow_primes_leave_less_room() -> None:
    """A third limb of 20 bits lets one wrapped value in a million pass: the whole modulus is asked then."""
    params = ckks.CKKSParams.build(n=64, levels=4, scale_bits=20, toy=True)
    engine = ckks.Engine(params, device="reference")
    x = constant(engine, 0.5, 1.0, 0)
    unknown = (x * (1 << 90)).assume_bound(1.0)  # a false promise, then too much for a proof
    assert not wraparound.is_checkable(params, 3, params.scale_at(3))
    assert wraparound.is_checkable(params, 2, params.scale_at(2))
    with pytest.raises(DecryptionError):
        engine.decrypt(unknown)


def random_value(engine: Any, rng: random.Random) -> tuple[Any, np.ndarray[Any, Any]]:
    """A random circuit whose values grow quickly, and what it means."""
    size = rng.choice([1.0, 3.0, 17.0, 300.0])
    plain = (
        np.full(64, rng.uniform(-size, size))
        if rng.random() < 0.5
        else np.array([rng.uniform(-size, size) for _ in range(64)])
    )
    level = rng.randrange(3, 6)
    x, want = engine.encrypt(engine.encode(plain, msg_bound=size, level=level)), plain
    for _ in range(rng.randrange(1, 8)):
        kind = rng.choice(["square", "double", "scale", "shift", "rotate", "integer"])
        if kind in ("square", "scale") and x.levels_left == 0:
            continue
        factor = rng.choice([0.25, 3.0, 1000.0])
        if kind == "square":
            x, want = x * x, want * want
        elif kind == "double":
            x, want = x + x, want + want
        elif kind == "scale":
            x, want = x * (factor + 0.5), want * (factor + 0.5)
        elif kind == "integer":
            x, want = x * 37, want * 37
        elif kind == "shift" and factor <= engine.bounds.limit(x.level, x.scale):
            x, want = x + factor, want + factor
        elif kind == "rotate":
            x, want = x.rotate(3), np.roll(want, 3)
        if np.abs(want).max() > 1e60:
            break
    return x, want


def run(engine: Any, seeds: range) -> tuple[int, int]:
    """How many random results were read without a warning, all of them right, and how many were refused or warned about."""
    read = refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            x, want = random_value(engine, random.Random(seed))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", UncheckedResultWarning)
                    found = engine.decode(engine.decrypt(x))
            except (DecryptionError, UncheckedResultWarning):
                refused += 1
                continue
            read += 1
            np.testing.assert_allclose(
                found, want, rtol=1e-4, atol=1e-3 * max(1.0, np.abs(want).max()), err_msg=str(seed)
            )
    return read, refused


def test_random_overflows_are_right_or_told(engine: Any) -> None:
    read, refused = run(engine, range(60))
    assert read > 10
    assert refused > 5


@pytest.mark.full
def test_thousands_of_random_overflows_are_right_or_told(engine: Any) -> None:
    read, refused = run(engine, range(1000, 5000))
    assert read > 1000
    assert refused > 300


def test_strict_bounds_refuse(engine: Any) -> None:
    strict = ckks.Engine("python-test", device="reference", strict_bounds=True)
    x = constant(strict, 0.5, 1.0, 6).assume_bound(1.0)
    assert strict.decode(strict.decrypt(x)).max() < 0.6
    with pytest.raises(DecryptionError, match="no bound shows that the result fits"):
        strict.decrypt(dataclasses.replace(x, bound=float("inf")))

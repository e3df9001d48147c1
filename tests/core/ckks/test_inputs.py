"""Unusual operands and arguments: carried out as NumPy users expect, or refused with a typed error that says what to do."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren.errors import EncodingError, LevelMismatchError, RenError, RingMismatchError, UnsupportedOperandError
from ren.schemes import ckks


def _close(found: Any, exact: Any) -> None:
    np.testing.assert_allclose(ckks.decode(ckks.decrypt(found)), exact, atol=1e-8)


def test_long_doubles_are_numbers(lab: Any) -> None:
    x = lab.encrypt()
    half = np.longdouble(0.5)
    for found, exact in ((x.ct + half, x.exact + 0.5), (half - x.ct, 0.5 - x.exact), (x.ct * half, x.exact / 2)):
        _close(found, exact)
    turned = x.ct * np.clongdouble(0.5j)
    np.testing.assert_allclose(lab.engine.decode(lab.engine.decrypt(turned)), 0.5j * x.exact, atol=1e-8)


def test_batches_are_indexed_as_arrays(lab: Any) -> None:
    v = lab.rng.uniform(-1, 1, (3, 2, 64))
    x = ckks.encrypt(ckks.encode(v))
    for index in (slice(1, None), slice(None, None, -1), (slice(None), 1), (slice(2), 0), ([0, 2],)):
        _close(x[index], v[index])
    _close(x[1, 1], v[1, 1])
    for bad in (3, (0, 2), (0, 0, 0), 0.5):
        with pytest.raises(IndexError, match="batch of shape"):
            x[bad]
    with pytest.raises(EncodingError, match="do not broadcast"):
        x[0] + x[:, 0]


def test_plaintext_batches_meet_ciphertexts(lab: Any) -> None:
    x = lab.encrypt()
    v = lab.rng.uniform(-1, 1, (2, 64))
    p = ckks.encode(v)
    cases = ((p + x.ct, v + x.exact), (x.ct + p, v + x.exact), (p - x.ct, v - x.exact), (x.ct - p, x.exact - v))
    for found, exact in (*cases, (p * x.ct, v * x.exact), (x.ct * p, v * x.exact), (p - ckks.encrypt(p), 0 * v)):
        assert isinstance(found, ckks.CiphertextBatch)
        _close(found, exact)


def test_a_matrix_times_a_batch(lab: Any) -> None:
    v = lab.rng.uniform(-1, 1, (2, 64))
    matrix = lab.rng.uniform(-1, 1, (64, 64)) / 64
    x = ckks.encrypt(ckks.encode(v))
    _close(ckks.linear_transform(x, matrix), v @ matrix.T)
    _close(ckks.linear_transform(x, ckks.prepare_linear_transform(matrix)), v @ matrix.T)


def test_numpy_integers_are_integers(lab: Any) -> None:
    x = lab.encrypt()
    i = np.int64
    assert ckks.encode(x.exact, level=i(2)).level == 2 and type(ckks.encode(x.exact, level=i(2)).level) is int
    assert ckks.mod_drop(x.ct, i(2)).level == 2 and ckks.adjust(x.ct, i(1)).level == 1
    assert ckks.decode(ckks.decrypt(x.ct), i(3)).shape == (3,) and ckks.encode([1], slots=i(4)).slots == 4
    params = ckks.CKKSParams.build(n=i(128), levels=i(2), scale_bits=i(40), toy=True)
    assert params == ckks.CKKSParams.build(n=128, levels=2, scale_bits=40, toy=True)
    assert ckks.CKKSParams.for_(depth=i(1), precision_bits=i(15)) == ckks.CKKSParams.for_(depth=1, precision_bits=15)
    for bad in (True, 1.0, "1", np.array([1, 2])):
        with pytest.raises(ValueError, match="level must be"):
            ckks.encode(x.exact, level=bad)  # type: ignore[arg-type]


def test_bad_arguments_are_named(lab: Any) -> None:
    x = lab.encrypt().ct
    cases: tuple[tuple[Callable[[], Any], type[Exception], str], ...] = (
        (lambda: ckks.encode([[1, 2], [3]]), EncodingError, "one length"),
        (lambda: lab.engine.public(rotations=1), UnsupportedOperandError, "collection of ints"),
        (lambda: ckks.rotate_many(x, 3), UnsupportedOperandError, "collection of ints"),
        (lambda: ckks.polyval(x, None), EncodingError, "sequence of numbers"),
        (lambda: ckks.from_bytes("abc"), UnsupportedOperandError, "stored data are bytes"),
        (lambda: ckks.encode([1.0000001]), EncodingError, r"largest modulus is 1\.0000001"),
        (lambda: ckks.chebyshev_coefficients(np.log, 5), EncodingError, "not finite"),
        (lambda: np.dot(lab.values(), x), UnsupportedOperandError, "numpy.dot"),
        (lambda: dataclasses.replace(x, a=x.a.mod_drop(1)), RingMismatchError, "share a ring"),
        (lambda: lab.engine.decrypt(dataclasses.replace(x, level=1)), LevelMismatchError, "says level 1"),
    )
    for attempt, kind, text in cases:
        with pytest.raises(kind, match=text) as caught:
            attempt()
        assert isinstance(caught.value, RenError) and caught.value.hint
    with pytest.raises(ZeroDivisionError, match="divisor is 0"):
        x / 0


def test_another_engine_of_the_key_may_go_first(new_engine: Callable[..., ckks.Engine]) -> None:
    engine = new_engine()
    x = engine.encrypt(engine.encode([0.5, -0.25]))
    second = ckks.Engine(engine.params, "reference", secret_key=engine.secret_key)
    del second
    gc.collect()
    np.testing.assert_allclose(engine.decode(engine.decrypt(x * x), 2), [0.25, 0.0625], atol=1e-8)


def test_plaintexts_meet_numbers_and_each_other(lab: Any) -> None:
    x = lab.encrypt()
    half, third = ckks.Plaintext.const(0.5), ckks.Plaintext.const(1 / 3)
    for constant, value in (
        (half + 1, 1.5),
        (1 - half, 0.5),
        (half * third, 0.5 / 3),
        (half - third, 0.5 - 1 / 3),
        (-half, -0.5),
        (np.float32(2) * half, 1.0),
        (ckks.Plaintext.const(3) * 2, 6),
    ):
        assert isinstance(constant, ckks.Plaintext) and constant.value == value and type(constant.value) is type(value)
        _close(x.ct * constant, x.exact * value)
    with pytest.raises(EncodingError, match="not finite"):
        ckks.Plaintext.const(1e308) * 10.0
    p = ckks.encode(x.exact)
    for attempt in (lambda: p + 1, lambda: 2 * p, lambda: p + p, lambda: half * p, lambda: x.exact * p, lambda: -p):
        with pytest.raises(UnsupportedOperandError, match="encoded plaintexts combine with ciphertexts"):
            attempt()
    _close(x.ct + p, 2 * x.exact)
    _close(p - x.ct, 0 * x.exact)

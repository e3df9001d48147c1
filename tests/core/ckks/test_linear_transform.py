"""Public matrices times encrypted vectors, any shape up to the slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren.errors import EncodingError, LevelExhaustedError, MissingKeyError
from ren.schemes import ckks
from ren.schemes.ckks import noise


def bound(lab: Any, x: Any, matrix: Any, result: Any) -> float:
    """Every diagonal carries the input's error, a key switch and its own rounding; there are at most 2 * slots rotations."""
    params = lab.engine.params
    switch = noise.key_switch(params, 0, params.scale_at(0))
    encoding = noise.encoding(params.n, params.scale_at(0))
    row = float(np.abs(matrix).sum(axis=1).max())
    terms = sum(matrix.shape)
    predicted = (
        x.noise.scaled(row)
        + switch.scaled(2 * row)
        + encoding.scaled(terms)
        + noise.rescale(params, params.scale_at(1))
    )
    return x._made(result, x.exact, predicted).bound()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 3), (7, 4), (4, 9), (64, 64), (64, 3), (2, 64)])
def test_any_shape(lab: Any, shape: tuple[int, int]) -> None:
    x = lab.encrypt()
    matrix = lab.rng.uniform(-1, 1, shape) / shape[1]
    found = ckks.linear_transform(x.ct, matrix)
    assert (found.level, found.scale) == (1, lab.engine.params.scale_at(1))
    exact = np.zeros(64)
    exact[: shape[0]] = matrix @ x.exact[: shape[1]]
    assert np.abs(lab.open(found) - exact).max() <= bound(lab, x, matrix, found)


def test_sparse_packing(lab: Any) -> None:
    values = lab.rng.uniform(-1, 1, 8)
    matrix = lab.rng.uniform(-1, 1, (8, 8)) / 8
    x = lab.engine.encrypt(lab.engine.encode(values, slots=8))
    tracked = lab.encrypt(np.tile(values, 8))
    found = ckks.linear_transform(x, matrix)
    assert found.slots == 8
    assert np.abs(lab.open(found) - matrix @ values).max() <= bound(lab, tracked, matrix, found)


def test_complex_and_integer_matrices(lab: Any) -> None:
    x = lab.encrypt(complex_=True)
    matrix = (lab.rng.uniform(-1, 1, (6, 6)) + 1j * lab.rng.uniform(-1, 1, (6, 6))) / 12
    found = ckks.linear_transform(x.ct, matrix)
    assert np.abs(lab.open(found, 6) - matrix @ x.exact[:6]).max() <= bound(lab, x, matrix, found)
    counts = np.arange(9).reshape(3, 3)
    found = ckks.linear_transform(x.ct, counts)
    assert np.abs(lab.open(found, 3) - counts @ x.exact[:3]).max() <= bound(lab, x, counts, found)
    assert found.bound == 21.0


def test_zero_rows_and_the_zero_matrix(lab: Any) -> None:
    x = lab.encrypt()
    matrix = np.zeros((4, 4))
    matrix[1, 2] = 0.5
    found = ckks.linear_transform(x.ct, matrix)
    assert np.abs(lab.open(found, 4) - matrix @ x.exact[:4]).max() <= bound(lab, x, matrix, found)
    zero = ckks.linear_transform(x.ct, np.zeros((4, 4)))
    assert zero.level == 1
    with pytest.warns(match="transparent"):
        assert np.abs(lab.open(zero)).max() <= bound(lab, x, matrix, zero)


def test_prepared_once_applied_often_and_from_any_level(lab: Any) -> None:
    matrix = lab.rng.uniform(-1, 1, (5, 5)) / 5
    prepared = ckks.prepare_linear_transform(matrix, level=2)
    for level in (0, 1, 2):
        x = lab.encrypt(level=level)
        found = ckks.linear_transform(x.ct, prepared)
        assert (found.level, found.scale) == (3, lab.engine.params.scale_at(3))
        aligned = x + lab.encrypt(level=2)
        assert np.abs(lab.open(found, 5) - matrix @ x.exact[:5]).max() <= bound(lab, aligned, matrix, found)


def test_keys_are_checked_before_any_work(new_engine: Callable[..., ckks.Engine]) -> None:
    engine = new_engine(auto_keys=False)
    x = engine.encrypt(engine.encode([0.1, 0.2, 0.3]))
    with engine:
        prepared = ckks.prepare_linear_transform(np.ones((3, 3)) / 3)
        with pytest.raises(MissingKeyError, match="step"):
            ckks.linear_transform(x, prepared)
        keys = ckks.EvaluationKeySet(rotations=engine.rotation_keys(prepared.rotations))
        found = ckks.linear_transform(x, prepared, keys=keys)
        np.testing.assert_allclose(ckks.decode(ckks.decrypt(found), 3), [0.2] * 3, atol=1e-6)


def test_fewer_keys_than_diagonals() -> None:
    engine = ckks.keygen(ckks.CKKSParams.python_test(), "reference")
    with engine:
        assert len(ckks.prepare_linear_transform(np.ones((64, 64))).rotations) <= 24


@pytest.mark.parametrize(
    "matrix",
    [np.ones(3), np.ones((65, 2)), np.ones((2, 65)), np.ones((0, 2)), np.array([[np.nan]]), np.array([["a"]])],
    ids=["1d", "tall", "wide", "empty", "nan", "text"],
)
def test_what_is_no_matrix(lab: Any, matrix: Any) -> None:
    with pytest.raises(EncodingError):
        ckks.linear_transform(lab.encrypt().ct, matrix)


def test_levels_and_slots_must_fit(lab: Any) -> None:
    with pytest.raises(LevelExhaustedError):
        ckks.linear_transform(lab.encrypt(level=6).ct, np.ones((2, 2)))
    prepared = ckks.prepare_linear_transform(np.ones((2, 2)), slots=8)
    with pytest.raises(EncodingError, match="8 slots"):
        ckks.linear_transform(lab.encrypt().ct, prepared)

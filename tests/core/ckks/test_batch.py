"""Batches: leading axes, broadcast as NumPy does, evaluated as one graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ren.schemes import ckks


@pytest.fixture
def pair(lab: Any) -> tuple[Any, Any, Any, Any]:
    v, w = lab.rng.uniform(-1, 1, (2, 3, 64)), lab.rng.uniform(-1, 1, (3, 64))
    return v, w, ckks.encrypt(ckks.encode(v)), ckks.encrypt(ckks.encode(w))


def close(found: Any, exact: Any) -> None:
    np.testing.assert_allclose(ckks.decode(ckks.decrypt(found)), exact, atol=1e-6)


def test_shapes_and_items(pair: Any) -> None:
    v, w, x, y = pair
    assert isinstance(x, ckks.CiphertextBatch) and x.shape == (2, 3) and y.shape == (3,)
    assert len(x) == 2 and x[1].shape == (3,) and isinstance(x[1][2], ckks.Ciphertext)
    assert x[-1][0] is x.ciphertexts[3]
    close(x, v)
    close(x[1], v[1])
    assert [type(item) for item in y] == [ckks.Ciphertext] * 3
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(ValueError, match="fill"):
        ckks.CiphertextBatch((2,), x.ciphertexts)
    assert ckks.decode(ckks.decrypt(x), 5).shape == (2, 3, 5)


def test_operators_broadcast(pair: Any, lab: Any) -> None:
    v, w, x, y = pair
    single = lab.encrypt()
    close(x + y, v + w)
    close(y - x, w - v)
    close(x * y, v * w)
    close(x * single.ct, v * single.exact)
    close(single.ct * x, v * single.exact)
    close(2 * x - 1, 2 * v - 1)
    close(1 - x, 1 - v)
    close(x * 0.5 + 0.25j, v * 0.5 + 0.25j)
    close(-x, -v)
    close(x / 2, v / 2)
    close(x**3, v**3)
    array = lab.rng.uniform(-1, 1, (3, 64))
    close(x * array, v * array)
    close(array * x, v * array)
    close(x + array[0], v + array[0])
    close(x + ckks.encode(array), v + array)
    close(x + ckks.encode(array[1]), v + array[1])
    with pytest.raises(ValueError):
        x + lab.rng.uniform(-1, 1, (4, 64))
    with pytest.raises(TypeError):
        x + "text"


def test_methods(pair: Any) -> None:
    v, w, x, y = pair
    close(x.rotate(2), np.roll(v, 2, axis=-1))
    close(y.conjugate(), w)
    close(y.square(), w**2)
    total = ckks.decode(ckks.decrypt(y.sum_slots()), 1)
    np.testing.assert_allclose(total[:, 0], w.sum(axis=1), atol=1e-5)
    close(ckks.polyval(y, [0.5, 0.0, 1.0]), 0.5 + w**2)
    assert y.assume_bound(0.5).ciphertexts[0].bound == 0.5


def test_realized_as_one_schedule(pair: Any) -> None:
    _, _, x, y = pair
    z = (x + y).realize()
    assert all(item.a.is_realized and item.b.is_realized for item in z.ciphertexts)
    ckks.realize(x * 2, y)


def test_an_empty_batch_stays_empty(lab: Any) -> None:
    x = ckks.encrypt(ckks.encode(np.zeros((0, 64))))
    assert x.shape == (0,) and ckks.decode(ckks.decrypt(x + 1)).shape == (0, 0)

"""The canonical embedding in vectors: the bits of the definition (`ren.schemes.ckks.embedding`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from ren.schemes.ckks.embedding import HOST, embedding_of
from ren_backend_cpu.embedding import CPU

RNG = np.random.default_rng(5)
SIZES = [1 << k for k in range(16)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("repeats", [1, 2])
def test_to_integers(size: int, repeats: int) -> None:
    x, y = RNG.uniform(-1, 1, size), RNG.uniform(-1, 1, size)
    for message in (x, x + 1j * y, x[: max(1, size - 3)], (x + 1j * y)[: max(1, size // 2)], x[::-1], np.ones(size)):
        for scale in (2.0**40, 1e30):
            found, expected = np.full(2 * size * repeats, 0.5), np.full(2 * size * repeats, 0.5)
            CPU.to_integers(message, scale / size, size, found)
            HOST.to_integers(message, scale / size, size, expected)
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("repeats", [1, 2])
def test_to_slots(size: int, repeats: int) -> None:
    for coefficients in (
        RNG.uniform(-(2.0**60), 2.0**60, 2 * size * repeats),
        RNG.uniform(-1, 1, 4 * size * repeats)[::2],
    ):
        found = CPU.to_slots(coefficients, 2.0**-40, size)
        assert found.flags.owndata
        assert np.array_equal(found, HOST.to_slots(coefficients, 2.0**-40, size))


def test_threads_do_not_share_scratch() -> None:
    def one(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        for size in (512, 2048, 512):
            message, found, expected = rng.uniform(-1, 1, size), np.empty(2 * size), np.empty(2 * size)
            CPU.to_integers(message, 1e9, size, found)
            HOST.to_integers(message, 1e9, size, expected)
            if not np.array_equal(found, expected):
                return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(32)))


def test_the_backend_offers_it() -> None:
    assert embedding_of("cpu") is CPU
    assert embedding_of("reference") is HOST

"""Doubles to residues and back: any size, correctly rounded, misfits counted."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from ren.numtheory.crt import residues
from ren.ring import RingSpec
from ren.testing.cases import cases
from ren.testing.vectors import generator, primes_of_width, ring_of_many_widths

Words = NDArray[np.uint64]


def float_words(values: NDArray[np.float64]) -> Words:
    return np.append(values.view(np.uint64), np.uint64(0))


@pytest.mark.parametrize("kernel", ["from_float", "lift"])
@pytest.mark.parametrize("n", [2, 64, 128, 512])
def test_agrees_with_the_reference(kernel: str, n: int, agree) -> None:
    for case in cases(kernel, n, (9, 20, 40, 46, 50, 51, 53, 54, 61)):
        agree(case)


@pytest.mark.parametrize("n", [16, 128])
@pytest.mark.parametrize("top", [0, 51, 52, 53, 62, 63, 64, 124, 125, 126, 500, 1023])
def test_every_size_of_double(n: int, top: int, compute) -> None:
    """Around the sizes where the number of pieces changes, in limbs of all widths."""
    ring = ring_of_many_widths(n, 6)
    rng = generator("sizes", n, top)
    values = np.trunc(np.ldexp(rng.random(n) + 1.0, top) * np.where(rng.random(n) < 0.5, 1.0, -1.0))
    values[:2] = 2.0**top, -np.nextafter(2.0 ** min(top + 1, 1023), 0.0)
    values[1] = np.trunc(values[1])
    (out,) = compute("from_float", ring, (), [float_words(values)], [6 * n])
    assert np.array_equal(out.reshape(6, n), residues([int(v) for v in values], ring.moduli))


@pytest.mark.parametrize("n", [16, 128])
@pytest.mark.parametrize("width", [30, 46, 50, 52, 60])
def test_lift_undoes_from_float(n: int, width: int, compute) -> None:
    ring = RingSpec(n, primes_of_width(n, width, 3))
    rng = generator("round trip", n, width)
    values = np.trunc(np.ldexp(rng.standard_normal(n), min(2 * width - 12, 60)))
    (words,) = compute("from_float", ring, (), [float_words(values)], [3 * n])
    (lifted,) = compute("lift", ring, (), [words], [n + 1])
    assert np.array_equal(lifted[:n].view(np.float64), values)
    assert lifted[n] == 0


@pytest.mark.parametrize("width", [45, 60])
def test_lift_counts_what_does_not_fit(width: int, compute) -> None:
    n = 256
    ring = RingSpec(n, primes_of_width(n, width, 4))
    inner = ring.moduli[0] * ring.moduli[1]
    values = [0] * n
    values[:6] = inner // 2, inner // 2 + 1, -(inner // 2), -(inner // 2) - 1, inner, 1
    (lifted,) = compute("lift", ring, (), [residues(values, ring.moduli).reshape(-1)], [n + 1])
    assert lifted[n] == 3, "those beyond half the product of the first two moduli"
    assert lifted[:6].view(np.float64).tolist() == [
        float(v) for v in (inner // 2, -(inner // 2), -(inner // 2), inner // 2, 0, 1)
    ]


def test_one_limb_is_centred(compute) -> None:
    n = 64
    ring = RingSpec(n, primes_of_width(n, 61, 1))
    q = ring.moduli[0]
    values = [0, 1, q - 1, q // 2, q // 2 + 1] + [0] * (n - 5)
    (lifted,) = compute("lift", ring, (), [np.array(values, np.uint64)], [n + 1])
    assert lifted[:5].view(np.float64).tolist() == [0.0, 1.0, -1.0, float(q // 2), float(q // 2 + 1 - q)]
    assert lifted[n] == 0

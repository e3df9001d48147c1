"""The embedding that every device shares: its bits, from the butterflies in Python floats, and its accuracy."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest
from ren.schemes.ckks.embedding import HOST, tables

RNG = np.random.default_rng(11)
SIZES = [1, 2, 4, 8, 32, 128]


def roots(size: int) -> list[tuple[int, int]]:
    """Numerator and denominator of the turn of node k's twiddle, from the splitting itself: half the turn of the node's root."""
    turn = [(0, 1), (1, 4)]  # node 1: X^size = i, a quarter of a turn
    for k in range(1, size):
        a, b = turn[k]
        turn += [(a, 2 * b), (a + b, 2 * b)]  # X^h = c and X^h = -c
    return [(0, 1), *((a, 2 * b) for a, b in turn[1:size])]


def to_slots(w: list[tuple[float, float]], size: int) -> list[tuple[float, float]]:
    t = tables(size)
    h = size // 2
    while h:
        for start in range(0, size, 2 * h):
            k = (size + start) // (2 * h)
            c, s = float(t.c_r[k]), float(t.c_i[k])
            for j in range(start, start + h):
                (x, xi), (y, yi) = w[j], w[j + h]
                p, pi = c * y - s * yi, c * yi + s * y
                w[j], w[j + h] = (x + p, xi + pi), (x - p, xi - pi)
        h //= 2
    return w


def to_coefficients(w: list[tuple[float, float]], size: int) -> list[tuple[float, float]]:
    t = tables(size)
    h = 1
    while h < size:
        for start in range(0, size, 2 * h):
            k = (size + start) // (2 * h)
            c, s = float(t.c_r[k]), float(t.c_i[k])
            for j in range(start, start + h):
                (x, xi), (y, yi) = w[j], w[j + h]
                d, di = x - y, xi - yi
                w[j], w[j + h] = (x + y, xi + yi), (c * d + s * di, c * di - s * d)
        h *= 2
    return w


def pairs(v: Any) -> list[tuple[float, float]]:
    return [(float(x.real), float(x.imag)) for x in v]


def position(j: int, size: int) -> int:
    """Where slot j lies: the reversed bits of t, 4t + 1 = 5^j."""
    bits = size.bit_length() - 1
    t = (pow(5, j, 4 * size) - 1) // 4
    return int(f"{t:0{bits}b}"[::-1], 2) if bits else 0


@pytest.mark.parametrize("size", SIZES)
def test_twiddles_are_the_roots_of_the_splitting(size: int) -> None:
    t = tables(size)
    for k, (a, b) in enumerate(roots(size)):
        if k:
            expected = cmath.exp(2j * math.pi * (a / b))
            assert abs(complex(t.c_r[k], t.c_i[k]) - expected) < 1e-15
            assert abs(math.hypot(t.c_r[k], t.c_i[k]) - 1) < 2.0**-52
    assert [int(p) for p in t.position_of] == [position(j, size) for j in range(size)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("repeats", [1, 4])
def test_slots_are_defined_to_the_bit(size: int, repeats: int) -> None:
    n, factor = 2 * size * repeats, 2.0**-7 / 3
    coefficients = RNG.uniform(-(2.0**40), 2.0**40, n)
    low, high = (coefficients[a : a + n // 2 : repeats] * factor for a in (0, n // 2))
    expected = to_slots(list(zip(low.tolist(), high.tolist(), strict=True)), size)
    found = HOST.to_slots(coefficients, factor, size)
    assert pairs(found) == [expected[position(j, size)] for j in range(size)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.parametrize("real", [True, False])
def test_integers_are_defined_to_the_bit(size: int, repeats: int, real: bool) -> None:
    n, factor = 2 * size * repeats, 1e12 / size
    message = RNG.uniform(-1, 1, size) + (0 if real else 1j * RNG.uniform(-1, 1, size))
    w = [(0.0, 0.0)] * size
    for j, v in enumerate(pairs(message)):
        w[position(j, size)] = v
    w = to_coefficients(w, size)
    low = [float(round(x * factor)) for x, _ in w]
    high = [0.0, *(-v for v in low[:0:-1])] if real else [float(round(y * factor)) for _, y in w]
    integers = np.full(n, 0.5)
    HOST.to_integers(message, factor, size, integers)
    assert integers[: n // 2 : repeats].tolist() == low
    assert integers[n // 2 :: repeats].tolist() == high
    assert np.count_nonzero(integers == 0.5) == n - 2 * size, "coefficients in between are not touched"


def test_accuracy_of_a_large_transform() -> None:
    """Against sums in extended precision at some coefficients: a relative error near that of a good library transform (2.7e-16, root mean square)."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("needs more precision than a double has")
    size = 1 << 13
    m = RNG.uniform(-1, 1, size) + 1j * RNG.uniform(-1, 1, size)
    integers = np.empty(2 * size)
    HOST.to_integers(m, 2.0**90, size, integers)  # large enough for rounding to integers to change nothing
    w = integers * 2.0**-90
    exponents = np.array([pow(5, j, 4 * size) for j in range(size)])
    pi = 4 * np.arctan(np.longdouble(1))
    errors = []
    for k in RNG.integers(0, size, 48):
        angle = (exponents * int(k) % (4 * size)).astype(np.longdouble) * pi / (2 * size)
        c, s = np.cos(angle), np.sin(angle)
        errors.append(float((m.real * c + m.imag * s).sum() - w[k]))
        errors.append(float((m.imag * c - m.real * s).sum() - w[size + k]))
    assert math.sqrt(np.mean(np.square(errors)) * 2 / float((np.abs(m) ** 2).sum())) < 4e-16

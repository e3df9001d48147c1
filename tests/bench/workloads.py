"""Parameter sets and circuits that every contestant runs on the same data (names as in the docs' benchmark page)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ParameterSet:
    """log2 of the ring degree, multiplicative depth, bits of the scale. All at 128-bit security where a library allows it."""

    name: str
    log_n: int
    depth: int
    scale_bits: int = 40

    @property
    def slots(self) -> int:
        return 1 << (self.log_n - 1)


SETS = {
    s.name: s
    for s in (
        ParameterSet("A", 14, 7),
        ParameterSet("B", 15, 12),
        ParameterSet("C", 16, 24),
        ParameterSet("J", 15, 10),
    )
}


def uniform(slots: int, seed: int) -> Vector:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, slots)


def chebyshev_ten(x: Vector) -> Vector:
    """Circuit (i): x = 2 x^2 - 1 ten times. Chaotic: an error grows about four times a step, a hard precision test."""
    for _ in range(10):
        x = 2 * x * x - 1
    return x


class MatVec:
    """Circuit (ii): packed 8 x 8 matrix-vector product by diagonals, bias, (a + 1/4)(a - 1/2), gain 3/4. Rotation is numpy.roll."""

    size = 8
    gain = 0.75

    def __init__(self, slots: int) -> None:
        m, repeats = self.size, slots // self.size
        i = np.arange(m, dtype=np.float64)
        x = 0.025 * np.sin(0.7 * i) + 0.01 * np.cos(1.3 * i)
        row, column = i[:, None], i[None, :]
        w = 0.06 * np.sin((row + 1) * (column + 2)) + 0.03 * np.cos(row - 2 * column) + 0.28 * np.eye(m)
        b = 0.012 * np.cos(0.9 * i)
        j = np.arange(m)
        self.x: Vector = np.tile(x, repeats)
        self.bias: Vector = np.tile(b, repeats)
        self.diagonals: list[Vector] = [np.tile(w[j, (j - r) % m], repeats) for r in range(m)]
        a = x @ w.T + b
        self.expected: Vector = np.tile((a + 0.25) * (a - 0.5) * self.gain, repeats)

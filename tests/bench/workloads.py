"""Parameter sets and circuits that every contestant runs on the same data (names as in the docs' benchmark page)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """What is timed, and what proves that it did its work.

    decode: from the call's result to slots, None where there are none (keys). expected: the plain result.
    """

    call: Callable[[], Any]
    decode: Callable[[Any], Any] | None = None
    expected: Vector | None = None


def errors_of(row: Row) -> dict[str, float] | None:
    """Largest and mean absolute error of one run of a row; None where nothing can be compared."""
    if row.decode is None or row.expected is None:
        return None
    found = np.asarray(row.decode(row.call()))
    difference = np.abs(found.real[..., : row.expected.shape[-1]] - row.expected)
    return {"max": float(difference.max()), "mean": float(difference.mean())}


#: Rows in the order of the table. Bandwidth rows are bound by memory on a machine that is fast enough; the others by arithmetic.
BANDWIDTH_ROWS = ("ct + ct", "ct * pt")
CIRCUIT_1 = "circuit (i)"
CIRCUIT_1_EAGER = "circuit (i), undecorated"
CIRCUIT_2 = "circuit (ii)"
CIRCUIT_2_COMPILED = "circuit (ii), compiled program"


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


def basic_rows(calls: dict[str, Callable[[], Any]], decrypt: Any, decode: Any, x: Vector, y: Vector) -> dict[str, Row]:
    """The rows of `calls` with what each must give. decrypt: ciphertext to slots. decode: plaintext to slots."""
    expected = {
        "ct + ct": x + y,
        "ct * pt": x * x,
        "ct * pt + rescale": x * x,
        "ct * ct + relinearize": x * y,
        "ct * ct + relinearize + rescale": x * y,
        "rotate by 1": np.roll(x, 1),
        "encrypt (public key)": x,
    }
    rows = {name: Row(call, decrypt, expected.get(name)) for name, call in calls.items()}
    for name, (reader, values) in {
        "encode": (decode, x),
        "decrypt + decode": (lambda values: values, x),
        "7 rotations": (lambda cs: np.stack([decrypt(c) for c in cs]), np.stack([np.roll(x, r) for r in range(1, 8)])),
    }.items():
        if name in rows:
            rows[name] = Row(calls[name], reader, values)
    return rows


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

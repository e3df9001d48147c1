"""Least squares without negative solutions: what prices are fitted by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def non_negative(matrix: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x >= 0 with the least |matrix x - target| (Lawson and Hanson, "Solving Least Squares Problems", 1974, algorithm 23.10)."""
    size = np.linalg.norm(matrix, axis=0)
    a = matrix / np.where(size > 0, size, 1.0)
    count = a.shape[1]
    x = np.zeros(count)
    free = np.zeros(count, bool)
    for _ in range(10 * count):
        gradient = a.T @ (target - a @ x)
        candidates = ~free & (gradient > 1e-9)
        if not candidates.any():
            break
        free[np.argmax(np.where(candidates, gradient, -np.inf))] = True
        while True:
            solved = np.zeros(count)
            solved[free] = np.linalg.lstsq(a[:, free], target, rcond=None)[0]
            if (solved[free] > 0).all():
                x = solved
                break
            blocked = free & (solved <= 0)
            step = np.min(x[blocked] / (x[blocked] - solved[blocked]))
            x = x + step * (solved - x)
            free &= x > 1e-12
            x[~free] = 0.0
    result: NDArray[np.float64] = x / np.where(size > 0, size, 1.0)
    return result

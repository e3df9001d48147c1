"""How precise a result is: the error against what it should be, in bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ren.schemes.ckks.message import as_message


@dataclass(frozen=True, slots=True)
class PrecisionReport:
    """log2 of the absolute error over the slots: best, average (log2 of the mean error), worst; -inf where the error is zero.

    slots: how many were compared. worst_slot: where the largest error is. rms: log2 of the root mean square error.
    """

    slots: int
    min_log2: float
    mean_log2: float
    max_log2: float
    rms_log2: float
    worst_slot: int

    @property
    def max_error(self) -> float:
        """The largest absolute error."""
        return math.exp2(self.max_log2)

    def __str__(self) -> str:
        values = f"min {self.min_log2:.2f}, mean {self.mean_log2:.2f}, max {self.max_log2:.2f}"
        return f"log2 of the error over {self.slots} slots: {values} (slot {self.worst_slot})"


def precision_report(result: Any, expected: Any) -> PrecisionReport:
    """Compare a decrypted result with the expected values (the forms that `encode` takes; equal lengths).

    Raises ValueError for different lengths; TypeError and EncodingError as `as_message` does.
    """
    a, b = (as_message(x, slots=1 << 30) for x in (result, expected))
    if a.size != b.size:
        raise ValueError(f"precision_report compares equal lengths, got {a.size} and {b.size}")
    errors = np.abs(a - b)
    return PrecisionReport(
        slots=a.size,
        min_log2=_log2(float(errors.min())),
        mean_log2=_log2(float(errors.mean())),
        max_log2=_log2(float(errors.max())),
        rms_log2=_log2(math.sqrt(float(np.mean(np.square(errors))))),
        worst_slot=int(errors.argmax()),
    )


def _log2(x: float) -> float:
    return math.log2(x) if x > 0 else -math.inf

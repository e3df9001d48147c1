"""Worst-case magnitudes: what a level can hold, and what to say when a result may not fit.

A ciphertext carries a bound on the absolute value of its slots. A coefficient is a mean over slots times the scale, so bound * scale bounds the coefficients; at most a
quarter of the modulus is used, the rest tells an overflow from a message at decryption.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from ren.engine.deferred import deferred_call
from ren.errors import CapacityError, PossibleOverflowWarning, TransparentCiphertextWarning
from ren.schemes.ckks.encoder import capacity
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.scale import Scale

_QUIET: ContextVar[bool] = ContextVar("quiet_bounds", default=False)
_PACKAGE = str(Path(__file__).resolve().parents[2]) + "/"


class BoundPolicy:
    """Checks bounds against capacities. strict: a result that may overflow is a CapacityError instead of a warning."""

    __slots__ = ("params", "strict", "_limits")

    def __init__(self, params: CKKSParams, *, strict: bool) -> None:
        self.params = params
        self.strict = strict
        self._limits: dict[tuple[int, Scale], float] = {}

    def limit(self, level: int, scale: Scale) -> float:
        """The largest absolute value of a slot that `level` holds at `scale`: modulus / (4 scale)."""
        found = self._limits.get((level, scale))
        if found is None:
            if len(self._limits) > 4096:
                self._limits.clear()
            found = self._limits[(level, scale)] = capacity(self.params.ring_at(level).modulus, scale)
        return found

    def check(self, operation: str, bound: float, level: int, scale: Scale, *operands: float) -> float:
        """`bound` when it fits. Else a warning, once (operands without a bound have had theirs), and infinity: nothing is known any more.

        A bound that is only known when a plan runs is checked by each run.
        """
        if type(bound) is float and bound <= self.limit(level, scale):
            return bound
        checked: float = deferred_call(self._overflow, operation, bound, level, scale, *operands)
        return checked

    def require(self, operation: str, size: float, level: int, scale: Scale) -> float:
        """`size`, the absolute value of a public number, when it fits (level, scale). Raises CapacityError: such a number does not overflow perhaps, but certainly.

        A number that is only known when a plan runs is checked by each run.
        """
        if type(size) is float and size <= self.limit(level, scale):
            return size
        checked: float = deferred_call(self._required, operation, size, level, scale)
        return checked

    def _required(self, operation: str, size: float, level: int, scale: Scale) -> float:
        limit = self.limit(level, scale)
        if size <= limit:
            return float(size)
        raise CapacityError(
            f"{operation}: a public number of absolute value 2^{_log2(size)} does not fit: level {level} at scale 2^{scale.log2:.1f} holds 2^{_log2(limit)}",
            subject=operation,
            hint="Scale the number down, or use parameters with more levels",
        )

    def _overflow(self, operation: str, bound: float, level: int, scale: Scale, *operands: float) -> float:
        if bound <= self.limit(level, scale):
            return float(bound)
        text = f"possible-overflow: {operation}: slots may reach 2^{_log2(bound)}, level {level} at scale 2^{scale.log2:.1f} holds 2^{_log2(self.limit(level, scale))}"
        hint = "If the values are smaller than that, say so: x.assume_bound(1.0). If not, scale the inputs down or use parameters with more levels"
        if self.strict:
            raise CapacityError(text, subject=operation, hint=hint)
        if math.inf not in operands and not _QUIET.get():
            warnings.warn(f"{text}. {hint}", PossibleOverflowWarning, stacklevel=user_stacklevel())
        return math.inf


@contextmanager
def quiet() -> Iterator[None]:
    """No possible-overflow warnings inside; strict bounds still raise."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def warn_transparent(operation: str) -> None:
    """The result of `operation` hides nothing."""
    warnings.warn(
        f"transparent-ciphertext: {operation}: the result is not encrypted, anybody can read it (is_transparent is True)",
        TransparentCiphertextWarning,
        stacklevel=user_stacklevel(),
    )


def user_stacklevel() -> int:
    """stacklevel of `warnings.warn`, called from the caller, for the innermost frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def _log2(value: float) -> str:
    return f"{math.log2(value):.1f}" if 0 < value < math.inf else str(value)

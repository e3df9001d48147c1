"""Coefficients on the host: what users may pass as integers, checked."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.engine.deferred import Deferred
from ren.errors import InvalidCoefficientsError, UnsupportedOperandError
from ren.ring import RingSpec


def check_ring(ring: Any) -> None:
    if not isinstance(ring, RingSpec):
        raise UnsupportedOperandError(f"ring must be a RingSpec, got {type(ring).__name__}", subject="ring")


def as_int(value: Any, what: str) -> int:
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, Deferred):  # its value is not known yet: says so
        return operator.index(value)
    raise UnsupportedOperandError(f"{what} must be an int, got {type(value).__name__} {shown(value)}", subject=what)


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def integers(values: Any) -> NDArray[Any]:
    """Coefficients as an array that `%` by a Python int works on exactly: int64, or Python ints."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidCoefficientsError(
                f"Poly takes a flat sequence of coefficients, got an array of shape {values.shape}", subject="coeffs"
            )
        if values.dtype.kind in "ib":
            return values.astype(np.int64)
        if values.dtype.kind == "u":
            return values.astype(object)
        if values.dtype.kind != "O":
            raise UnsupportedOperandError(
                f"Poly takes ints, got an array of {values.dtype}", subject="coeffs", hint="Round and convert it first"
            )
    elif isinstance(values, (str, bytes, dict, set, frozenset)) or not isinstance(values, Iterable):
        raise UnsupportedOperandError(f"Poly takes a sequence of ints, got {type(values).__name__}", subject="coeffs")
    items = list(values)
    if not set(map(type, items)) <= {int}:
        items = [as_int(c, f"coefficient {i}") for i, c in enumerate(items)]
    try:
        return np.array(items, np.int64)
    except OverflowError:
        return np.array(items, object)

"""Messages: what users hand to the encoder, checked and turned into one-dimensional float64 or complex128 arrays."""

from __future__ import annotations

import math
from collections.abc import Collection
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.errors import EncodingError, UnsupportedOperandError

#: A complex modulus is itself rounded: exp(i t) may come out as 1 + 2^-52. Relative slack for complex values only.
_MODULUS_SLACK = 1 + 2.0**-50

Message = NDArray[np.float64] | NDArray[np.complex128]


def as_message(values: Any, *, slots: int, msg_bound: float | None = None) -> Message:
    """`values` as a float64 or complex128 vector of 1 to `slots` elements. The input is never modified, but may be returned as it is.

    Accepts lists, tuples and ranges of numbers, NumPy arrays of any numeric type and layout, and tensors of any library that
    supports `__array__` (a tensor that records gradients is detached). Integers beyond 2^53 are rounded to the nearest double.

    Raises EncodingError (a ValueError) naming the first index and the value for NaN, infinity, or modulus above `msg_bound`; for empty input, more than
    `slots` elements, or more than one dimension, naming the lengths. Raises UnsupportedOperandError (a TypeError) for strings, generators, sets, scalars and non-numeric elements.
    """
    return checked_message(values, slots=slots, msg_bound=msg_bound)[0]


def checked_message(values: Any, *, slots: int, msg_bound: float | None = None) -> tuple[Message, float]:
    """See `as_message`: the vector, and the largest modulus of its elements."""
    array = _to_array(values)
    if array.ndim != 1:
        raise EncodingError(
            f"a message has one dimension, got shape {tuple(array.shape)}",
            subject="values",
            hint="Encode a batch row by row, or flatten it",
        )
    if array.size == 0:
        raise EncodingError(f"a message must not be empty (1 to {slots} values)", subject="values")
    if array.size > slots:
        raise EncodingError(
            f"message too long: {array.size} values for {slots} slots",
            subject="values",
            hint="Split it, or use parameters with more slots",
        )
    if msg_bound is not None and not (
        isinstance(msg_bound, (int, float)) and math.isfinite(msg_bound) and msg_bound > 0
    ):
        raise EncodingError(
            f"msg_bound must be finite and positive, got {msg_bound!r}",
            subject="msg_bound",
            hint="It bounds the modulus of every value, e.g. msg_bound=1.0",
        )
    return array, _check_values(array, math.inf if msg_bound is None else float(msg_bound))


def integer(value: Any) -> int | None:
    """An int from any integer type (bool is none), None for everything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return index(value)
    except TypeError:  # an array of floats, or of several elements
        return None


def largest_modulus(message: Message) -> float:
    """max |message[i]|; NaN or infinite when an element is."""
    flat = message.view(np.float64)
    # max and min are NaN when any element is.
    largest = max(float(flat.max()), -float(flat.min()))
    if message.dtype.kind == "f" or not math.isfinite(largest):
        return largest
    if largest < 1e150:  # squares neither overflow nor, relative to the largest, underflow; 20 times faster than hypot
        squares = np.square(message.real)
        squares += np.square(message.imag)
        modulus = math.sqrt(float(squares.max()))
        if modulus > 1e-150:
            return modulus
    return float(np.abs(message).max())


def _to_array(values: Any) -> Message:
    if not isinstance(values, np.ndarray):
        values = _foreign_to_array(values)
    kind = values.dtype.kind
    if kind == "O":
        values = _from_objects(values)
        kind = values.dtype.kind
    if kind not in "biufc":
        raise UnsupportedOperandError(f"a message holds real or complex numbers, got elements of type {values.dtype}")
    # Values beyond the range of a double become infinite and are reported with their index by the caller.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, dtype=np.complex128 if kind == "c" else np.float64).reshape(values.shape)


def _foreign_to_array(values: Any) -> NDArray[Any]:
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        raise UnsupportedOperandError(f"a message is a sequence of numbers, got {type(values).__name__}")
    if hasattr(values, "__array__") and hasattr(values, "detach"):
        values = values.detach()
        for step in ("resolve_conj", "resolve_neg", "cpu"):
            if hasattr(values, step):
                values = getattr(values, step)()
        try:
            return np.asarray(values)
        except TypeError:  # a type NumPy lacks, such as bfloat16: every one of them is exact in float32
            return np.asarray(values.float())
    if hasattr(values, "__array__"):
        return np.asarray(values)
    if (
        not isinstance(values, Collection)
        or isinstance(values, (set, frozenset, dict))
        or not hasattr(values, "__getitem__")
    ):
        hint = "pass list(values)" if hasattr(values, "__iter__") else "a single number is written Plaintext.const(x)"
        raise UnsupportedOperandError(
            f"a message is a list, range, array or tensor of numbers, got {type(values).__name__}; {hint}"
        )
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step, dtype=np.float64)[: len(values)]
    try:
        return np.asarray(values if isinstance(values, (list, tuple)) else list(values))
    except ValueError as error:
        raise EncodingError(f"a message has one dimension: {error}", subject="values") from error


def _from_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Python integers beyond 64 bits, fractions, decimals: anything with a conversion to a number, strings excepted."""
    converted: list[float | complex] = []
    for i, v in enumerate(values.reshape(-1)):
        if isinstance(v, (str, bytes)) or not (hasattr(v, "__float__") or hasattr(v, "__complex__")):
            raise UnsupportedOperandError(f"values[{i}] is not a number: {type(v).__name__}")
        try:
            converted.append(float(v) if hasattr(v, "__float__") else complex(v))
        except OverflowError:
            converted.append(math.inf if v > 0 else -math.inf)
    return np.array(converted).reshape(values.shape)


def _check_values(message: Message, asked: float) -> float:
    """The largest modulus. Raises EncodingError for NaN, infinity, and moduli above `asked`."""
    bound = asked
    if message.dtype.kind == "c":
        bound *= _MODULUS_SLACK
    largest = largest_modulus(message)
    if math.isfinite(largest) and largest <= bound:
        return largest
    finite = np.isfinite(message)
    if not finite.all():
        i = int(np.argmin(finite))
        raise EncodingError(f"values[{i}] is {_show(message[i])}: only finite numbers can be encoded", subject="values")
    i = int(np.argmax(np.abs(message) > bound))
    raise EncodingError(
        f"values[{i}] is {_show(message[i])}: its modulus exceeds msg_bound={asked!r}",
        subject="values",
        hint=f"The largest modulus is {largest!r}: scale the message down or pass a larger msg_bound",
    )


def _show(value: Any) -> str:
    return repr(complex(value)) if isinstance(value, (complex, np.complexfloating)) else repr(float(value))

"""The content of public values, kept so that a later value can be told to be the same.

Identity is not enough: arrays and tensors change in place. A copy is compared, not a digest: it costs a tenth of BLAKE2's time for small arrays and a thirtieth
for large ones, at the price of the copy's memory. What has no content that can be seen (objects of unknown types, iterators) is never the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.engine.frozen import Same
from ren.program.machine import Many
from ren.schemes.ckks.batch import PlaintextBatch
from ren.schemes.ckks.plaintext import Plaintext

#: Whether a value has the content that was kept.
Content = Callable[[Any], bool]

#: Up to here an array is compared as one string of bytes; above, the copy that takes is dearer than NumPy's own comparison.
_SMALL = 1 << 16
#: Names of tensor classes of `torch` that are nothing but an array.
_TENSORS = ("Tensor", "Parameter")
_LITERALS = (bool, int, str, bytes, type(None))


def never(value: Any) -> bool:
    """The content of what cannot be compared."""
    return False


def keep(value: Any) -> Content:
    """The content of `value` as it is now."""
    cls: Any = type(value)
    if cls in _LITERALS:
        return lambda other: type(other) is cls and other == value
    if cls is float or cls is complex:
        shown = repr(value)  # tells 0.0 from -0.0, and a NaN is itself
        return lambda other: type(other) is cls and repr(other) == shown
    if cls is list or cls is tuple:
        return _sequence(cls, value)
    if cls is dict:
        keys, parts = list(value), [keep(v) for v in value.values()]
        return lambda other: (
            type(other) is dict
            and list(other) == keys
            and all(part(v) for part, v in zip(parts, other.values(), strict=True))
        )
    if cls is np.ndarray or isinstance(value, np.generic):
        return never if value.dtype.kind == "O" else _array(cls, np.asarray(value), np.asarray)
    if cls is Plaintext:
        return _plaintext(value)
    if cls is PlaintextBatch or cls is Many:
        shape, items = value.shape, _sequence(tuple, value.items)
        return lambda other: type(other) is cls and other.shape == shape and items(other.items)
    if cls.__name__ in _TENSORS and cls.__module__.partition(".")[0] == "torch":
        return _tensor(cls, value)
    return never


def _sequence(cls: Any, value: Any) -> Content:
    parts = [keep(v) for v in value]
    return lambda other: (
        type(other) is cls and len(other) == len(parts) and all(part(v) for part, v in zip(parts, other, strict=True))
    )


def _plaintext(value: Plaintext) -> Content:
    """Plaintexts are immutable, so the same polynomial under the same state is the same; it is not kept alive."""
    if value.poly is None:
        number = keep(value.value)
        return lambda other: type(other) is Plaintext and other.poly is None and number(other.value)
    state = value.level, value.scale, value.slots, value.bound, value.is_real, value.params_id
    poly = Same(value.poly._node)
    return lambda other: (
        type(other) is Plaintext
        and other.poly is not None
        and other.poly._node is poly.value
        and (other.level, other.scale, other.slots, other.bound, other.is_real, other.params_id) == state
    )


def _tensor(cls: Any, value: Any) -> Content:
    """A tensor by its numbers, on whatever device; one that has no plain array (sparse, quantised, bfloat16) is never the same."""
    try:
        inner = _array(np.ndarray, _numbers(value), _numbers)
    except (TypeError, RuntimeError):
        return never
    device, dtype = value.device, value.dtype

    def same(other: Any) -> bool:
        if type(other) is not cls or other.device != device or other.dtype != dtype:
            return False
        try:
            return inner(_numbers(other))
        except (TypeError, RuntimeError):  # of another kind by now: nested, without data
            return False

    return same


def _numbers(value: Any) -> NDArray[Any]:
    if isinstance(value, np.ndarray):
        return value
    found: NDArray[Any] = value.detach().cpu().resolve_conj().resolve_neg().numpy()
    return found


def _array(cls: Any, value: NDArray[Any], plain: Callable[[Any], NDArray[Any]]) -> Content:
    dtype, shape = value.dtype, value.shape
    if value.nbytes <= _SMALL:
        text = value.tobytes()
        return lambda other: (
            type(other) is cls and other.dtype == dtype and other.shape == shape and plain(other).tobytes() == text
        )
    words = _words(value.copy())
    return lambda other: (
        type(other) is cls
        and other.dtype == dtype
        and other.shape == shape
        and not (_words(plain(other)) != words).any()
    )


def _words(value: NDArray[Any]) -> NDArray[Any]:
    """The bytes of an array in row-major order, as the widest integers that divide it."""
    flat = np.ascontiguousarray(value).reshape(-1)
    return flat.view(next(f"u{w}" for w in (8, 4, 2, 1) if flat.itemsize % w == 0))

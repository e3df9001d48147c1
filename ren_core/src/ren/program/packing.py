"""Public data as slot vectors: packed for the layout of the encrypted value that it meets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.errors import UnsupportedOperandError
from ren.program.layout import Layout, LayoutError, packed, packed_for


def to_array(value: Any) -> NDArray[Any]:
    """A NumPy array of numbers from arrays, tensors, numbers and sequences, without changing the input.

    Raises UnsupportedOperandError (a TypeError) for what holds no numbers, or none that NumPy can see: tensors without data, quantised and nested ones.
    """
    try:
        array = _array(value)
    except (RuntimeError, TypeError, ValueError) as error:
        kind = _kind(value)
        why = str(error) if kind is None else f"it is {kind}"
        raise UnsupportedOperandError(
            f"public data must be numbers, got {type(value).__name__}: {why}", subject="data"
        ) from None
    if array.dtype.kind not in "biufc":
        what = f"{type(value).__name__} of dtype {array.dtype}"
        raise UnsupportedOperandError(f"public data must be numbers, got {what}", subject="data")
    return array


def _kind(tensor: Any) -> str | None:
    """What is special about a tensor that has no plain array; PyTorch's own errors say other things."""
    return next((k for k in ("meta", "quantized", "nested") if getattr(tensor, f"is_{k}", False) is True), None)


def _array(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):
        # A tensor: off its device, without its gradient, conjugation and negation carried out.
        value = value.detach().cpu()
        if hasattr(value, "resolve_conj"):
            value = value.resolve_conj().resolve_neg()
        value = _in_numpy(value)
    return np.asarray(value)


def _in_numpy(tensor: Any) -> Any:
    """A tensor of a kind that NumPy has: bfloat16, float8 and half-precision complex numbers are widened, which is exact; sparse ones are written out."""
    if getattr(tensor, "is_sparse", False) or getattr(tensor, "is_sparse_csr", False):
        tensor = tensor.to_dense()
    try:
        tensor.numpy()
    except TypeError:
        return tensor.cfloat() if tensor.is_complex() else tensor.float()
    return tensor


def layout_for(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout in which data of this shape meets a value of `layout`. Raises LayoutError."""
    found = packed_for(layout, shape)
    assert found is not None
    return found


def pack(value: Any, layout: Layout, slots: int) -> tuple[tuple[int, ...], list[NDArray[Any]], int]:
    """(batch shape, one vector of one frame per batch element, slots of the frame): row-major, zeros in the padding.

    layout: of the encrypted value that the data meets. A single number fills the logical elements only. Raises LayoutError, TypeError.
    """
    array = to_array(value)
    target = layout_for(layout, array.shape).resolve(slots)
    logical = target.shape
    assert logical is not None
    assert target.frame is not None
    batch = array.shape[: max(0, array.ndim - len(logical))]
    try:
        whole = np.broadcast_to(array, batch + logical)
    except ValueError:
        raise LayoutError(
            f"public data of shape {array.shape} does not meet an encrypted value of shape {logical}"
        ) from None
    rows = whole.reshape(*batch, math.prod(logical))
    return batch, [rows[index] for index in np.ndindex(*batch)], target.frame


def logical_vector(value: Any, layout: Layout, slots: int) -> tuple[tuple[int, ...], list[NDArray[Any]], int]:
    """As `pack`, for data that is about to be encrypted: its last axes have to be the logical shape exactly."""
    array = to_array(value)
    target = layout.resolve(slots)
    logical = target.shape
    assert logical is not None
    assert target.frame is not None
    if array.ndim < len(logical) or array.shape[array.ndim - len(logical) :] != logical:
        raise LayoutError(f"an array of shape {array.shape} is no value of shape {logical}")
    batch = array.shape[: array.ndim - len(logical)]
    rows = array.reshape(*batch, math.prod(logical))
    return batch, [rows[index] for index in np.ndindex(*batch)], target.frame


__all__ = ["layout_for", "logical_vector", "pack", "packed", "to_array"]

"""Meanings that move elements, or change shapes: see `meanings`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from xdsl.ir import SSAValue

from ren_frontend_torch.emit import Emitter, Unsupported, number
from ren_frontend_torch.handles import Handle


def axes_of(e: Emitter, x: SSAValue, dim: Any) -> set[int]:
    """Axes as numbers from 0. Raises Unsupported for axes that a batch shifts, or that are no numbers."""
    rank = e.rank(x)
    if rank == 0 and e.batched(x):
        raise Unsupported(
            "only batch axes are left, and what runs over them leaves the program: keep the last one, keepdim=True"
        )
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        if e.batched(x):
            raise Unsupported("without dim= it would run over the batch axes too: give dim=-1")
        return set(range(rank))
    found = set()
    for axis in dim if isinstance(dim, (tuple, list)) else (dim,):
        if type(axis) is not int or not -max(rank, 1) <= axis < max(rank, 1):
            raise Unsupported(f"dim={axis!r} is no axis of a value of {rank} axes")
        if e.batched(x) and axis >= 0:
            raise Unsupported(f"dim={axis} counts from the batch axes: count from the end, dim={axis - rank}")
        found.add(axis % rank if rank else 0)
    return found


# -- moving elements -------------------------------------------------------------------------------------------------


def roll(e: Emitter, input: Any, shifts: Any, dims: Any = None) -> SSAValue:
    x = e.value(input)
    rank = e.rank(x)
    steps = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    axes = () if dims is None else tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if any(number(s) is None or int(s) != s for s in steps) or not steps:
        raise Unsupported("a roll takes places that are known while tracing: declare them static(...)")
    if not axes:
        if len(steps) != 1:
            raise Unsupported("a roll without dims= takes one shift")
        axes_of(e, x, None)
        return _rolled(e, x, int(steps[0]), -1 if rank == 1 else None)
    if len(axes) != len(steps):
        raise Unsupported("shifts and dims have different lengths")
    for step, dim in zip(steps, axes, strict=True):
        (axis,) = axes_of(e, x, dim)
        x = _rolled(e, x, int(step), axis - rank)
    return x


def _rolled(e: Emitter, x: SSAValue, shift: int, dimension: int | None) -> SSAValue:
    shape = e.layout(x).shape
    if shape is not None:
        length = math.prod(shape) if dimension is None else shape[dimension]
        shift = shift % length if shift >= 0 else -(-shift % length)
    if shift == 0:
        return x
    return e.build("ren.semantic.roll", [x], {"shift": shift} | ({} if dimension is None else {"dimension": dimension}))


def getitem(e: Emitter, input: Any, index: Any) -> SSAValue:
    x = e.value(input)
    rank = e.rank(x)
    items = _index_items(index, rank, e.batched(x))
    if all(item == slice(None) for item in items):
        return x
    shape = e.layout(x).shape
    stepped = type(items[0]) is slice and items[0].step not in (None, 1)
    if stepped or any(item != slice(None) for item in items[1:]):
        return picked(e, x, tuple(items))
    start, stop, drop = _range(items[0], None if shape is None else shape[0])
    if rank == 1:
        return e.build("ren.semantic.slice", [x], {"start": start, "stop": stop, **({"drop": 1} if drop else {})})
    assert shape is not None
    # Rows of a row-major array are a range of the flattened one.
    width = math.prod(shape[1:])
    flat = e.build("ren.semantic.reshape", [x], {"shape": [math.prod(shape)]})
    rows = e.build("ren.semantic.slice", [flat], {"start": start * width, "stop": stop * width})
    return e.build("ren.semantic.reshape", [rows], {"shape": list(shape[1:] if drop else (stop - start, *shape[1:]))})


def _index_items(index: Any, rank: int, batched: bool) -> list[Any]:
    """One index per axis of the logical shape."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [i.item() if isinstance(i, np.integer) else i for i in items]
    for item in items:
        if item is not Ellipsis and type(item) is not slice and (type(item) is bool or type(item) is not int):
            raise Unsupported(f"an index of type {'tensor' if type(item) is Handle else type(item).__name__}")
    if Ellipsis in items:
        at = items.index(Ellipsis)
        if batched and at != 0:
            raise Unsupported("an index on the left counts from the batch axes: write x[..., index]")
        missing = rank - (len(items) - 1)
        items = items[:at] + [slice(None)] * missing + items[at + 1 :]
    elif batched:
        raise Unsupported("an index on the left counts from the batch axes: write x[..., index]")
    items += [slice(None)] * (rank - len(items))
    if len(items) != rank:
        raise Unsupported(f"{len(items)} indices for {rank} axes")
    return items


def _range(item: Any, length: int | None) -> tuple[int, int, bool]:
    """(start, stop, whether the axis goes away) of an index on an axis of `length`, None when only the engine knows it."""
    if length is None:
        bounds = (item,) if type(item) is int else (item.start or 0, item.stop)
        if any(type(b) is not int or b < 0 for b in bounds):
            raise Unsupported(
                "its length is not declared, so this end of the range is unknown: declare encrypted(slots=n)"
            )
        length = 1 << 62
    if type(item) is int:
        start = item + length if item < 0 else item
        if not 0 <= start < length:
            raise IndexError(f"index {item} is out of range for {length} elements")
        return start, start + 1, True
    for bound in (item.start, item.stop):
        if bound is not None and type(bound) is not int:
            raise Unsupported("a slice takes bounds that are known while tracing: declare them static(...)")
    start, stop, _ = item.indices(length)
    return start, stop, False


def narrow(e: Emitter, input: Any, dim: Any, start: Any, length: Any) -> SSAValue:
    return getitem(e, input, _along(e, input, dim, slice(start, start + length)))


def select(e: Emitter, input: Any, dim: Any, index: Any) -> SSAValue:
    return getitem(e, input, _along(e, input, dim, index))


def _along(e: Emitter, input: Any, dim: Any, item: Any) -> Any:
    x = e.value(input)
    (axis,) = axes_of(e, x, dim)
    items = [slice(None)] * e.rank(x)
    items[axis] = item
    return (Ellipsis, *items)


def split(e: Emitter, input: Any, split_size: Any, dim: Any = 0) -> tuple[SSAValue, ...]:
    length = _length(e, input, dim)
    if type(split_size) is int and split_size > 0:
        sizes = [min(split_size, length - at) for at in range(0, length, split_size)]
    elif (
        isinstance(split_size, (tuple, list)) and all(type(s) is int for s in split_size) and sum(split_size) == length
    ):
        sizes = list(split_size)
    else:
        raise Unsupported(f"{split_size!r} does not divide {length} elements")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return tuple(narrow(e, input, dim, end - size, size) for end, size in zip(ends, sizes, strict=True))


def chunk(e: Emitter, input: Any, chunks: Any, dim: Any = 0) -> tuple[SSAValue, ...]:
    if type(chunks) is not int or chunks < 1:
        raise Unsupported("a number of chunks that is unknown while tracing")
    return split(e, input, -(-_length(e, input, dim) // chunks), dim)


def unbind(e: Emitter, input: Any, dim: Any = 0) -> tuple[SSAValue, ...]:
    return tuple(select(e, input, dim, i) for i in range(_length(e, input, dim)))


def _length(e: Emitter, input: Any, dim: Any) -> int:
    x = e.value(input)
    shape = e.layout(x).shape
    (axis,) = axes_of(e, x, dim)
    if shape is None:
        raise Unsupported("its length is not declared: declare encrypted(slots=n)")
    return shape[axis]


# -- shapes ----------------------------------------------------------------------------------------------------------


def shape_of(e: Emitter, x: SSAValue) -> tuple[int, ...]:
    if e.batched(x):
        raise Unsupported("its shape has batch axes that are unknown while tracing")
    shape = e.layout(x).shape
    if shape is None:
        raise Unsupported("its length is not declared: declare encrypted(slots=n)")
    return shape


def reshaped(e: Emitter, x: SSAValue, shape: Sequence[int]) -> SSAValue:
    """x in another shape. A scalar has the one element of shape (1,), and takes its slots."""
    old = e.layout(x).shape
    if tuple(shape) == old:
        return x
    if not shape:
        flat = e.build("ren.semantic.reshape", [x], {"shape": [1]})
        return e.build("ren.semantic.slice", [flat], {"start": 0, "stop": 1, "drop": 1})
    return e.build("ren.semantic.reshape", [x], {"shape": list(shape)})


def reshape(e: Emitter, input: Any, shape: Any = ()) -> SSAValue:
    x = e.value(input)
    wanted = [shape] if type(shape) is int else list(shape)
    if any(type(d) is not int for d in wanted):
        raise Unsupported("a shape that is unknown while tracing")
    if wanted == [-1] and not e.batched(x) and e.rank(x) == 1:
        return x
    count = math.prod(shape_of(e, x))
    if -1 in wanted:
        rest = math.prod(d for d in wanted if d != -1)
        if wanted.count(-1) > 1 or rest == 0 or count % rest:
            raise Unsupported(f"{count} elements do not form shape {tuple(wanted)}")
        wanted[wanted.index(-1)] = count // rest
    return reshaped(e, x, wanted)


def flatten(e: Emitter, input: Any, start_dim: Any = 0, end_dim: Any = -1) -> SSAValue:
    x = e.value(input)
    if e.rank(x) == 1 and not e.batched(x):
        return x
    shape = shape_of(e, x)
    if not shape:
        return reshaped(e, x, (1,))
    start, stop = start_dim % len(shape), end_dim % len(shape)
    return reshaped(e, x, (*shape[:start], math.prod(shape[start : stop + 1]), *shape[stop + 1 :]))


def squeeze(e: Emitter, input: Any, dim: Any = None) -> SSAValue:
    x = e.value(input)
    shape = shape_of(e, x)
    axes = axes_of(e, x, dim)
    return reshaped(e, x, [d for i, d in enumerate(shape) if i not in axes or d != 1])


def unsqueeze(e: Emitter, input: Any, dim: Any) -> SSAValue:
    x = e.value(input)
    shape = list(shape_of(e, x))
    if type(dim) is not int or not -len(shape) - 1 <= dim <= len(shape):
        raise Unsupported(f"dim={dim!r}")
    shape.insert(dim % (len(shape) + 1), 1)
    return reshaped(e, x, shape)


def permute(e: Emitter, input: Any, dims: Any = ()) -> SSAValue:
    x = e.value(input)
    order = (dims,) if type(dims) is int else tuple(dims)
    rank = len(shape_of(e, x))
    if any(type(d) is not int for d in order) or sorted(d % max(rank, 1) for d in order) != list(range(rank)):
        raise Unsupported(f"{order} is no order of {rank} axes")
    return moved(e, x, lambda numbers: numbers.permute(*order))


def swap_axes(e: Emitter, input: Any, dim0: Any, dim1: Any) -> SSAValue:
    x = e.value(input)
    axes_of(e, x, (dim0, dim1))
    return moved(e, x, lambda numbers: numbers.transpose(dim0, dim1))


def transpose(e: Emitter, input: Any) -> SSAValue:
    x = e.value(input)
    if e.batched(x):
        raise Unsupported("a transposition would move the batch axes: write x.transpose(-2, -1)")
    return x if e.rank(x) <= 1 else moved(e, x, lambda numbers: numbers.permute(*reversed(range(numbers.dim()))))


# -- picking elements ------------------------------------------------------------------------------------------------


def picked(e: Emitter, x: SSAValue, items: tuple[Any, ...]) -> SSAValue:
    """Elements in any order and number."""
    for item in items:
        if type(item) is slice and any(
            b is not None and type(b) is not int for b in (item.start, item.stop, item.step)
        ):
            raise Unsupported("a slice takes bounds that are known while tracing: declare them static(...)")
    return moved(e, x, lambda numbers: numbers[items])


def moved(e: Emitter, x: SSAValue, move: Callable[[torch.Tensor], torch.Tensor]) -> SSAValue:
    """What `move` does to the numbers of the elements, done to the elements: nothing but another shape where they stay in order, else a product with a
    matrix of zeros and ones, which costs one level and the rotations of a matrix product."""
    shape = e.layout(x).shape
    if shape is None:
        raise Unsupported("its length is not declared: declare encrypted(slots=n)")
    count = math.prod(shape)
    moved = move(torch.arange(count).reshape(shape))
    source = moved.reshape(-1)
    if not len(source):
        raise Unsupported("it picks no element")
    if len(source) == count and bool((source == torch.arange(count)).all()):
        return reshaped(e, x, tuple(moved.shape))
    places = tuple(zip(source.tolist(), range(len(source)), strict=True))
    return reshaped(e, by_matrix(e, x, places, (count, len(source)), 1.0), tuple(moved.shape))


def by_matrix(
    e: Emitter, x: SSAValue, places: tuple[tuple[int, int], ...], shape: tuple[int, int], value: float
) -> SSAValue:
    """The flattened value times a matrix that is `value` at `places` and 0 elsewhere, as a vector."""
    flat = reshaped(e, x, (shape[0],))
    return e.build("ren.semantic.matmul", [flat, e.value(_sparse(places, shape, value))], {"form": "right"})


@lru_cache(maxsize=64)
def _sparse(places: tuple[tuple[int, int], ...], shape: tuple[int, int], value: float) -> torch.Tensor:
    """One tensor, and so one material of a program, however often it is used."""
    matrix = torch.zeros(shape, dtype=torch.float64)
    rows, columns = zip(*places, strict=True)
    matrix[list(rows), list(columns)] = value
    return matrix


def zeros_like(e: Emitter, input: Any, dtype: Any = None, **options: Any) -> Any:
    return torch.zeros(shape_of(e, e.value(input)), dtype=dtype or torch.float64)


def ones_like(e: Emitter, input: Any, dtype: Any = None, **options: Any) -> Any:
    return torch.ones(shape_of(e, e.value(input)), dtype=dtype or torch.float64)

"""torch.roll on any layout: one rotation where elements fill their frame, two masked ones elsewhere."""

from __future__ import annotations

import math

from ren.program.layout import Layout, LayoutError, Padding
from xdsl.ir import SSAValue

from ren_passes.expansions.emit import Emit, layout_of


def roll(emit: Emit, x: SSAValue, shift: int, dimension: int | None) -> SSAValue:
    """Element j of the axis comes from j - shift; without an axis, of the flattened array. Raises LayoutError where the layout is not known."""
    layout = layout_of(x)
    if layout is None:
        raise LayoutError("the layout of the operand is not known: declare its input with a layout")
    if layout.shape is None:
        return emit.rotate(x, shift)
    if layout.is_replicated:
        return x
    outer, size, inner = _axis(layout.shape, dimension)
    shift %= size
    if shift == 0:
        return x
    if layout.is_dense and outer == 1:
        return emit.relayout(emit.rotate(x, shift * inner), layout)
    whole = emit.frame_of(x)
    count = layout.elements
    stays = _kept(emit, whole, shift * inner, count, [j >= shift for j in range(size)], outer, inner, layout)
    wraps = _kept(emit, whole, (shift - size) * inner, count, [j < shift for j in range(size)], outer, inner, layout)
    return emit.relayout(emit.add(stays, wraps), layout.with_padding(Padding.ZERO))


def _axis(shape: tuple[int, ...], dimension: int | None) -> tuple[int, int, int]:
    """(elements before the axis, its length, elements behind it)."""
    if dimension is None:
        return 1, math.prod(shape), 1
    if not -len(shape) <= dimension < len(shape):
        raise LayoutError(f"a value of shape {shape} has no axis {dimension}")
    axis = dimension % len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _kept(
    emit: Emit,
    whole: SSAValue,
    rotation: int,
    count: int,
    keep: list[bool],
    outer: int,
    inner: int,
    layout: Layout,
) -> SSAValue:
    """The rotated frame where `keep` holds along the axis, 0 elsewhere and in the padding."""
    rotated = emit.rotate(whole, rotation)
    flags = [float(k) for _ in range(outer) for k in keep for _ in range(inner)]
    first, last = flags.index(1.0), count - flags[::-1].index(1.0)
    if all(flags[first:last]):
        ends = {} if layout.frame is None else {"frame": layout.frame}
        return emit.multiply(rotated, emit.op("ren.public.mask", start=first, stop=last, **ends))
    padding = [0.0] * ((layout.frame or count) - count)
    if layout.frame is None:
        raise LayoutError("rows of a value that fills an unknown number of slots cannot be rolled: declare its shape")
    return emit.multiply(rotated, emit.constant(flags + padding))

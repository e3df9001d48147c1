"""Sums, means, slices and reshaped views."""

from __future__ import annotations

from ren.program.layout import SCALAR, Layout, LayoutError, Padding
from ren.program.semantic_rules import sliced
from xdsl.ir import SSAValue

from ren_passes.expansions.emit import Emit, layout_of


def clean(emit: Emit, x: SSAValue) -> SSAValue:
    """x with zeros in its padding: masked where it may hold anything."""
    layout = layout_of(x)
    if layout is None or layout.padding is not Padding.ANY:
        return x
    if layout.frame is None:
        whole, mask = emit.frame_of(x), emit.op("ren.public.mask", start=0, stop=layout.elements)
    else:
        whole, mask = emit.frame_of(x), emit.op("ren.public.mask", start=0, stop=layout.elements, frame=layout.frame)
    return emit.relayout(emit.multiply(whole, mask), layout.with_padding(Padding.ZERO))


def total(emit: Emit, x: SSAValue, keepdim: bool) -> SSAValue:
    """The sum of all elements, in every slot."""
    layout = layout_of(x)
    if layout is None:
        raise LayoutError("the layout of the operand is not known: declare its input with a layout")
    if layout.is_replicated:
        return x
    summed = emit.op("ren.ckks.sum_slots", clean(emit, x))
    rank = 1 if layout.shape is None else len(layout.shape)
    return emit.relayout(summed, Layout((1,) * rank, 1)) if keepdim else emit.relayout(summed, SCALAR)


def mean(emit: Emit, x: SSAValue, keepdim: bool) -> SSAValue:
    """The sum over the number of elements."""
    layout = layout_of(x)
    if layout is not None and layout.shape is None:
        share = emit.op("ren.public.slot_share")
    else:
        share = emit.constant(1.0 / max(1, 0 if layout is None else layout.elements))
    return emit.multiply(total(emit, x, keepdim), share)


def part(emit: Emit, x: SSAValue, start: int, stop: int, drop: bool) -> SSAValue:
    """Elements start..stop-1 of a vector, moved to the front; what follows them becomes padding."""
    layout = layout_of(x)
    if layout is None:
        raise LayoutError("the layout of the operand is not known: declare its input with a layout")
    return emit.relayout(emit.rotate(x, -start), sliced(layout, start, stop, drop))


def reshape(emit: Emit, x: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """The same slots under another shape."""
    layout = layout_of(x)
    if layout is None:
        raise LayoutError("the layout of the operand is not known: declare its input with a layout")
    return x if layout.shape is None else emit.relayout(x, Layout(shape, layout.frame, layout.padding))

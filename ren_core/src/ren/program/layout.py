"""Where the elements of a logical array lie in the slots of an encrypted value.

The slots are filled with copies of one *frame*: logical elements in row-major order from slot 0 of the frame, then padding. A frame as
large as the whole slot vector is "not repeated". Since frames are powers of two, a rotation of all slots by k rotates every frame by k,
so a rotation of a frame that has no padding is a rotation of the logical vector, whatever the engine's slot count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ren.errors import ProgramVerifyError


class Padding(StrEnum):
    """What the slots of a frame beyond the logical elements hold."""

    NONE = "none"  # there are none
    ZERO = "zero"
    ANY = "any"  # unknown numbers: a sum has to mask them first


class LayoutError(ValueError):
    """Two layouts that do not meet, or an operation that a layout does not allow."""


def power_of_two(count: int) -> int:
    """The smallest power of two >= count."""
    return 1 << max(0, count - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Layout:
    """shape: logical shape without batch axes; None is the whole slot vector of an engine that is not known yet.
    frame: slots of one frame, a power of two >= the number of elements; None is all slots. padding: see `Padding`.
    """

    shape: tuple[int, ...] | None = None
    frame: int | None = None
    padding: Padding = Padding.NONE

    def __post_init__(self) -> None:
        if self.shape is None:
            if self.frame is not None or self.padding is not Padding.NONE:
                raise LayoutError("a full layout has neither frame nor padding")
            return
        if any(d < 1 for d in self.shape):
            raise LayoutError(f"shape {self.shape} has an axis below 1")
        if self.frame is not None and (self.frame < 1 or self.frame & (self.frame - 1)):
            raise LayoutError(f"frame {self.frame} is no power of two")
        if self.frame is not None and self.frame < self.elements:
            raise LayoutError(f"{self.elements} elements do not fit into a frame of {self.frame} slots")
        if self.frame == self.elements and self.padding is not Padding.NONE:
            object.__setattr__(self, "padding", Padding.NONE)
        elif self.frame is not None and self.frame != self.elements and self.padding is Padding.NONE:
            raise LayoutError(
                f"{self.elements} elements in a frame of {self.frame} slots leave padding: say what it holds"
            )

    @property
    def elements(self) -> int:
        """Number of logical elements; 0 for a full layout whose engine is not known."""
        return 0 if self.shape is None else math.prod(self.shape)

    @property
    def is_full(self) -> bool:
        """Every slot is a logical element."""
        return self.shape is None

    @property
    def is_dense(self) -> bool:
        """No padding: rotations of the slots are rotations of the flattened logical array."""
        return self.shape is None or self.frame == self.elements

    @property
    def is_replicated(self) -> bool:
        """One number in every slot."""
        return self.frame == 1

    def resolve(self, slots: int) -> Layout:
        """The same layout on an engine with this many slots: nothing is None any more.

        Raises LayoutError when a frame is larger than the slot vector.
        """
        if self.shape is None:
            return Layout((slots,), slots)
        if self.elements > slots or (self.frame or 0) > slots:
            raise LayoutError(f"{max(self.elements, self.frame or 0)} slots are needed, the engine has {slots}")
        if self.frame is None:
            return Layout(self.shape, slots, Padding.NONE if self.elements == slots else self.padding)
        return self

    def repetitions(self, slots: int) -> int:
        """How many frames the slot vector holds."""
        return 1 if self.frame is None else slots // self.frame

    def with_padding(self, padding: Padding) -> Layout:
        return self if self.is_dense else replace(self, padding=padding)

    def text(self) -> str:
        """`shape=full`, `shape=3, frame=4, pad=zero`, `shape=2x4, frame=8`, `shape=scalar, frame=1`."""
        if self.shape is None:
            return "shape=full"
        parts = ["shape=" + ("x".join(map(str, self.shape)) or "scalar")]
        if self.frame is not None:
            parts.append(f"frame={self.frame}")
        if self.padding is not Padding.NONE:
            parts.append(f"pad={self.padding}")
        return ", ".join(parts)

    @staticmethod
    def read(fields: dict[str, str]) -> Layout | None:
        """Take `shape`, `frame`, `pad` out of `fields`; None without a shape. Raises ProgramVerifyError or LayoutError."""
        shape = fields.pop("shape", None)
        frame, pad = fields.pop("frame", None), fields.pop("pad", None)
        if shape is None:
            if frame is not None or pad is not None:
                raise ProgramVerifyError("frame and pad need a shape", subject="layout")
            return None
        if not re.fullmatch(r"full|scalar|\d{1,9}(x\d{1,9}){0,7}", shape, re.ASCII) or not re.fullmatch(
            r"\d{1,9}", frame or "1", re.ASCII
        ):
            raise ProgramVerifyError(f"not a layout: shape={shape}, frame={frame}", subject="layout")
        dims = None if shape == "full" else () if shape == "scalar" else tuple(map(int, shape.split("x")))
        return Layout(dims, None if frame is None else int(frame), Padding(pad) if pad is not None else Padding.NONE)


FULL = Layout()
#: One number in every slot.
SCALAR = Layout((), 1)


def packed(shape: Sequence[int]) -> Layout:
    """The layout that Ren itself gives an array of this shape: the smallest frame, repeated, padding zero."""
    shape = tuple(int(d) for d in shape)
    count = math.prod(shape)
    frame = power_of_two(count)
    return Layout(shape, frame, Padding.NONE if frame == count else Padding.ZERO)


def broadcast(a: Layout, b: Layout, *, product: bool) -> Layout:
    """Layout of an element-wise sum or product (`product`) of two encrypted values.

    Raises LayoutError when elements of equal index do not share a slot.
    """
    if a == b:
        return a
    if a.is_replicated and b.is_replicated:
        return a if len(a.shape or ()) >= len(b.shape or ()) else b
    if a.is_replicated or b.is_replicated:
        other, number = (b, a) if a.is_replicated else (a, b)
        new_axes = len(number.shape or ()) - (1 if other.shape is None else len(other.shape))
        if new_axes > 0:
            if other.shape is None:
                raise LayoutError(f"elements do not meet: [{a.text()}] and [{b.text()}]")
            other = replace(other, shape=(1,) * new_axes + other.shape)
        if product or other.is_dense:
            return other
        # The number is added to the padding too.
        return other.with_padding(Padding.ANY)
    if a.shape == b.shape and a.shape is not None:
        if a.frame == b.frame:
            both = a.padding is b.padding is Padding.ZERO
            zero = Padding.ZERO in (a.padding, b.padding) if product else both
            return replace(a, padding=Padding.ZERO if zero else Padding.ANY)
        # Only the first copy in the larger frame lines up: whatever the smaller one repeats lands in the padding.
        large = a if a.frame is None or (b.frame is not None and a.frame > b.frame) else b
        return replace(large, padding=Padding.ZERO if product and large.padding is Padding.ZERO else Padding.ANY)
    # A row vector under a matrix: slot i*c + j of the matrix meets slot j of the vector when the vector's frame is its length.
    if a.shape is not None and b.shape is not None:
        long, short = (a, b) if len(a.shape) > len(b.shape) else (b, a)
        assert long.shape is not None
        assert short.shape is not None
        if (
            len(long.shape) > len(short.shape)
            and long.shape[len(long.shape) - len(short.shape) :] == short.shape
            and short.is_dense
        ):
            return long if product else long.with_padding(Padding.ANY)
    raise LayoutError(f"elements do not meet: [{a.text()}] and [{b.text()}]")


def packed_for(layout: Layout | None, shape: tuple[int, ...] | None) -> Layout | None:
    """How public data of tensor shape `shape` (None: unknown) is packed to meet an encrypted value: alike, with zeros in the padding. None: unknown.

    Leading axes beyond those of the layout are batch axes. Public data never makes an encrypted value larger, except one that is the same number
    everywhere. Raises LayoutError when the shapes do not broadcast.
    """
    if layout is None:
        return None
    if shape is None:
        return None if layout.is_replicated else layout.with_padding(Padding.ZERO)
    if math.prod(shape) == 1:
        if layout.shape is not None and layout.is_replicated and len(shape) > len(layout.shape):
            return Layout((1,) * len(shape), 1)
        # Encoded or not, a number multiplies whatever the padding holds, at most by itself.
        return layout.with_padding(Padding.ANY)
    if layout.is_replicated:
        return packed((1,) * (len(layout.shape or ()) - len(shape)) + tuple(shape))
    if layout.shape is None:
        # Whether the last axis has the engine's slot count is known at readiness.
        return layout
    if not all(m in (1, d) for m, d in zip(reversed(shape), reversed(layout.shape), strict=False)):
        raise LayoutError(
            f"public data of shape {tuple(shape)} does not meet an encrypted value of shape {layout.shape}"
        )
    return layout.with_padding(Padding.ZERO)


def meet_public(layout: Layout | None, shape: tuple[int, ...] | None, *, product: bool) -> Layout | None:
    """Layout of an encrypted value after an element-wise operation with public data of tensor shape `shape`; see `packed_for`."""
    public = packed_for(layout, shape)
    if layout is None or public is None:
        return None
    if not product and not layout.is_replicated:
        return layout
    if shape is not None and math.prod(shape) == 1:
        return public if layout.is_replicated else layout
    # A number in every slot, added to packed data, lies in the padding too.
    return public if product else public.with_padding(Padding.ANY)

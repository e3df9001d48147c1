"""Writing operations in front of the one that they replace."""

from __future__ import annotations

from typing import Any

from ren.program import Edit
from ren.program.layout import FULL, Layout
from ren.program.types import EncryptedType, role_of
from xdsl.ir import Operation, SSAValue

from ren_passes.analysis.weak import weak_results


class Emit:
    """Builds operations before `anchor`, with its location; their types claim no levels."""

    def __init__(self, edit: Edit, anchor: Operation) -> None:
        self.edit = edit
        self.anchor = anchor
        self._made: list[Operation] = []

    def op(self, name: str, *operands: SSAValue, **attributes: Any) -> SSAValue:
        types = weak_results(name, operands, attributes)
        made = self.edit.build_before(self.anchor, name, operands, attributes, result_types=types)
        self._made.append(made)
        return made.results[0]

    def undo(self) -> None:
        """Take back what was built: an expansion that fails half-way leaves nothing."""
        for op in reversed(self._made):
            self.edit.erase(op)
            self.edit.inserted -= 1
            self.edit.removed -= 1
        self._made.clear()

    def constant(self, value: Any) -> SSAValue:
        return self.op("ren.constant", value=value)

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.op("ren.logical.add.encrypted_encrypted", x, y)

    def multiply(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """A product with an encrypted or public factor."""
        kind = "encrypted" if role_of(y.type) == "encrypted" else "public"
        return self.op(f"ren.logical.multiply.encrypted_{kind}", x, y)

    def square(self, x: SSAValue) -> SSAValue:
        return self.op("ren.logical.square.encrypted", x)

    def rotate(self, x: SSAValue, shift: int) -> SSAValue:
        """All slots moved to the right, around; x itself for no shift."""
        return x if shift == 0 else self.op("ren.ckks.rotate", x, shift=shift)

    def relayout(self, x: SSAValue, layout: Layout) -> SSAValue:
        """x read with another layout; x itself if it has that one."""
        return x if layout_of(x) == layout else self.op("ren.ckks.relayout", x, layout=layout)

    def frame_of(self, x: SSAValue) -> SSAValue:
        """x read as the vector of all slots of one frame, so that masks and rotations reach the padding."""
        layout = layout_of(x)
        if layout is None or layout.frame is None:
            return self.relayout(x, FULL)
        return self.relayout(x, Layout((layout.frame,), layout.frame))


def layout_of(value: SSAValue) -> Layout | None:
    return value.type.data.layout if isinstance(value.type, EncryptedType) else None

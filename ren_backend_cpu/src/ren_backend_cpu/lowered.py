"""What lowering makes of one unit: a kernel and the row of arguments it is called with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import KernelOperandError

from ren_backend_cpu.kernels.jit import Entry

#: One word of a kernel's row: an operand of the unit (its address at each run), an integer, or a constant array (its address).
Argument = Operand | int | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Lowered:
    """`kernel` is called with one int64 per argument, then the first item, the end of the items, and the address of `local`.

    keep: owns memory that integer arguments point to. items: independent pieces of work (limbs), which threads may share; one: the kernel does
    not look at the range. local: the part of the unit's scratch of which every thread needs one of its own. before: kernels and items of
    the phases that come first, each called with the same arguments.
    """

    kernel: Entry
    arguments: tuple[Argument, ...]
    keep: tuple[Any, ...] = ()
    items: int = 1
    local: Operand | None = None
    before: tuple[tuple[Entry, int], ...] = ()

    @property
    def phases(self) -> tuple[tuple[Entry, int], ...]:
        """Kernels and how many items each has, in order."""
        return (*self.before, (self.kernel, self.items))


def part(whole: Operand, offset: int, words: int) -> Operand:
    """`words` words at word `offset` of an operand."""
    return Operand(whole.slot, whole.offset + offset, words)


def require(condition: bool, unit: ExecUnit, what: str) -> None:
    """Raise KernelOperandError naming the unit's kernel unless `condition` holds. Kernels cannot check what they are given."""
    if not condition:
        raise KernelOperandError(f"{unit.kernel}: {what}", subject=unit.kernel)


def parameters(unit: ExecUnit, count: int) -> tuple[Any, ...]:
    """unit.params, checked to have `count` entries."""
    require(len(unit.params) == count, unit, f"{count} parameters, got {unit.params!r}")
    return unit.params


def check_operands(unit: ExecUnit, inputs: Sequence[int], outputs: Sequence[int], scratch: int = 0) -> None:
    """Raise KernelOperandError unless the operands have these sizes in words; scratch may be larger."""
    for role, operands, expected in (("inputs", unit.inputs, inputs), ("outputs", unit.outputs, outputs)):
        found = tuple(o.words for o in operands)
        require(
            found == tuple(expected), unit, f"{role} must have {tuple(expected)} words, got {found} for {unit.ring}"
        )
    if scratch:
        found = tuple(o.words for o in unit.scratch)
        require(len(found) == 1 and found[0] >= scratch, unit, f"scratch must have {scratch} words, got {found}")

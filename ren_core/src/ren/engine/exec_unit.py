"""What a schedule is made of: slots, operands that point into them, and units that run one kernel.

A unit never names a buffer. Buffers are bound to slots for each run, which is what makes outputs fresh, plans reusable by
several threads, and saved plans possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ren.ring import RingSpec


class SlotKind(StrEnum):
    INPUT = "input"  # a buffer given at each run
    CONSTANT = "constant"  # a buffer that belongs to the plan (keys, captured closures)
    SCALAR = "scalar"  # one residue word per limb of a constant polynomial, bound at each run or kept by the plan
    RANDOM = "random"  # 4 words: a 32-byte seed, bound at each run
    TEMPORARY = "temporary"  # an interval of the plan's arena
    OUTPUT = "output"  # a fresh pool buffer at each run


@dataclass(frozen=True, slots=True)
class Slot:
    kind: SlotKind
    words: int
    arena_offset: int = 0  # TEMPORARY only: first word inside the arena


@dataclass(frozen=True, slots=True)
class Operand:
    """`words` 64-bit words at word `offset` of slot number `slot`."""

    slot: int
    offset: int
    words: int

    def overlaps(self, other: Operand) -> bool:
        """Whether both share words. Slots are apart from each other, except where two names stand for one buffer at a run."""
        return (
            self.slot == other.slot
            and self.offset < other.offset + other.words
            and other.offset < self.offset + self.words
        )

    def covers(self, other: Operand) -> bool:
        """Whether all words of `other` are words of this."""
        return (
            self.slot == other.slot
            and self.offset <= other.offset
            and self.offset + self.words >= other.offset + other.words
        )


@dataclass(frozen=True, slots=True)
class ExecUnit:
    """One kernel call. `kernel` and `params` are those of `ren.ops.KERNELS`; `ring` is the kernel's main ring."""

    kernel: str
    ring: RingSpec
    params: tuple[Any, ...]
    inputs: tuple[Operand, ...]
    scalars: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    scratch: tuple[Operand, ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Inputs, scalars, outputs, scratch: the order in which compiled units take their views."""
        return self.inputs + self.scalars + self.outputs + self.scratch


def read_later(later: Iterable[ExecUnit], value: Operand) -> bool:
    """Whether one of these units, in order, reads `value` before a single output has written over all of it."""
    for unit in later:
        if any(value.overlaps(o) for o in (*unit.inputs, *unit.scalars)):
            return True
        if any(o.covers(value) for o in unit.outputs):
            return False
    return False

"""Which units of a plan run together: equal patterns that do not depend on each other become one launch a step.

The two components of a ciphertext go through the same kernels, one after the other as the engine plans them. On a GPU launches of small rings cost
more than their work, and each launch should fill the card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ren.engine.exec_unit import ExecUnit, Operand

from ren_backend_cuda.lowered import Pattern

#: How far back a unit looks for a group to join.
_WINDOW = 16
#: Units of one group, and scratch words that a group of several may need.
_MOST_UNITS = 64
_MOST_SCRATCH = 1 << 23


@dataclass(slots=True)
class Group:
    """Units whose patterns have one signature, independent of each other."""

    units: list[ExecUnit] = field(default_factory=list)
    patterns: list[Pattern] = field(default_factory=list)

    @property
    def pattern(self) -> Pattern:
        """The one whose launches are made; of the others only the operands matter."""
        return self.patterns[0]

    @property
    def scratch(self) -> int:
        return self.pattern.scratch * len(self.units)

    @property
    def full(self) -> bool:
        return len(self.units) >= _MOST_UNITS or self.scratch + self.pattern.scratch > _MOST_SCRATCH

    def conflicts(self, unit: ExecUnit) -> bool:
        """Whether `unit` must run after this group: one of them writes what the other reads or writes."""
        return any(_conflict(u, unit) for u in self.units)


def group(units: Sequence[ExecUnit], patterns: Sequence[Pattern]) -> list[Group]:
    """The units in an order that gives the same result, as groups."""
    groups: list[Group] = []
    for unit, pattern in zip(units, patterns, strict=True):
        home = None
        for candidate in reversed(groups[-_WINDOW:]):
            if candidate.conflicts(unit):
                break
            if candidate.pattern.signature == pattern.signature and not candidate.full:
                home = candidate
        if home is None:
            groups.append(home := Group())
        home.units.append(unit)
        home.patterns.append(pattern)
    return groups


def _conflict(first: ExecUnit, second: ExecUnit) -> bool:
    """Operands of one slot overlap and at least one of them is written. Scratch is the backend's own."""
    read, write = (*second.inputs, *second.scalars), second.outputs
    return any(overlap(a, b) for a in first.outputs for b in (*read, *write)) or any(
        overlap(a, b) for a in (*first.inputs, *first.scalars) for b in write
    )


def overlap(a: Operand, b: Operand) -> bool:
    return a.slot == b.slot and a.offset < b.offset + b.words and b.offset < a.offset + a.words

"""Which units of a plan run together: equal patterns that do not depend on each other become one launch a step.

The two components of a ciphertext go through the same kernels, one after the other as the engine plans them. On a GPU launches of small rings cost
more than their work, and each launch should fill the card.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ren.engine.exec_unit import ExecUnit, Operand

from ren_backend_cuda.lowered import Pattern

#: How far back a unit looks for a group to join.
_WINDOW = 16
#: Units of one group, and scratch words that a group of several may need.
_MOST_UNITS = 64
_MOST_SCRATCH = 1 << 23


class _Touched:
    """Intervals of slots, as (first word, word after the last) per slot."""

    def __init__(self) -> None:
        self._by_slot: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def add(self, operands: Iterable[Operand]) -> None:
        for o in operands:
            self._by_slot[o.slot].append((o.offset, o.offset + o.words))

    def meets(self, operand: Operand) -> bool:
        start, stop = operand.offset, operand.offset + operand.words
        return any(a < stop and start < b for a, b in self._by_slot.get(operand.slot, ()))


class Group:
    """Units whose patterns have one signature, independent of each other."""

    def __init__(self) -> None:
        self.units: list[ExecUnit] = []
        self.patterns: list[Pattern] = []
        self._read, self._written = _Touched(), _Touched()

    @property
    def pattern(self) -> Pattern:
        """The one whose launches are made; of the others only the operands matter."""
        return self.patterns[0]

    @property
    def scratch(self) -> int:
        return self.pattern.scratch * len(self.units)

    def add(self, unit: ExecUnit, pattern: Pattern) -> None:
        self.units.append(unit)
        self.patterns.append(pattern)
        self._read.add((*unit.inputs, *unit.scalars))
        self._written.add(unit.outputs)

    def takes(self, pattern: Pattern) -> bool:
        """Whether a unit of this pattern may share the launches, if it does not depend on these units."""
        if self.pattern is not pattern and self.pattern.signature != pattern.signature:
            return False
        return len(self.units) < _MOST_UNITS and self.scratch + pattern.scratch <= _MOST_SCRATCH

    def conflicts(self, unit: ExecUnit) -> bool:
        """Whether `unit` must run after this group: one of them writes what the other reads or writes. Scratch is the backend's own."""
        return any(self._written.meets(o) for o in (*unit.inputs, *unit.scalars, *unit.outputs)) or any(
            self._read.meets(o) for o in unit.outputs
        )


def group(units: Sequence[ExecUnit], patterns: Sequence[Pattern]) -> list[Group]:
    """The units in an order that gives the same result, as groups."""
    groups: list[Group] = []
    for unit, pattern in zip(units, patterns, strict=True):
        home = None
        for candidate in reversed(groups[-_WINDOW:]):
            if candidate.conflicts(unit):
                break
            if candidate.takes(pattern):
                home = candidate
        if home is None:
            groups.append(home := Group())
        home.add(unit, pattern)
    return groups

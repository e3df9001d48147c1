"""How far apart in memory traffic two uses of the same data lie: what decides which cache it is found in.

The reuse distance of an access is the number of different bytes touched since the last access to the same data (Mattson, Gecsei, Slutz, Traiger,
"Evaluation Techniques for Storage Hierarchies", IBM Systems Journal 9, 1970). A plan is replayed, so the first access of a replay follows
the last one of the replay before. Data is followed in blocks of one row. A kernel reads constants of its own besides (twiddles of each modulus, index tables), which
can be more than the rows that it works on: they are followed like data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ren.engine.cost import work_of
from ren.engine.exec_unit import ExecUnit

#: (bytes, reuse distance in bytes) of each block a unit touches.
Accesses = list[tuple[int, int]]
#: What is followed: (slot, row), or a table of constants.
_Block = tuple[Any, ...]
#: Longer traces are cut: their steady state shows long before.
MAX_ACCESSES = 200_000


def reuse_of(units: Sequence[ExecUnit], constants: Mapping[str, float] | None = None) -> list[Accesses]:
    """The accesses of each unit in a replay that follows another one. Units beyond `MAX_ACCESSES` accesses get the distances of the whole
    trace: everything since has been touched.

    constants: kind of work (`ren.engine.cost.WORK`) -> rows of constants it reads, a table per modulus, for automorphisms per exponent.
    """
    blocks = [_blocks(u) + (_constants(u, constants) if constants else []) for u in units]
    total = sum(map(len, blocks))
    if total > MAX_ACCESSES:
        footprint = sum({b[0]: b[1] for unit in blocks for b in unit}.values())
        return [[(size, footprint) for _, size in unit] for unit in blocks]
    stack = _Distances(2 * total)
    for unit in blocks:
        for block, size in unit:
            stack.touch(block, size)
    return [[(size, stack.touch(block, size)) for block, size in unit] for unit in blocks]


def _constants(unit: ExecUnit, rows: Mapping[str, float]) -> list[tuple[_Block, int]]:
    """(table, bytes) of the constants that a unit reads; each table once."""
    found: list[tuple[_Block, int]] = []
    for kind, q in work_of(unit):
        size = int(8 * unit.ring.n * rows.get(kind, 0.0))
        if size:
            found.append(((kind, unit.ring.n, q or unit.params[0]), size))
    return found


def _blocks(unit: ExecUnit) -> list[tuple[_Block, int]]:
    """((slot, row), bytes) of everything a unit reads, writes or scribbles on; each block once."""
    n = unit.ring.n
    found: dict[_Block, int] = {}
    for o in unit.operands:
        if o.words:
            for row in range(o.offset // n, (o.offset + o.words - 1) // n + 1):
                found[o.slot, row] = 8 * min(n, o.words)
    return list(found.items())


class _Distances:
    """Sizes of blocks by the time of their last access, in a Fenwick tree: both operations take logarithmic time."""

    def __init__(self, accesses: int) -> None:
        self._tree = [0] * (accesses + 1)
        self._last: dict[_Block, tuple[int, int]] = {}
        self._now = 0
        self._alive = 0

    def touch(self, block: _Block, size: int) -> int:
        """Bytes of different blocks touched since this one, itself included; all of them at its first access."""
        before = self._last.get(block)
        distance = self._alive
        if before is not None:
            at, old = before
            distance = self._alive - self._sum(at) + old
            self._add(at, -old)
            self._alive -= old
        self._now += 1
        self._add(self._now, size)
        self._alive += size
        self._last[block] = self._now, size
        return max(distance, size)

    def _add(self, at: int, amount: int) -> None:
        while at < len(self._tree):
            self._tree[at] += amount
            at += at & -at

    def _sum(self, at: int) -> int:
        total = 0
        while at:
            total += self._tree[at]
            at &= at - 1
        return total

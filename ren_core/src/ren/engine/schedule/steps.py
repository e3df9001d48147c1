"""Kernel calls over cells: the form between values and units, in which memory is not yet placed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ren.engine.exec_unit import SlotKind
from ren.ops import Domain
from ren.ring import RingSpec

#: Kernels whose output may be the same memory as an input (ren.ops.KERNELS).
IN_PLACE = frozenset({"elementwise", "ntt", "intt"})


class Cell:
    """A piece of memory that one step writes, or a leaf.

    kind: TEMPORARY until a root claims it (OUTPUT). slot: number of a leaf among the leaves of its kind.
    """

    __slots__ = ("words", "kind", "slot")

    def __init__(self, words: int, kind: SlotKind = SlotKind.TEMPORARY, slot: int = -1) -> None:
        self.words = words
        self.kind = kind
        self.slot = slot


class Span(NamedTuple):
    """`words` words at word `offset` of a cell."""

    cell: Cell
    offset: int
    words: int


@dataclass(slots=True)
class Step:
    """One kernel call; becomes an ExecUnit when memory is placed. once: it runs when the plan is made, not at each replay.
    made: positions in the key (`Value.at`) of what it computes or transforms."""

    kernel: str
    ring: RingSpec
    params: tuple[Any, ...]
    inputs: list[Span]
    outputs: list[Cell]
    scalars: list[Span] = field(default_factory=list)
    once: bool = False
    made: tuple[int, ...] = ()


class RootSpan(NamedTuple):
    """Where a root's value is found: part of an OUTPUT cell, or of an INPUT leaf that needs no work."""

    span: Span
    domain: Domain


@dataclass(slots=True)
class Steps:
    """steps in a valid order; scalars[i] is the number of words of scalar leaf i (0: not used); randoms and inputs are counts."""

    steps: list[Step]
    roots: list[RootSpan]
    inputs: list[Cell]
    scalars: list[Cell]
    randoms: list[Cell]

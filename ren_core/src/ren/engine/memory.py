"""Memory plan: which cells share memory, and where in the arena each temporary lies.

Liveness is counted in steps. A step's inputs and outputs are alive together, so they never overlap, with one exception: where
the kernel contract allows it (`steps.IN_PLACE`) an output takes over the memory of an input that dies there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from ren.engine.exec_unit import SlotKind
from ren.engine.schedule.steps import IN_PLACE, Cell, Step

#: Up to this many blocks the quadratic packing (largest first) is tried as well.
_BY_SIZE_LIMIT = 600


@dataclass(slots=True)
class Block:
    """Memory that one or more cells hold in turn, from step `start` to step `end` inclusive.

    output: it leaves the plan as a result. leaf: it is the memory of this (donated) input. offset: its place in the arena.
    """

    words: int
    start: int
    end: int
    output: bool = False
    leaf: Cell | None = None
    offset: int = 0


@dataclass(slots=True)
class MemoryPlan:
    """block_of: by id of the cell. scratch: by step. arena_words: size of the arena."""

    block_of: dict[int, Block]
    scratch: dict[int, Block]
    arena_words: int


def plan_memory(
    steps: Sequence[Step], scratch_words: Sequence[int], alignment: int, donated: Sequence[Cell] = ()
) -> MemoryPlan:
    """Place the cells of `steps` (in this order). alignment: of every arena offset, in words. donated: leaves that may be overwritten."""
    block_of = _blocks(steps, donated)
    scratch = {at: Block(words, at, at) for at, words in enumerate(scratch_words) if words}
    own = {id(b): b for b in block_of.values() if not b.output and b.leaf is None}
    temporaries = [*own.values(), *scratch.values()]
    return MemoryPlan(block_of, scratch, _place(temporaries, alignment))


def _blocks(steps: Sequence[Step], donated: Sequence[Cell]) -> dict[int, Block]:
    last: dict[int, int] = {}
    for at, step in enumerate(steps):
        for span in step.inputs:
            last[id(span.cell)] = at
    block_of = {id(c): Block(c.words, -1, last[id(c)], leaf=c) for c in donated if id(c) in last}
    forever = len(steps)
    for at, step in enumerate(steps):
        for span in step.inputs:
            if span.cell.kind in (SlotKind.TEMPORARY, SlotKind.OUTPUT) and id(span.cell) not in block_of:
                raise AssertionError(f"schedule: {step.kernel} at {at} reads what no step wrote yet")
        dying = _dying(step, at, last, block_of) if step.kernel in IN_PLACE else []
        for cell in step.outputs:
            if id(cell) in block_of:
                raise AssertionError(f"schedule: {step.kernel} at {at} writes what an earlier step wrote")
            output = cell.kind is SlotKind.OUTPUT
            end = forever if output else last.get(id(cell), at)
            heir = next((b for b in dying if b.words == cell.words), None)
            if heir is None:
                block_of[id(cell)] = Block(cell.words, at, end, output)
            else:
                dying.remove(heir)
                heir.end, heir.output = end, output
                block_of[id(cell)] = heir
    return block_of


def _dying(step: Step, at: int, last: dict[int, int], block_of: dict[int, Block]) -> list[Block]:
    """Blocks of inputs that this step reads last, whole and in one way only: an output may take them over."""
    cells: dict[int, Cell] = {}
    partial: set[int] = set()
    for span in step.inputs:
        cells[id(span.cell)] = span.cell
        if span.offset or span.words != span.cell.words:
            partial.add(id(span.cell))
    return [
        block_of[c]
        for c, cell in cells.items()
        if c in block_of
        and c not in partial
        and last[c] == at
        and (cell.kind is SlotKind.TEMPORARY or block_of[c].leaf is cell)
    ]


def _place(blocks: list[Block], alignment: int) -> int:
    """Give each block an arena offset such that blocks alive together do not overlap; the arena's size in words."""
    sizes = [-(-b.words // alignment) * alignment for b in blocks]
    total, offsets = _by_start(blocks, sizes)
    if len(blocks) <= _BY_SIZE_LIMIT:
        other, by_size = _by_size(blocks, sizes)
        if other < total:
            total, offsets = other, by_size
    for block, offset in zip(blocks, offsets, strict=True):
        block.offset = offset
    return total


def _by_start(blocks: list[Block], sizes: list[int]) -> tuple[int, list[int]]:
    """In order of birth, each into the smallest gap that holds it."""
    offsets = [0] * len(blocks)
    gaps: list[tuple[int, int]] = []  # (offset, size), sorted by offset
    top = 0
    deaths: list[tuple[int, int]] = []  # (end, block), sorted
    for i in sorted(range(len(blocks)), key=lambda i: (blocks[i].start, -sizes[i])):
        while deaths and deaths[0][0] < blocks[i].start:
            _, dead = deaths.pop(0)
            _give_back(gaps, offsets[dead], sizes[dead])
        best = min((g for g in gaps if g[1] >= sizes[i]), key=lambda g: g[1], default=None)
        if best is not None:
            gaps.remove(best)
            if best[1] > sizes[i]:
                insort(gaps, (best[0] + sizes[i], best[1] - sizes[i]))
            offsets[i] = best[0]
        elif gaps and sum(gaps[-1]) == top:  # the last gap reaches the end: grow from there
            offsets[i] = gaps.pop()[0]
            top = offsets[i] + sizes[i]
        else:
            offsets[i] = top
            top += sizes[i]
        insort(deaths, (blocks[i].end, i))
    return top, offsets


def _give_back(gaps: list[tuple[int, int]], offset: int, size: int) -> None:
    at = bisect_left(gaps, (offset, 0))
    if at < len(gaps) and gaps[at][0] == offset + size:
        size += gaps.pop(at)[1]
    if at and sum(gaps[at - 1]) == offset:
        at -= 1
        before = gaps.pop(at)
        offset, size = before[0], before[1] + size
    gaps.insert(at, (offset, size))


def _by_size(blocks: list[Block], sizes: list[int]) -> tuple[int, list[int]]:
    """Largest first, each at the lowest place that is free for its whole life (Pisarchyk and Lee, "Efficient Memory Management for
    Deep Neural Net Inference", 2020, section 5.2)."""
    offsets = [0] * len(blocks)
    placed: list[int] = []
    top = 0
    for i in sorted(range(len(blocks)), key=lambda i: (-sizes[i], blocks[i].start)):
        b = blocks[i]
        low = 0
        for o, s in sorted(
            (offsets[j], sizes[j]) for j in placed if blocks[j].start <= b.end and b.start <= blocks[j].end
        ):
            if o - low >= sizes[i]:
                break
            low = max(low, o + s)
        offsets[i] = low
        placed.append(i)
        top = max(top, low + sizes[i])
    return top, offsets

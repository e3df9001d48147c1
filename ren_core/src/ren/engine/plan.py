"""A plan: units over slots, compiled for one backend, and how to run it on bound slots.

Slots, in order: the arena of temporaries (one TEMPORARY slot, if any), the residues of all constants (one SCALAR slot), the seeds
(one RANDOM slot), then one slot per leaf buffer (INPUT or CONSTANT) and one per OUTPUT. A run writes nothing into the plan, so
several threads may run one plan at once, each with an arena of its own from the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ren.backend.buffer import Buffer
from ren.backend.protocol import Backend, CompiledUnit, GraphRunner, View
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.engine.memory import MemoryPlan, plan_memory
from ren.engine.pool import Pool, pool_of
from ren.engine.schedule import Key, schedule
from ren.engine.schedule.steps import Cell, RootSpan, Span, Step, Steps


@dataclass(frozen=True, slots=True)
class RootTake:
    """Where a root's buffer comes from: slot number `slot` (an output, or a leaf that needs no work), a view of it."""

    slot: int
    offset: int
    words: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What each slot is bound to.

    arena: slot number or -1. scalars: slot or -1, and (leaf number, first word) of each constant in it. randoms: the same for seeds.
    leaves: (leaf number, slot). outputs: (slot, words).
    """

    arena: int
    scalar_slot: int
    scalars: tuple[tuple[int, int], ...]
    random_slot: int
    randoms: tuple[int, ...]
    leaves: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]


class Plan:
    """units, slots: what the backend executes. roots: what the caller gets. layout: how slots are bound."""

    def __init__(
        self,
        backend: Backend,
        units: tuple[ExecUnit, ...],
        slots: tuple[Slot, ...],
        layout: Layout,
        roots: tuple[RootTake, ...],
    ) -> None:
        self.backend = backend
        self.units = units
        self.slots = slots
        self.layout = layout
        self.roots = roots
        self.pool: Pool = pool_of(backend)
        self.arena_words = slots[layout.arena].words if layout.arena >= 0 else 0
        leaf_of = {slot: leaf for leaf, slot in layout.leaves}
        first = len(slots) - len(layout.outputs)
        # Where each root's buffer is: (number of an output, or -1, number of a leaf, offset, words).
        self._taken = [
            (r.slot - first, 0, r.offset, r.words) if r.slot >= first else (-1, leaf_of[r.slot], r.offset, r.words)
            for r in roots
        ]
        self._leaves = tuple(leaf for leaf, _ in layout.leaves)
        self._outputs = tuple(words for _, words in layout.outputs)
        self._scalar_block: tuple[tuple[tuple[int, ...], ...], Buffer] | None = None
        self._compiled: list[tuple[CompiledUnit, tuple[Operand, ...]]] | None = None
        self._runner: GraphRunner | None = backend.graph(units, slots) if units else None
        if self._runner is None:
            self.compiled_units()

    def compiled_units(self) -> list[tuple[CompiledUnit, tuple[Operand, ...]]]:
        """The units one by one: without a graph runner, and for checked runs."""
        if self._compiled is None:
            compile_unit = self.backend.compile
            self._compiled = [(compile_unit(u), u.operands) for u in self.units]
        return self._compiled

    # -- running

    def run(
        self,
        buffers: Sequence[Buffer],
        scalars: Sequence[tuple[int, ...]],
        seeds: Sequence[bytes],
        watch: Callable[[Plan, list[View]], None] | None = None,
    ) -> list[Buffer]:
        """Run on bound leaves (all three in leaf order); the buffer of each root.

        watch: runs the units in the plan's stead (checked runs).
        """
        layout, take = self.layout, self.pool.take
        views: list[View] = []
        held = []
        if layout.arena >= 0:
            arena = take(self.arena_words)
            held.append(arena)
            views.append((arena.memory, 0))
        if layout.scalar_slot >= 0:
            block = self._scalars_on_device(scalars)
            held.append(block)
            views.append((block.memory, 0))
        if layout.random_slot >= 0:
            seeded = np.frombuffer(b"".join([seeds[i] for i in layout.randoms]), "<u8").astype(np.uint64)
            drawn = take(seeded.size)
            self.backend.copyin(drawn.memory, 0, seeded)
            held.append(drawn)
            views.append((drawn.memory, 0))
        for leaf in self._leaves:
            buffer = buffers[leaf]
            views.append((buffer.memory, buffer.offset))
        outputs = []
        for words in self._outputs:
            out = take(words)
            outputs.append(out)
            views.append((out.memory, 0))
        if watch is not None:
            watch(self, views)
        elif self._runner is not None:
            self._runner(views)
        elif self.units:
            for run_unit, operands in self.compiled_units():
                run_unit([(views[o.slot][0], views[o.slot][1] + o.offset) for o in operands])
        taken = []
        for at, leaf, offset, size in self._taken:
            whole = outputs[at] if at >= 0 else buffers[leaf]
            taken.append(whole if size == whole.words else whole.view(offset, size))
        return taken

    def _scalars_on_device(self, scalars: Sequence[tuple[int, ...]]) -> Buffer:
        """The residues of all constants as one block; the last one is kept, since constants rarely change."""
        wanted = tuple([scalars[leaf] for leaf, _ in self.layout.scalars])
        kept = self._scalar_block
        if kept is not None and kept[0] == wanted:
            return kept[1]
        words = np.array(list(chain.from_iterable(wanted)), np.uint64)
        block = self.pool.take(words.size)
        self.backend.copyin(block.memory, 0, words)
        self._scalar_block = (wanted, block)
        return block


# -- building


def build_plan(key: Key, backend: Backend) -> Plan:
    """Schedule, place and compile. Raises KernelUnsupportedError where the backend cannot do it; nothing is changed then."""
    return place_steps(schedule(key, backend.capabilities().kernels), backend)


def place_steps(steps: Steps, backend: Backend, donated: frozenset[int] = frozenset()) -> Plan:
    """Place and compile steps. donated: numbers of input leaves whose memory the plan may overwrite once it has read them."""
    returned = {r.span.cell.slot for r in steps.roots if r.span.cell.kind is SlotKind.INPUT}
    return _Builder(steps, backend, donated - returned).plan()


class _Builder:
    def __init__(self, steps: Steps, backend: Backend, donated: frozenset[int]) -> None:
        self.steps = steps
        self.backend = backend
        self.slots: list[Slot] = []
        self.slot_of: dict[int, int] = {}  # by id of a leaf cell or of an output block
        self.scalar_at: dict[int, int] = {}
        self.random_at: dict[int, int] = {}
        scratch = [backend.scratch_words(self._shape(step)) for step in steps.steps]
        given = [cell for cell in steps.inputs if cell.slot in donated]
        self.memory: MemoryPlan = plan_memory(steps.steps, scratch, backend.capabilities().alignment, given)

    @staticmethod
    def _shape(step: Step) -> ExecUnit:
        """The unit without places: enough to ask how much scratch it needs."""
        spans = (*step.inputs, *step.scalars)
        fake = tuple(Operand(0, 0, s.words) for s in spans)
        return ExecUnit(
            step.kernel,
            step.ring,
            step.params,
            fake[: len(step.inputs)],
            fake[len(step.inputs) :],
            tuple(Operand(0, 0, c.words) for c in step.outputs),
        )

    def plan(self) -> Plan:
        layout = self._layout()
        units = tuple(self._unit(at, step) for at, step in enumerate(self.steps.steps))
        roots = tuple(self._root(r) for r in self.steps.roots)
        return Plan(self.backend, units, tuple(self.slots), layout, roots)

    def _slot(self, kind: SlotKind, words: int) -> int:
        self.slots.append(Slot(kind, words))
        return len(self.slots) - 1

    def _layout(self) -> Layout:
        steps = self.steps
        arena = self._slot(SlotKind.TEMPORARY, self.memory.arena_words) if self.memory.arena_words else -1
        scalars = []
        words = 0
        for cell in steps.scalars:
            self.scalar_at[id(cell)] = words
            scalars.append((cell.slot, words))
            words += cell.words
        scalar_slot = self._slot(SlotKind.SCALAR, words) if words else -1
        for i, cell in enumerate(steps.randoms):
            self.random_at[id(cell)] = i * cell.words
        random_slot = self._slot(SlotKind.RANDOM, sum(c.words for c in steps.randoms)) if steps.randoms else -1
        self.arena, self.scalar_slot, self.random_slot = arena, scalar_slot, random_slot
        leaves = []
        for cell in steps.inputs:
            at = self.slot_of[id(cell)] = self._slot(cell.kind, cell.words)
            leaves.append((cell.slot, at))
        outputs = []
        for block in self.memory.block_of.values():
            if block.output and block.leaf is None and id(block) not in self.slot_of:
                at = self.slot_of[id(block)] = self._slot(SlotKind.OUTPUT, block.words)
                outputs.append((at, block.words))
        return Layout(
            arena,
            scalar_slot,
            tuple(scalars),
            random_slot,
            tuple(c.slot for c in steps.randoms),
            tuple(leaves),
            tuple(outputs),
        )

    def _operand(self, span: Span) -> Operand:
        cell = span.cell
        if cell.kind is SlotKind.SCALAR:
            return Operand(self.scalar_slot, self.scalar_at[id(cell)] + span.offset, span.words)
        if cell.kind is SlotKind.RANDOM:
            return Operand(self.random_slot, self.random_at[id(cell)] + span.offset, span.words)
        if id(cell) in self.slot_of:
            return Operand(self.slot_of[id(cell)], span.offset, span.words)
        block = self.memory.block_of[id(cell)]
        if block.leaf is not None:
            return Operand(self.slot_of[id(block.leaf)], span.offset, span.words)
        if block.output:
            return Operand(self.slot_of[id(block)], span.offset, span.words)
        return Operand(self.arena, block.offset + span.offset, span.words)

    def _whole(self, cell: Cell) -> Operand:
        return self._operand(Span(cell, 0, cell.words))

    def _unit(self, at: int, step: Step) -> ExecUnit:
        scratch = self.memory.scratch.get(at)
        return ExecUnit(
            step.kernel,
            step.ring,
            step.params,
            tuple(self._operand(s) for s in step.inputs),
            tuple(self._operand(s) for s in step.scalars),
            tuple(self._whole(c) for c in step.outputs),
            () if scratch is None else (Operand(self.arena, scratch.offset, scratch.words),),
        )

    def _root(self, root: RootSpan) -> RootTake:
        operand = self._operand(root.span)
        return RootTake(operand.slot, operand.offset, operand.words)

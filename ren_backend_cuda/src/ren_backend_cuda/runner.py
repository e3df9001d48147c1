"""Plans as recorded launches over one argument block, and the runner that binds memory to slots.

The argument block holds one address per operand of each launch. A run computes them from the addresses of the slots, sends them with one
copy and replays the recording: two calls, whatever the plan's length. Bindings are checked here: a wrong address would end the process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ren.backend.protocol import View
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.errors import KernelOperandError

from ren_backend_cuda.batching import Group, group
from ren_backend_cuda.device import Device, DeviceMemory, Launch, Recorded
from ren_backend_cuda.lower import Lowerings
from ren_backend_cuda.lowered import ABSENT, SCRATCH, At, Step, Table
from ren_backend_cuda.peephole import fuse

#: Words that kernels read and write at once: a polynomial or key at an odd word would end a GPU's context with a misaligned address.
#: Scalars, which are read word by word, may lie anywhere.
PAIR = 2
_ODD = f"starts at an odd word; kernels move {PAIR} words at once, so inputs and outputs start at a multiple of {PAIR}"


class Scratch:
    """Memory that all plans of a device share for what does not outlive a unit: the work of one stream happens in order."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.RLock()
        self._memory: DeviceMemory | None = None

    def take(self, words: int) -> DeviceMemory:
        """At least `words` words. Plans that have a former, smaller memory keep it."""
        with self._lock:
            if self._memory is None or self._memory.words < words:
                self._memory = self._device.alloc(words)
            return self._memory


@dataclass(slots=True)
class _Instance:
    """A recording with an argument block of its own: what one run at a time may use."""

    block: DeviceMemory
    recorded: Recorded


class Runner:
    """Runs units over slots: call it with one view per slot. Any number of threads may call it at once."""

    def __init__(
        self,
        device: Device,
        lowerings: Lowerings,
        scratch: Scratch,
        units: Sequence[ExecUnit],
        slots: Sequence[Slot],
    ) -> None:
        slot_words = [s.words for s in slots]
        odd = [0] * len(slot_words)  # the bits of a word offset that must be zero
        for unit in units:
            for o in (*unit.inputs, *unit.scalars, *unit.outputs):
                if not 0 <= o.slot < len(slot_words) or o.offset < 0 or o.offset + o.words > slot_words[o.slot]:
                    raise KernelOperandError(f"{unit.kernel}: {o} does not fit its slot", subject=unit.kernel)
            for o in (*unit.inputs, *unit.outputs):
                if o.offset % PAIR:
                    raise KernelOperandError(f"{unit.kernel}: {o} {_ODD}", subject=unit.kernel)
                odd[o.slot] = PAIR - 1
        self._device = device
        self._slot_needs = tuple(zip(slot_words, odd, strict=True))
        units = fuse(units, slots)
        groups = group(units, [lowerings.pattern(u) for u in units])
        words = max((g.scratch for g in groups), default=0)
        self._scratch = scratch.take(words) if words else None
        self._slots, self._offsets, self._calls = _layout(groups, len(slot_words))
        first = self._instance()
        self._free: deque[_Instance] = deque([first])

    @property
    def launches(self) -> int:
        """Kernel launches of one run."""
        return len(self._calls)

    def __call__(self, views: Sequence[View]) -> None:
        """Run on bound memory. Raises KernelOperandError for a missing view or one that does not fit; nothing has run then."""
        device = self._device
        try:
            addresses = [
                m.address + 8 * o if m.device is device and 0 <= o <= m.words - w and not o & odd else _refuse(m, o, w, device)
                for (m, o), (w, odd) in zip(views, self._slot_needs, strict=True)
            ]
        except (ValueError, TypeError, AttributeError) as error:
            if isinstance(error, KernelOperandError):
                raise
            raise self._bad_views(views) from error
        addresses += [0 if self._scratch is None else self._scratch.address, 0]
        block = np.array(addresses, np.uint64)[self._slots] + self._offsets
        try:
            instance = self._free.pop()
        except IndexError:
            instance = self._instance()
        # In stream order: the next run may refresh the block as soon as this one is issued.
        self._device.upload(instance.block, 0, block)
        instance.recorded.run()
        self._free.append(instance)

    def _instance(self) -> _Instance:
        block = self._device.alloc(max(self._slots.size, 1))
        return _Instance(block, self._device.record([call.launch(self._device, block) for call in self._calls]))

    def _bad_views(self, views: Sequence[View]) -> KernelOperandError:
        count = len(self._slot_needs)
        if len(views) != count:
            return KernelOperandError(f"{count} slots, got {len(views)} views")
        wrong = next((v for v in views if not (isinstance(v, tuple) and hasattr(v[0], "device"))), None)
        return KernelOperandError(f"a view must be (memory of this device, word offset), got {wrong!r}")


def _refuse(memory: DeviceMemory, offset: int, words: int, own: Device) -> int:
    if memory.device is not own:
        raise KernelOperandError(f"a slot needs memory of this device ({own.name}), got memory of another")
    if not 0 <= offset <= memory.words - words:
        raise KernelOperandError(f"a slot needs {words} words at {offset}, its memory has {memory.words}")
    raise KernelOperandError(f"a view at word {offset} {_ODD}")


@dataclass(frozen=True, slots=True)
class _Call:
    """One launch for `count` units, their operands from word `first` of the block on."""

    step: Step
    first: int
    count: int

    def launch(self, device: Device, block: DeviceMemory) -> Launch:
        step = self.step
        x, y, z = step.grid
        function = device.function(step.source, dict(step.defines), step.kernel)
        tables = tuple(a.memory if isinstance(a, Table) else a for a in step.arguments)
        arguments = (block, np.uint32(self.first), np.uint32(len(step.operands)), *tables)
        return Launch(function, (x, y, z * self.count), (step.threads, 1, 1), arguments, step.shared_bytes)


def _layout(groups: Sequence[Group], slots: int) -> tuple[np.ndarray, np.ndarray, list[_Call]]:
    """Slot and byte offset of every word of the argument block, and the launches. After the last slot come scratch and nothing."""
    words: list[tuple[int, int]] = []
    calls = []
    for g in groups:
        for position, step in enumerate(g.pattern.steps):
            calls.append(_Call(step, len(words), len(g.units)))
            for number, (unit, pattern) in enumerate(zip(g.units, g.patterns, strict=True)):
                base = number * pattern.scratch
                words += [_word(at, unit.operands, base, slots) for at in pattern.steps[position].operands]
    table = np.array(words, np.uint64).reshape(-1, 2)
    return table[:, 0].astype(np.int64), 8 * table[:, 1], calls


def _word(at: At, operands: tuple[Operand, ...], scratch_base: int, scratch_slot: int) -> tuple[int, int]:
    if at.operand == ABSENT:
        return scratch_slot + 1, 0
    if at.operand == SCRATCH:
        return scratch_slot, scratch_base + at.offset
    operand = operands[at.operand]
    return operand.slot, operand.offset + at.offset


def apart(unit: ExecUnit) -> tuple[ExecUnit, list[Slot]]:
    """The unit with each operand in a slot of its own, in the order of ExecUnit.operands, and those slots."""
    places = [Operand(k, 0, o.words) for k, o in enumerate(unit.operands)]
    groups = []
    for part in (unit.inputs, unit.scalars, unit.outputs, unit.scratch):
        groups.append(tuple(places[: len(part)]))
        places = places[len(part) :]
    return ExecUnit(unit.kernel, unit.ring, unit.params, *groups), [
        Slot(SlotKind.INPUT, o.words) for o in unit.operands
    ]

"""Plans as tables, and the runner that binds memory to slots and makes one call.

Bindings are checked here, in Python: a wrong address ends the process.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from ren.backend.protocol import View
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import KernelOperandError

from ren_backend_cpu.kernels import drive as kernel
from ren_backend_cpu.lower import lower
from ren_backend_cpu.memory import CpuMemory
from ren_backend_cpu.threads import team

#: Units that touch fewer words are not shared: handing items out costs a microsecond, and so do they.
SHARED_WORDS = 1 << 14


class Runner:
    """Runs units over slots: call it with one view per slot. Immutable, so any number of threads may call it at once."""

    def __init__(self, units: Sequence[ExecUnit], slot_words: Sequence[int]) -> None:
        code: list[tuple[int, ...]] = []
        operands: list[tuple[int, int]] = []
        keep: list[object] = []
        scratch = 0
        for unit in units:
            for o in unit.operands:
                if not 0 <= o.slot < len(slot_words) or o.offset < 0 or o.offset + o.words > slot_words[o.slot]:
                    raise KernelOperandError(f"{unit.kernel}: {o} does not fit its slot", subject=unit.kernel)
            lowered = lower(unit)
            keep.append(lowered)
            shared = sum(o.words for o in unit.operands) >= SHARED_WORDS
            for entry, items in lowered.phases:
                row = (entry.address, len(operands), len(lowered.arguments), items, int(shared and items > 1))
                code.append(row)
            scratch = max(scratch, lowered.local.words if lowered.local else 0)
            for argument in lowered.arguments:
                if isinstance(argument, Operand):
                    operands.append((argument.slot + 1, 8 * argument.offset))
                elif isinstance(argument, np.ndarray):
                    operands.append((0, argument.ctypes.data))
                else:
                    operands.append((0, argument))
            operands.append((lowered.local.slot + 1, 8 * lowered.local.offset) if lowered.local else (0, 0))
        self._code = np.array(code, np.int64).reshape(-1, kernel.PHASE_WORDS)
        self._operands = np.array(operands, np.int64).reshape(-1, 2)
        longest = max((c[2] for c in code), default=0)
        self._shared = any(c[4] for c in code)
        self._needs = longest + kernel.RANGE_WORDS, scratch
        self._header = np.array([len(code), longest, self._code.ctypes.data, self._operands.ctypes.data], np.int64)
        self._plan = int(self._header.ctypes.data)
        self._slot_words = tuple(slot_words)
        self._keep = keep
        self._drive = kernel.drive.made  # the numba function itself: its dispatch is part of each replay

    def __call__(self, views: Sequence[View]) -> None:
        """Run on bound memory. Raises KernelOperandError for a missing view or one that does not fit; nothing has run then."""
        try:
            # One comprehension, with the check inside: this line is most of what a replay costs.
            slots = array(
                "q",
                [0]
                + [
                    m.address + 8 * o if 0 <= o <= m.words - w else _refuse(m, o, w)
                    for (m, o), w in zip(views, self._slot_words, strict=True)
                ],
            )
        except (ValueError, TypeError, AttributeError) as error:
            if isinstance(error, KernelOperandError):
                raise
            raise self._bad_views(views) from error
        address = slots.buffer_info()[0]
        helpers = team() if self._shared else None
        if helpers is None or not helpers.run(self._plan, address, *self._needs):
            self._drive(self._plan, address)

    def _bad_views(self, views: Sequence[View]) -> KernelOperandError:
        count = len(self._slot_words)
        if len(views) != count:
            return KernelOperandError(f"{count} slots, got {len(views)} views")
        wrong = next((v for v in views if not (isinstance(v, tuple) and isinstance(v[0], CpuMemory))), None)
        return KernelOperandError(f"a view must be (CpuMemory, word offset), got {wrong!r}")


def _refuse(memory: CpuMemory, offset: int, words: int) -> int:
    raise KernelOperandError(f"a slot needs {words} words at {offset}, its memory has {memory.words}")


def run_alone(unit: ExecUnit) -> Runner:
    """A runner of one unit that takes a view per operand, in the order of ExecUnit.operands."""
    places = [Operand(k, 0, o.words) for k, o in enumerate(unit.operands)]
    ends = [len(unit.inputs), len(unit.scalars), len(unit.outputs), len(unit.scratch)]
    groups = []
    for count in ends:
        groups.append(tuple(places[:count]))
        places = places[count:]
    apart = ExecUnit(unit.kernel, unit.ring, unit.params, *groups)
    return Runner([apart], [o.words for o in unit.operands])

"""Faults in the contract around kernels: bounds, inputs, memory, threads, plans."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.backend.protocol import CompiledUnit, GraphRunner, View
from ren.backend.reference import ReferenceBackend
from ren.engine.exec_unit import ExecUnit, Slot
from ren.testing.mutants.base import Words, arrays, contract


class _Wrapped(ReferenceBackend):
    """Runs `around(unit, right, views)` instead of each compiled unit."""

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        right = super().compile(unit)
        return lambda views: self.around(unit, right, views)

    def around(self, unit: ExecUnit, right: CompiledUnit, views: Sequence[View]) -> None:
        right(views)


@contract
class WritesPastItsOutput(_Wrapped):
    """A vector store that runs over the end."""

    def around(self, unit: ExecUnit, right: CompiledUnit, views: Sequence[View]) -> None:
        right(views)
        memory, offset = views[-1]
        end = offset + unit.operands[-1].words
        memory[end : end + 1] = 0


@contract
class UsesItsInputAsScratch(_Wrapped):
    def around(self, unit: ExecUnit, right: CompiledUnit, views: Sequence[View]) -> None:
        right(views)
        memory, offset = views[0]
        outputs = {(id(m), o) for m, o in views[len(unit.inputs) + len(unit.scalars) :]}
        if unit.kernel == "mod_down" and (id(memory), offset) not in outputs:
            memory[offset] = 0


@contract
class IgnoresTheOffsetOfItsOutput(_Wrapped):
    def around(self, unit: ExecUnit, right: CompiledUnit, views: Sequence[View]) -> None:
        if unit.kernel == "intt" and views[-1][1]:
            spare = self.alloc(unit.outputs[0].words)
            right([*views[:-1], (spare, 0)])
            views[-1][0][: spare.size] = spare
        else:
            right(views)


@contract
class RemembersItsFirstResult(ReferenceBackend):
    """A replay that returns what it computed the first time."""

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        right = super().compile(unit)
        first = len(unit.inputs) + len(unit.scalars)
        kept: list[Words] = []

        def run(views: Sequence[View]) -> None:
            if not kept:
                right(views)
                kept.extend(x.copy() for x in arrays(unit, views)[first:])
            for out, value in zip(arrays(unit, views)[first:], kept, strict=True):
                out[:] = value

        return run


@contract
class SharesABufferBetweenThreads(ReferenceBackend):
    """One temporary per compiled unit: right in one thread, wrong when two run it."""

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        right = super().compile(unit)
        shared = [self.alloc(o.words) for o in unit.inputs]

        def run(views: Sequence[View]) -> None:
            for temporary, x in zip(shared, arrays(unit, views), strict=False):
                temporary[:] = x
            time.sleep(0.0005)  # the other thread gets its turn here, so that the fault shows in every run of the kit
            spare = [self.alloc(o.words) for o in unit.outputs]
            right(
                [
                    *((t, 0) for t in shared),
                    *views[len(shared) : len(shared) + len(unit.scalars)],
                    *((s, 0) for s in spare),
                ]
            )
            for out, value in zip(arrays(unit, views)[len(shared) + len(unit.scalars) :], spare, strict=True):
                out[:] = value

        return run


@contract
class AcceptsUnknownKernels(ReferenceBackend):
    def compile(self, unit: ExecUnit) -> CompiledUnit:
        return super().compile(unit) if unit.kernel != "no_such_kernel" else lambda views: None


@contract
class LendsItsMemory(ReferenceBackend):
    """copyout gives a view of the memory, so a later kernel changes what the user holds."""

    def copyout(self, memory: Any, offset: int, words: int) -> NDArray[np.uint64]:
        return np.asarray(memory[offset : offset + words])


@contract
class BindsItsPlanToTheFirstBuffers(ReferenceBackend):
    def graph(self, units: Sequence[ExecUnit], slots: Sequence[Slot]) -> GraphRunner | None:
        compiled = [self.compile(u) for u in units]
        bound: list[View] = []

        def run(views: Sequence[View]) -> None:
            bound.extend(views if not bound else ())
            for unit, kernel in zip(units, compiled, strict=True):
                kernel([(bound[o.slot][0], bound[o.slot][1] + o.offset) for o in unit.operands])

        return run


@contract
class PlanIgnoresOperandOffsets(ReferenceBackend):
    def graph(self, units: Sequence[ExecUnit], slots: Sequence[Slot]) -> GraphRunner | None:
        compiled = [self.compile(u) for u in units]

        def run(views: Sequence[View]) -> None:
            for unit, kernel in zip(units, compiled, strict=True):
                kernel([views[o.slot] for o in unit.operands])

        return run

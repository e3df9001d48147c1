"""Running one unit on one backend, with everything around it that a kernel must leave alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ren.backend.protocol import Backend, CompiledUnit, View
from ren.engine.exec_unit import ExecUnit, Operand
from ren.testing.cases import KernelCase

Words = NDArray[np.uint64]

#: Words between operands; a kernel that writes there writes out of bounds.
GUARD_WORDS = 16


def unit_of(case: KernelCase, backend: Backend) -> ExecUnit:
    """The case as a unit, each operand in a slot of its own, with the scratch that `backend` asks for."""
    inputs, scalars = case.operands[0]
    sizes = [*(x.size for x in inputs), *(s.size for s in scalars), *case.outputs]
    operands = tuple(Operand(slot, 0, words) for slot, words in enumerate(sizes))
    a, b = len(inputs), len(inputs) + len(scalars)
    unit = ExecUnit(case.kernel, case.ring, case.params, operands[:a], operands[a:b], operands[b:])
    scratch = backend.scratch_words(unit)
    if not scratch:
        return unit
    return ExecUnit(
        unit.kernel, unit.ring, unit.params, unit.inputs, unit.scalars, unit.outputs, (Operand(len(sizes), 0, scratch),)
    )


def run_in_arena(
    backend: Backend, unit: ExecUnit, compiled: CompiledUnit, inputs: Sequence[Words], scalars: Sequence[Words]
) -> list[Words]:
    """Run with all operands inside one memory, at aligned offsets with guard words between them. Returns the outputs.

    Raises AssertionError when an input, a scalar or a guard word was changed.
    """
    step = backend.capabilities().alignment
    offsets: list[int] = []
    end = GUARD_WORDS
    for operand in unit.operands:
        offset = -(-end // step) * step
        offsets.append(offset)
        end = offset + operand.words + GUARD_WORDS
    image = np.full(end, 0xA5A5A5A5A5A5A5A5, np.uint64)
    for offset, data in zip(offsets, (*inputs, *scalars), strict=False):
        image[offset : offset + data.size] = data
    memory = backend.alloc(end)
    backend.copyin(memory, 0, image)
    compiled([(memory, offset) for offset in offsets])
    after = backend.copyout(memory, 0, end)

    kept = len(inputs) + len(scalars)
    untouched = np.ones(end, bool)
    for offset, operand in list(zip(offsets, unit.operands, strict=True))[kept:]:
        untouched[offset : offset + operand.words] = False
    changed = np.flatnonzero((after != image) & untouched)
    if changed.size:
        owner = next((i for i in range(kept) if offsets[i] <= changed[0] < offsets[i] + unit.operands[i].words), None)
        what = "a word outside every operand" if owner is None else f"its operand {owner}"
        raise AssertionError(
            f"{unit.kernel}{unit.params} changed {what} (word {changed[0]}; operands start at {offsets})"
        )
    return [
        after[offset : offset + operand.words]
        for offset, operand in list(zip(offsets, unit.operands, strict=True))[kept:][: len(unit.outputs)]
    ]


def run_in_place(
    backend: Backend, unit: ExecUnit, compiled: CompiledUnit, inputs: Sequence[Words], scalars: Sequence[Words]
) -> list[Words]:
    """Run with output i in the memory of input i, as far as there are inputs."""
    return _run_over_inputs(backend, unit, compiled, inputs, scalars, range(len(inputs)))


def run_in_place_crossed(
    backend: Backend, unit: ExecUnit, compiled: CompiledUnit, inputs: Sequence[Words], scalars: Sequence[Words]
) -> list[Words]:
    """Run with the first output in the memory of the last input, and so on: results overwrite what later ones still read."""
    return _run_over_inputs(backend, unit, compiled, inputs, scalars, range(len(inputs))[::-1])


def _run_over_inputs(
    backend: Backend,
    unit: ExecUnit,
    compiled: CompiledUnit,
    inputs: Sequence[Words],
    scalars: Sequence[Words],
    order: Sequence[int],
) -> list[Words]:
    memories = [_filled(backend, x) for x in inputs]
    scalar_views: list[View] = [(_filled(backend, s), 0) for s in scalars]
    outputs = [memories[order[i]] if i < len(order) else backend.alloc(o.words) for i, o in enumerate(unit.outputs)]
    scratch: list[View] = [(backend.alloc(s.words), 0) for s in unit.scratch]
    compiled([*((m, 0) for m in memories), *scalar_views, *((m, 0) for m in outputs), *scratch])
    return [backend.copyout(m, 0, o.words) for m, o in zip(outputs, unit.outputs, strict=True)]


def run_apart(
    backend: Backend, unit: ExecUnit, compiled: CompiledUnit, inputs: Sequence[Words], scalars: Sequence[Words]
) -> list[Words]:
    """Run with every operand in a memory of its own."""
    views: list[View] = [(_filled(backend, x), 0) for x in (*inputs, *scalars)]
    views += [(backend.alloc(o.words), 0) for o in (*unit.outputs, *unit.scratch)]
    compiled(views)
    first = len(inputs) + len(scalars)
    return [backend.copyout(memory, 0, o.words) for (memory, _), o in zip(views[first:], unit.outputs, strict=False)]


def _filled(backend: Backend, data: Words) -> object:
    memory = backend.alloc(data.size)
    backend.copyin(memory, 0, data)
    return memory


#: (backend, unit, compiled, inputs, scalars) -> outputs
Runner = Callable[[Backend, ExecUnit, CompiledUnit, Sequence[Words], Sequence[Words]], list[Words]]


def assert_same(case: KernelCase, found: Sequence[Words], expected: Sequence[Words], run: int, how: str) -> None:
    """Raise AssertionError naming the first word that differs."""
    __tracebackhide__ = True  # pytest then shows the message and the kit's caller
    assert len(found) == len(expected), f"{case}: {len(found)} outputs, expected {len(expected)}"
    for number, (f, e) in enumerate(zip(found, expected, strict=True)):
        if np.array_equal(f, e):
            continue
        assert f.shape == e.shape, f"{case}: output {number} has shape {f.shape}, expected {e.shape}"
        wrong = np.flatnonzero(f != e)
        row, column = divmod(int(wrong[0]), case.ring.n)
        raise AssertionError(
            f"{case}, operand set {run}, {how}: output {number}, row {row}, position {column} is {int(f[wrong[0]])}, expected {int(e[wrong[0]])} "
            f"({wrong.size} of {f.size} words differ)"
        )

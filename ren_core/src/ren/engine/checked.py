"""Checked runs of a plan: unit by unit, compared with the reference backend, freed memory poisoned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ren.backend.protocol import Backend, View
from ren.engine.debug import POISON, poisoning, switched, validating
from ren.engine.exec_unit import ExecUnit, Operand
from ren.engine.plan import Plan
from ren.errors import ValidationError

Watch = Callable[[Plan, list[View]], None]


def watcher(validate: bool = False) -> Watch | None:
    """How to run a plan under the switches of `ren.engine.debug`; None for the plain, fast way."""
    if not (validate or switched()):
        return None
    poison = poisoning()
    validate = validate or validating()
    if not (poison or validate):
        return None

    def watch(plan: Plan, views: list[View]) -> None:
        run_checked(plan, views, poison=poison, validate=validate)

    return watch


def run_checked(plan: Plan, views: list[View], *, poison: bool, validate: bool) -> None:
    """Run the units of `plan` one by one.

    validate: replay each on the reference backend and raise ValidationError, naming the unit, when a word differs.
    poison: fill the arena before the run, each temporary after its last reader, and outputs before they are written.
    """
    backend = plan.backend
    if poison:
        for at in (plan.layout.arena, *(slot for slot, _ in plan.layout.outputs)):
            if at >= 0:
                _fill(backend, views[at], plan.slots[at].words)
    deaths = _deaths(plan) if poison else {}
    for index, (run_unit, operands) in enumerate(plan.compiled_units()):
        unit = plan.units[index]
        expected = _on_reference(unit, backend, views) if validate else None
        run_unit([_at(views, o) for o in operands])
        if expected is not None:
            _compare(index, unit, backend, views, expected)
        for operand in deaths.get(index, ()):
            _fill(backend, _at(views, operand), operand.words)


def _at(views: list[View], operand: Operand) -> View:
    memory, base = views[operand.slot]
    return memory, base + operand.offset


def _fill(backend: Backend, view: View, words: int) -> None:
    backend.copyin(view[0], view[1], np.full(words, POISON, np.uint64))


def _deaths(plan: Plan) -> dict[int, list[Operand]]:
    """For each unit the arena intervals that nothing reads after it before they are written again."""
    arena = plan.layout.arena
    deaths: dict[int, list[Operand]] = {}
    for index, unit in enumerate(plan.units):
        for operand in {o for o in unit.operands if o.slot == arena}:
            if operand in unit.scratch or not _read_later(plan, index, operand):
                deaths.setdefault(index, []).append(operand)
    return deaths


def _read_later(plan: Plan, index: int, operand: Operand) -> bool:
    """Whether a later unit reads a word of `operand` (an overlap that is written whole first does not count)."""
    start, stop = operand.offset, operand.offset + operand.words
    for unit in plan.units[index + 1 :]:
        for o in unit.inputs:
            if o.slot == operand.slot and o.offset < stop and start < o.offset + o.words:
                return True
        for o in (*unit.outputs, *unit.scratch):
            if o.slot == operand.slot and o.offset <= start and stop <= o.offset + o.words:
                return False
    return False


def _on_reference(unit: ExecUnit, backend: Backend, views: list[View]) -> list[np.ndarray]:
    """What the reference backend makes of the unit's present inputs."""
    from ren.backend.select import get_backend

    reference = get_backend("reference")
    unit = replace(unit, scratch=())  # another backend's scratch
    words = reference.scratch_words(unit)
    if words:
        unit = replace(unit, scratch=(Operand(0, 0, words),))
    bound: list[View] = []
    for operand in unit.operands:
        memory = reference.alloc(operand.words)
        bound.append((memory, 0))
    given = len(unit.inputs) + len(unit.scalars)
    for operand, (memory, _) in zip(unit.operands[:given], bound, strict=False):
        source, offset = _at(views, operand)
        reference.copyin(memory, 0, backend.copyout(source, offset, operand.words))
    reference.compile(unit)(bound)
    return [reference.copyout(m, 0, o.words) for (m, _), o in zip(bound[given:], unit.outputs, strict=False)]


def _compare(index: int, unit: ExecUnit, backend: Backend, views: list[View], expected: list[np.ndarray]) -> None:
    for number, (operand, want) in enumerate(zip(unit.outputs, expected, strict=True)):
        memory, offset = _at(views, operand)
        got = backend.copyout(memory, offset, operand.words)
        wrong = np.flatnonzero(got != want)
        if wrong.size:
            n = unit.ring.n
            first = int(wrong[0])
            raise ValidationError(
                f"unit {index} ({unit.kernel} {unit.params!r} on {unit.ring!r}) of device {backend.name!r} differs from the reference backend in "
                f"{wrong.size} of {want.size} words of output {number}, first at limb {first // n}, position {first % n}",
                subject=unit.kernel,
                hint="Report it to the authors of the backend",
            )

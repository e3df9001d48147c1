"""What a kernel family contributes to lowering: a function per kernel, and its scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ren.engine.exec_unit import ExecUnit
from ren.errors import KernelOperandError

from ren_backend_cpu.lowered import Lowered


def no_scratch(unit: ExecUnit) -> int:
    """Scratch of kernels that need none."""
    return 0


@dataclass(frozen=True, slots=True)
class Lowering:
    """lower: checks parameters and operand sizes and yields the row (kernels cannot raise). scratch_words: see the backend protocol."""

    lower: Callable[[ExecUnit], Lowered]
    scratch_words: Callable[[ExecUnit], int] = no_scratch


def require(condition: bool, unit: ExecUnit, what: str) -> None:
    """Raise KernelOperandError naming the unit's kernel unless `condition` holds."""
    if not condition:
        raise KernelOperandError(f"{unit.kernel}: {what}", subject=unit.kernel)


def parameters(unit: ExecUnit, count: int) -> tuple[Any, ...]:
    """unit.params, checked to have `count` entries."""
    require(len(unit.params) == count, unit, f"takes {count} parameters, got {unit.params!r}")
    return unit.params


def check_words(
    unit: ExecUnit,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    scalars: tuple[int, ...] = (),
    scratch: int = 0,
) -> None:
    """Raise KernelOperandError unless the unit's operands have these sizes in words (scratch: at least)."""
    for role, operands, expected in (
        ("inputs", unit.inputs, inputs),
        ("scalars", unit.scalars, scalars),
        ("outputs", unit.outputs, outputs),
    ):
        found = tuple(o.words for o in operands)
        require(found == expected, unit, f"{role} must have {expected} words, got {found} for {unit.ring}")
    have = sum(o.words for o in unit.scratch[:1])
    require(have >= scratch, unit, f"scratch must have {scratch} words, got {have}")

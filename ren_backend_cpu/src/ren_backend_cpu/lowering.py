"""What a kernel family contributes to lowering: a function per kernel, and its scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ren.engine.exec_unit import ExecUnit

from ren_backend_cpu.lowered import Lowered


def no_scratch(unit: ExecUnit) -> int:
    """Scratch of kernels that need none."""
    return 0


@dataclass(frozen=True, slots=True)
class Lowering:
    """lower: checks parameters and operand sizes and yields the row (kernels cannot raise). scratch_words: see the backend protocol."""

    lower: Callable[[ExecUnit], Lowered]
    scratch_words: Callable[[ExecUnit], int] = no_scratch

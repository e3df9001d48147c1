"""What lowering makes of one unit: a kernel and the row of arguments it is called with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from ren.engine.exec_unit import Operand

from ren_backend_cpu.kernels.jit import Entry

#: One word of a kernel's row: an operand of the unit (its address at each run), an integer, or a constant array (its address).
Argument = Operand | int | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Lowered:
    """`kernel` is called with one int64 per argument. `keep` owns memory that integer arguments point to."""

    kernel: Entry
    arguments: tuple[Argument, ...]
    keep: tuple[Any, ...] = ()

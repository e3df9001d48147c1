"""What lowering makes of one unit: kernel launches over operands that have no place yet.

A pattern knows nothing of slots. Units of one plan that have the same pattern and do not depend on each other become one launch
each step, with one more batch in grid z; the same pattern serves every plan of the process (`Lowerings` in `lower.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from ren.engine.exec_unit import ExecUnit
from ren.errors import KernelOperandError, KernelUnsupportedError
from ren.ops import Domain

from ren_backend_cuda.device import DeviceMemory

#: Operand number of the scratch memory of a unit.
SCRATCH = -1
#: Operand number of nothing: the kernel finds the address 0.
ABSENT = -2

Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Constants in device memory that hold addresses of others; `keep` keeps those alive."""

    memory: DeviceMemory
    keep: tuple[DeviceMemory, ...]


#: What a kernel is given beside its operands.
Arguments = tuple[np.generic | DeviceMemory | Table, ...]


@dataclass(frozen=True, slots=True)
class At:
    """A place that a kernel is told of: word `offset` of operand number `operand` of ExecUnit.operands, or of the unit's scratch."""

    operand: int
    offset: int = 0

    def row(self, number: int, n: int) -> At:
        """The place of row `number`."""
        return self if self.operand == ABSENT else At(self.operand, self.offset + number * n)


NOWHERE = At(ABSENT)


@dataclass(frozen=True, slots=True)
class Step:
    """One launch for one unit. A kernel's arguments are the argument block, the number of its first operand, the number of operands of a
    unit, then these. grid: z counts what one unit needs; several units multiply it."""

    source: str
    kernel: str
    grid: Grid
    threads: int
    operands: tuple[At, ...]
    arguments: Arguments
    shared_bytes: int = 0
    defines: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Pattern:
    """The launches of one unit, in order. scratch: words they share; nothing in them outlives the unit."""

    steps: tuple[Step, ...]
    scratch: int = 0

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """Equal for patterns whose launches differ in their operands alone: such units can share them."""
        launches = tuple(
            (
                s.source,
                s.defines,
                s.kernel,
                s.grid,
                s.threads,
                s.shared_bytes,
                len(s.operands),
                *map(_identity, s.arguments),
            )
            for s in self.steps
        )
        return self.scratch, launches


def _identity(argument: np.generic | DeviceMemory | Table) -> object:
    return (argument.dtype.char, int(argument)) if isinstance(argument, np.integer) else id(argument)


def require(condition: bool, unit: ExecUnit, what: str) -> None:
    """Raise KernelOperandError naming the unit's kernel unless `condition` holds. Kernels cannot check what they are given."""
    if not condition:
        raise KernelOperandError(f"{unit.kernel}: {what}", subject=unit.kernel)


def support(condition: bool, unit: ExecUnit, what: str) -> None:
    """Raise KernelUnsupportedError naming the unit's kernel unless `condition` holds."""
    if not condition:
        raise KernelUnsupportedError(f"backend 'cuda', {unit.kernel}: {what}", subject=unit.kernel)


def parameters(unit: ExecUnit, count: int) -> tuple[Any, ...]:
    """unit.params, checked to have `count` entries."""
    require(len(unit.params) == count, unit, f"{count} parameters, got {unit.params!r}")
    return unit.params


def domain_of(unit: ExecUnit, value: str) -> Domain:
    """The domain that a parameter names."""
    try:
        return Domain(value)
    except ValueError:
        known = ", ".join(repr(d.value) for d in Domain)
        raise KernelOperandError(f"{unit.kernel}: {value!r} is no domain, known: {known}", subject=unit.kernel) from None


def check_operands(unit: ExecUnit, inputs: Sequence[int], outputs: Sequence[int], scalars: Sequence[int] = ()) -> None:
    """Raise KernelOperandError unless the operands have these sizes in words."""
    wanted = (("inputs", unit.inputs, inputs), ("scalars", unit.scalars, scalars), ("outputs", unit.outputs, outputs))
    for role, operands, expected in wanted:
        found = tuple(o.words for o in operands)
        require(
            found == tuple(expected), unit, f"{role} must have {tuple(expected)} words, got {found} for {unit.ring}"
        )


def u32(*values: int) -> tuple[np.uint32, ...]:
    """Kernel arguments of type u32."""
    return tuple(np.uint32(v) for v in values)


def blocks(work: int, threads: int) -> int:
    """How many blocks of `threads` cover `work` items."""
    return -(-work // threads)

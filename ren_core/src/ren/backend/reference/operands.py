"""What the reference backend demands of a unit and of the views it is run on.

It is the oracle of the conformance kit and the validator of plans, so it refuses whatever the contract does not allow: wrong
parameters and sizes when a unit is compiled, out-of-range or overlapping views and words that are no canonical residues when it
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.backend.protocol import View
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import KernelOperandError
from ren.numtheory.modular import column
from ren.ops import Domain

Words = NDArray[np.uint64]
#: (inputs, scalars, outputs) as 1-D word arrays; writes the outputs.
Kernel = Callable[[Sequence[Words], Sequence[Words], Sequence[Words]], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled kernel with the operand sizes in words that it was compiled for."""

    run: Kernel
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scalars: tuple[int, ...] = ()
    #: An output may be the same memory as an input.
    in_place: bool = False


def parameters(unit: ExecUnit, count: int) -> tuple[Any, ...]:
    """unit.params, checked to have `count` entries."""
    if len(unit.params) != count:
        raise KernelOperandError(f"{unit.kernel} takes {count} parameters, got {unit.params!r}", subject=unit.kernel)
    return unit.params


def domain_of(unit: ExecUnit, value: Any) -> Domain:
    try:
        return Domain(value)
    except ValueError:
        raise KernelOperandError(f"{unit.kernel}: {value!r} is no domain", subject=unit.kernel) from None


def require(condition: bool, unit: ExecUnit, what: str) -> None:
    """Raise KernelOperandError naming the unit's kernel unless `condition` holds."""
    if not condition:
        raise KernelOperandError(f"{unit.kernel}: {what}", subject=unit.kernel)


def rows(words: Words, n: int, moduli: Sequence[int]) -> Words:
    """Residue rows [limbs, n] of one operand, checked to be canonical."""
    matrix = words.reshape(len(moduli), n)
    wrong = matrix >= column(moduli)
    if wrong.any():
        limb, index = (int(v) for v in np.argwhere(wrong)[0])
        raise KernelOperandError(
            f"limb {limb}, position {index} holds {int(matrix[limb, index])}, which is no residue modulo {moduli[limb]}",
            hint="Memory that no unit has written yet holds all ones on the reference backend",
        )
    return matrix


def check_sizes(unit: ExecUnit, prepared: Prepared) -> None:
    """Raise KernelOperandError unless the unit's operands have the sizes of `prepared`."""
    for role, operands, expected in (
        ("inputs", unit.inputs, prepared.inputs),
        ("scalars", unit.scalars, prepared.scalars),
        ("outputs", unit.outputs, prepared.outputs),
        ("scratch operands", unit.scratch, ()),
    ):
        found = tuple(o.words for o in operands)
        require(
            found == tuple(expected), unit, f"{role} must have {tuple(expected)} words, got {found} for {unit.ring}"
        )


def bind(unit: ExecUnit, views: Sequence[View], in_place: bool) -> list[Words]:
    """The operands of one run as word arrays. Raises KernelOperandError for views out of range or overlapping outputs."""
    operands = unit.operands
    require(len(views) == len(operands), unit, f"{len(operands)} operands, got {len(views)} views")
    for operand, (memory, offset) in zip(operands, views, strict=True):
        fits = (
            isinstance(memory, np.ndarray) and memory.dtype == np.uint64 and 0 <= offset <= memory.size - operand.words
        )
        require(fits, unit, f"a view of {operand.words} words at {offset} does not fit its memory")
    first_output = len(unit.inputs) + len(unit.scalars)
    for i in range(first_output, len(operands)):
        for j in range(i):
            if _overlap(operands[i], views[i], operands[j], views[j]):
                same = views[i][1] == views[j][1] and operands[i].words == operands[j].words
                require(
                    in_place and same and j < len(unit.inputs), unit, f"output {i - first_output} overlaps operand {j}"
                )
    return [memory[offset : offset + operand.words] for operand, (memory, offset) in zip(operands, views, strict=True)]


def _overlap(a: Operand, view_a: View, b: Operand, view_b: View) -> bool:
    return view_a[0] is view_b[0] and view_a[1] < view_b[1] + b.words and view_b[1] < view_a[1] + a.words

"""Faults of element-wise programs and row copies."""

from __future__ import annotations

import numpy as np

from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular
from ren.ops import Domain
from ren.testing.mutants.base import Words, fault, moduli_of, rows_of


def _only(unit: ExecUnit, *opcodes: str) -> bool:
    """Whether an element-wise program is a single one of these instructions."""
    return len(unit.params[2]) == 1 and unit.params[2][0][0] in opcodes


@fault("elementwise")
def sum_equal_to_q_is_not_reduced(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    if _only(unit, "add"):
        q = moduli_of(unit, outs[0])
        outs[0][:] = np.where((outs[0] == 0) & (ins[0] != 0), q, outs[0])


@fault("elementwise")
def negated_zero_is_q(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    if _only(unit, "neg"):
        outs[0][:] = moduli_of(unit, outs[0]) - ins[0]


@fault("elementwise")
def product_of_q_minus_1_is_one_off(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    if _only(unit, "mul") and len(ins) == 2:
        q = moduli_of(unit, outs[0])
        outs[0][:] = np.where(
            (ins[0] == q - np.uint64(1)) & (ins[1] == q - np.uint64(1)), (outs[0] + np.uint64(1)) % q, outs[0]
        )


@fault("elementwise")
def long_sums_of_products_overflow(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """An accumulator that is not reduced holds 32 products only."""
    if sum(i[0] == "mac" for i in unit.params[2]) >= 32:
        q = moduli_of(unit, outs[0])
        outs[0][:] = np.where(ins[0] > q // np.uint64(2), (outs[0] + np.uint64(1)) % q, outs[0])


@fault("elementwise")
def constant_reaches_every_coefficient(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    if _only(unit, "addc") and unit.params[4] == Domain.COEFF:
        outs[0][:] = (ins[0] + np.repeat(scalars[0], unit.ring.n)) % moduli_of(unit, outs[0])


@fault("elementwise")
def constant_reaches_only_the_first_value(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    if _only(unit, "addc") and unit.params[4] == Domain.NTT:
        rows_of(unit, outs[0])[:, 1:] = rows_of(unit, ins[0])[:, 1:]


@fault("elementwise")
def constant_minus_x_is_x_minus_constant(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    if _only(unit, "csub"):
        q = moduli_of(unit, outs[0])
        outs[0][:] = (q - outs[0]) % q


@fault("elementwise")
def scalar_of_the_first_limb_serves_all(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    if _only(unit, "scale"):
        q = modular.column(unit.ring.moduli)
        outs[0][:] = modular.multiply(rows_of(unit, ins[0]), scalars[0][:1] % q, q).reshape(-1)


@fault("elementwise")
def second_output_is_the_last_register(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    if len(outs) > 1:
        outs[1][:] = outs[-1]


@fault("copy")
def last_limb_not_copied(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    rows_of(unit, outs[0])[-1] = 0

"""Element-wise programs and row copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ren.backend.reference.operands import Prepared, Words, domain_of, parameters, require, rows
from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular
from ren.ops import ELEMENTWISE_OPCODES, Domain

#: Operands of each opcode: r a register, s a scalar.
_SIGNATURES = dict(
    zip(ELEMENTWISE_OPCODES, ("rr", "rr", "r", "rr", "rrr", "rs", "rs", "rs", "rs", "s"), strict=True)  # add .. const
)


def prepare_elementwise(unit: ExecUnit) -> Prepared:
    """A straight-line program over registers; see `ren.ops.ELEMENTWISE_OPCODES`."""
    inputs, scalars, instructions, results, domain = parameters(unit, 5)
    domain = domain_of(unit, domain)
    for position, (opcode, *operands) in enumerate(instructions):
        signature = _SIGNATURES.get(opcode)
        require(
            signature is not None and len(signature) == len(operands),
            unit,
            f"instruction {position} is malformed: {(opcode, *operands)}",
        )
        for kind, operand in zip(signature or "", operands, strict=True):
            bound = inputs + position if kind == "r" else scalars
            require(
                0 <= operand < bound,
                unit,
                f"instruction {position} {(opcode, *operands)} names operand {operand} of {bound}",
            )
    require(all(0 <= r < inputs + len(instructions) for r in results), unit, f"output registers {results} do not exist")
    n, moduli = unit.ring.n, unit.ring.moduli
    q = modular.column(moduli)

    def constant(scalar: Words) -> Words:
        # The constant polynomial c: every NTT value is c, but only coefficient 0 is.
        if domain is Domain.NTT:
            return np.repeat(scalar, n, axis=1)
        poly = np.zeros((len(moduli), n), np.uint64)
        poly[:, :1] = scalar
        return poly

    def step(opcode: str, registers: list[Words], scalar: list[Words], a: int, b: int = 0, c: int = 0) -> Words:
        match opcode:
            case "add":
                return modular.add(registers[a], registers[b], q)
            case "sub":
                return modular.subtract(registers[a], registers[b], q)
            case "neg":
                return modular.negate(registers[a], q)
            case "mul":
                return modular.multiply(registers[a], registers[b], q)
            case "mac":
                return modular.add(modular.multiply(registers[a], registers[b], q), registers[c], q)
            case "scale":
                return modular.multiply(registers[a], scalar[b], q)
            case "addc":
                return modular.add(registers[a], constant(scalar[b]), q)
            case "subc":
                return modular.subtract(registers[a], constant(scalar[b]), q)
            case "csub":
                return modular.subtract(constant(scalar[b]), registers[a], q)
            case _:
                return constant(scalar[a])

    def run(ins: Sequence[Words], scalar_words: Sequence[Words], outs: Sequence[Words]) -> None:
        registers = [rows(x, n, moduli) for x in ins]
        scalar = [rows(s, 1, moduli) for s in scalar_words]
        for opcode, *operands in instructions:
            registers.append(step(opcode, registers, scalar, *operands))
        # Taken before the first write: an output may be the memory of an input.
        values = [registers[r].reshape(-1).copy() for r in results]
        for out, value in zip(outs, values, strict=True):
            out[:] = value

    size = len(moduli) * n
    return Prepared(run, (size,) * inputs, (size,) * len(results), (len(moduli),) * scalars, in_place=True)


def prepare_copy(unit: ExecUnit) -> Prepared:
    """Row copy."""
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        outs[0][:] = rows(ins[0], n, moduli).reshape(-1)

    size = len(moduli) * n
    return Prepared(run, (size,), (size,))

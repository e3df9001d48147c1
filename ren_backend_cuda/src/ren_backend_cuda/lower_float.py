"""Lowering of `from_float` and `lift`."""

from __future__ import annotations

from ren.engine.exec_unit import ExecUnit

from ren_backend_cuda.lower_conversion import per_coefficient
from ren_backend_cuda.lowered import Arguments, At, Pattern, Step, check_operands, parameters, u32
from ren_backend_cuda.tables import Tables

#: kPiece of kernels/host_float.cu, and how many powers cover the exponents of doubles.
_PIECE = 32
_PIECES = 32
_WORD = (1 << 64) - 1


def lower_from_float(unit: ExecUnit, tables: Tables) -> Pattern:
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli
    check_operands(unit, (n + 1,), (len(moduli) * n,))
    powers = tables.constant([pow(2, _PIECE * j, q) for q in moduli for j in range(_PIECES)])
    arguments: Arguments = (tables.ring(n, moduli), powers)
    return Pattern((per_coefficient("host_float", "from_float", n, len(moduli), (At(0), At(1)), arguments),))


def lower_lift(unit: ExecUnit, tables: Tables) -> Pattern:
    """The first three limbs take part; the third only says which coefficients do not fit the first two."""
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    check_operands(unit, (limbs * n,), (n + 1,))
    constants = [0] * 7
    if limbs > 1:
        modulus = moduli[0] * moduli[1]
        half = modulus // 2
        constants[:5] = [pow(moduli[0], -1, moduli[1]), modulus & _WORD, modulus >> 64, half & _WORD, half >> 64]
    if limbs > 2:
        constants[5:] = [moduli[0] % moduli[2], moduli[0] * moduli[1] % moduli[2]]
    operands = (At(0), At(1))
    arguments: Arguments = (tables.ring(n, moduli[:3]), tables.constant(constants), *u32(min(limbs, 3)))
    count = Step("host_float", "clear_count", (1, 1, 1), 1, operands, u32(n))
    return Pattern((count, per_coefficient("host_float", "lift", n, 1, operands, arguments)))

"""Lowering of `from_float` and `lift`."""

from __future__ import annotations

import numpy as np
from ren.engine.exec_unit import ExecUnit

from ren_backend_cpu.features import MIN_VECTOR_N
from ren_backend_cpu.kernels import host_float as kernels
from ren_backend_cpu.lower_conversion import NARROW
from ren_backend_cpu.lowered import Argument, Lowered, check_operands, parameters
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import ring_table


def scratch_from_float(unit: ExecUnit) -> int:
    """A cache line, for the exponent of the largest coefficient."""
    return 8


def lower_from_float(unit: ExecUnit, *, transformed: bool = False) -> Lowered:
    """transformed: the result is in the NTT domain."""
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli
    check_operands(unit, (n + 1,), (len(moduli) * n,), scratch_from_float(unit))
    ring = ring_table(unit.ring)
    steps = [(1 << kernels.PIECE) % q for q in moduli]
    constants = np.array([[c, (c << 64) // q] for c, q in zip(steps, moduli, strict=True)], np.uint64)
    row = (unit.inputs[0], unit.scratch[0], unit.outputs[0], ring.address, constants, int(transformed), n)
    return Lowered(kernels.from_float, row, (ring,), len(moduli), before=((kernels.float_exponent, 1),))


def lower_lift(unit: ExecUnit) -> Lowered:
    """The first three limbs take part; the third only says which coefficients do not fit the first two."""
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli
    check_operands(unit, (len(moduli) * n,), (n + 1,))
    ring = ring_table(unit.ring)
    x, out = unit.inputs[0], unit.outputs[0]
    if len(moduli) == 1:
        return Lowered(kernels.lift_one, (x, out, ring.limbs[0].address, n), (ring,))
    check = len(moduli) > 2
    q0, q1, q2 = moduli[0], moduli[1], moduli[2 if check else 1]
    inverse = pow(q0, -1, q1)
    fast = n >= MIN_VECTOR_N and max(q0, q1, q2) < NARROW and kernels.VECTOR_LIFT
    radix = kernels.LIFT_RADIX if fast else 1
    factors = radix % q2, q0 * radix % q2, -q0 * q1 * radix % q2
    # A multiple of q_1 from q_0 on, so that a difference with c_0 stays positive; quotients for the 64-bit kernel.
    constants = (-(-q0 // q1) * q1, inverse, *factors, (inverse << 64) // q1, (factors[1] << 64) // q2)
    records = [ring.limbs[i].address for i in (0, 1, 2 if check else 1)]
    row: tuple[Argument, ...] = (x, out, *records, np.array(constants, np.uint64), int(check), n)
    return Lowered(kernels.lift_vector if fast else kernels.lift, row, (ring,))


FROM_FLOAT = Lowering(lower_from_float, scratch_from_float)
#: The residues of doubles and the transform of all limbs.
FROM_FLOAT_NTT = Lowering(lambda unit: lower_from_float(unit, transformed=True), scratch_from_float)
LIFT = Lowering(lower_lift)

"""Lowering of `remainder_ntt`, a unit that `fuse` makes: the transform, in every limb but the last of its ring, of the difference of two polynomials that are
given modulo the last one, as centred integers."""

from __future__ import annotations

from ren.engine.exec_unit import ExecUnit

from ren_backend_cpu.features import MIN_VECTOR_N
from ren_backend_cpu.kernels import remainder as kernels
from ren_backend_cpu.lower_conversion import NARROW
from ren_backend_cpu.lowered import Argument, Lowered, check_operands, parameters, require
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import limb_table, ring_table


def fits(n: int, q: int) -> bool:
    """Whether the kernel takes polynomials of degree n modulo q."""
    return n >= MIN_VECTOR_N and q < NARROW


def _lower(unit: ExecUnit) -> Lowered:
    parameters(unit, 0)
    n, kept = unit.ring.n, unit.ring.limbs - 1
    last = unit.ring.moduli[-1]
    require(fits(n, last), unit, f"n = {n} and a modulus of {last.bit_length()} bits are not for this kernel")
    check_operands(unit, (n, n), (kept * n,), n)
    ring, source = ring_table(unit.ring), limb_table(n, last)
    row: tuple[Argument, ...] = (*unit.inputs, unit.scratch[0], source.address, unit.outputs[0], ring.address, n)
    return Lowered(kernels.remainder_ntt, row, (ring, source), kept, before=((kernels.remainder_difference, 1),))


REMAINDER_NTT = Lowering(_lower, lambda unit: unit.ring.n)

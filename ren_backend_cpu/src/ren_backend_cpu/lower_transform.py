"""Lowering of `ntt` and `intt`."""

from __future__ import annotations

from ren.engine.exec_unit import ExecUnit

from ren_backend_cpu.kernels import ntt
from ren_backend_cpu.kernels.jit import Entry
from ren_backend_cpu.lowered import Lowered, check_operands, parameters
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import ring_table


def _lower(unit: ExecUnit, kernel: Entry) -> Lowered:
    parameters(unit, 0)
    n, limbs = unit.ring.n, unit.ring.limbs
    check_operands(unit, (limbs * n,), (limbs * n,))
    table = ring_table(unit.ring)
    return Lowered(kernel, (table.address, 8 * n, unit.inputs[0], unit.outputs[0]), (table,), items=limbs)


NTT = Lowering(lambda unit: _lower(unit, ntt.ntt))
INTT = Lowering(lambda unit: _lower(unit, ntt.intt))

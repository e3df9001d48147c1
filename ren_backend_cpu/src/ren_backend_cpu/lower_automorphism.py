"""Lowering of `automorphism`."""

from __future__ import annotations

from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

from ren_backend_cpu.kernels import automorphism as kernels
from ren_backend_cpu.lowered import Lowered, check_operands, parameters, require
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import ring_table


def lower_automorphism(unit: ExecUnit) -> Lowered:
    g, domain = parameters(unit, 2)
    n, limbs = unit.ring.n, unit.ring.limbs
    require(g % 2 == 1 and 0 < g < 2 * n, unit, f"g must be odd in [1, {2 * n}), got {g}")
    check_operands(unit, (limbs * n,), (limbs * n,))
    x, out = unit.inputs[0], unit.outputs[0]
    if Domain(domain) is Domain.COEFF:
        ring = ring_table(unit.ring)
        index = kernels.coefficient_index(n, g)
        return Lowered(kernels.automorphism_coeff, (x, out, index, ring.address, n), (ring,), items=limbs)
    if n >= kernels.BLOCK and kernels.automorphism_ntt_blocks.compiles:
        row = (x, out, kernels.block_table(n, g), kernels.block_patterns(g), n)
        return Lowered(kernels.automorphism_ntt_blocks, row, items=limbs)
    return Lowered(kernels.automorphism_ntt, (x, out, kernels.ntt_index(n, g), n), items=limbs)


AUTOMORPHISM = Lowering(lower_automorphism)

"""Lowering of `mod_down` (`ren.backend.reference.mod_down` says what it computes)."""

from __future__ import annotations

from math import prod

import numpy as np
from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

from ren_backend_cpu.kernels import mod_down as kernels
from ren_backend_cpu.lower_conversion import Conversion, digit_scales
from ren_backend_cpu.lowered import Lowered, check_operands, parameters, require
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import limb_table, ring_table


def scratch_mod_down(unit: ExecUnit) -> int:
    """A row per dropped limb, and two for conversions."""
    return (unit.params[0] + 2) * unit.ring.n


def lower_mod_down(unit: ExecUnit) -> Lowered:
    k, z_limbs, domain = parameters(unit, 3)
    domain = Domain(domain)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    kept = limbs - k
    require(1 <= k < limbs, unit, f"k must be in [1, {limbs - 1}], got {k}")
    require(z_limbs == 0 or kept <= z_limbs <= limbs, unit, f"z must have {kept} to {limbs} limbs, got {z_limbs}")
    check_operands(unit, (limbs * n, z_limbs * n) if z_limbs else (limbs * n,), (kept * n,), scratch_mod_down(unit))
    low, dropped = moduli[:kept], moduli[kept:]
    divisor, missing = prod(dropped), prod(moduli[z_limbs:])  # D and P
    conversion = Conversion(dropped, [limb_table(n, p) for p in low], centred=True)
    # P/D as residues: D = P times the dropped limbs that z has.
    constants = [[pow(divisor, -1, p), missing * pow(divisor, -1, p) % p] for p in low]
    ring = ring_table(unit.ring)
    row = (
        *(unit.inputs[0], unit.inputs[1] if z_limbs else 0, unit.outputs[0], unit.scratch[0], ring.address),
        *(np.array(conversion.records, np.int64), digit_scales(n, dropped, domain)),
        *(np.array([missing % q for q in dropped], np.uint64), conversion.constants, np.array(constants, np.uint64)),
        *(kept, k, z_limbs, int(z_limbs > kept), int(domain is Domain.NTT), n),
    )
    return Lowered(kernels.mod_down, row, (ring, conversion))


MOD_DOWN = Lowering(lower_mod_down, scratch_mod_down)

"""Lowering of `mod_down` (`ren.backend.reference.mod_down` says what it computes)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

from ren_backend_cpu.kernels import mod_down as kernels
from ren_backend_cpu.kernels import ntt_divide
from ren_backend_cpu.lower_conversion import Conversion, digit_scales, row_scales
from ren_backend_cpu.lowered import Lowered, check_operands, parameters, part, require
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import float_bits, limb_table, ring_table


def scratch_mod_down(unit: ExecUnit) -> int:
    """A row per dropped limb, and for a thread two for conversions."""
    return (int(unit.params[0]) + 2) * unit.ring.n


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
    # Limbs that z has among the dropped ones form a second stage, on what dividing by P leaves of them.
    shared = z_limbs - kept if kept < z_limbs < limbs else 0
    stages = Stages(n, dropped[:shared], dropped[shared:], domain)
    conversion = Conversion(dropped, [limb_table(n, p) for p in low], centred=True, factors=stages.factors)
    # P/D as residues: D = P times the dropped limbs that z has.
    constants = [[pow(divisor, -1, p), missing * pow(divisor, -1, p) % p] for p in low]
    ring = ring_table(unit.ring)
    fused, direct = _fused(n, low, constants, dropped, domain)
    row = (
        *(unit.inputs[0], unit.inputs[1] if z_limbs else 0, unit.outputs[0], unit.scratch[0], ring.address),
        *(np.array(conversion.records, np.int64), stages.scales),
        *(np.array([missing % q for q in dropped], np.uint64), conversion.constants, np.array(constants, np.uint64)),
        *(kept, k, z_limbs, int(z_limbs > kept), int(domain is Domain.NTT), n),
        *(shared, np.array(stages.records, np.int64), stages.matrix, stages.minus_one),
        *(fused, int(direct)),
    )
    before = [(kernels.mod_down_rows, k)]
    if shared:
        before.append((kernels.mod_down_second, shared))
    local = part(unit.scratch[0], k * n, 2 * n)
    return Lowered(kernels.mod_down, row, (ring, conversion, stages), kept, local, tuple(before))


def _fused(
    n: int, low: Sequence[int], constants: list[list[int]], dropped: Sequence[int], domain: Domain
) -> tuple[NDArray[np.uint64], bool]:
    """Per kept limb the function that ends its transform in the division, 0 where its path has none, and its constants; and whether the
    dropped row goes into all of them as it is."""
    table = np.zeros((len(low), 1 + ntt_divide.CONSTANTS), np.uint64)
    if domain is not Domain.NTT or n < ntt_divide.SMALLEST:
        return table, False
    limbs = [limb_table(n, p) for p in low]
    direct = len(dropped) == 1 and dropped[0] < ntt_divide.LIMIT and all(t.path in ntt_divide.DIVIDE for t in limbs)
    half = float_bits(float(dropped[0] // 2) if direct else 0.0)
    for row, limb, (w, v) in zip(table, limbs, constants, strict=True):
        function = ntt_divide.DIVIDE.get(limb.path)
        if function is not None:
            row[:] = function.address, *limb.pair(w), *limb.pair(v), half
    return table, direct


class Stages:
    """Constants of a division by P, the product of `first`, and then by M, the product of `second`.

    With y_i the digits modulo `first` and c the conversion of those, a digit of the second stage is u_j = f_j (y_j - c), f_j = P^-1 (M/q_j)^-1 mod q_j. So
    c_1 + P c_2 = sum y_i P/p_i + sum u_j P M/q_j is one conversion, with `factors`; matrix converts the y_i to f_j c. Without `second` it is the plain division by P.
    """

    def __init__(self, n: int, second: Sequence[int], first: Sequence[int], domain: Domain) -> None:
        p, m = prod(first), prod(second)
        self.factors = [p * m // q for q in second] + [p // q for q in first]
        f = [pow(p * m // q, -1, q) for q in second]
        self.scales = np.concatenate([row_scales(n, second, f, domain), digit_scales(n, first, domain)])
        self.keep = [
            Conversion(first, [limb_table(n, q)], centred=True, factors=[w * (p // r) for r in first])
            for q, w in zip(second, f, strict=True)
        ]
        self.records = [c.records[0] for c in self.keep] or [0]
        self.matrix = np.concatenate([c.constants for c in self.keep]) if second else np.zeros((1, 1), np.uint64)
        self.minus_one = np.array([q - 1 for q in second] or [0], np.uint64)


MOD_DOWN = Lowering(lower_mod_down, scratch_mod_down)

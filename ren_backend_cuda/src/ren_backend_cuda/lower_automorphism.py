"""Lowering of `automorphism`."""

from __future__ import annotations

from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

from ren_backend_cuda.lowered import (
    Arguments,
    At,
    Pattern,
    Step,
    blocks,
    check_operands,
    domain_of,
    parameters,
    require,
    u32,
)
from ren_backend_cuda.tables import Tables

_THREADS = 256


def lower_automorphism(unit: ExecUnit, tables: Tables) -> Pattern:
    g, domain = parameters(unit, 2)
    n, limbs = unit.ring.n, unit.ring.limbs
    require(g % 2 == 1 and 0 < g < 2 * n, unit, f"g must be odd in [1, {2 * n}), got {g}")
    check_operands(unit, (limbs * n,), (limbs * n,))
    threads = min(n, _THREADS)
    grid = (blocks(n, threads), limbs, 1)
    operands, log_n = (At(0), At(1)), n.bit_length() - 1
    if domain_of(unit, domain) is Domain.NTT:
        return Pattern((Step("automorphism", "automorphism_values", grid, threads, operands, u32(log_n, g)),))
    arguments: Arguments = (tables.ring(n, unit.ring.moduli), *u32(log_n, pow(g, -1, 2 * n)))
    return Pattern((Step("automorphism", "automorphism_coefficients", grid, threads, operands, arguments),))

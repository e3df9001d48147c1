"""Lowering of `mod_down` (`ren.backend.reference.mod_down` says what it computes)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

from ren_backend_cuda.conversion import cofactors, conversion_rows, digit_factors
from ren_backend_cuda.lower_conversion import per_coefficient, to_digits
from ren_backend_cuda.lower_transform import convert_divide
from ren_backend_cuda.lowered import (
    NOWHERE,
    SCRATCH,
    Arguments,
    At,
    Pattern,
    check_operands,
    domain_of,
    parameters,
    require,
    u32,
)
from ren_backend_cuda.tables import Tables


def lower_mod_down_automorphism(unit: ExecUnit, tables: Tables) -> Pattern:
    """A `mod_down` in the NTT domain and the automorphism of its result. params: those of `mod_down`, then g."""
    *plain, g = parameters(unit, 4)
    n = unit.ring.n
    require(g % 2 == 1 and 0 < g < 2 * n, unit, f"g must be odd in [1, {2 * n}), got {g}")
    return lower_mod_down(replace(unit, params=tuple(plain)), tables, g)


def lower_mod_down(unit: ExecUnit, tables: Tables, g: int = 1) -> Pattern:
    """Digits of the dropped limbs, [those of a second stage], their conversion and the division.

    Two stages: z has some of the dropped limbs (product M), the ones it lacks (product P) are divided away first. With y_i the digits modulo the limbs of P
    and c their conversion, a digit of the second stage is u_j = f_j (y_j - c), f_j = P^-1 (M/q_j)^-1 mod q_j. So c_1 + P c_2 = sum y_i P/p_i + sum u_j P M/q_j is
    one conversion of all dropped rows. g: the result is taken under X -> X^g as well; NTT domain only.
    """
    k, z_limbs, domain = parameters(unit, 3)
    domain = domain_of(unit, domain)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    kept = limbs - k
    require(1 <= k < limbs, unit, f"k must be in [1, {limbs - 1}], got {k}")
    require(z_limbs == 0 or kept <= z_limbs <= limbs, unit, f"z must have {kept} to {limbs} limbs, got {z_limbs}")
    check_operands(unit, (limbs * n, z_limbs * n) if z_limbs else (limbs * n,), (kept * n,))
    x, z, out = At(0), At(1) if z_limbs else NOWHERE, At(len(unit.inputs))
    z_limbs = z_limbs or kept  # the constants are the same, so both components of a ciphertext share their launches
    low, dropped = moduli[:kept], moduli[kept:]
    missing = prod(moduli[z_limbs:])
    shared = z_limbs - kept if kept < z_limbs < limbs else 0
    second, first = dropped[:shared], dropped[shared:]
    p, m = prod(first), prod(second)

    rows = At(SCRATCH)
    steps = to_digits(
        tables,
        n,
        dropped,
        [pow(p * m // q, -1, q) for q in second] + digit_factors(first),
        domain,
        x.row(kept, n),
        rows,
        z=z.row(kept, n),
        addends=[missing % q for q in dropped],
        z_rows=max(z_limbs - kept, 0),
        centre_from=shared,
    )
    if second:
        # f_j c as a conversion: the factors of c times f_j.
        f = [pow(p * m // q, -1, q) for q in second]
        constants = [
            w
            for q, f_j in zip(second, f, strict=True)
            for row in conversion_rows(first, [f_j * c for c in cofactors(first)], [q], centred=True)
            for w in row
        ]
        arguments: Arguments = (tables.ring(n, second), tables.constant(constants), *u32(len(first)))
        steps.append(per_coefficient("mod_down", "second_digits", n, shared, (rows,), arguments))

    factors = [p * m // q for q in second] + cofactors(first)
    converted = conversion_rows(dropped, factors, low, centred=True)
    constants_low = tables.constant([w for row in converted for w in row])
    divisor = prod(dropped)
    inverses = [pow(divisor, -1, q) for q in low]
    # P D^-1: D is P times the dropped limbs that z has.
    divisions = tables.constant([w for q, d in zip(low, inverses, strict=True) for w in (d, missing * d % q)])
    if domain is Domain.NTT:
        middle = rows.row(k, n)
        steps += convert_divide(tables, n, low, k, constants_low, divisions, rows, middle, x, z, out, g)
        return Pattern(tuple(steps), (k + kept) * n)
    arguments = (tables.ring(n, low), constants_low, divisions, *u32(k))
    steps.append(per_coefficient("mod_down", "divide", n, kept, (rows, x, z, out), arguments))
    return Pattern(tuple(steps), k * n)

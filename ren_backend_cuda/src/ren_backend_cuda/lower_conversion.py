"""Lowering of `basis_extend` and `decompose`, and the digits of a key switch."""

from __future__ import annotations

from math import prod

from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

from ren_backend_cuda.conversion import cofactors, conversion_rows, digit_bounds, digit_factors
from ren_backend_cuda.lower_elementwise import copy_step
from ren_backend_cuda.lower_transform import NONE, Digits, digits_forward, inverse
from ren_backend_cuda.lowered import (
    NOWHERE,
    SCRATCH,
    Arguments,
    At,
    Pattern,
    Step,
    blocks,
    check_operands,
    domain_of,
    parameters,
    require,
    support,
    u32,
)
from ren_backend_cuda.tables import Tables, coefficient_scale, transform_scale

#: The overflow of an exact conversion is summed in one word: 2^55 + limbs 2^56 < 2^64.
MAX_EXACT_LIMBS = 255
_THREADS = 256
_MODES = ("approximate", "centred", "exact")


def per_coefficient(
    source: str, kernel: str, n: int, limbs: int, operands: tuple[At, ...], arguments: Arguments
) -> Step:
    """A launch with one thread per coefficient of each limb."""
    threads = min(n, _THREADS)
    return Step(source, kernel, (blocks(n, threads), limbs, 1), threads, operands, (*arguments, *u32(n)))


def to_digits(
    tables: Tables,
    n: int,
    moduli: tuple[int, ...],
    factors: list[int],
    domain: Domain,
    x: At,
    out: At,
    *,
    z: At = NOWHERE,
    addends: list[int] | None = None,
    z_rows: int = 0,
    centre_from: int = NONE,
) -> list[Step]:
    """Coefficient rows (x + P z) times `factors`, from rows in either domain; from row `centre_from` on as centred digits. addends: P per row."""
    added = addends or [0] * len(moduli)
    if domain is Domain.NTT:
        scales = tables.scales([transform_scale(n, q, f, p) for q, f, p in zip(moduli, factors, added, strict=True)])
        return inverse(tables, n, moduli, scales, x, out, z=z, z_rows=z_rows, centre_from=centre_from)
    scales = tables.scales([coefficient_scale(q, f, p) for q, f, p in zip(moduli, factors, added, strict=True)])
    arguments: Arguments = (tables.ring(n, moduli), scales, *u32(z_rows, centre_from))
    return [per_coefficient("basis_conversion", "digits", n, len(moduli), (x, z, out), arguments)]


def lower_basis_extend(unit: ExecUnit, tables: Tables) -> Pattern:
    mode, new = parameters(unit, 2)
    require(mode in _MODES, unit, f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs, exact, new = len(moduli), mode == "exact", tuple(new)
    support(not exact or limbs <= MAX_EXACT_LIMBS, unit, f"exact takes at most {MAX_EXACT_LIMBS} limbs, got {limbs}")
    unit.ring.extend(new)  # raises unless the new moduli fit the ring
    check_operands(unit, (limbs * n,), ((limbs + len(new)) * n,))
    x, out, digits = At(0), At(1), At(SCRATCH)
    centred = mode == "centred"
    steps = [copy_step(limbs * n, x, out)]
    if not new:
        return Pattern(tuple(steps))
    factors = digit_factors(moduli)
    steps += to_digits(tables, n, moduli, factors, Domain.COEFF, x, digits, centre_from=0 if centred else NONE)
    if exact:
        reciprocals = [w for q in moduli for w in ((1 << (63 + q.bit_length())) // q, q.bit_length() + 7)]
        arguments: Arguments = (tables.constant(reciprocals), *u32(limbs))
        steps.append(per_coefficient("basis_conversion", "overflow", n, 1, (digits, digits.row(limbs, n)), arguments))
    rows = conversion_rows(moduli, cofactors(moduli), new, centred=centred, overflow=-prod(moduli) if exact else 0)
    constants = tables.constant([w for row in rows for w in row])
    arguments = (tables.ring(n, new), constants, *u32(limbs + exact))
    steps.append(
        per_coefficient("basis_conversion", "convert_rows", n, len(new), (digits, out.row(limbs, n)), arguments)
    )
    return Pattern(tuple(steps), (limbs + exact) * n)


class Gadget:
    """The centred digits of the polynomial x in `rows`, and their conversions to its limbs and the special ones."""

    def __init__(
        self, tables: Tables, unit: ExecUnit, alpha: int, special: tuple[int, ...], domain: Domain, x: At, rows: At
    ) -> None:
        self._tables, self._n = tables, unit.ring.n
        moduli = unit.ring.moduli
        self.limbs, self.alpha = len(moduli), min(alpha, len(moduli))
        self.targets = (*moduli, *special)
        self._parts = [moduli[start:stop] for start, stop in digit_bounds(self.limbs, self.alpha)]
        self._own = x if domain is Domain.NTT else None
        factors = [f for part in self._parts for f in digit_factors(part)]
        #: The launches that write the digits.
        self.steps = to_digits(tables, self._n, moduli, factors, domain, x, rows, centre_from=0)

    @property
    def count(self) -> int:
        return len(self._parts)

    def digits(self, first: int, stop: int) -> Digits:
        """Their conversions to targets first..stop-1."""
        targets = self.targets[first:stop]
        constants = [
            w
            for part in self._parts
            for row in conversion_rows(part, cofactors(part), targets, centred=True)
            # The word after the factors is the last one, so narrower digits are padded behind it.
            for w in (*row, *[0] * (self.alpha + 1 - len(row)))
        ]
        own = None if self._own is None else self._own.row(first, self._n)
        return Digits(targets, self.count, self.alpha, self.limbs, self._tables.constant(constants), own, first)


def lower_decompose(unit: ExecUnit, tables: Tables) -> Pattern:
    alpha, special, domain = parameters(unit, 3)
    require(alpha >= 1, unit, f"alpha must be at least 1, got {alpha}")
    n, limbs = unit.ring.n, unit.ring.limbs
    wide = unit.ring.extend(special) if special else unit.ring
    check_operands(unit, (limbs * n,), (len(digit_bounds(limbs, alpha)) * wide.limbs * n,))
    x, out, rows = At(0), At(1), At(SCRATCH)
    gadget = Gadget(tables, unit, alpha, tuple(special), domain_of(unit, domain), x, rows)
    steps = digits_forward(tables, n, gadget.digits(0, wide.limbs), rows, out)
    return Pattern((*gadget.steps, *steps), limbs * n)

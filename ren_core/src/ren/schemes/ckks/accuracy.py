"""The smallest scales that leave a result: one floor for values, one for public factors, both derived from the noise model.

Every operation that the library inserts or refuses by itself is decided here, so that a scale below the noise is never met silently.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ren.errors import ScaleTooSmallError
from ren.schemes.ckks import noise
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.scale import Scale

#: Of a value of modulus 1 at least this much must be certain: an error below 2^-7 keeps two decimal digits.
_LEAST_BITS = 7
_TERNARY_VARIANCE = 2.0 / 3.0


@lru_cache(maxsize=256)
def value_floor(params: CKKSParams, parts: int = 2) -> float:
    """log2 of the smallest scale of a value.

    The least noise that any value gets to carry is the rounding of one division by a prime, e_0 + e_1 s with coefficients of variance 1/12: in slots, at scale 1,
    `noise.rounding(n, 1, 1)`, of which B is the bound that holds in all slots but for a chance of 2^-40. At scale s the error is B / s, which must not exceed
    2^-7 for values of modulus 1: s >= 2^7 B (2^16 for 64 slots, 2^25 for 32768). Parameters that were chosen for less keep what they have: the floor
    is never above half of the base scale. A value of three parts rounds e_2 s^2 too, with sqrt(2 n h) times the deviation (h = 2/3).
    """
    bits = _LEAST_BITS + math.log2(noise.rounding(params.n, 1, 1).bound(params.slot_count))
    bits = min(bits, params.scale_bits - 1)
    return bits if parts <= 2 else bits + 0.5 * math.log2(2 * params.n * _TERNARY_VARIANCE)


def require_value_scale(params: CKKSParams, operation: str, scale: Scale, *, parts: int = 2) -> None:
    """Raise ScaleTooSmallError (a ValueError) when `scale` is below `value_floor`."""
    floor = value_floor(params, parts)
    if scale.log2 < floor:
        raise ScaleTooSmallError(
            f"{operation}: the scale would be 2^{scale.log2:.2f}, below 2^{floor:.2f}, where the noise of these parameters drowns values of modulus 1",
            subject=operation,
            hint="Rescale only products; encode at the standard scale of the level (scale=None), or take factors whose scales multiply to more",
        )


def standard_bits(params: CKKSParams, level: int) -> float:
    """log2 of the standard scale of a level, or of the base scale where the ladder of hand-made primes has climbed above it."""
    return min(params.scale_at(level).log2, float(params.scale_bits))


def factor_floor(params: CKKSParams, level: int) -> float:
    """log2 of the smallest scale at which a public factor is rounded to integers for a product at `level`.

    Rounding has variance 1/12 in each coefficient of the factor, n/12 in a slot; a rescale to the standard scale s adds (n/12)(1 + n h). At a scale of
    s / sqrt(1 + n h) both are equal, so the factor never costs more than the rescale does.
    """
    return standard_bits(params, level) - slack_bits(params)


def slack_bits(params: CKKSParams) -> float:
    """log2 sqrt(1 + n h): how much smaller than a value's the scale of a public factor may be."""
    return 0.5 * math.log2(1 + params.n * _TERNARY_VARIANCE)


def operand_floor(params: CKKSParams, level: int) -> float:
    """log2 of the smallest scale to which an encrypted operand is brought by the library: its rescale then adds at most twice the noise of a standard one."""
    return standard_bits(params, level) - 1


def holds_one(params: CKKSParams, level: int, scale: Scale) -> bool:
    """Whether a slot of modulus 1 fits a level at this scale (a quarter of the modulus)."""
    return scale.log2 + 2 <= math.log2(params.ring_at(level).modulus)

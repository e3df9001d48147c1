"""How two operands of different level or scale are brought together: pure planning, then three polynomial operations.

An operand is brought down by dropping primes (free, keeps the scale), multiplying by an integer constant and rescaling. Going from
(level l, scale s) to (level m, scale t) with one rescale takes the constant c = round(t * p / s), p the prime dropped at
level m - 1. For operands on the scale ladder of `CKKSParams.scale_at` c is about the base scale, so that c * s / p equals t up to
a relative error of 2^-(scale_bits + 1). The result is *declared* to have scale t: equal scales stay equal by exponents, and
the deviation is an error of the value (below 2^-30 for scales of 30 bits and more, counted by `ren.schemes.ckks.noise`), never a drifting scale.

The method is the level adjustment of Kim, Papadimitriou, Polyakov, "Approximate Homomorphic Encryption with Reduced Approximation
Error" (ia.cr/2020/1118), section 3.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from ren.errors import LevelExhaustedError
from ren.poly import Poly
from ren.schemes.ckks import accuracy
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.scale import Scale

#: A multiplier of this size or more stands for any ratio with a relative error of at most 2^-30.
_ACCURATE = 1 << 29
#: How many primes an alignment divides by at once when one is too small to make the multiplier accurate.
_MOST_RESCALES = 2
#: Ratios of scales beyond this are refused: no modulus holds them.
_MOST_RATIO_BITS = 2048

State = tuple[int, Scale]


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Drop `drop` primes, multiply by `multiplier`, rescale by the last `rescales` primes: in this order."""

    drop: int
    multiplier: int
    rescales: int

    @property
    def free(self) -> bool:
        """Whether it only drops primes."""
        return self.multiplier == 1 and self.rescales == 0

    def apply(self, poly: Poly) -> Poly:
        if self.drop:
            poly = poly.mod_drop(self.drop)
        if self.multiplier != 1:
            poly = poly * self.multiplier
        if self.rescales:
            poly = poly.mod_down(self.rescales)
        return poly


@dataclass(frozen=True, slots=True)
class Alignment:
    """Adjustments of the two operands and the state that both have afterwards."""

    first: Adjustment
    second: Adjustment
    level: int
    scale: Scale


@lru_cache(maxsize=4096)
def adjustment(params: CKKSParams, level: int, scale: Scale, to_level: int, to_scale: Scale) -> Adjustment | None:
    """How to go from (level, scale) to (to_level, to_scale); None when no accurate way exists within those levels."""
    gap = to_level - level
    if gap < 0:
        return None
    if scale == to_scale:
        return Adjustment(gap, 1, 0)
    if to_scale.log2 < accuracy.value_floor(params):
        return None
    accurate = min(_ACCURATE, 1 << (params.scale_bits - 1))
    for rescales in range(min(gap, _MOST_RESCALES) + 1):
        ratio = to_scale * _dropped(params, to_level - rescales, to_level) / scale
        if ratio.log2 > _MOST_RATIO_BITS:
            return None
        multiplier = ratio.nearest_integer()
        if multiplier >= accurate or (multiplier > 0 and ratio == multiplier):
            return Adjustment(gap - rescales, multiplier, rescales)
    return None


def _dropped(params: CKKSParams, start: int, stop: int) -> Scale:
    return Scale(tuple((params.prime_dropped_at(level), 1) for level in range(start, stop)))


@lru_cache(maxsize=4096)
def for_sum(params: CKKSParams, first: State, second: State, operation: str = "add") -> Alignment:
    """A common (level, scale) for addition: the deeper operand's state where possible.

    Order does not matter. Costs no level beyond the deeper operand's unless the operands sit at one level with scales that
    differ by less than an integer factor; then it costs one or two. Raises LevelExhaustedError when those are not there.
    """
    (l1, s1), (l2, s2) = first, second
    deep = max(l1, l2)
    if l1 != l2:
        targets = [(deep, s2 if l2 > l1 else s1), (deep, s1 if l2 > l1 else s2)]
    else:
        targets = [(deep, max(s1, s2))]
    targets += [
        (level, params.scale_at(level)) for level in range(deep + 1, min(deep + _MOST_RESCALES, params.levels) + 1)
    ]
    for level, scale in targets:
        if (level, scale) not in (first, second) and not accuracy.holds_one(params, level, scale):
            continue
        a, b = adjustment(params, l1, s1, level, scale), adjustment(params, l2, s2, level, scale)
        if a is not None and b is not None:
            return Alignment(a, b, level, scale)
    raise LevelExhaustedError(
        f"{operation}: scales 2^{s1.log2:.6f} (level {l1}) and 2^{s2.log2:.6f} (level {l2}) differ and aligning them needs a level; "
        f"levels left: {params.levels - deep}",
        subject=operation,
        hint="Encode at the scale of the other operand (scale=None takes the standard one), or use parameters with more levels",
    )


@dataclass(frozen=True, slots=True)
class Product:
    """What each operand goes through before a product, one adjustment after the other; the common level and the two scales there."""

    first: tuple[Adjustment, ...]
    second: tuple[Adjustment, ...]
    level: int
    first_scale: Scale
    second_scale: Scale


@dataclass(frozen=True, slots=True)
class Factor:
    """Rescale the value `rescales` times, to (level, scale), then multiply by a public factor encoded at `factor`."""

    rescales: int
    level: int
    scale: Scale
    factor: Scale


def rescales_due(params: CKKSParams, level: int, scale: Scale, last: int) -> int:
    """How often a value is to be rescaled, down to level `last` at most, before it is multiplied or evaluated.

    A product that was not rescaled has a scale that stays above `accuracy.operand_floor` after the division by the next prime: it can be rescaled
    without a loss, and must be, as no public factor would fit beside it. Other scales (2^60 next to primes of 40 bits, say) cannot and give 0.
    """
    count = 0
    while level < last:
        scale = scale / params.prime_dropped_at(level)
        if scale.log2 < accuracy.operand_floor(params, level + 1):
            break
        level, count = level + 1, count + 1
    return count


def _overdue(params: CKKSParams, level: int, scale: Scale) -> bool:
    """Whether the value is an unrescaled product. At the last level, where no prime is left to tell by, the base scale stands for one."""
    prime = params.prime_dropped_at(level) if level < params.levels else 1 << params.scale_bits
    return scale.log2 - math.log2(prime) >= accuracy.operand_floor(params, min(level + 1, params.levels))


@lru_cache(maxsize=4096)
def for_factor(params: CKKSParams, level: int, scale: Scale, rescale: bool, operation: str = "multiply") -> Factor:
    """How a value at (level, scale) is multiplied by public numbers; rescale: whether a rescale follows.

    The factor is encoded at `partner_scale`, so that the rescaled product lies on the ladder, unless that is below
    `accuracy.factor_floor`: then a value that is a product without its rescale is rescaled first (a level each), and next to any other large scale the factor takes
    the standard scale of the level; the product then keeps its large scale. Raises LevelExhaustedError when a rescale is due and no level is left for it.
    """
    last = params.levels - int(rescale)
    count = rescales_due(params, level, scale, last)
    before = (level, scale)
    scale = scale / _dropped(params, level, level + count)
    level += count
    factor = partner_scale(params, level, scale)
    if factor.log2 < accuracy.factor_floor(params, level):
        factor = params.scale_at(level)
        if _overdue(params, level, scale) and not accuracy.holds_one(params, level, scale * factor):
            raise _exhausted(params, operation, before)
    return Factor(count, level, scale, factor)


def _exhausted(params: CKKSParams, operation: str, *states: State) -> LevelExhaustedError:
    shown = " and ".join(f"2^{scale.log2:.2f} (level {level})" for level, scale in states)
    left = params.levels - max(level for level, _ in states)
    return LevelExhaustedError(
        f"{operation}: scale {shown}: a product that was not rescaled must be rescaled before the next one, and there are too few levels for it; levels left: {left}",
        subject=operation,
        hint="Use parameters with more levels, or decrypt the product as it is",
    )


@lru_cache(maxsize=4096)
def for_product(params: CKKSParams, first: State, second: State, rescale: bool = True) -> Product:
    """How two values meet in a product; rescale: whether a rescale follows.

    Operands at one level are multiplied as they are when none is a product that still waits for its rescale, or when the caller keeps products unrescaled
    (rescale=False) and the level holds the result: the scale of the product is exact whatever the scales are. Otherwise such an operand is
    rescaled first, a level each. Then the shallower operand is brought to the level of the deeper one, with the scale that puts the rescaled product on the ladder
    unless that is below `accuracy.operand_floor` (it then takes the standard scale); where no accurate multiplier exists it drops primes and keeps its scale, which is
    exact. Raises LevelExhaustedError when a rescale is due, no level is left for it, and the level does not hold the product.
    """
    states = [first, second]
    steps: list[tuple[Adjustment, ...]] = [(), ()]
    kept = first[0] == second[0] and not rescale and accuracy.holds_one(params, first[0], first[1] * second[1])
    for i, (level, scale) in enumerate(states):
        count = 0 if kept else rescales_due(params, level, scale, params.levels - int(rescale))
        if count:
            steps[i] = (Adjustment(0, 1, count),)
            states[i] = (level + count, scale / _dropped(params, level, level + count))
    (l1, s1), (l2, s2) = states
    deep = max(l1, l2)
    if l1 != l2:
        i = 0 if l1 < l2 else 1
        (at, mine), (_, other) = states[i], states[1 - i]
        target = partner_scale(params, deep, other)
        if target.log2 < accuracy.operand_floor(params, deep):
            target = params.scale_at(deep)
        moved = adjustment(params, at, mine, deep, target)
        if moved is None:
            moved, target = Adjustment(deep - at, 1, 0), mine
        steps[i] += (moved,)
        states[i] = (deep, target)
    (_, s1), (_, s2) = states
    waiting = any(_overdue(params, *state) for state in states)
    if waiting and not accuracy.holds_one(params, deep, s1 * s2):
        raise _exhausted(params, "multiply", first, second)
    return Product(steps[0], steps[1], deep, s1, s2)


def partner_scale(params: CKKSParams, level: int, scale: Scale) -> Scale:
    """The scale of a factor that puts its rescaled product with (level, scale) on the ladder; at the last level the standard scale."""
    if level >= params.levels:
        return params.scale_at(level)
    return params.scale_at(level + 1) * params.prime_dropped_at(level) / scale


@lru_cache(maxsize=4096)
def _fixed_point(scale: Scale, bits: int) -> int:
    return (scale * Scale.power_of_two(bits)).nearest_integer()


@lru_cache(maxsize=8192)
def scaled_integer(value: int | float, scale: Scale) -> int:
    """round(value * scale), ties to even, for an exact int or double."""
    numerator, denominator = value.as_integer_ratio()
    bits = 128 + max(numerator.bit_length(), denominator.bit_length())
    product = numerator * _fixed_point(scale, bits)
    return _round_shift(product, denominator.bit_length() - 1 + bits)


def _round_shift(value: int, bits: int) -> int:
    floor = value >> bits
    rest = value - (floor << bits)
    half = 1 << (bits - 1)
    return floor + (rest > half or (rest == half and floor & 1))

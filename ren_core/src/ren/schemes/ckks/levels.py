"""Levels and scales of one value: rescale, drop primes, move to a deeper level."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ren.errors import LevelExhaustedError, UnsupportedOperandError
from ren.schemes.ckks import accuracy, alignment
from ren.schemes.ckks.alignment import Adjustment
from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
from ren.schemes.ckks.message import integer
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.parts import E, Parts, like, parts
from ren.schemes.ckks.plaintext import Plaintext
from ren.schemes.ckks.scale import Scale

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine


def require_level(engine: PublicEngine, operation: str, level: int, *operands: Any) -> None:
    """Raise LevelExhaustedError unless one more rescale is possible at `level`."""
    if level < engine.params.levels:
        return
    at = ", ".join(
        str(x.level)
        for x in operands
        if isinstance(x, (Ciphertext, CiphertextProduct, Plaintext)) and getattr(x, "scale", None) is not None
    )
    raise LevelExhaustedError(
        f"{operation}: no level left. Operands at level {at}; the parameters have {engine.params.levels} levels, levels left: 0",
        subject=operation,
        hint=f"Use parameters with more levels (CKKSParams.for_(depth={engine.params.levels + 1}, ...)), or restructure the computation to multiply less in sequence",
    )


def rescale(engine: PublicEngine, x: E) -> E:
    """Divide message and modulus by the last prime: level + 1, scale / prime.

    Raises LevelExhaustedError at the last level, ScaleTooSmallError when the scale would fall below `accuracy.value_floor` (x is no product).
    """
    require_level(engine, "rescale", x.level, x)
    return rescaled(engine, x)


def rescaled(engine: PublicEngine, x: E, operation: str = "rescale") -> E:
    """As `rescale`, where a level is known to be left."""
    scale = scale_after(engine, x.level, x.scale, operation, parts=len(parts(x)))
    return like(x, tuple(p.rescale() for p in parts(x)), x.level + 1, scale, x.bound)


def scale_after(engine: PublicEngine, level: int, scale: Scale, operation: str, *, parts: int = 2) -> Scale:
    """The scale after a rescale at `level`. Raises ScaleTooSmallError."""
    result, fits = _after(engine.params, level, scale, parts)
    if not fits:
        accuracy.require_value_scale(engine.params, operation, result, parts=parts)
    return result


@lru_cache(maxsize=4096)
def _after(params: CKKSParams, level: int, scale: Scale, parts: int) -> tuple[Scale, bool]:
    """The scale after a rescale, and whether it is large enough for a value of so many parts."""
    result = scale / params.prime_dropped_at(level)
    return result, result.log2 >= accuracy.value_floor(params, parts)


def apply(adjustment: Adjustment, p: Parts) -> Parts:
    """All parts of a value, adjusted."""
    return p if adjustment.free and not adjustment.drop else tuple(map(adjustment.apply, p))


def apply_all(adjustments: tuple[Adjustment, ...], p: Parts) -> Parts:
    """All parts of a value, through one adjustment after the other."""
    for adjustment in adjustments:
        p = apply(adjustment, p)
    return p


def settled(x: Ciphertext, rescales: int, level: int, scale: Scale) -> Ciphertext:
    """x after the `rescales` that were due (`alignment.rescales_due`), at (level, scale)."""
    if not rescales:
        return x
    return like(x, apply(Adjustment(0, 1, rescales), parts(x)), level, scale, x.bound)


def mod_drop(engine: PublicEngine, x: E, levels: int = 1) -> E:
    """Drop `levels` primes without dividing: level + levels, same scale and message. Free."""
    count = integer(levels)
    if count is None or count < 0:
        raise UnsupportedOperandError(f"mod_drop: levels must be an int >= 0, got {levels!r}", subject="mod_drop")
    levels = count
    if levels == 0:
        return x
    if x.level + levels > engine.params.levels:
        raise LevelExhaustedError(
            f"mod_drop: {levels} levels from level {x.level}; levels left: {engine.params.levels - x.level}",
            subject="mod_drop",
            hint="Drop fewer levels",
        )
    bound = engine.check_bound("mod_drop", x.bound, x.level + levels, x.scale, x.bound)
    return like(x, tuple(p.mod_drop(levels) for p in parts(x)), x.level + levels, x.scale, bound)


def adjust(engine: PublicEngine, x: E, level: int, scale: Scale | None = None) -> E:
    """x at a deeper level with the given scale (None: the standard one), as automatic alignment brings it there.

    Raises LevelExhaustedError when there is no accurate way, for example to a higher scale at the same level.
    """
    level = engine.params.check_level(level)
    target = engine.params.scale_at(level) if scale is None else Scale.of(scale)
    accuracy.require_value_scale(engine.params, "adjust", target)
    plan = alignment.adjustment(engine.params, x.level, x.scale, level, target)
    if plan is None:
        raise LevelExhaustedError(
            f"adjust: no accurate way from level {x.level}, scale 2^{x.scale.log2:.6f} to level {level}, scale 2^{target.log2:.6f}",
            subject="adjust",
            hint="Choose a deeper level: changing a scale by less than an integer factor takes a rescale",
        )
    bound = engine.check_bound("adjust", x.bound, level, target, x.bound)
    return like(x, apply(plan, parts(x)), level, target, bound)

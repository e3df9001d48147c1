"""Hybrid key switching on the graph: decompose once, multiply by a key, divide by the special primes.

Han and Ki (ia.cr/2019/688), section 3, with three changes that cost nothing: the base conversions are centred (the plain ones have a mean that shows up
as a large error in the lowest slots), keys are pre-rotated so that the automorphism comes last and digits are shared by all rotations, and the division by
the special primes takes the last chain prime along when a rescale follows (two transforms per limb less). That division has two stages, first the special primes,
then the chain prime (`ren.ops.Op.MOD_DOWN`), so it has the rounding error of an exact rescale: with one conversion of all of them it would be sqrt(k + 1) times as large.
"""

from __future__ import annotations

from ren.poly import Digits, Poly, decompose
from ren.schemes.ckks.keys import EvaluationKey, RelinearizationKey
from ren.schemes.ckks.params import CKKSParams


def digits_of(params: CKKSParams, poly: Poly) -> Digits:
    """The gadget digits of `poly`, over the chain at its level and the special primes. One node: share it between keys."""
    return decompose(poly, params.alpha, params.special)


def switch(
    digits: Digits, key: EvaluationKey, level: int, *, b: Poly | None = None, a: Poly | None = None, rescales: int = 0
) -> tuple[Poly, Poly]:
    """(b, a) + the switched value, in the ring at `level` less `rescales` primes.

    The sum happens before the division, so with rescales = 1 the result is rescale((b, a) + switched) with a single rounding.
    """
    return digits.switch(key.buffer, key.limb_index(level), len(key.params.special) + rescales, b, a)


def relinearize(
    params: CKKSParams, key: RelinearizationKey, level: int, b: Poly, a: Poly, c: Poly, *, rescales: int = 0
) -> tuple[Poly, Poly]:
    """b + a s + c s^2 as two polynomials; `rescales` primes are divided away in the same step."""
    return switch(digits_of(params, c), key, level, b=b, a=a, rescales=rescales)


def tensor(p: tuple[Poly, ...], q: tuple[Poly, ...]) -> tuple[Poly, Poly, Poly]:
    """The product of (b, a) and (b', a') as (b, a, c)."""
    (b1, a1), (b2, a2) = p, q
    if b1 is b2 and a1 is a2:
        cross = a1 * b1
        return b1 * b1, cross + cross, a1 * a1
    return b1 * b2, a1 * b2 + a2 * b1, a1 * a2

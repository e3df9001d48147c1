"""Polynomials of a ciphertext in the least number of levels: ceil(log2(degree + 1)).

Paterson and Stockmeyer's splitting p = q x^m + r with m a power of two, and the exact scale bookkeeping of Bossuat, Mouchet, Troncoso-Pastoriza and Hubaux
("Efficient Bootstrapping for Approximate Homomorphic Encryption with Non-sparse Keys", ia.cr/2020/1203, section 5): a part is evaluated *for* a level and a scale,
the scale that puts its product with x^m where the sum needs it. Leaves choose their integer coefficients accordingly, so nothing is ever aligned afterwards.

The leading part has no level to spare and is split down to degree 1; every other part has one, and stops at a sum over the powers x .. x^(2^b - 1), with b chosen for
the fewest products. Products are summed before they are relinearized.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ren.engine.deferred import deferred_call
from ren.errors import EncodingError, LevelExhaustedError
from ren.poly import Poly
from ren.schemes.ckks import accuracy, alignment, key_switching, levels
from ren.schemes.ckks.alignment import scaled_integer
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.keys import RelinearizationKey
from ren.schemes.ckks.plaintext import Number, as_number, magnitude
from ren.schemes.ckks.rotation import require_ciphertext
from ren.schemes.ckks.scale import Scale

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine

BASES = ("power", "chebyshev")
Coefficients = tuple[Number, ...]
Parts = tuple[Poly, ...]


def polyval(
    engine: PublicEngine,
    x: Ciphertext,
    coefficients: Sequence[Number],
    *,
    basis: str = "power",
    key: RelinearizationKey | None = None,
) -> Ciphertext:
    """sum coefficients[i] x^i (basis "power") or sum coefficients[i] T_i(x) (basis "chebyshev", for x in [-1, 1]), slot by slot.

    coefficients: real or complex, lowest degree first, as numpy.polynomial has them. Level: x.level + ceil(log2(degree + 1)); scale: the standard one there.
    A constant polynomial gives a transparent ciphertext at x.level. Raises LevelExhaustedError naming the levels needed, EncodingError (a ValueError) for
    empty or non-finite coefficients or an unknown basis.
    """
    require_ciphertext(x, "polyval")
    if basis not in BASES:
        raise EncodingError(f"polyval: basis must be one of {BASES}, got {basis!r}", subject="basis")
    try:
        given = list(coefficients)
    except TypeError:
        raise EncodingError(
            f"polyval: the coefficients must be a sequence of numbers, got {type(coefficients).__name__}",
            subject="coefficients",
            hint="For example [1.0, 0.5], lowest degree first",
        ) from None
    c = _trimmed(as_number(v) for v in given)
    if not c:
        raise EncodingError("polyval: there must be at least one coefficient", subject="coefficients")
    degree = len(c) - 1
    if degree == 0:
        return engine.add(engine.mul(x, 0), c[0])  # type: ignore[no-any-return]
    x = _on_ladder(engine, x, degree)
    depth = degree.bit_length()
    if depth > x.levels_left:
        raise LevelExhaustedError(
            f"polyval: degree {degree} needs {depth} levels; the ciphertext is at level {x.level}, levels left: {x.levels_left}",
            subject="polyval",
            hint=f"Use a degree of at most {2**x.levels_left - 1}, or parameters with more levels",
        )
    level = x.level + depth
    for v in c:
        engine.require_capacity("polyval", magnitude(v), level, engine.params.scale_at(level))
    evaluation = _Evaluation(engine, x, basis == "chebyshev", _baby_bits(degree), key)
    b, a = evaluation.at(c, level, engine.params.scale_at(level))
    size = deferred_call(_bound, c, basis == "chebyshev", x.bound)
    bound = engine.check_bound("polyval", size, level, engine.params.scale_at(level), x.bound)
    is_real = x.is_real and not any(isinstance(v, complex) for v in c)
    return Ciphertext(a, b, level, engine.params.scale_at(level), x.slots, x.key_id, bound, is_real)


def _on_ladder(engine: PublicEngine, x: Ciphertext, degree: int) -> Ciphertext:
    """x with a scale from which all powers up to `degree` keep theirs near the standard one.

    A scale off by a factor r makes that of x^i off by r^i, and the integers that stand for coefficients small. As long as r^degree stays within
    `accuracy.slack_bits` nothing is done; else x is brought to the standard scale of the first level where that is accurate: a product is rescaled, an odd
    explicit scale takes up to two levels. Raises LevelExhaustedError when they are not there.
    """
    params = engine.params
    drift = abs((x.scale / params.scale_at(x.level)).log2)
    if drift * degree <= accuracy.slack_bits(params):
        return x
    due = alignment.rescales_due(params, x.level, x.scale, params.levels)
    if due:
        scale = x.scale
        for level in range(x.level, x.level + due):
            scale = scale / params.prime_dropped_at(level)
        return _on_ladder(engine, levels.settled(x, due, x.level + due, scale), degree)
    for level in range(x.level, min(x.level + 2, params.levels) + 1):
        if alignment.adjustment(params, x.level, x.scale, level, params.scale_at(level)) is not None:
            return levels.adjust(engine, x, level)
    raise LevelExhaustedError(
        f"polyval: the argument at level {x.level} has scale 2^{x.scale.log2:.2f}, the standard one is 2^{params.scale_at(x.level).log2:.2f}, and bringing it there takes a level; levels left: {x.levels_left}",
        subject="polyval",
        hint="Encode the argument at the standard scale (scale=None) and rescale products, or use parameters with more levels",
    )


class _Evaluation:
    """One polynomial of one ciphertext: its powers (or Chebyshev polynomials), each made once."""

    def __init__(
        self, engine: PublicEngine, x: Ciphertext, chebyshev: bool, baby: int, key: RelinearizationKey | None
    ) -> None:
        self.engine = engine
        self.params = engine.params
        self.chebyshev = chebyshev
        self.baby = baby
        self.key = engine.use_key(key, x.key_id, "polyval") if key is not None else engine.keys.relinearization_key()
        self.start = x.level
        self.powers: dict[int, tuple[Parts, int, Scale]] = {1: ((x.b, x.a), x.level, x.scale)}

    # -- powers

    def power(self, i: int) -> tuple[Parts, int, Scale]:
        """x^i or T_i at level start + ceil(log2 i), with whatever scale the products give."""
        found = self.powers.get(i)
        if found is None:
            high = 1 << ((i - 1).bit_length() - 1)
            self.power(high)
            self.power(i - high)
            level = self.start + (i - 1).bit_length() - 1
            (p, s), (q, t) = self.dropped(high, level), self.dropped(i - high, level)
            scale = s * t
            b, a, c = key_switching.tensor(p, q)
            if self.chebyshev:  # T_(h+k) = 2 T_h T_k - T_(h-k)
                b, a, c = b + b, a + a, c + c
                rest = 2 * high - i
                if rest == 0:
                    b = b - scaled_integer(1, scale)
                else:
                    self.power(rest)
                    r, u = self.dropped(rest, level)
                    factor = scaled_integer(1, scale / u)
                    b, a = b - r[0] * factor, a - r[1] * factor
            moved = key_switching.relinearize(self.params, self.key, level, b, a, c, rescales=1)
            found = self.powers[i] = (moved, level + 1, scale / self.params.prime_dropped_at(level))
        return found

    def dropped(self, i: int, level: int) -> tuple[Parts, Scale]:
        """A power with the primes of `level`; dropping primes keeps its scale."""
        p, at, scale = self.power(i)
        return (p if at == level else tuple(part.mod_drop(level - at) for part in p)), scale

    # -- parts of the polynomial

    def at(self, c: Coefficients, level: int, scale: Scale) -> Parts:
        """(b, a) of the polynomial at exactly (level, scale)."""
        prime = self.params.prime_dropped_at(level - 1)
        p = self.unrescaled(c, level - 1, scale * prime)
        if len(p) == 2:
            return tuple(part.rescale() for part in p)
        return key_switching.relinearize(self.params, self.key, level - 1, *p, rescales=1)

    def unrescaled(self, c: Coefficients, level: int, scale: Scale) -> Parts:
        """(b, a) or (b, a, c) at (level, scale), still to be rescaled."""
        degree = len(c) - 1
        depth = degree.bit_length()
        spare = level + 1 - self.start - depth
        if degree <= 1 or (spare > 0 and degree < 1 << self.baby):
            return self.combination(dict(enumerate(c)), level, scale)
        m = 1 << (depth - 1)
        quotient, remainder = _divide(c, m, self.chebyshev)
        if len(quotient) == 1:
            return self.plus(self.combination({m: quotient[0]}, level, scale), remainder, level, scale)
        self.power(m)
        y, y_scale = self.dropped(m, level)
        product = key_switching.tensor(self.at(quotient, level, scale / y_scale), y)
        return self.plus(product, remainder, level, scale)

    def plus(self, p: Parts, remainder: Coefficients, level: int, scale: Scale) -> Parts:
        if not any(remainder):
            return p
        r = self.unrescaled(remainder, level, scale)
        longer, shorter = (p, r) if len(p) >= len(r) else (r, p)
        return tuple(s + t for s, t in zip(longer, shorter, strict=False)) + longer[len(shorter) :]

    def combination(self, terms: dict[int, Number], level: int, scale: Scale) -> Parts:
        """sum of coefficient times power, each coefficient an integer at the scale that the sum needs."""
        total: list[Poly | None] = [None, None]
        turned: list[Poly | None] = [None, None]
        for i, value in terms.items():
            if i == 0 or not value:
                continue
            self.power(i)
            p, s = self.dropped(i, level)
            _accumulate(total, p, scaled_integer(value.real, scale / s))
            if isinstance(value, complex):
                _accumulate(turned, p, scaled_integer(value.imag, scale / s))
        p, _ = self.dropped(1, level)
        unit = self.engine.imaginary_unit(p[0].ring) if any(isinstance(v, complex) for v in terms.values()) else None
        b, a = (t if t is not None else part * 0 for t, part in zip(total, p, strict=True))
        if unit is not None and turned[0] is not None and turned[1] is not None:
            b, a = b + unit * turned[0], a + unit * turned[1]
        constant = terms.get(0, 0)
        if constant:
            b = b + scaled_integer(constant.real, scale)
            if isinstance(constant, complex) and unit is not None:
                b = b + unit * scaled_integer(constant.imag, scale)
        return b, a


def _bound(c: Coefficients, chebyshev: bool, bound: float) -> float:
    """The largest absolute value of the polynomial for arguments up to `bound`."""
    total = 0.0
    for i, v in enumerate(c):
        try:
            size = math.cosh(i * math.acosh(max(1.0, bound))) if chebyshev else bound**i
        except OverflowError:
            size = math.inf
        total += abs(v) * size if v else 0.0
    return total


def _accumulate(total: list[Poly | None], p: Parts, factor: int) -> None:
    if factor:
        for i, part in enumerate(p):
            term = part * factor
            so_far = total[i]
            total[i] = term if so_far is None else so_far + term


def _trimmed(values: Any) -> Coefficients:
    c = list(values)
    while len(c) > 1 and not c[-1]:
        c.pop()
    return tuple(c)


def _divide(c: Coefficients, m: int, chebyshev: bool) -> tuple[Coefficients, Coefficients]:
    """(q, r) with p = q x^m + r, or p = q T_m + r by T_(m+i) = 2 T_m T_i - T_(m-i); degree of p below 2 m."""
    low, high = list(c[:m]), list(c[m:])
    if chebyshev:
        for i in range(1, len(high)):
            low[m - i] -= high[i]
            high[i] *= 2
    return _trimmed(high), _trimmed(low)


@lru_cache(maxsize=256)
def _baby_bits(degree: int) -> int:
    """b that makes the fewest products for a dense polynomial of this degree."""
    depth = degree.bit_length()
    return min(range(1, depth + 1), key=lambda b: (_products(degree, b), b))


def _products(degree: int, baby: int) -> int:
    """Products of ciphertexts that the evaluation takes: splits and the powers that they and the leaves need."""
    needed: set[int] = set()
    count = 0
    todo = [(degree, 0)]
    while todo:
        d, spare = todo.pop()
        depth = d.bit_length()
        if d <= 1 or (spare > 0 and d < 1 << baby):
            needed.update(range(2, d + 1))
            continue
        m = 1 << (depth - 1)
        needed.add(m)
        if d > m:
            count += 1
            todo.append((d - m, spare + depth - 1 - (d - m).bit_length()))
        todo.append((m - 1, spare + 1))
    closed: set[int] = set()
    stack = list(needed)
    while stack:
        i = stack.pop()
        if i > 1 and i not in closed:
            closed.add(i)
            high = 1 << ((i - 1).bit_length() - 1)
            stack += [high, i - high]
    return count + len(closed)


def chebyshev_coefficients(f: Any, degree: int) -> list[float]:
    """Coefficients of the Chebyshev interpolant of f on [-1, 1]: a near-best approximation for `polyval(..., basis="chebyshev")`.

    Raises EncodingError (a ValueError) when f is not finite at an interpolation point.
    """
    with np.errstate(all="ignore"):  # reported below, with the place
        values = [
            float(v)
            for v in np.polynomial.chebyshev.chebinterpolate(lambda t: np.vectorize(f, otypes=[float])(t), degree)
        ]
    if not all(map(math.isfinite, values)):
        raise EncodingError(
            "chebyshev_coefficients: the function is not finite everywhere on [-1, 1]",
            subject="f",
            hint="Shift or scale its argument so that [-1, 1] lies in its domain, for example lambda t: np.log(2 + t)",
        )
    return values

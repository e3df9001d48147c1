"""Exact scales before an engine is known.

The scale of a value is a product of integer powers of the scales of a chain: s0 is the engine's base scale and
s(l+1) = s(l)^2 / p(l), p(l) being the prime dropped at level l. The s(l) generate the same group as the base scale and the primes
(p(l) = s(l)^2 / s(l+1)) and keep exponents small: a product at level l is s(l)^2, its rescaled form s(l+1). A scale that a user wrote as a
number is kept as its exact binary value. Two scales are equal exactly when their exponents are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ren.errors import InputSpecError, ProgramVerifyError

#: ("s", level) or ("n", integer base); powers are non-zero.
Term = tuple[str, int, int]

_TERM = re.compile(r"(?:s(?P<level>\d{1,4})|(?P<base>\d{1,40}))(?:\^(?P<power>-?\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SymbolicScale:
    """A product of powers; `terms` is sorted and holds (kind, level or base, power). () is 1."""

    terms: tuple[Term, ...] = ()

    @staticmethod
    def at_level(level: int) -> SymbolicScale:
        """s(level): the scale at which values of that level meet."""
        return _at_level(level)

    @staticmethod
    def of(value: Any) -> SymbolicScale:
        """The scale with exactly this value: a number, a SymbolicScale, or a ckks Scale. Raises InputSpecError unless it is finite and positive."""
        if isinstance(value, SymbolicScale):
            return value
        terms = getattr(value, "terms", None)
        if terms is not None:
            return make({("n", prime): power for prime, power in terms})
        number = float(value) if not isinstance(value, int) else value
        if not number > 0 or (isinstance(number, float) and not math.isfinite(number)):
            raise InputSpecError(f"a scale must be finite and positive, got {value!r}", subject="scale")
        numerator, denominator = number.as_integer_ratio()
        twos = (numerator & -numerator).bit_length() - 1
        odd, power = numerator >> twos, twos - (denominator.bit_length() - 1)
        return SymbolicScale(_normal({("n", 2): power, ("n", odd): 1} if odd > 1 else {("n", 2): power}))

    def __mul__(self, other: SymbolicScale) -> SymbolicScale:
        return _combine(self, other, 1)

    def __truediv__(self, other: SymbolicScale) -> SymbolicScale:
        return _combine(self, other, -1)

    def __pow__(self, exponent: int) -> SymbolicScale:
        return SymbolicScale(tuple((k, b, p * exponent) for k, b, p in self.terms) if exponent else ())

    def rescaled(self, level: int) -> SymbolicScale:
        """Divided by p(level), the prime that rescaling at `level` drops."""
        return _combine(_combine(self, _at_level(level) ** 2, -1), _at_level(level + 1), 1)

    @property
    def is_one(self) -> bool:
        return not self.terms

    def evaluate(self, at_level: Callable[[int], Any], number: Callable[[int], Any]) -> Any:
        """The product over the given engine: `at_level(l)` and `number(i)` give its scales, which multiply and take powers."""
        result = number(1)
        for kind, base, power in self.terms:
            result = result * (at_level(base) if kind == "s" else number(base)) ** power
        return result

    @property
    def has_numbers(self) -> bool:
        """Whether a factor was given as a number, so that an engine decides what it equals."""
        return any(k == "n" for k, _, _ in self.terms)

    @property
    def deepest(self) -> int:
        """The largest level named, -1 for a plain number."""
        return max((b for k, b, _ in self.terms if k == "s"), default=-1)

    @staticmethod
    def parse(text: str) -> SymbolicScale:
        """The inverse of `str`. Raises ProgramVerifyError."""
        if text == "1":
            return SymbolicScale()
        powers: dict[tuple[str, int], int] = {}
        for part in text.split("*"):
            found = _TERM.fullmatch(part)
            if found is None:
                raise ProgramVerifyError(
                    f"not a scale: {text[:60]!r} (write it like s0^2, s1*s2^-1 or 2^40)", subject="scale"
                )
            key = ("s", int(found["level"])) if found["level"] is not None else ("n", int(found["base"]))
            if key in powers or key == ("n", 0) or key == ("n", 1):
                raise ProgramVerifyError(f"not a scale: {text[:60]!r} ({part} is repeated or no base)", subject="scale")
            powers[key] = int(found["power"]) if found["power"] is not None else 1
        return SymbolicScale(_normal(powers))

    def __str__(self) -> str:
        return "*".join(f"{'s' if k == 's' else ''}{b}" + ("" if p == 1 else f"^{p}") for k, b, p in self.terms) or "1"

    def __repr__(self) -> str:
        return f"SymbolicScale({self})"


def make(powers: dict[tuple[str, int], int]) -> SymbolicScale:
    """The scale of a map (kind, level or base) -> power."""
    return SymbolicScale(_normal(powers))


def _normal(powers: dict[tuple[str, int], int]) -> tuple[Term, ...]:
    # "s" terms first, by level: the order a reader expects.
    return tuple((k, b, p) for (k, b), p in sorted(powers.items(), key=lambda i: (i[0][0] == "n", i[0][1])) if p)


@lru_cache(maxsize=512)
def _at_level(level: int) -> SymbolicScale:
    return SymbolicScale((("s", level, 1),))


@lru_cache(maxsize=8192)
def _combine(a: SymbolicScale, b: SymbolicScale, sign: int) -> SymbolicScale:
    powers = {(k, base): p for k, base, p in a.terms}
    for k, base, p in b.terms:
        powers[k, base] = powers.get((k, base), 0) + sign * p
    return SymbolicScale(_normal(powers))

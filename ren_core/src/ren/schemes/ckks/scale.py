"""Exact scales: products of integer powers of primes, kept as exponents.

A CKKS value is stored as round(scale * message). Squaring and rescaling turns a scale s into s^2 / q; after 16 levels the exact
fraction has half a million bits, and a rounded one makes "equal" a matter of luck. So a scale is a map prime -> exponent:
products, quotients and equality are exact and cost a merge of two short tuples. Numbers are only computed when somebody
asks for one (`float`, `nearest_integer`), with `decimal`, whose results are the same on every machine.
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Any

from ren.errors import ParameterError, UnsupportedOperandError
from ren.numtheory.factor import factor
from ren.numtheory.primes import is_prime

#: Odd parts of a user's scale that `Scale.of` takes apart into primes; every float is far below.
_MAX_ODD_PART_BITS = 64
#: Exact fractions larger than this are refused by `as_fraction`: nobody wants to wait for them.
_MAX_FRACTION_BITS = 1 << 20
#: Text may name small composite bases; large ones never come from `str` and would take long to factor.
_LARGEST_COMPOSITE = 1 << 20
_HASH_PRIME = sys.hash_info.modulus


@total_ordering
class Scale:
    """A positive number as a product of prime powers. Immutable, hashable, exact.

    `terms` holds (prime, exponent) pairs, primes ascending, exponents non-zero; () is 1. As factorisation is unique, two scales
    are equal exactly when their terms are. Arithmetic: `*`, `/` with scales, ints and floats, `** int`. `float(s)`,
    `s.log2`, `f"{s:.6e}"` give numbers; `str(s)` gives text such as `2^80*1099512938497^-1` that `Scale.parse` reads back.
    """

    __slots__ = ("terms", "_hash", "_float", "_log2")
    terms: tuple[tuple[int, int], ...]
    _hash: int | None
    _float: float | None
    _log2: float | None

    def __init__(self, terms: tuple[tuple[int, int], ...] = ()) -> None:
        """The product of base^exponent over `terms`; bases are integers > 1, in any order, and need not be prime."""
        powers: dict[int, int] = {}
        for base, exponent in terms:
            if isinstance(base, bool) or not isinstance(base, int) or base < 2 or not isinstance(exponent, int):
                raise ParameterError(
                    f"Scale: terms are (int base > 1, int exponent), got ({base!r}, {exponent!r})", subject="scale"
                )
            for p, k in _factor(base):
                powers[p] = powers.get(p, 0) + k * exponent
        _fill(self, tuple(sorted((p, e) for p, e in powers.items() if e)))

    @classmethod
    def of(cls, value: Scale | int | float) -> Scale:
        """The scale with exactly this value; a float stands for its exact binary value.

        Raises ParameterError (a ValueError) unless the value is finite and positive, TypeError for other types.
        """
        if isinstance(value, Scale):
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            value = _number(value)
        if not math.isfinite(value) or value <= 0:
            raise ParameterError(
                f"a scale must be finite and positive, got {value!r}",
                subject="scale",
                hint="Use a power of two such as 2.0**40",
            )
        return _of_number(value)

    @classmethod
    def power_of_two(cls, exponent: int) -> Scale:
        """2^exponent."""
        return _make(((2, exponent),) if exponent else ())

    @classmethod
    def parse(cls, text: str) -> Scale:
        """The inverse of `str`. Raises ParameterError for anything else."""
        if text.strip() == "1":
            return cls()
        terms = []
        for part in text.split("*"):
            base, caret, exponent = part.strip().partition("^")
            digits = exponent.removeprefix("-")
            if (
                not (base.isascii() and base.isdecimal())
                or (caret and not (digits.isascii() and digits.isdecimal()))
                or len(base) > 40
                or len(digits) > 40
            ):
                raise ParameterError(
                    f"not the text of a scale: {text[:80]!r}",
                    subject="scale",
                    hint="A scale reads like 2^80*1099512938497^-1",
                )
            if int(base) >= _LARGEST_COMPOSITE and not is_prime(int(base)):
                raise ParameterError(f"not the text of a scale: {base} is not prime", subject="scale")
            terms.append((int(base), int(exponent) if caret else 1))
        return cls(tuple(terms))

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def __mul__(self, other: Scale | int | float) -> Scale:
        if not isinstance(other, (Scale, int, float)):
            return NotImplemented
        return _combine(self, Scale.of(other), 1)

    __rmul__ = __mul__

    def __truediv__(self, other: Scale | int | float) -> Scale:
        if not isinstance(other, (Scale, int, float)):
            return NotImplemented
        return _combine(self, Scale.of(other), -1)

    def __rtruediv__(self, other: int | float) -> Scale:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return _combine(Scale.of(other), self, -1)

    def __pow__(self, exponent: int) -> Scale:
        if isinstance(exponent, bool) or not isinstance(exponent, int):
            return NotImplemented
        return _make(tuple((p, e * exponent) for p, e in self.terms) if exponent else ())

    # -- comparison --------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Scale):
            return self is other or self.terms == other.terms
        if isinstance(other, (int, float)):
            return self._equals_number(other)
        return NotImplemented

    def _equals_number(self, value: int | float) -> bool:
        if (
            not value > 0
            or math.isinf(value)
            or any(e < 0 and p > 2 for p, e in self.terms)
            or abs(self.log2 - math.log2(value)) > 1e-3
        ):
            return False
        numerator = math.prod(p**e for p, e in self.terms if e > 0)
        return (numerator, 2 ** -min(self.terms[0][1], 0) if self.terms else 1) == value.as_integer_ratio()

    def __lt__(self, other: Scale | int | float) -> bool:
        if not isinstance(other, (Scale, int, float)):
            return NotImplemented
        if not isinstance(other, Scale) and (not other > 0 or math.isinf(other)):
            return other == math.inf
        if self == other:
            return False
        # Two different values have different logarithms, so growing precision decides.
        digits = 30
        while True:
            mine, error = _ln(self.terms, digits)
            if isinstance(other, Scale):
                theirs, more = _ln(other.terms, digits)
            else:
                numerator, denominator = other.as_integer_ratio()
                theirs, more = _ln(((numerator, 1), (denominator, -1)), digits)
            difference = Context(prec=2 * digits + 40).subtract(mine, theirs)
            if abs(difference) > error + more:
                return difference < 0
            digits *= 2

    def __hash__(self) -> int:
        # Scales that equal a number must hash like it: Python's rule is the value modulo 2^61 - 1.
        value = self._hash
        if value is None:
            if all(e > 0 or p == 2 for p, e in self.terms):
                value = 1
                for p, e in self.terms:
                    value = value * pow(p, e, _HASH_PRIME) % _HASH_PRIME
            else:
                value = hash(("ren.Scale", self.terms))
            object.__setattr__(self, "_hash", value)
        return value

    # -- numbers -----------------------------------------------------------------------------------------------------

    def __float__(self) -> float:
        """The nearest double (within 1e-25 relative before rounding). Raises OverflowError outside 5e-324 .. 1.8e308."""
        value = self._float
        if value is None:
            value = self._to_float()
            object.__setattr__(self, "_float", value)
        return value

    def _to_float(self) -> float:
        power_of_two = len(self.terms) == 1 and self.terms[0][0] == 2
        result = math.ldexp(1.0, self.terms[0][1]) if power_of_two else float(_exp(self.terms, 40))
        if math.isinf(result) or result == 0.0:
            raise OverflowError(f"{self!r} is out of the range of a float")
        return result

    @property
    def log2(self) -> float:
        """Binary logarithm as a double."""
        value = self._log2
        if value is None:
            value = float(Context(prec=40).divide(_ln(self.terms, 40)[0], _ln_of(2, 40)))
            object.__setattr__(self, "_log2", value)
        return value

    def nearest_integer(self) -> int:
        """round(self), exact for values up to 2^4096 (0 for values of at most one half)."""
        if all(e > 0 for _, e in self.terms) and self.log2 < 4096:
            return math.prod(p**e for p, e in self.terms)
        digits = max(0, int(self.log2 * 0.302)) + 40
        return int(_exp(self.terms, digits).to_integral_value(rounding=ROUND_HALF_EVEN, context=Context(prec=digits)))

    def relative_error(self, approximation: int) -> float:
        """approximation / self - 1 as a double, without cancellation: how far an integer used in its place is off."""
        if approximation <= 0:
            raise ParameterError(
                f"relative_error compares with a positive integer, got {approximation}", subject="approximation"
            )
        digits = 40 + len(str(approximation))
        context = Context(prec=digits)
        return float(context.subtract(context.divide(Decimal(approximation), _exp(self.terms, digits)), Decimal(1)))

    def as_fraction(self) -> Fraction:
        """The exact value. Raises ParameterError when it has more than a million bits (deep levels)."""
        bits = sum(abs(e) * p.bit_length() for p, e in self.terms)
        if bits > _MAX_FRACTION_BITS:
            raise ParameterError(
                f"the exact fraction of this scale has about {bits} bits",
                subject="scale",
                hint="Use float(scale), scale.log2 or a comparison",
            )
        return Fraction(
            math.prod(p**e for p, e in self.terms if e > 0), math.prod(p**-e for p, e in self.terms if e < 0)
        )

    # -- text --------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "*".join(str(p) if e == 1 else f"{p}^{e}" for p, e in self.terms) or "1"

    def __repr__(self) -> str:
        text = str(self)
        return f"Scale({text})" if len(text) <= 60 else f"Scale(2^{self.log2:.12f}, {len(self.terms)} primes)"

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Scale is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Scale is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return Scale, (self.terms,)

    def __copy__(self) -> Scale:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Scale:
        return self


def _number(value: Any) -> int | float:
    """Integers and floats of NumPy and the like."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        return int(value.__index__())
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind == "f" and getattr(value, "ndim", None) == 0:
        return float(value)
    raise UnsupportedOperandError(f"a scale is a Scale, an int or a float, got {type(value).__name__}")


def _fill(scale: Scale, terms: tuple[tuple[int, int], ...]) -> None:
    put = object.__setattr__
    put(scale, "terms", terms)
    put(scale, "_hash", None)
    put(scale, "_float", None)
    put(scale, "_log2", None)


def _make(terms: tuple[tuple[int, int], ...]) -> Scale:
    """A scale from terms that are canonical already."""
    scale = object.__new__(Scale)
    _fill(scale, terms)
    return scale


@lru_cache(maxsize=4096)
def _combine(a: Scale, b: Scale, sign: int) -> Scale:
    powers = dict(a.terms)
    for p, e in b.terms:
        powers[p] = powers.get(p, 0) + sign * e
    return _make(tuple(sorted((p, e) for p, e in powers.items() if e)))


@lru_cache(maxsize=1024)
def _of_number(value: int | float) -> Scale:
    numerator, denominator = value.as_integer_ratio()
    shift = (numerator & -numerator).bit_length() - denominator.bit_length()
    odd = numerator >> ((numerator & -numerator).bit_length() - 1)
    terms = ((2, shift),) if shift else ()
    return Scale(terms + (((odd, 1),) if odd > 1 else ()))


def _factor(base: int) -> tuple[tuple[int, int], ...]:
    odd = base // (base & -base)
    if odd.bit_length() > _MAX_ODD_PART_BITS:
        raise ParameterError(
            f"a scale with the odd factor {odd} cannot be kept exactly",
            subject="scale",
            hint="Use a float, an int of at most 64 significant bits, or a product of scales",
        )
    return factor(base)


@lru_cache(maxsize=4096)
def _ln_of(p: int, digits: int) -> Decimal:
    return Context(prec=digits).ln(Decimal(p))


def _ln(terms: tuple[tuple[int, int], ...], digits: int) -> tuple[Decimal, Decimal]:
    """ln of the product with an absolute error of about 10^-digits, and a bound on that error.

    Exponents double at each level, so their digits are added to the precision of the logarithms.
    """
    exponent_digits = max((len(str(abs(e))) for _, e in terms), default=1)
    precision = digits + exponent_digits + 6
    context = Context(prec=precision)
    total = Decimal(0)
    for p, e in terms:
        total = context.add(total, context.multiply(_ln_of(p, precision), Decimal(e)))
    return total, Decimal(1).scaleb(-digits) * max(1, len(terms))


def _exp(terms: tuple[tuple[int, int], ...], digits: int) -> Decimal:
    """The product with a relative error below 10^-(digits - 6)."""
    return Context(prec=digits, Emax=999_999_999, Emin=-999_999_999).exp(_ln(terms, digits + 6)[0])

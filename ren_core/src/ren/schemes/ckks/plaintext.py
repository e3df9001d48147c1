"""Encoded messages, and public constants that need no encoding."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ren.engine.deferred import Deferred, deferred_call
from ren.errors import EncodingError, UnsupportedOperandError
from ren.poly import Poly
from ren.schemes.ckks.scale import Scale

Number = int | float | complex


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Plaintext:
    """A message encoded as one polynomial with its level and exact scale; or a constant (`Plaintext.const`) that is encoded where it is used.

    poly: over the chain at `level`, NTT domain; None for a constant. bound: no slot is larger in absolute value. params_id: fingerprint of the parameters. occupied: as for a
    Ciphertext; the number of values that were encoded, where a number of slots was asked for. Realized outside a capture.

    Plaintexts are compared by identity. Constants combine with numbers and with each other; what is encoded combines with ciphertexts only, so compute on
    public arrays before encoding them.

    `Plaintext.const(v)` needs no context. Its value may change between calls of a jitted function without a new plan.
    """

    #: NumPy hands `array * plaintext` over to us instead of looping over the elements.
    __array_ufunc__ = None
    poly: Poly | None
    level: int
    scale: Scale | None
    slots: int
    bound: float
    is_real: bool = True
    params_id: str = ""
    value: Any = None
    occupied: int | None = None

    @staticmethod
    def const(value: Number) -> Plaintext:
        """The constant `value` in every slot, at whatever level and scale it is used: `ciphertext * Plaintext.const(0.5)`, `poly * Plaintext.const(3)`.

        An int costs no level in a product, a float or complex number one. Raises EncodingError for NaN and infinity, TypeError for other types.
        """
        if not isinstance(value, Deferred):
            value = as_number(value)
        sample = value.sample if isinstance(value, Deferred) else value
        return Plaintext(None, 0, None, 0, magnitude(value), not isinstance(sample, complex), "", value)

    @property
    def is_const(self) -> bool:
        return self.poly is None

    @property
    def device(self) -> str | None:
        return None if self.poly is None else self.poly.device

    def realize(self) -> Plaintext:
        """Compute the polynomial. Returns self."""
        if self.poly is not None:
            self.poly.realize()
        return self

    def to(self, device: str) -> Plaintext:
        """The same value on another device."""
        return self if self.poly is None or self.poly.device == device else replace(self, poly=self.poly.to(device))

    # A constant combines with a bare polynomial too, which has no scale: so integers only.

    def _integer(self, operation: str) -> Any:
        sample = self.value.sample if isinstance(self.value, Deferred) else self.value
        if self.poly is not None or not isinstance(sample, int):
            what = f"Plaintext.const({sample!r})" if self.poly is None else "an encoded Plaintext"
            raise UnsupportedOperandError(
                f"{operation}: a Poly has no scale, so it combines with integer constants only, not with {what}",
                subject=operation,
                hint="Use Plaintext.const of an int, or a Ciphertext",
            )
        return self.value

    def _combined(self, other: Any, operation: str, f: Callable[[Any, Any], Any]) -> Any:
        """f of two constants, or of a constant and a number; NotImplemented for operands that bring operators of their own (ciphertexts)."""
        if not isinstance(other, (Plaintext, int, float, complex, Deferred, list, tuple)) and not hasattr(
            other, "__array__"
        ):
            return NotImplemented
        constant = other.value if isinstance(other, Plaintext) and other.poly is None else other
        if getattr(constant, "ndim", None) == 0:
            constant = as_number(constant)
        if self.poly is not None or not isinstance(constant, (int, float, complex, Deferred)):
            raise UnsupportedOperandError(
                f"{operation}: encoded plaintexts combine with ciphertexts, and Plaintext.const with numbers too; got {self!r} and {type(other).__name__}",
                subject=operation,
                hint="Combine the numbers before you encode them",
            )
        return Plaintext.const(deferred_call(f, self.value, constant))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Poly):
            return other * self._integer("multiply")
        return self._combined(other, "multiply", operator.mul)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Poly):
            return other + self._integer("add")
        return self._combined(other, "add", operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Poly):
            return self._integer("subtract") - other
        return self._combined(other, "subtract", operator.sub)

    def __rsub__(self, other: Any) -> Any:
        if isinstance(other, Poly):
            return other - self._integer("subtract")
        return self._combined(other, "subtract", lambda a, b: b - a)

    def __neg__(self) -> Any:
        return self._combined(-1, "negate", operator.mul)

    def __repr__(self) -> str:
        if self.poly is None or self.scale is None:
            return f"Plaintext.const({self.value!r})"
        return f"<Plaintext level={self.level} scale=2^{self.scale.log2:.4f} slots={self.slots} bound={self.bound:.3g} {self.poly.device}>"


def as_number(value: Any) -> Number:
    """A Python int, float or complex from any scalar (NumPy and zero-dimensional arrays included).

    Raises EncodingError for NaN and infinity, UnsupportedOperandError (a TypeError) for anything else.
    """
    if type(value) is int or type(value) is float or type(value) is complex:
        number: Number = value
    elif getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        item = value.item()
        if type(item) is type(value):  # NumPy's long double has no Python counterpart and gives itself
            item = complex(value) if value.dtype.kind == "c" else float(value)
        return as_number(item)
    elif hasattr(value, "__index__") and not hasattr(value, "ndim"):
        number = int(value)
    elif isinstance(value, (float, complex)):
        number = complex(value) if isinstance(value, complex) else float(value)
    else:
        raise UnsupportedOperandError(
            f"a constant is an int, float or complex number, got {type(value).__name__}", subject="constant"
        )
    if isinstance(number, int):
        return number
    if not (math.isfinite(number.real) and math.isfinite(number.imag)):
        raise EncodingError(f"the constant {number!r} is not finite", subject="constant")
    return number


def magnitude(value: Any) -> float:
    """|value| as a float (of a number that is known only when a plan runs: as a Deferred)."""
    size: float = deferred_call(_magnitude, value)
    return size


def _magnitude(value: Number) -> float:
    try:
        return float(abs(value))
    except OverflowError:
        return math.inf


def scalar_of(plaintext: Plaintext) -> tuple[Any, Any] | None:
    """How ren.jit reads a constant: its value and what belongs to the plan key; None for an encoded plaintext."""
    if plaintext.poly is not None:
        return None
    return plaintext.value, plaintext.is_real


def rebuild_constant(plaintext: Plaintext, value: Any) -> Plaintext:
    """The constant with another value, which may be known only when a plan runs."""
    return replace(plaintext, value=value, bound=magnitude(value))

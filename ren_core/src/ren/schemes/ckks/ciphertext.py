"""Encrypted values: two polynomials (Ciphertext), or three after a product that was not relinearized (CiphertextProduct).

Both are immutable and lazy: an operator returns a new value and computes nothing until `realize()`, decryption, serialization or
the end of a jitted function. The operators are defined here and carried out by the engine that the key id leads to
(`ren.schemes.ckks.context.engine_of`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ren.errors import RingMismatchError, UnsupportedOperandError
from ren.poly import Poly, realize
from ren.schemes.ckks.context import engine_of
from ren.schemes.ckks.scale import Scale


class _Arithmetic:
    """Operators shared by ciphertexts and products. Operands: ciphertexts, plaintexts, int, float, complex, arrays, on either side."""

    __slots__ = ()
    #: NumPy hands `array * ciphertext` over to us instead of looping over the elements.
    __array_ufunc__ = None
    key_id: str

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy functions do not know encrypted values: without this, numpy.dot would loop over the array."""
        raise UnsupportedOperandError(
            f"numpy.{function.__name__} does not take encrypted values",
            subject=function.__name__,
            hint="Use operators and methods: a scalar product is (x * w).sum_slots(), a matrix times x is ckks.linear_transform(x, matrix)",
        )

    def __add__(self: Any, other: Any) -> Any:
        return engine_of(self.key_id, "add").add(self, other)

    __radd__ = __add__

    def __sub__(self: Any, other: Any) -> Any:
        return engine_of(self.key_id, "subtract").sub(self, other)

    def __rsub__(self: Any, other: Any) -> Any:
        return engine_of(self.key_id, "subtract").rsub(self, other)

    def __mul__(self: Any, other: Any) -> Any:
        return engine_of(self.key_id, "multiply").mul(self, other)

    __rmul__ = __mul__

    def __neg__(self: Any) -> Any:
        return engine_of(self.key_id, "negate").negate(self)

    def __pos__(self) -> Any:
        return self

    def __bool__(self) -> bool:
        raise UnsupportedOperandError(
            "the truth value of an encrypted value is not known to the program",
            subject="bool",
            hint="Compute both branches and combine them with a mask, or decrypt first",
        )


def _same_ring(*polys: Poly) -> None:
    rings = [p.ring for p in polys]
    if any(ring != rings[0] for ring in rings):
        raise RingMismatchError(
            f"the polynomials of one ciphertext share a ring, got degrees {[r.n for r in rings]} with {[r.limbs for r in rings]} primes",
            subject="ring",
            hint="Use ckks.mod_drop and the other operations on whole ciphertexts",
        )


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class Ciphertext(_Arithmetic):
    """An encryption (b, a) of a vector of complex numbers: b + a s = scale * message + error.

    a, b: polynomials over the chain at `level` (NTT domain). level: rescales so far, 0 when fresh at the top. scale: exact. slots: logical
    slots, repeated to fill the ring. key_id: whose secret decrypts it. bound: no slot is larger in absolute value, in the worst case, as far as is
    known without the secret; `assume_bound` tightens it. is_real: all slots are real, so decoding gives real numbers. occupied: of each period of `slots`, only the first
    that many are known to hold anything but zero (and noise); None where that is not known.

    `+ -` take the deeper operand's level, `*` one level more (it relinearizes and rescales), ints cost none. Operands are never changed.
    """

    a: Poly
    b: Poly
    level: int
    scale: Scale
    slots: int
    key_id: str
    bound: float
    is_real: bool = True
    occupied: int | None = None

    def __post_init__(self) -> None:
        if self.a.ring is not self.b.ring:
            _same_ring(self.a, self.b)

    @property
    def levels_left(self) -> int:
        """Rescales that are still possible."""
        return self.b.ring.limbs - 1

    @property
    def device(self) -> str:
        return self.b.device

    @property
    def is_transparent(self) -> bool:
        """Whether anybody can read it: a = 0, as in x - x or x * 0. Realizes the ciphertext."""
        self.realize()
        return not self.a.residues().any()

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 16 * self.b.ring.n * self.b.ring.limbs

    def realize(self) -> Ciphertext:
        """Compute both polynomials, as one schedule. Returns self."""
        realize(self.a, self.b)
        return self

    def to(self, device: str) -> Ciphertext:
        """The same value on another device."""
        return self if device == self.device else replace(self, a=self.a.to(device), b=self.b.to(device))

    def assume_bound(self, bound: float) -> Ciphertext:
        """The same value with a bound that you vouch for, such as 1.0 after a polynomial that maps [-1, 1] into itself."""
        return engine_of(self.key_id, "assume_bound").assume_bound(self, bound)

    def __truediv__(self, other: Any) -> Any:
        return engine_of(self.key_id, "divide").div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        raise UnsupportedOperandError(
            "division by an encrypted value",
            subject="divide",
            hint="Approximate 1/x on the range of x with ckks.polyval, or divide after decryption",
        )

    def __pow__(self, exponent: Any) -> Any:
        return engine_of(self.key_id, "power").power(self, exponent)

    def square(self) -> Ciphertext:
        """self * self at the price of a product; level + 1."""
        return engine_of(self.key_id, "square").square(self)

    def rotate(self, k: int) -> Ciphertext:
        """Roll the slots: result[i] = self[i - k], as torch.roll and numpy.roll do. Any k; multiples of `slots` are free. Level unchanged."""
        return engine_of(self.key_id, "rotate").rotate(self, k)

    def rotate_many(self, steps: Iterable[int]) -> list[Ciphertext]:
        """Several rotations for the price of one decomposition and one key product each."""
        return engine_of(self.key_id, "rotate").rotate_many(self, steps)

    def conjugate(self) -> Ciphertext:
        """Complex conjugate of every slot. Level unchanged; needs the conjugation key."""
        return engine_of(self.key_id, "conjugate").conjugate(self)

    def sum_slots(self) -> Ciphertext:
        """Every slot holds the sum of all logical slots. log2(slots) rotations; level unchanged."""
        return engine_of(self.key_id, "sum_slots").sum_slots(self)

    def rescale(self) -> Ciphertext:
        """Divide message and modulus by the last prime: level + 1, scale / prime."""
        return engine_of(self.key_id, "rescale").rescale(self)

    def mod_drop(self, levels: int = 1) -> Ciphertext:
        """Drop primes without dividing: level + levels, same scale. Free."""
        return engine_of(self.key_id, "mod_drop").mod_drop(self, levels)

    def __repr__(self) -> str:
        return (
            f"<Ciphertext level={self.level} levels_left={self.levels_left} scale=2^{self.scale.log2:.4f} slots={self.slots} bound={self.bound:.3g} "
            f"key={self.key_id} {self.device}>"
        )


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class CiphertextProduct(_Arithmetic):
    """A product that was not relinearized: b + a s + c s^2 = scale * message + error.

    Sums and differences of products (and of products with ciphertexts, plaintexts and numbers) stay products, so that a sum of many products pays for
    one key switch: `relinearize()`, which gives a Ciphertext and can rescale at no further cost. It can be multiplied by integers only.
    """

    a: Poly
    b: Poly
    c: Poly
    level: int
    scale: Scale
    slots: int
    key_id: str
    bound: float
    is_real: bool = True
    occupied: int | None = None

    def __post_init__(self) -> None:
        _same_ring(self.a, self.b, self.c)

    @property
    def levels_left(self) -> int:
        """Rescales that are still possible."""
        return self.b.ring.limbs - 1

    @property
    def device(self) -> str:
        return self.b.device

    def realize(self) -> CiphertextProduct:
        """Compute the three polynomials, as one schedule. Returns self."""
        realize(self.a, self.b, self.c)
        return self

    def relinearize(self, *, rescale: bool = False) -> Ciphertext:
        """Back to two polynomials (one key switch). rescale: divide by the last prime in the same step (level + 1)."""
        return engine_of(self.key_id, "relinearize").relinearize(self, rescale=rescale)

    def rescale(self) -> CiphertextProduct:
        """Divide message and modulus by the last prime: level + 1, scale / prime."""
        return engine_of(self.key_id, "rescale").rescale(self)

    def __repr__(self) -> str:
        return (
            f"<CiphertextProduct level={self.level} levels_left={self.levels_left} scale=2^{self.scale.log2:.4f} slots={self.slots} "
            f"bound={self.bound:.3g} key={self.key_id} {self.device}>"
        )

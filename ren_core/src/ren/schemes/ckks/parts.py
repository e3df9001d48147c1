"""Values as lists of polynomials: (b, a) of a Ciphertext, (b, a, c) of a CiphertextProduct, (m,) of a Plaintext."""

from __future__ import annotations

from typing import TypeVar

from ren.engine.deferred import deferred_call
from ren.poly import Poly
from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
from ren.schemes.ckks.plaintext import Plaintext
from ren.schemes.ckks.scale import Scale

Encrypted = Ciphertext | CiphertextProduct
E = TypeVar("E", Ciphertext, CiphertextProduct)
Parts = tuple[Poly, ...]


def parts(x: Encrypted | Plaintext) -> Parts:
    """(b, a), (b, a, c) or (m,)."""
    if type(x) is Ciphertext:
        return x.b, x.a
    if isinstance(x, Plaintext):
        assert x.poly is not None
        return (x.poly,)
    return (x.b, x.a, x.c) if isinstance(x, CiphertextProduct) else (x.b, x.a)


def build(
    p: Parts,
    level: int,
    scale: Scale,
    slots: int,
    key_id: str,
    bound: float,
    is_real: bool,
    occupied: int | None = None,
) -> Encrypted:
    if len(p) == 2:
        return Ciphertext(p[1], p[0], level, scale, slots, key_id, bound, is_real, occupied)
    return CiphertextProduct(p[1], p[0], p[2], level, scale, slots, key_id, bound, is_real, occupied)


def like(x: E, p: Parts, level: int, scale: Scale, bound: float) -> E:
    """A value of the type of x, with as many parts."""
    return build(p, level, scale, x.slots, x.key_id, bound, x.is_real, x.occupied)  # type: ignore[return-value]


def occupied_in_sum(x: Encrypted | Plaintext, y: Encrypted | Plaintext) -> int | None:
    """`occupied` of a sum or difference, whose period is the longer one."""
    a, b = _occupied(x, y.slots), _occupied(y, x.slots)
    return None if a is None or b is None else max(a, b)


def occupied_in_product(x: Encrypted | Plaintext, y: Encrypted | Plaintext) -> int | None:
    """`occupied` of a product: a factor of zero makes it zero."""
    a, b = _occupied(x, y.slots), _occupied(y, x.slots)
    return a if b is None else b if a is None else min(a, b)


def _occupied(x: Encrypted | Plaintext, slots: int) -> int | None:
    """`x.occupied` in a period of at least `slots`: up to the end of what its last repetition holds."""
    return x.occupied if x.occupied is None or slots <= x.slots else slots - x.slots + x.occupied


def bound_product(a: float, b: float) -> float:
    """a * b, where nothing times something unknown is nothing."""
    product: float = deferred_call(_product, a, b)
    return product


def _product(a: float, b: float) -> float:
    return a * b if a and b else 0.0

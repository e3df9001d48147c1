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


def build(p: Parts, level: int, scale: Scale, slots: int, key_id: str, bound: float, is_real: bool) -> Encrypted:
    if len(p) == 2:
        return Ciphertext(p[1], p[0], level, scale, slots, key_id, bound, is_real)
    return CiphertextProduct(p[1], p[0], p[2], level, scale, slots, key_id, bound, is_real)


def like(x: E, p: Parts, level: int, scale: Scale, bound: float) -> E:
    """A value of the type of x, with as many parts."""
    return build(p, level, scale, x.slots, x.key_id, bound, x.is_real)  # type: ignore[return-value]


def bound_product(a: float, b: float) -> float:
    """a * b, where nothing times something unknown is nothing."""
    product: float = deferred_call(_product, a, b)
    return product


def _product(a: float, b: float) -> float:
    return a * b if a and b else 0.0

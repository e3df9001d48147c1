"""Batches: several ciphertexts or plaintexts under leading axes, evaluated as one graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ren.errors import EncodingError, UnsupportedOperandError
from ren.poly import realize
from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
from ren.schemes.ckks.plaintext import Plaintext


class _Batch:
    """Shape handling shared by both kinds. `items` are in row-major order."""

    __slots__ = ()
    shape: tuple[int, ...]

    @property
    def items(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _check(self) -> None:
        if len(self.items) != prod(self.shape):
            raise ValueError(f"{type(self).__name__}: {len(self.items)} items do not fill the shape {self.shape}")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a batch without axes has no length")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """Ints, slices, tuples of them and whatever else indexes a NumPy array of this shape; a batch, or one item where no axis is left.

        Raises IndexError, as NumPy does.
        """
        try:
            at = np.arange(prod(self.shape)).reshape(self.shape)[index]
        except IndexError as error:
            raise IndexError(f"batch of shape {self.shape}: {error}") from None
        if at.ndim == 0:
            return self.items[int(at)]
        return type(self)(at.shape, tuple(self.items[i] for i in at.reshape(-1)))  # type: ignore[call-arg]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} shape={self.shape} of {self.items[0]!r}>"
            if self.items
            else f"<{type(self).__name__} shape={self.shape}>"
        )


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PlaintextBatch(_Batch):
    """Encoded messages under leading axes: what encoding an array of more than one dimension gives."""

    shape: tuple[int, ...]
    plaintexts: tuple[Plaintext, ...]

    def __post_init__(self) -> None:
        self._check()

    @property
    def items(self) -> tuple[Plaintext, ...]:
        return self.plaintexts

    def _meets(self, other: Any, f: Callable[[Any, Any], Any]) -> Any:
        """f(ciphertext, self), item by item. Ciphertext batches have operators of their own."""
        if not isinstance(other, (Ciphertext, CiphertextProduct)):
            return NotImplemented
        return CiphertextBatch(self.shape, tuple(f(other, p) for p in self.plaintexts))

    def __add__(self, other: Any) -> Any:
        return self._meets(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._meets(other, lambda x, p: p - x)

    def __rsub__(self, other: Any) -> Any:
        return self._meets(other, operator.sub)

    def __mul__(self, other: Any) -> Any:
        return self._meets(other, operator.mul)

    __rmul__ = __mul__


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class CiphertextBatch(_Batch):
    """Ciphertexts under leading axes. Operators work item by item and broadcast the leading axes, as NumPy does.

    An array operand of shape (..., k) is a batch of vectors; a one-dimensional one is combined with every item.
    """

    __array_ufunc__ = None
    shape: tuple[int, ...]
    ciphertexts: tuple[Ciphertext, ...]

    def __post_init__(self) -> None:
        self._check()

    @property
    def items(self) -> tuple[Ciphertext, ...]:
        return self.ciphertexts

    def realize(self) -> CiphertextBatch:
        """Compute every item, as one schedule. Returns self."""
        realize(*(p for x in self.ciphertexts for p in (x.a, x.b)))
        return self

    def map(self, f: Callable[[Ciphertext], Any]) -> CiphertextBatch:
        """f of every item."""
        return CiphertextBatch(self.shape, tuple(map(f, self.ciphertexts)))

    def rotate(self, k: int) -> CiphertextBatch:
        return self.map(lambda x: x.rotate(k))

    def conjugate(self) -> CiphertextBatch:
        return self.map(lambda x: x.conjugate())

    def sum_slots(self) -> CiphertextBatch:
        return self.map(lambda x: x.sum_slots())

    def square(self) -> CiphertextBatch:
        return self.map(lambda x: x.square())

    def rescale(self) -> CiphertextBatch:
        return self.map(lambda x: x.rescale())

    def assume_bound(self, bound: float) -> CiphertextBatch:
        return self.map(lambda x: x.assume_bound(bound))

    def _combine(self, other: Any, f: Callable[[Any, Any], Any]) -> Any:
        found = _as_items(other)
        if found is NotImplemented:
            return NotImplemented
        shape, items = found
        try:
            whole = np.broadcast_shapes(self.shape, shape)
        except ValueError:
            raise EncodingError(
                f"batches of shapes {self.shape} and {shape} do not broadcast",
                subject="shape",
                hint="Leading axes must be equal or 1, counted from the last",
            ) from None
        mine = _spread(self.ciphertexts, self.shape, whole)
        theirs = _spread(items, shape, whole)
        return CiphertextBatch(whole, tuple(f(x, y) for x, y in zip(mine, theirs, strict=True)))

    def __add__(self, other: Any) -> Any:
        return self._combine(other, operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combine(other, operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return self._combine(other, lambda x, y: y - x)

    def __mul__(self, other: Any) -> Any:
        return self._combine(other, operator.mul)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._combine(other, operator.truediv)

    def __pow__(self, exponent: int) -> Any:
        return self.map(lambda x: x**exponent)

    def __neg__(self) -> CiphertextBatch:
        return self.map(operator.neg)


def _as_items(other: Any) -> Any:
    """(shape, items) of an operand, NotImplemented for unknown types. Arrays are split into vectors along their leading axes."""
    if isinstance(other, _Batch):
        return other.shape, other.items
    if isinstance(other, (str, bytes)):
        return NotImplemented
    if isinstance(other, (list, tuple)) or (hasattr(other, "__array__") and getattr(other, "ndim", 0) > 0):
        return split(other)
    return (), (other,)


def split(values: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """An array of shape (..., k) as its leading shape and its vectors."""
    try:
        array = np.asarray(values.detach() if hasattr(values, "detach") else values)
    except ValueError:
        raise EncodingError(
            "a batch needs rows of one length", subject="values", hint="Pad the rows, or encode them one by one"
        ) from None
    if array.ndim == 0:
        raise UnsupportedOperandError("a batch needs an array with at least one axis", subject="values")
    shape = array.shape[:-1]
    return shape, tuple(array[index] for index in product(*map(range, shape)))


def _spread(items: Iterable[Any], shape: tuple[int, ...], whole: tuple[int, ...]) -> list[Any]:
    """Items repeated along broadcast axes."""
    at = np.broadcast_to(np.arange(prod(shape)).reshape(shape), whole).reshape(-1)
    found = list(items)
    return [found[i] for i in at]

"""Python values as parts of plan keys.

A value with a form of its own is compared by that form, so that changing it in place is noticed. An object that has none is equal
to itself only, and what cannot even be told to have changed (an iterator, a random generator) is refused.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import hashlib
import types
import weakref
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from ren.errors import UnsupportedOperandError

#: Arrays of at most this many bytes are digested where a function names them; larger ones are told apart by identity and shape.
DIGESTED_BYTES = 1 << 20

#: Classes of Ren with a hash by value, once met: a scale is in every key.
_own_hashed: set[type] = set()

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


class Same:
    """An object in a key: equal to itself only. Does not keep it alive where it allows weak references; a dead one equals nothing."""

    __slots__ = ("_id", "_value")

    def __init__(self, value: Any) -> None:
        self._id = id(value)
        try:
            self._value: Any = weakref.ref(value)
        except TypeError:
            self._value = lambda: value

    @property
    def value(self) -> Any:
        """The object, None once it is gone."""
        return self._value()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or other._id != self._id:
            return False
        value = self._value()
        return value is not None and other._value() is value

    def __hash__(self) -> int:
        return self._id

    def __repr__(self) -> str:
        return repr(self.value)


def frozen(value: Any) -> Hashable:
    """`value` as a key that compares by type and value: 1, 1.0 and True differ, 0.0 and -0.0 differ, a NaN equals itself.

    Raises UnsupportedOperandError for an object whose changes cannot be noticed.
    """
    cls = type(value)
    if cls is int or cls is str or cls is bool or value is None:
        return (cls, value)
    if cls is float:
        return (cls, value.hex())
    if cls is complex:
        return (cls, value.real.hex(), value.imag.hex())
    if cls in _own_hashed:
        return _hashed(value)
    if cls is list or cls is tuple or cls is collections.deque:
        return (cls, *map(frozen, value))
    if cls is dict:
        return (cls, *((frozen(k), frozen(v)) for k, v in value.items()))
    if cls is set or cls is frozenset:
        return (cls, frozenset(map(frozen, value)))
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind != "O":
        return (cls, value.dtype.str, value.shape, value.tobytes())
    if cls is bytearray or cls is memoryview:
        return (cls, bytes(value))
    if cls is array.array:
        return (cls, value.typecode, value.tobytes())
    if cls is types.SimpleNamespace:
        return (cls, frozen(vars(value)))
    if isinstance(value, types.MethodType):
        return (cls, Same(value.__self__), value.__func__)
    return _frozen_object(value, cls)


def _frozen_object(value: Any, cls: type) -> Hashable:
    """An object of a class that is not built in, or of one derived from a container."""
    hashed: Any = cls.__hash__
    own_hash = hashed is not None and hashed is not object.__hash__
    if is_own(cls):
        if not own_hash:
            return Same(value)
        _own_hashed.add(cls)
        return _hashed(value)
    if isinstance(value, dict):
        return (cls, frozen(dict(value)))
    if isinstance(value, (list, tuple, collections.deque)):
        return (cls, *map(frozen, value))
    if dataclasses.is_dataclass(cls) and cls.__eq__ is not object.__eq__:
        return (cls, *(frozen(getattr(value, f.name)) for f in dataclasses.fields(cls) if hasattr(value, f.name)))
    if isinstance(value, Iterator) or not (own_hash or _is_plain(value, cls)):
        raise UnsupportedOperandError(
            f"ren.jit: cannot tell when a {cls.__name__} changes, so a plan cannot depend on it",
            subject=cls.__name__,
            hint="Pass what the function needs of it as numbers, strings, lists, tuples, dicts or arrays",
        )
    return _hashed(value) if own_hash else Same(value)


def hashed_by_value(cls: type) -> bool:
    """Whether `frozen` has met objects of this class of Ren, and makes their hash and value the key."""
    return cls in _own_hashed


def _hashed(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:  # a field of it has no hash
        return Same(value)
    return (type(value), value)


def _is_plain(value: Any, cls: type) -> bool:
    """Whether all state of an object is in attributes, or there is none: nothing is hidden in C."""
    return (
        cls is object
        or isinstance(value, _FUNCTIONS)
        or hasattr(value, "__dict__")
        or any("__slots__" in base.__dict__ for base in cls.__mro__)
    )


def digest(value: np.ndarray[Any, Any]) -> Hashable:
    """A named array, by content up to DIGESTED_BYTES, by identity and shape beyond, and where it holds Python objects."""
    cls = type(value)
    if value.dtype.kind == "O" or value.nbytes > DIGESTED_BYTES:
        return (cls, value.dtype.str, value.shape, Same(value))
    return (cls, value.dtype.str, value.shape, hashlib.blake2b(value.tobytes(), digest_size=16).digest())


def named(value: Any) -> Hashable:
    """What a key holds of a value that a function names: as `frozen`, but large arrays and objects with hidden state by identity."""
    if isinstance(value, np.ndarray):
        return digest(value)
    try:
        return frozen(value)
    except UnsupportedOperandError:
        return Same(value)


_own: dict[type, bool] = {}


def is_own(cls: type) -> bool:
    """Whether a class is Ren's: its objects change only in caches, or carry Polys that are found by themselves."""
    known = _own.get(cls)
    if known is None:
        root = cls.__module__.partition(".")[0]
        known = _own[cls] = root == "ren" or root.startswith("ren_")
    return known

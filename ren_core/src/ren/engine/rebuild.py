"""Containers made anew: the arguments of a capture around stand-ins, the result of a replay around fresh handles."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ren.engine import capture
from ren.engine.deferred import Deferred, Recipes
from ren.engine.tree import DATACLASS, DICT, HANDLE, LIST, NAMED, NO_FIELDS, SCALAR, kind_of


def rebuild(obj: Any, numbers: Iterator[Any], replace: Callable[[Any], Any], dynamic_scalars: bool) -> Any:
    """`obj` with each handle replaced and each run-time scalar taken from `numbers`, in the order of `Flat.add`. Parts that hold
    neither are kept as they are."""
    cls = type(obj)
    kind, fields = kind_of(cls)
    if kind == HANDLE:
        return replace(obj)
    carrier = capture.scalar_carriers.get(cls)
    if carrier is not None and carrier.read(obj) is not None:
        return carrier.rebuild(obj, next(numbers))
    if kind == SCALAR:
        if dynamic_scalars and cls in (int, float, complex):
            return next(numbers)
        return obj
    if kind == DATACLASS:
        carried = capture.carried_fields.get(cls, NO_FIELDS)
        new = {
            name: next(numbers) if name in carried else rebuild(getattr(obj, name), numbers, replace, False)
            for name in fields
        }
        return obj if all(getattr(obj, k) is v for k, v in new.items()) else with_fields(cls, new)
    if kind == DICT:
        items = {k: rebuild(v, numbers, replace, dynamic_scalars) for k, v in obj.items()}
        return obj if all(obj[k] is v for k, v in items.items()) else _like_dict(obj, items)
    values = [rebuild(v, numbers, replace, dynamic_scalars) for v in obj]
    return obj if all(a is b for a, b in zip(obj, values, strict=True)) else _like_sequence(cls, values)


def _like_dict(obj: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    if type(obj) is dict:
        return items
    made = obj.copy()
    made.update(items)
    return made


def _like_sequence(cls: type, values: Sequence[Any]) -> Any:
    if cls is list:
        return values if isinstance(values, list) else list(values)
    make = getattr(cls, "_make", cls)
    return make(values)


#: (class constructs itself, fields of its constructor, the others)
_shapes: dict[type, tuple[bool, tuple[str, ...], tuple[str, ...]]] = {}


def _shape(cls: type) -> tuple[bool, tuple[str, ...], tuple[str, ...]]:
    shape = _shapes.get(cls)
    if shape is None:
        fields = dataclasses.fields(cls)
        shape = _shapes[cls] = (
            hasattr(cls, "__post_init__"),
            tuple(f.name for f in fields if f.init),
            tuple(f.name for f in fields if not f.init),
        )
    return shape


def with_fields(cls: type, values: dict[str, Any]) -> Any:
    """A dataclass instance with these field values. A class with `__post_init__` is constructed, so that what it derives is
    derived again; others are filled in directly."""
    construct, given, derived = _shape(cls)
    if construct:
        made = cls(**{name: values[name] for name in given})
        for name in derived:
            object.__setattr__(made, name, values[name])
        return made
    made = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


#: Makes one part of a result from the new handles and the values of the call's recipes.
_Make = Callable[[Sequence[Any], Sequence[Any]], Any]


#: How far `handles_inside` looks into an object, and at how many parts.
_DEPTH, _PARTS = 4, 2000
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type)


def handles_inside(objects: Sequence[Any]) -> Iterator[Any]:
    """Handles that objects of unknown types hold in attributes, slots and items, within limits of depth and number."""
    seen: set[int] = set()
    level = list(objects)
    for _ in range(_DEPTH):
        below: list[Any] = []
        for obj in level:
            if isinstance(obj, _PLAIN) or callable(obj) or id(obj) in seen or len(seen) > _PARTS:
                continue
            seen.add(id(obj))
            if kind_of(type(obj))[0] == HANDLE:
                yield obj
                continue
            if isinstance(obj, dict):
                below += [*obj, *obj.values()]
            elif isinstance(obj, (list, tuple, set, frozenset)):
                below += obj
            below += getattr(obj, "__dict__", {}).values()
            for cls in type(obj).__mro__:
                slots = cls.__dict__.get("__slots__", ())
                below += [getattr(obj, name, None) for name in ((slots,) if isinstance(slots, str) else slots)]
        level = below


class Template:
    """The structure of a captured result. `build(handles, values)` makes a new one around new handles, in the order of `handles`,
    and the values of `recipes` for the call. kept: objects that every result shares, since nothing was found in them to renew."""

    __slots__ = ("handles", "kept", "_recipes", "_make", "_at")

    def __init__(self, result: Any, recipes: Recipes) -> None:
        self.handles: list[Any] = []
        self.kept: list[Any] = []
        self._recipes = recipes
        self._at: dict[int, int] = {}
        self._make = self._read(result)

    def build(self, handles: Sequence[Any], values: Sequence[Any]) -> Any:
        return self._make(handles, values)

    def _read(self, obj: Any) -> _Make:
        return self._part(obj) or (lambda handles, values: obj)

    def _part(self, obj: Any) -> _Make | None:
        """How `obj` is made, None if every result has the same one."""
        cls = type(obj)
        kind, fields = kind_of(cls)
        if kind == HANDLE:
            at = self._at.setdefault(id(obj), len(self.handles))
            if at == len(self.handles):
                self.handles.append(obj)
            return lambda handles, values: handles[at]
        if isinstance(obj, Deferred):
            place = self._recipes.add(obj)
            return lambda handles, values: values[place]
        carrier = capture.scalar_carriers.get(cls)
        read = carrier.read(obj) if carrier is not None else None
        if carrier is not None and read is not None and isinstance(read[0], Deferred):
            carry, where = carrier.rebuild, self._recipes.add(read[0])
            return lambda handles, values: carry(obj, values[where])
        if kind in (LIST, NAMED):
            parts = [self._read(v) for v in obj]
            return lambda handles, values: _like_sequence(cls, [p(handles, values) for p in parts])
        if kind == DICT:
            pairs = [(k, self._read(v)) for k, v in obj.items()]
            empty = obj.copy()
            empty.clear()  # the template must not keep this call's Polys alive
            return lambda handles, values: _like_dict(empty, {k: p(handles, values) for k, p in pairs})
        if kind == DATACLASS and cls not in capture.opaque_types:
            return self._dataclass(obj, cls, fields)
        self.kept.append(obj)
        return None

    def _dataclass(self, obj: Any, cls: type, fields: tuple[str, ...]) -> _Make:
        parts = [(name, self._part(getattr(obj, name))) for name in fields]
        same = [(name, getattr(obj, name)) for name, part in parts if part is None]
        new = [(name, part) for name, part in parts if part is not None]
        construct, given, derived = _shape(cls)
        if construct and not derived and not any(f.kw_only for f in dataclasses.fields(cls)):
            fixed = dict(same)
            values_of = [(at, part) for at, name in enumerate(given) for n, part in new if n == name]
            blank = [fixed.get(name) for name in given]

            def construct_anew(handles: Sequence[Any], values: Sequence[Any]) -> Any:
                arguments = blank.copy()
                for at, part in values_of:
                    arguments[at] = part(handles, values)
                return cls(*arguments)

            return construct_anew
        if construct:
            return lambda handles, values: with_fields(cls, dict(same) | {n: p(handles, values) for n, p in new})
        make, fill = object.__new__, object.__setattr__

        def build(handles: Sequence[Any], values: Sequence[Any]) -> Any:
            made: Any = make(cls)
            for name, value in same:
                fill(made, name, value)
            for name, part in new:
                fill(made, name, part(handles, values))
            return made

        return build

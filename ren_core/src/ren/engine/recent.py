"""Calls that look like the one before: recognised field by field, without building the key that finds their plan.

Most calls of a jitted function differ from the last one in buffers and run-time scalars only. A `Pattern` is made from the arguments of one call
and holds what `Flat` would put into the key of it, so that a call that fits has the same key; one that does not is looked up as usual.
Only arguments made of handles, lists, tuples and dataclasses whose other fields are plain have a pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ren.engine import capture
from ren.engine.captured import Given
from ren.engine.frozen import hashed_by_value
from ren.engine.tree import DATACLASS, HANDLE, LIST, NAMED, NO_FIELDS, THEMSELVES, kind_of

if TYPE_CHECKING:
    from ren.engine.captured import CapturedPlan
    from ren.engine.schedule.normalise import Signature

#: Whether an argument fits; appends its handles and its run-time scalars, in the order of `Flat.add`.
_Check = Callable[[Any, list[Any], list[Any]], bool]


class Recent(NamedTuple):
    """The last call of a jitted function. pattern: of its arguments, None where they have none. implicit, context: parts of its key."""

    plan: CapturedPlan
    pattern: Pattern | None
    implicit: tuple[Any, ...]
    context: Hashable


class Pattern:
    """What calls with the key of one call have in common. Holds no handle and no buffer."""

    __slots__ = ("_checks", "_places", "_count")

    def __init__(self, checks: Sequence[_Check], places: list[int]) -> None:
        self._checks = checks
        self._places = places
        self._count = len(set(places))

    @classmethod
    def of(cls, values: Sequence[Any]) -> Pattern | None:
        """The pattern of the arguments of a call, all realized. None where there is none."""
        checks = [check for check in map(_check_of, values) if check is not None]
        found: list[Any] = []
        if len(checks) < len(values) or not all(c(v, found, []) for c, v in zip(checks, values, strict=True)):
            return None
        return cls(checks, _places(found))

    def match(self, values: Sequence[Any]) -> Given | None:
        """Handles and run-time scalars of a call that fits."""
        handles: list[Any] = []
        numbers: list[Any] = []
        for check, value in zip(self._checks, values, strict=True):
            if not check(value, handles, numbers):
                return None
        if len(set(map(id, handles))) != self._count:
            return None
        if self._count < len(handles):  # one handle in several places: in the same ones?
            if _places(handles) != self._places:
                return None
            handles = list({id(h): h for h in handles}.values())
        return Given(handles, numbers)


def _places(handles: list[Any]) -> list[int]:
    """For each handle the number that it has among the different ones."""
    at: dict[int, int] = {}
    return [at.setdefault(id(h), len(at)) for h in handles]


def _check_of(obj: Any) -> _Check | None:
    cls = type(obj)
    kind, fields = kind_of(cls)
    if kind == HANDLE:
        return _handle_check(cls, obj._node.signature, obj._node.device)
    if kind in (LIST, NAMED):
        return _sequence_check(cls, [_check_of(part) for part in obj])
    if kind == DATACLASS:
        return _dataclass_check(obj, cls, fields)
    return None


def _handle_check(cls: Any, signature: Signature | None, device: str) -> _Check | None:
    if signature is None:  # a constant
        return None

    def check(obj: Any, handles: list[Any], numbers: list[Any]) -> bool:
        if type(obj) is not cls:
            return False
        node = obj._node
        if node.signature is not signature or node.device != device:
            return False
        handles.append(obj)
        return True

    return check


def _sequence_check(cls: Any, parts: list[_Check | None]) -> _Check | None:
    checks = [part for part in parts if part is not None]
    if len(checks) < len(parts):
        return None

    def check(obj: Any, handles: list[Any], numbers: list[Any]) -> bool:
        if type(obj) is not cls:
            return False
        items = obj
        if len(items) != len(checks):
            return False
        return all(part(item, handles, numbers) for part, item in zip(checks, obj, strict=True))

    return check


def _dataclass_check(obj: Any, cls: type, fields: tuple[str, ...]) -> _Check | None:
    carrier = capture.scalar_carriers.get(cls)
    read = None if carrier is None else carrier.read
    if read is not None and read(obj) is not None:
        return None
    carried = [name for name in fields if name in capture.carried_fields.get(cls, NO_FIELDS)]
    held = [name for name in fields if kind_of(type(getattr(obj, name)))[0] == HANDLE and name not in carried]
    fixed = [name for name in fields if name not in carried and name not in held]
    values = [getattr(obj, name) for name in fixed]
    if not held or not all(type(v) in THEMSELVES or hashed_by_value(type(v)) for v in values):
        return None
    kinds = [(h._node.signature, h._node.device, type(h)) for h in (getattr(obj, n) for n in held)]
    if any(signature is None for signature, _, _ in kinds):  # a constant
        return None
    read_held, read_fixed, read_carried = _reader(held), _reader(fixed), _reader(carried)
    expected, types = read_fixed(obj), tuple(map(type, values))

    def check(obj: Any, handles: list[Any], numbers: list[Any]) -> bool:
        if type(obj) is not cls or (read is not None and read(obj) is not None):
            return False
        found = read_fixed(obj)
        if found != expected or tuple(map(type, found)) != types:
            return False
        for h, (signature, device, handle) in zip(read_held(obj), kinds, strict=True):
            if type(h) is not handle:
                return False
            node = h._node
            if node.signature is not signature or node.device != device:
                return False
            handles.append(h)
        numbers += read_carried(obj)
        return True

    return check


def _reader(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Reads several attributes as a tuple."""
    if not names:
        return lambda obj: ()
    if len(names) == 1:
        read = attrgetter(names[0])
        return lambda obj: (read(obj),)
    return attrgetter(*names)

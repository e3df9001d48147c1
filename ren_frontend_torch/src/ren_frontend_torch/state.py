"""What a traced function holds outside of its arguments: attributes, closures, globals, and the containers in them. A program is traced once, so a change there
would be frozen into it, and left behind in the user's objects; it is put back and told instead."""

from __future__ import annotations

import math
import operator
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

from ren_frontend_torch.handles import Handle
from ren_frontend_torch.reach import ITEMS, MOST, is_foreign, is_known, is_own, names

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
#: What `torch.nn.Module` keeps in dictionaries of its own; their items are attributes to its users.
_FIELDS = ("_parameters", "_buffers", "_modules")
#: Deeper containers are not compared by value.
_DEEPEST = 10
#: Of a missing key.
ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """path: as the user would write it. name: of the attribute or variable. before, after: its value, `ABSENT` where there was or is none."""

    path: str
    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if self.before is self.after:
            return f"the contents of {self.path} are changed"
        if self.before is ABSENT:
            return f"{self.path} is added"
        if self.after is ABSENT:
            return f"{self.path} is deleted"
        return f"{self.path} is changed ({_shown(self.before)} before, {_shown(self.after)} after)"


@dataclass(frozen=True, slots=True)
class _Names:
    """Something with named contents: attributes, items of a dict, variables. prefix: of a name in a path."""

    prefix: str
    read: Callable[[], dict[Any, Any]]
    put: Callable[[Any, Any], None]
    remove: Callable[[Any], None]
    saved: dict[Any, Any]
    items: bool = False
    #: The class, whose cached properties are caches by declaration.
    kind: type | None = None

    def restore(self) -> Iterator[Change]:
        now, before = self.read(), self.saved
        if now.keys() == before.keys() and all(map(operator.is_, now.values(), before.values())):
            return
        for key in now.keys() - before.keys():
            self.remove(key)
            if not self._is_cache(key):
                yield self._change(key, ABSENT, now[key])
        # Removed and set again in their order, which modules run in.
        places = {k: i for i, k in enumerate(before)}
        order = [places[k] for k in now if k in places]
        moved = order != sorted(order) or len(order) < len(before)
        if order != sorted(order):
            yield Change(self.prefix.rstrip("."), _name(self.prefix.rstrip(".")), self.saved, self.saved)
        for key, value in before.items():
            after = now.get(key, ABSENT)
            if after is not value or moved:
                if key in now:
                    self.remove(key)
                self.put(key, value)
            if after is not value:
                yield self._change(key, value, after)

    def _is_cache(self, key: Any) -> bool:
        return self.kind is not None and isinstance(getattr(self.kind, key, None), cached_property)

    def _change(self, key: Any, before: Any, after: Any) -> Change:
        if self.items:
            return Change(f"{self.prefix}[{key!r}]", _name(self.prefix), before, after)
        return Change(f"{self.prefix}{key}", str(key), before, after)


@dataclass(frozen=True, slots=True)
class _Sequence:
    """A list, deque, set or array. replace: gives it its old contents."""

    path: str
    held: Any
    saved: Any
    replace: Callable[[Any], None]

    def restore(self) -> Iterator[Change]:
        if isinstance(self.held, np.ndarray) and self.held.dtype.kind != "O":
            same = np.array_equal(self.held, self.saved, equal_nan=self.held.dtype.kind in "fc")
        elif isinstance(self.held, set):
            same = {id(x) for x in self.held} == {id(x) for x in self.saved}
        else:
            same = len(self.held) == len(self.saved) and all(map(operator.is_, _items(self.held), _items(self.saved)))
        if same:
            return
        after = self.held.copy()
        self.replace(self.saved)
        if not _equal(self.saved, after):
            yield Change(self.path, _name(self.path), self.held, self.held)


class State:
    """The state that `function` holds, as it is now. more: name -> other values that it gets to see."""

    def __init__(self, function: Any, more: Mapping[str, Any]) -> None:
        self._places: list[_Names | _Sequence] = []
        self._seen: dict[int, Any] = {}
        self._pending: list[tuple[str, Any, bool]] = [*((n, v, False) for n, v in more.items()), ("", function, True)]
        while self._pending and len(self._seen) < MOST:
            path, value, ours = self._pending.pop()
            if id(value) not in self._seen and not isinstance(value, (*_PLAIN, torch.Tensor, np.generic)):
                self._seen[id(value)] = value
                self._visit(path, value, ours)

    def restore(self) -> list[Change]:
        """Put back what has changed since; what that was. Attributes whose new value equals the old one do not count."""
        found = [change for place in reversed(self._places) for change in place.restore()]
        return [c for c in found if c.before is c.after or not _equal(c.before, c.after)]

    # -- what there is -----------------------------------------------------------------------------------------------

    def _follow(self, path: str, value: Any, ours: bool = False) -> None:
        self._pending.append((path, value, ours))

    def _visit(self, path: str, value: Any, ours: bool) -> None:
        """ours: the function itself, or what a bound method belongs to, whosever class that is."""
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, partial):
            self._follow(path, value.func, ours)
            for part in (value.args, value.keywords):
                self._follow("an argument of the partial", part)
        elif isinstance(value, MethodType):
            self._follow(type(value.__self__).__name__, value.__self__, True)
            self._follow(path, value.__func__)
        elif isinstance(value, (staticmethod, classmethod)):
            self._follow(path, value.__func__)
        elif isinstance(value, property):
            self._follow(path, value.fget)
        elif isinstance(value, type):
            if is_own(value.__module__):
                self._class(value)
        elif isinstance(value, dict):
            self._named(path, lambda: dict(value), value.__setitem__, value.__delitem__, items=True)
        elif isinstance(value, np.ndarray):
            if value.flags.writeable:
                self._places.append(_Sequence(path, value, value.copy(), partial(np.copyto, value)))
        elif isinstance(value, (list, deque, set, tuple, frozenset)):
            self._sequence(path, value)
        elif isinstance(value, (torch.nn.Module, SimpleNamespace)) or self._is_users(value, ours):
            self._object(path or type(value).__name__, value)

    @staticmethod
    def _is_users(value: Any, ours: bool) -> bool:
        module = str(type(value).__module__)
        return is_own(module) or (ours and not is_known(module))

    def _sequence(self, path: str, value: Any) -> None:
        if isinstance(value, (list, deque)):

            def refill(old: Any) -> None:
                value.clear()
                value.extend(old)

            self._places.append(_Sequence(path, value, value.copy(), refill))
        elif isinstance(value, set):

            def fill(old: Any) -> None:
                value.clear()
                value.update(old)

            self._places.append(_Sequence(path, value, value.copy(), fill))
        for i, (item, _) in enumerate(zip(value, range(ITEMS), strict=False)):
            self._follow(f"{path}[{i}]", item)

    def _named(self, prefix: str, read: Any, put: Any, remove: Any, items: bool = False, kind: Any = None) -> None:
        saved = read()
        self._places.append(_Names(prefix, read, put, remove, saved, items, kind))
        for i, (name, value) in enumerate(saved.items()):
            if i < ITEMS:
                self._follow(f"{prefix}[{name!r}]" if items else f"{prefix}{name}", value)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        if is_foreign(code) or not is_own(function.__module__ or ""):
            # A decorator, perhaps, of a function of the user's.
            for name, content in _contents(cells).items():
                self._follow(name, content)
            return

        def fill(name: str, value: Any) -> None:
            cells[name].cell_contents = value

        def empty(name: str) -> None:
            del cells[name].cell_contents

        self._named("", lambda: _contents(cells), fill, empty)
        self._of_dict(f"{function.__name__}.", vars(function))
        for values in (function.__defaults__ or (), (function.__kwdefaults__ or {}).values()):
            for value in values:
                self._follow(f"a default of {function.__name__}", value)
        used = {n for n in names(code) if not n.startswith("__")}
        self._of_dict("", function.__globals__, used)
        for name in used & function.__globals__.keys():
            module = function.__globals__[name]
            if isinstance(module, ModuleType) and is_own(module.__name__):
                self._of_dict(f"{name}.", vars(module), used)

    def _of_dict(self, prefix: str, held: dict[str, Any], used: set[str] | None = None) -> None:
        """Names in a dictionary that is looked up by name: all, or those `used`."""

        def read() -> dict[str, Any]:
            return dict(held) if used is None else {n: held[n] for n in used if n in held}

        self._named(prefix, read, held.__setitem__, held.__delitem__)

    def _class(self, kind: type) -> None:
        def read() -> dict[str, Any]:
            return {n: v for n, v in vars(kind).items() if not n.startswith("__")}

        self._named(f"{kind.__name__}.", read, partial(type.__setattr__, kind), partial(type.__delattr__, kind))

    def _object(self, path: str, value: Any) -> None:
        held = getattr(value, "__dict__", None)
        kind = type(value)
        if isinstance(held, dict):
            inner = _FIELDS if isinstance(value, torch.nn.Module) else ()
            for field in inner:
                if isinstance(held.get(field), dict):
                    self._seen[id(held[field])] = held[field]
                    self._named(
                        f"{path}.", partial(dict, held[field]), held[field].__setitem__, held[field].__delitem__
                    )
            self._named(f"{path}.", partial(dict, held), held.__setitem__, held.__delitem__, kind=kind)
        slots = {
            n: d
            for c in kind.__mro__
            if "__slots__" in vars(c) and is_own(c.__module__)
            for n, d in vars(c).items()
            if isinstance(d, MemberDescriptorType)
        }
        if slots:
            self._named(
                f"{path}.",
                lambda: {n: d.__get__(value) for n, d in slots.items() if _is_set(d, value)},
                lambda name, old: slots[name].__set__(value, old),
                lambda name: slots[name].__delete__(value),
            )
        for base in kind.__mro__:
            self._follow(base.__name__, base)


def _name(path: str) -> str:
    """The name that stands in the code, of a container or of what is deep inside it."""
    return re.sub(r"\[[^\]]*\]", "", path).rpartition(".")[2]


def _items(held: Any) -> Iterable[Any]:
    return held.flat if isinstance(held, np.ndarray) else held


def _contents(cells: dict[str, CellType]) -> dict[str, Any]:
    found = {}
    for name, cell in cells.items():
        with suppress(ValueError):  # no value yet
            found[name] = cell.cell_contents
    return found


def _is_set(slot: MemberDescriptorType, value: Any) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


def _equal(a: Any, b: Any, depth: int = 0) -> bool:
    """Whether two values are the same to a function that reads them. False for objects, and where that cannot be told."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, Handle) or depth > _DEEPEST:
        return False
    if isinstance(a, torch.Tensor):
        try:
            return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
        except (NotImplementedError, RuntimeError):  # no numbers to compare
            return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, (list, tuple, deque)):
        return len(a) == len(b) and all(_equal(x, y, depth + 1) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return [*a] == [*b] and all(_equal(a[k], b[k], depth + 1) for k in a)
    if isinstance(a, (set, frozenset)):
        return all(isinstance(x, _PLAIN) for x in (*a, *b)) and a == b
    if isinstance(a, (*_PLAIN, np.generic)):
        return bool(a == b) or (isinstance(a, float) and math.isnan(a) and math.isnan(b))
    return False


def _shown(value: Any) -> str:
    if isinstance(value, Handle):
        return "a traced value"
    text = repr(value) if isinstance(value, _PLAIN) else ""
    return text if 0 < len(text) < 40 else f"a {type(value).__name__}"


__all__ = ["ABSENT", "Change", "State"]

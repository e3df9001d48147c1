"""Containers of Polys: what ren.jit sees in arguments and results.

Polys (and key-switching handles) are found in lists, tuples, named tuples, dicts and dataclasses, nested in any way. Everything
else is a scalar: part of the plan key inside a dataclass (a ciphertext's scale), recorded and compared elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

from ren.engine import capture
from ren.engine.frozen import frozen, is_own, named
from ren.engine.schedule.normalise import leaf_signature
from ren.gadget import Digits, KeyBuffer
from ren.graph import Node
from ren.ops import Op
from ren.poly import Poly

#: Types that hold one graph node.
HANDLES = (Poly, Digits, KeyBuffer)
Handle = Poly | Digits | KeyBuffer


def handle(cls: type, node: Node) -> Any:
    """A new handle of type `cls` on `node`."""
    made: Any = object.__new__(cls)
    made._node = node
    return made


# -- kinds of objects --------------------------------------------------------------------------------------------------

HANDLE, LIST, NAMED, DICT, DATACLASS, SCALAR = range(6)
_kinds: dict[type, tuple[int, tuple[str, ...]]] = {}


def kind_of(cls: type) -> tuple[int, tuple[str, ...]]:
    """What to do with an object of type `cls`, and the field names of a dataclass."""
    found = _kinds.get(cls)
    if found is None:
        fields: tuple[str, ...] = ()
        if issubclass(cls, HANDLES):
            kind = HANDLE
        elif cls is list or cls is tuple:
            kind = LIST
        elif issubclass(cls, tuple) and hasattr(cls, "_make"):
            kind = NAMED
        elif issubclass(cls, (list, tuple)):
            kind = LIST
        elif issubclass(cls, dict):
            kind = DICT
        elif dataclasses.is_dataclass(cls) and cls not in capture.opaque_types:
            kind, fields = DATACLASS, tuple(f.name for f in dataclasses.fields(cls))
        else:
            kind = SCALAR
        found = _kinds[cls] = (kind, fields)
    return found


# -- reading -----------------------------------------------------------------------------------------------------------


class Flat:
    """What was found in some arguments.

        parts: the structure, hashable, with the specification of each handle where it first appears. handles: each one once.
        scalars: values outside dataclasses. numbers: values that become run-time scalars (of scalar carriers and, where asked for,
    plain numbers; with freeze_numbers they go into the key instead). objects: other values that may have attributes. paths: where each
    part was found, only if asked for.
    """

    __slots__ = (
        "parts",
        "handles",
        "scalars",
        "numbers",
        "objects",
        "number_names",
        "parameter",
        "paths",
        "found",
        "_at",
        "_open",
        "_dynamic_scalars",
        "_dynamic_constants",
        "_freeze_numbers",
    )

    def __init__(
        self,
        *,
        dynamic_scalars: bool = False,
        dynamic_constants: bool = False,
        freeze_numbers: bool = False,
        paths: bool = False,
    ) -> None:
        self.parts: list[Any] = []
        self.handles: list[Any] = []
        self.scalars: list[Any] = []
        self.numbers: list[Any] = []
        self.objects: list[Any] = []
        self.number_names: list[str] = []
        self.parameter = ""
        self.paths: list[str] | None = [] if paths else None
        self.found = 0  # handles and carriers, repeated ones counted again
        self._at: dict[int, int] = {}
        self._open: list[int] = []  # places of specifications still to come
        self._dynamic_scalars = dynamic_scalars
        self._freeze_numbers = freeze_numbers
        self._dynamic_constants = dynamic_constants

    def part(self, part: Any, path: str) -> None:
        self.parts.append(part)
        if self.paths is not None:
            self.paths.append(path)

    def add(self, obj: Any, path: str = "", static: bool = False) -> None:
        """Read one argument. static: scalars go into the key (inside dataclasses)."""
        cls = type(obj)
        kind, fields = _kinds.get(cls) or kind_of(cls)
        if kind == HANDLE:
            self._handle(obj, path)
        elif kind == SCALAR:
            carrier = capture.scalar_carriers.get(cls)
            read = carrier.read(obj) if carrier is not None else None
            if read is not None:
                self._number(cls, read, path)
            elif static:
                self._static(obj, path)
            else:
                self._scalar(obj, path)
        elif kind in (LIST, NAMED):
            self.part((cls, len(obj)), path)
            for i, item in enumerate(obj):
                self.add(item, f"{path}[{i}]" if self.paths is not None else "", static)
        elif kind == DICT:
            self.part((cls, *map(frozen, obj)), path)
            for key, item in obj.items():
                self.add(item, f"{path}[{key!r}]" if self.paths is not None else "", static)
        else:
            self._dataclass(obj, cls, fields, path, static)

    def _handle(self, obj: Any, path: str) -> None:
        self.found += 1
        at = self._at.get(id(obj))
        if at is None:
            at = self._at[id(obj)] = len(self.handles)
            self.handles.append(obj)
            self.part(at, path)
            self._open.append(len(self.parts))
            self.part(None, path)  # its specification: known once it is realized, see `specify`
        else:
            self.part(at, path)

    def _dataclass(self, obj: Any, cls: type, fields: tuple[str, ...], path: str, static: bool) -> None:
        carrier = capture.scalar_carriers.get(cls)
        read = carrier.read(obj) if carrier is not None else None
        if read is not None:
            self._number(cls, read, path)
            return
        parts, found, numbers, objects = len(self.parts), self.found, len(self.numbers), len(self.objects)
        carried = capture.carried_fields.get(cls, NO_FIELDS)
        self.part(cls, path)
        quick = self.paths is None  # most of what a replay costs is this loop over the fields of ciphertexts
        for name in fields:
            value = getattr(obj, name)
            if name in carried and not self._freeze_numbers:
                self.part("carried", path)
                self.numbers.append(value)
                self.number_names.append(f"{self.parameter}.{name}")
            elif quick and type(value) in THEMSELVES:
                self.parts.append((type(value), value))  # what `frozen` and `named` make of it
            elif quick and type(value) is Poly:
                self._handle(value, "")
            else:
                self.add(value, "" if quick else f"{path}.{name}", True)
        if self.found == found:  # holds no Poly: an ordinary value
            del self.parts[parts:], self.numbers[numbers:], self.number_names[numbers:], self.objects[objects:]
            if self.paths is not None:
                del self.paths[parts:]
            if static:
                self._static(obj, path)
            else:
                self._scalar(obj, path)

    def _number(self, cls: type, read: tuple[Any, Hashable], path: str) -> None:
        number, key = read
        self.found += 1
        if self._freeze_numbers:
            self.part((cls, key, frozen(number)), path)
            return
        self.part((cls, key, type(number)), path)
        self.numbers.append(number)
        self.number_names.append(self.parameter)

    def _static(self, obj: Any, path: str) -> None:
        if type(obj) not in _SIMPLE and not is_own(type(obj)):
            self.objects.append(obj)
        self.part(named(obj) if self._freeze_numbers else frozen(obj), path)

    def _scalar(self, obj: Any, path: str) -> None:
        cls = type(obj)
        if cls not in _SIMPLE and not is_own(cls):
            self.objects.append(obj)
        if self._dynamic_scalars and (cls is int or cls is float or cls is complex):
            self.part((cls, "dynamic"), path)
            self.numbers.append(obj)
            self.number_names.append(self.parameter)
        else:
            self.part("scalar", path)
            self.scalars.append(obj)

    def specify(self) -> tuple[Any, ...]:
        """The finished key part: structure, and for each handle what a plan depends on. All handles must be realized."""
        parts = self.parts
        for i in self._open:
            parts[i] = self._spec(self.handles[parts[i - 1]])
        self._open.clear()
        return tuple(parts)

    def _spec(
        self, obj: Any
    ) -> tuple[Any, ...]:  # kind, ring, size, type and domain of a realized value are its signature
        node: Node = obj._node
        if node.op is _CONST:
            if self._dynamic_constants:
                return ("constant", node.ring, None, node.domain, node.device)
            return ("constant", node.ring, node.params, node.domain, node.device)
        return (node.signature or leaf_signature(node), node.device)


_CONST = Op.CONST
#: Types whose values have no attributes of their own.
_SIMPLE = frozenset({type(None), bool, int, float, complex, str, bytes})
#: Types of fields whose key is their type and value.
THEMSELVES = frozenset({type(None), bool, int, str})
#: Carried fields of a class that has none.
NO_FIELDS: frozenset[str] = frozenset()

"""State that a function reaches without being given it, where its own code names it.

Read at each call, so rebinding a global or a closure variable, or an attribute of `self`, takes effect as it does in eager
code. Read are: closure variables, globals, bound or partial arguments; on objects, classes and modules among them and among the
arguments, the attributes that the code names. Polys found become inputs of the plan; everything else is part of its key. A Poly
reached in another way is found at capture and refused; other state reached in another way cannot be seen.

What the function itself changes (a counter, a log) is no part of the key: names that its code stores, and what its capture is
found to have changed.
"""

from __future__ import annotations

import copy
import dis
import functools
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from ren.engine import capture
from ren.engine.frozen import Same, frozen, is_own, named
from ren.engine.tree import DATACLASS, SCALAR, Flat, kind_of

_SIMPLE = frozenset({type(None), bool, int, float, complex, str, bytes})
_BUILTIN = types.BuiltinFunctionType
#: Objects without attributes that matter, or that are not looked into: what a helper names is hidden from the caller's code.
_CLOSED: tuple[type, ...] = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    np.ndarray,
    np.generic,
    set,
    frozenset,
)
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_STORED = frozenset({"STORE_GLOBAL", "STORE_DEREF"})
_MISSING = object()


class ImplicitInputs:
    """The implicit inputs of one function: `collect(flat)` reads them as they are now.

    inner(obj): the implicit inputs of a jitted function, None for any other object.
    """

    def __init__(self, function: Callable[..., Any], inner: Callable[[Any], ImplicitInputs | None]) -> None:
        self._roots: list[tuple[str, Any]] = []
        self._inner = inner
        while isinstance(function, (functools.partial, types.MethodType)):
            if isinstance(function, functools.partial):
                self._roots += [("partial arguments", function.args), ("partial arguments", function.keywords)]
                function = function.func
            else:
                self._roots.append(("self", function.__self__))
                function = function.__func__
        target: Any = function
        if not isinstance(target, types.FunctionType):
            self._roots.append(("self", target))
            target = type(target).__dict__.get("__call__")
        names = _Names()
        self._cells: list[tuple[str, types.CellType]] = []
        self._globals: dict[str, Any] = {}
        if isinstance(target, types.FunctionType):
            names.read(target.__code__)
            self._cells = list(zip(target.__code__.co_freevars, target.__closure__ or (), strict=True))
            self._globals = target.__globals__
        self._variables = sorted(names.variables)
        self._attributes = sorted(names.attributes)
        self._stored = frozenset(names.stored)
        self._stored_attributes = frozenset(names.stored_attributes)
        self._changed: set[str] = set()  # paths of what captures were found to change

    @property
    def nothing(self) -> bool:
        """Whether the function names nothing outside of itself: then there is nothing to read, and plans depend on arguments only."""
        return not (self._roots or self._cells or self._variables)

    def bound_to(self, instance: Any) -> ImplicitInputs:
        """The implicit inputs of this function as a method of `instance`."""
        method = copy.copy(self)
        method._roots = [*self._roots, ("self", instance)]
        return method

    def collect(self, flat: Flat, objects: Iterable[Any] = (), seen: set[tuple[int, int]] | None = None) -> None:
        """Read what is reached now into `flat`. objects: arguments whose attributes count too. seen: what was read before."""
        seen = set() if seen is None else seen
        for name, obj in self._roots:
            if name == "self":  # plans of a method are kept per instance, so its identity is known
                self._read_attributes(obj, name, flat, seen, type(obj) is not type and is_own(type(obj)))
            else:
                self._visit(obj, name, flat, seen, False)
        for name, cell in self._cells:
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            self._visit(value, name, flat, seen, name in self._stored or name in self._changed)
        namespace = self._globals
        for name in self._variables:
            value = namespace.get(name, _MISSING)
            if value is not _MISSING:
                self._visit(value, name, flat, seen, name in self._stored or name in self._changed)
        for obj in objects:
            self._read_attributes(obj, type(obj).__name__, flat, seen, is_own(type(obj)))
        while flat.objects:  # found in containers
            obj = flat.objects.pop()
            self._read_attributes(obj, type(obj).__name__, flat, seen, is_own(type(obj)))

    def _visit(self, obj: Any, path: str, flat: Flat, seen: set[tuple[int, int]], polys_only: bool) -> None:
        cls = type(obj)
        if cls in _SIMPLE:
            if not polys_only:
                flat.part((path, frozen(obj)), path)
        elif cls is types.FunctionType or cls is _BUILTIN:
            if not polys_only:  # a function with a closure may lead to what holds the plans
                flat.part((path, Same(obj) if getattr(obj, "__closure__", None) else obj), path)
        elif cls is types.ModuleType:
            self._read_attributes(obj, path, flat, seen, polys_only)
        elif cls in capture.opaque_types or cls is type:
            if not polys_only:
                flat.part((path, obj), path)
            if cls is type:
                self._read_attributes(obj, path, flat, seen, polys_only)
        else:
            self._visit_object(obj, cls, path, flat, seen, polys_only)

    def _visit_object(
        self, obj: Any, cls: type, path: str, flat: Flat, seen: set[tuple[int, int]], polys_only: bool
    ) -> None:
        inner = self._inner(obj)
        if inner is not None:
            flat.part((path, Same(obj)), path)
            if (id(obj), 0) not in seen:
                seen.add((id(obj), 0))
                inner.collect(flat, seen=seen)
            return
        kind = kind_of(cls)[0]
        before = flat.found, len(flat.parts), len(flat.scalars), len(flat.numbers), len(flat.objects)
        if kind != SCALAR or cls in capture.scalar_carriers:
            flat.part(path, path)
            flat.add(obj, path, static=True)
            if not polys_only or flat.found != before[0]:
                if kind == DATACLASS and flat.found == before[0]:
                    self._read_attributes(obj, path, flat, seen, polys_only)
                return
            del flat.parts[before[1] :], flat.scalars[before[2] :], flat.numbers[before[3] :], flat.objects[before[4] :]
            if flat.paths is not None:
                del flat.paths[before[1] :]
            if kind != DATACLASS:
                return
        elif not polys_only:
            flat.part((path, cls if cls is types.SimpleNamespace else named(obj)), path)
        self._read_attributes(obj, path, flat, seen, polys_only or is_own(cls))

    def _read_attributes(self, obj: Any, path: str, flat: Flat, seen: set[tuple[int, int]], polys_only: bool) -> None:
        """Read the attributes of an object, class or module that the code names. Runs no code of the object."""
        if isinstance(obj, _CLOSED) or (isinstance(obj, type) and is_own(obj)):
            return
        key = (id(obj), id(self._attributes))
        if key in seen:
            return
        seen.add(key)
        here: Any = getattr(obj, "__dict__", {})
        for name in self._attributes:
            value = here.get(name, _MISSING)
            if value is _MISSING or isinstance(obj, type):
                value = self._of_class(obj, name, flat, seen)
                if value is _MISSING:
                    continue
            at = f"{path}.{name}"
            self._visit(value, at, flat, seen, polys_only or name in self._stored_attributes or at in self._changed)

    def _of_class(self, obj: Any, name: str, flat: Flat, seen: set[tuple[int, int]]) -> Any:
        """A slot of an object, or a value that its class holds; jitted methods are read at once. Properties and methods are hidden."""
        if isinstance(obj, types.ModuleType):
            return _MISSING
        for base in (obj if isinstance(obj, type) else type(obj)).__mro__:
            value = base.__dict__.get(name, _MISSING)
            if value is _MISSING:
                continue
            if isinstance(value, types.MemberDescriptorType):
                return _MISSING if isinstance(obj, type) else getattr(obj, name, _MISSING)
            inner = self._inner(value)
            if inner is not None:
                if (id(value), id(obj)) not in seen:
                    seen.add((id(value), id(obj)))
                    inner.bound_to(obj).collect(flat, seen=seen)
                return _MISSING
            return _MISSING if hasattr(type(value), "__get__") else value
        return _MISSING

    # -- what a function changes itself

    def snapshot(self, objects: Iterable[Any]) -> dict[str, list[Hashable]]:
        """What is reached now, by path; containers under the path of the variable or attribute that holds them."""
        flat = Flat(freeze_numbers=True, paths=True)
        self.collect(flat, objects)
        found: dict[str, list[Hashable]] = {}
        for part, path in zip(flat.parts, flat.paths or (), strict=True):
            # Numbers of handles shift with what is before them.
            found.setdefault(path.partition("[")[0], []).append(None if isinstance(part, int) else part)
        return found

    def exclude_changed(self, before: dict[str, list[Hashable]], objects: Iterable[Any]) -> bool:
        """Leave out of later keys what differs from a snapshot taken before a capture. Returns whether there is any."""
        after = self.snapshot(objects)
        changed = {path for path, parts in before.items() if after.get(path) != parts}
        self._changed |= changed
        return bool(changed)


class _Names:
    """Names of globals and attributes that a function's code, and the functions defined inside it, read and store."""

    def __init__(self) -> None:
        self.variables: set[str] = set()
        self.attributes: set[str] = set()
        self.stored: set[str] = set()
        self.stored_attributes: set[str] = set()

    def read(self, code: types.CodeType) -> None:
        for instruction in dis.get_instructions(code):
            if instruction.opname in _GLOBAL:
                self.variables.add(instruction.argval)
            elif instruction.opname in _STORED:
                self.stored.add(instruction.argval)
            elif instruction.opcode in dis.hasname:
                self.attributes.add(instruction.argval)
                if instruction.opname == "STORE_ATTR":
                    self.stored_attributes.add(instruction.argval)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.read(constant)

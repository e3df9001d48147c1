"""Polys that a function reaches without being given them, where its own code names them.

Read at each call, so rebinding a global or a closure variable, or an attribute of `self`, takes effect as it does in eager
code. Read are: closure variables, globals, bound or partial arguments; on plain objects and modules among them, the attributes
that the code names. Anything reached in another way is found at capture and refused.
"""

from __future__ import annotations

import copy
import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from ren.engine import capture
from ren.engine.tree import Flat

#: Objects that hold no Poly of interest. Functions are not descended into: what a helper names is hidden from the caller's code.
_SKIPPED: tuple[type, ...] = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    *capture.opaque_types,
)
_skipped = set(_SKIPPED)
_DEPTH = 3
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})


class ImplicitInputs:
    """The implicit inputs of one function: `collect(flat)` reads them as they are now."""

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
        variables: set[str] = set()
        attributes: set[str] = set()
        self._cells: list[tuple[str, types.CellType]] = []
        self._globals: dict[str, Any] = {}
        if isinstance(target, types.FunctionType):
            variables, attributes = _names(target.__code__)
            self._cells = list(zip(target.__code__.co_freevars, target.__closure__ or (), strict=True))
            self._globals = target.__globals__
        self._variables = sorted(variables)
        self._attributes = sorted(attributes)

    def bound_to(self, instance: Any) -> ImplicitInputs:
        """The implicit inputs of this function as a method of `instance`."""
        method = copy.copy(self)
        method._roots = [*self._roots, ("self", instance)]
        return method

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """(name, object) of everything that is named, as it is now."""
        yield from self._roots
        for name, cell in self._cells:
            try:
                yield name, cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        namespace = self._globals
        for name in self._variables:
            if name in namespace:
                yield name, namespace[name]

    def collect(self, flat: Flat) -> None:
        """Read every Poly that is reached now into `flat`."""
        for name, obj in self:
            if type(obj) not in _skipped:
                self._visit(obj, name, flat, _DEPTH)

    def _visit(self, obj: Any, path: str, flat: Flat, depth: int) -> None:
        inner = self._inner(obj)
        if inner is not None:
            inner.collect(flat)
            return
        if isinstance(obj, type):
            return
        before = flat.found, len(flat.parts), len(flat.scalars), len(flat.numbers)
        flat.add(obj, path, static=True)
        if flat.found != before[0]:
            flat.parts.insert(before[1], path)
            if flat.paths is not None:
                flat.paths.insert(before[1], path)
            return
        del flat.parts[before[1] :], flat.scalars[before[2] :], flat.numbers[before[3] :]
        if flat.paths is not None:
            del flat.paths[before[1] :]
        if depth and not isinstance(obj, (list, tuple, dict, set, frozenset)):
            attributes = getattr(obj, "__dict__", None)
            if attributes is None:
                return
            for name in self._attributes:
                if name not in attributes:
                    continue
                value = attributes[name]
                if type(value) not in _skipped:
                    self._visit(value, f"{path}.{name}", flat, depth - 1)


def _names(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Names of globals, and of attributes, that a function's code and the functions defined inside it use."""
    variables: set[str] = set()
    attributes: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL:
            variables.add(instruction.argval)
        elif instruction.opcode in dis.hasname:
            attributes.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            variables |= inner[0]
            attributes |= inner[1]
    return variables, attributes

"""Noticing that a program or a workspace is no longer what it was, cheaply enough to ask before every replay.

A program may be edited at any time and a workspace is a dictionary that anybody may write to, so nothing tells us of a change: both are looked at again.
Looking means comparing identities in bulk: attributes and types of xDSL are immutable, and so are engines, key sets and keys.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from operator import attrgetter, eq
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from ren.program.program import Program
from ren.program.workspace import HANDLERS, MAPPINGS, RESERVED

#: (what is looked at of an object, as fast as Python can get it)
_Look = Callable[[Any], Any]
#: Of operations. `_next_op` of every one makes the order of a block.
_OF_OPERATION: tuple[_Look, ...] = tuple(
    map(attrgetter, ("_next_op", "_operands", "results", "regions", "_successors", "location"))
)
_OF_REGION: tuple[_Look, ...] = (attrgetter("_first_block"),)
_OF_BLOCK: tuple[_Look, ...] = tuple(map(attrgetter, ("_next_block", "_first_op", "_args")))
_OF_VALUE: tuple[_Look, ...] = (attrgetter("_type"),)
_HINT: tuple[_Look, ...] = (attrgetter("_name"),)
#: Dictionaries of an operation, compared by content.
_DICTIONARIES: tuple[_Look, ...] = tuple(map(attrgetter, ("properties", "attributes")))


class ProgramWatch:
    """Tells whether a module is still as it was when the watch was made."""

    def __init__(self, program: Program) -> None:
        self._module = program.module
        operations, regions, blocks, values, arguments = _parts(program.module)
        self._looks: list[tuple[_Look, list[Any], list[Any]]] = []
        for objects, looks in (
            (operations, _OF_OPERATION),
            (regions, _OF_REGION),
            (blocks, _OF_BLOCK),
            (values, _OF_VALUE),
            (arguments, _HINT),
        ):
            self._looks += [(look, objects, list(map(look, objects))) for look in looks]
        self._dictionaries = [(look, operations, [dict(d) for d in map(look, operations)]) for look in _DICTIONARIES]

    def same(self, program: Program) -> bool:
        """Whether nothing of the module has changed. List comparison takes identity first, so this runs at C speed."""
        if program.module is not self._module:
            return False
        for look, objects, was in self._looks:
            if list(map(look, objects)) != was:
                return False
        return all(all(map(eq, map(look, objects), was)) for look, objects, was in self._dictionaries)


def _parts(
    module: ModuleOp,
) -> tuple[list[Operation], list[Region], list[Block], list[SSAValue], list[SSAValue]]:
    """Everything a module is made of: operations, regions, blocks, all values, and block arguments by themselves (their names are part of error texts)."""
    operations: list[Operation] = [module]
    regions: list[Region] = []
    blocks: list[Block] = []
    for op in operations:  # grows while it is walked
        for region in op.regions:
            regions.append(region)
            for block in region.blocks:
                blocks.append(block)
                operations.extend(block.ops)
    arguments: list[SSAValue] = [a for block in blocks for a in block.args]
    values: list[SSAValue] = [*arguments, *(r for op in operations for r in op.results)]
    return operations, regions, blocks, values, arguments


#: Entries of a workspace whose objects are immutable or opaque: told apart by identity.
_BY_IDENTITY = tuple(k for k in RESERVED if k not in MAPPINGS)
#: What a dead reference gives.
_GONE = object()


class WorkspaceWatch:
    """Tells whether a workspace still holds what it held: the same engine, keys, handlers and resolvers, and the same names of data.

    The content of materials is not looked at here (see `ren.program.compiled_public`). Keeps no engine and no key alive.
    """

    __slots__ = ("_entries", "_mappings")

    def __init__(self, space: Mapping[Any, Any]) -> None:
        self._entries = [(key, _reference(space.get(key))) for key in _BY_IDENTITY]
        self._mappings = [(key, _members(key, space.get(key))) for key in MAPPINGS]

    def same(self, space: Mapping[Any, Any]) -> bool:
        get = space.get
        for key, reference in self._entries:
            if reference() is not get(key):
                return False
        return all(_unchanged(key, was, get(key)) for key, was in self._mappings)


def _reference(value: Any) -> Callable[[], Any]:
    """What gives the object back: weak where its type allows that, so that nothing keeps keys alive. A dead one is nobody."""
    if value is None:
        return _nothing
    try:
        alive = weakref.ref(value)
    except TypeError:
        return lambda: value

    def look() -> Any:
        found = alive()
        return _GONE if found is None else found

    return look


def _nothing() -> None:
    return None


def _members(key: str, mapping: Any) -> Any:
    """Of handlers: who they are. Of data: what is there. Nothing and None are the same."""
    if mapping is None:
        mapping = {}
    if not isinstance(mapping, Mapping):
        return mapping
    return dict(mapping) if key in HANDLERS else frozenset(mapping)


def _unchanged(key: str, was: Any, mapping: Any) -> bool:
    if mapping is None:
        mapping = {}
    if not isinstance(mapping, Mapping) or not isinstance(was, (dict, frozenset)):
        return was is mapping
    if len(mapping) != len(was):
        return False
    if isinstance(was, dict):
        return all(mapping.get(name) is handler for name, handler in was.items())
    return was.issuperset(mapping)

"""What was found of an entry and may be used again: with one state of its module, with one state of a workspace, with one kind of call."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Hashable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from ren.engine.captured import CapturedPlan
from ren.engine.locks import Guarded
from ren.engine.tree import Flat
from ren.plugin.manager import manager
from ren.program import _xdsl
from ren.program.compiled_call import Roles
from ren.program.compiled_public import Held, Meeting, Memo, PublicPart
from ren.program.compiled_watch import ProgramWatch, WorkspaceWatch
from ren.program.interpret import require
from ren.program.program import Program
from ren.program.readiness import ReadinessReport, check_readiness
from ren.schemes.ckks.keys import EvaluationKeySet

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine

#: Workspaces, and kinds of calls with one, that are remembered as checked.
_WORKSPACES, _CALLS = 16, 64


class Keys(NamedTuple):
    """The evaluation keys of a workspace as plans see them: a handle for each member of the set, and what a plan depends on of them."""

    handles: list[Any]
    spec: tuple[Any, ...]


#: Known only while the key set lives.
_KEYS: weakref.WeakKeyDictionary[EvaluationKeySet, Keys] = weakref.WeakKeyDictionary()


def keys_of(space: Mapping[Any, Any]) -> EvaluationKeySet | None:
    """The key set of a workspace. Something else there is not used: readiness has seen to it that no key is needed then."""
    keys = space.get("evaluation_keys")
    return keys if isinstance(keys, EvaluationKeySet) else None


def key_handles(keys: EvaluationKeySet | None) -> Keys:
    if keys is None:
        return Keys([], ())
    found = _KEYS.get(keys)
    if found is None:
        flat = Flat()
        for key in keys.members():
            flat.add(key.buffer)
        names = [(key.kind, getattr(key, "step", 0), key.level) for key in keys.members()]
        found = _KEYS[keys] = Keys(flat.handles, (keys.key_id, *names, *flat.specify()))
    return found


class Variant:
    """One kind of call that passed all checks. types: of all values, concrete. meetings: what public data meets, known once it was captured.
    last: the public values of the last call. bounds: plan, run-time scalars and what followed from them at the last call."""

    __slots__ = ("types", "meetings", "last", "bounds")

    def __init__(self, types: Mapping[SSAValue, Attribute], meetings: Mapping[Operation, Meeting] | None) -> None:
        self.types = types
        self.meetings = meetings
        self.last: Held | None = None
        self.bounds: tuple[CapturedPlan, list[Any], list[Any]] | None = None


class Binding:
    """An entry with one state of a workspace, found ready. part: its public operations. home: a number for what plans depend on of engine and keys."""

    def __init__(self, space: MutableMapping[Any, Any], report: ReadinessReport, part: PublicPart, home: int) -> None:
        self._watch = WorkspaceWatch(space)
        self._registry = weakref.ref(manager().registry)
        self.report = report
        self.part = part
        self.home = home
        self.variants: OrderedDict[tuple[Any, ...], Variant] = OrderedDict()

    def same(self, space: Mapping[Any, Any]) -> bool:
        """Whether the workspace and the plugins are still what they were."""
        return self._watch.same(space) and self._registry() is manager().registry


class Entry(Guarded):
    """An entry of one state of a module. block, signature, roles, returned: what follows from the program alone."""

    def __init__(self, program: Program, name: str) -> None:
        super().__init__()
        self._watch = ProgramWatch(program)
        self._name = name
        self._bindings: OrderedDict[tuple[int, ...], Binding] = OrderedDict()
        self._numbers: dict[Hashable, int] = {}
        self._memo: Memo = {}
        self._meetings: OrderedDict[Hashable, Mapping[Operation, Meeting]] = OrderedDict()
        # An entry that is missing or malformed is what readiness reports.
        self._sound = False

    def same(self, program: Program) -> bool:
        """Whether the module is still as it was."""
        return self._watch.same(program)

    def number(self, value: Hashable) -> int:
        """A small number for `value`: as good a part of a key, and quicker."""
        return self._numbers.setdefault(value, len(self._numbers))

    def binding(self, program: Program, space: MutableMapping[Any, Any]) -> Binding:
        """The entry with a workspace. Raises ProgramNotReadyError with the whole report."""
        at = id(space.get("engine")), id(space.get("evaluation_keys")), id(space.get("public_key"))
        found = self._bindings.get(at)
        if found is not None and found.same(space):
            return found
        report = check_readiness(program, space, entry=self._name)
        require(report, self._name)
        with self._lock:
            self._read(program)
            part = PublicPart(self.block, space, self._memo)
            if not report.requirements.requires_engine:
                part.refuse("it needs no engine")
            engine: Any = space.get("engine")
            home = (key_handles(keys_of(space)).spec, *(_home(engine) if part.reason is None else ()))
            made = self._bindings[at] = Binding(space, report, part, self.number(home))
            self._bindings.move_to_end(at)
            while len(self._bindings) > _WORKSPACES:
                self._bindings.popitem(last=False)
        return made

    def _read(self, program: Program) -> None:
        if self._sound:
            return
        self.block = program.entry_block(self._name)
        self.signature = program.signature(self._name)
        self.roles = Roles(self.block)
        ends = [op for op in _xdsl.block_ops(self.block) if isinstance(op, ReturnOp)]
        self.returned = tuple(_xdsl.operands(ends[0]))
        self._sound = True

    def variant(self, binding: Binding, key: tuple[Any, ...] | None, types: Mapping[SSAValue, Attribute]) -> Variant:
        """A new kind of call, remembered unless its key is None."""
        if key is None:
            return Variant(types, None)
        with self._lock:
            made = binding.variants[key] = Variant(types, self._meetings.get((key, binding.home)))
            while len(binding.variants) > _CALLS:
                binding.variants.popitem(last=False)
        return made

    def met(self, binding: Binding, key: tuple[Any, ...] | None, meetings: Mapping[Operation, Meeting]) -> None:
        """What public data met in a capture: the same with other workspaces of equal engines and keys."""
        if key is None:
            return
        with self._lock:
            self._meetings[key, binding.home] = meetings
            while len(self._meetings) > _CALLS:
                self._meetings.popitem(last=False)


def _home(engine: PublicEngine) -> tuple[Any, ...]:
    return engine.params, engine.key_id, engine.device, engine.strict_bounds

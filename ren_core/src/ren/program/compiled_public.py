"""The public part of an entry: operations on data that nobody encrypted. A replay repeats of them only what may give something new.

Encoding is the dear one: a plaintext is encoded again when the content of its source changed. Other built-in and audited operations are pure (their tables say so), so they run again when
an operand changed. Handlers, resolvers and calls from outside may do anything, so they run at every call; then every public operation does, in the order of the program, since their code may
have changed what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ren.engine.run import realize
from ren.engine.tree import Flat
from ren.ops import Op
from ren.program import _xdsl
from ren.program._xdsl import operation_name
from ren.program.compiled_content import Content, keep
from ren.program.dialect import at, row_of
from ren.program.interpret import batched, call
from ren.program.machine import Machine, Many
from ren.program.requirements import text_property
from ren.program.types import EncryptedType, PlaintextType

_REFERENCES = ("ren.material.ref", "ren.resource.ref")
_PREPARE = "ren.ckks.prepare."
#: Encodings kept for each operation: its source may meet ciphertexts of several levels.
_ENCODINGS = 4


#: Of each encoding operation: what it depends on besides its source -> the content of the source, and the results.
Memo = dict[Operation, dict[Any, tuple[Content, tuple[Any, ...]]]]


class Meeting(NamedTuple):
    """What preparing public data needs of the ciphertext that it meets."""

    level: int
    scale: Any
    slots: int


@dataclass(frozen=True, slots=True)
class Step:
    """One public operation. encodes: whether it makes a plaintext. shared: whether later calls may be given the same result."""

    op: Operation
    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    encodes: bool
    prepares: bool
    shared: bool


class Held:
    """Public values at one call. values: of every public value. taken: those that encrypted operations take. handles, numbers, spec: of these, as `ren.jit` sees arguments."""

    __slots__ = ("values", "taken", "handles", "numbers", "spec", "_inputs")

    def __init__(
        self, values: dict[SSAValue, Any], wanted: Iterable[SSAValue], inputs: list[tuple[SSAValue, Content]]
    ) -> None:
        self.values = values
        self._inputs = inputs
        flat = Flat()
        self.taken = [values[value] for value in wanted]
        for value in self.taken:
            flat.add(value)
        settle(flat)
        self.handles = flat.handles
        self.numbers = flat.numbers
        self.spec = (*flat.specify(), *map(repr, flat.scalars))

    def changed(self, values: Mapping[SSAValue, Any]) -> set[SSAValue]:
        """The public inputs whose content is another one now."""
        return {value for value, same in self._inputs if not same(values[value])}


class PublicPart:
    """The public operations of a block. reason: why the block is not replayed, None if it is.

    wanted: public values that encrypted operations take, in order of use. returned: those that are results of the entry. volatile: whether all of them run at
    every call. memo: encodings, shared by all workspaces. encoded: names of the operations that encoded at the last call.
    """

    def __init__(self, block: Block, space: Mapping[Any, Any], memo: Memo) -> None:
        self.reason: str | None = None
        foreign = _Foreign(space)
        secret: set[SSAValue] = {a for a in block.args if isinstance(a.type, EncryptedType)}
        steps: list[tuple[Operation, bool]] = []
        wanted: dict[SSAValue, None] = {}
        returned: tuple[SSAValue, ...] = ()
        outside = False
        for op in _xdsl.block_ops(block):
            operands = tuple(_xdsl.operands(op))
            if isinstance(op, ReturnOp):
                returned = operands
                break
            prepares = op.name.startswith(_PREPARE)
            if not prepares and any(v in secret for v in operands):
                secret.update(op.results)
                wanted.update(dict.fromkeys(v for v in operands if v not in secret))
                if foreign(op):
                    self.refuse(f"{operation_name(op)}{at(op)} gives encrypted values to a handler from outside")
                continue
            if foreign(op):
                outside = True
                if any(isinstance(r.type, (EncryptedType, PlaintextType)) for r in op.results):
                    self.refuse(f"{operation_name(op)}{at(op)} makes its result with a handler from outside")
            steps.append((op, prepares))
        if not any(v in secret for v in returned):
            self.refuse("it returns nothing encrypted")
        self.secret = secret
        self.wanted = tuple(wanted)
        self.returned = frozenset(v for v in returned if v not in secret)
        shown = _sources(steps, self.returned)
        self.volatile = outside or bool(shown)
        self.steps = tuple(
            Step(
                op,
                tuple(_xdsl.operands(op)),
                tuple(op.results),
                prepares or op.name == "ren.ckks.encode",
                prepares,
                op not in shown,
            )
            for op, prepares in steps
        )
        self.step_of = {step.op: step for step in self.steps}
        self._references = tuple(s for s in self.steps if s.op.name in _REFERENCES)
        self._arguments = tuple(a for a in block.args if a not in secret)
        self._memo = memo
        self.encoded: tuple[str, ...] = ()

    def refuse(self, reason: str) -> None:
        """Have the block interpreted; the first reason counts."""
        if self.reason is None:
            self.reason = reason

    # -- at a call

    def inputs(self, arguments: dict[SSAValue, Any], machine: Machine) -> dict[SSAValue, Any]:
        """The public inputs of a call: arguments, and what references stand for (unless everything runs in its turn anyway)."""
        values: dict[SSAValue, Any] = {a: arguments[a] for a in self._arguments}
        for step in () if self.volatile else self._references:
            values.update(zip(step.results, call(step.op, (), machine), strict=True))
        return values

    def evaluate(
        self, values: dict[SSAValue, Any], meetings: Mapping[Operation, Meeting], machine: Machine, last: Held | None
    ) -> Held:
        """The public values of a call, from its inputs. last: of the call before with the same meetings; itself when nothing changed."""
        changed: set[SSAValue] | None = None
        if last is not None and not self.volatile:
            changed = last.changed(values)
            if not changed:
                self.encoded = ()
                return last
        encoded: list[str] = []
        for step in self.steps:
            if step.results and step.results[0] in values:
                continue
            if changed is not None and last is not None:
                if changed.isdisjoint(step.operands):
                    for result in step.results:
                        values[result] = last.values[result]
                    continue
                changed.update(step.results)
            operands = [values[v] for v in step.operands[: 1 if step.prepares else None]]
            self.perform(step, operands, meetings.get(step.op), machine, values, encoded)
        self.encoded = tuple(encoded)
        return self.held(values)

    def held(self, values: dict[SSAValue, Any]) -> Held:
        """Public values of a call for later ones."""
        kept: list[tuple[SSAValue, Content]] = []
        if not self.volatile:
            sources = [*self._arguments, *(r for s in self._references for r in s.results)]
            kept = [(value, keep(values[value])) for value in sources]
        return Held(values, self.wanted, kept)

    def perform(
        self,
        step: Step,
        operands: list[Any],
        meeting: Any,
        machine: Machine,
        values: dict[SSAValue, Any],
        encoded: list[str],
    ) -> None:
        """Run one operation on its operands and store its results; an encoding of the same content is taken from memory. meeting: what prepared data meets."""
        if not step.encodes:
            values.update(zip(step.results, call(step.op, tuple(operands), machine), strict=True))
            return
        memo, key = self._memo.setdefault(step.op, {}), _memo_key(step, meeting, machine)
        known = memo.get(key) if step.shared else None
        if known is not None and known[0](operands[0]):
            values.update(zip(step.results, known[1], strict=True))
            return
        content = keep(operands[0])
        results = call(step.op, tuple(operands) if meeting is None else (operands[0], meeting), machine)
        for result in results:
            for item in result.items if type(result) is Many else (result,):
                item.realize()
        encoded.append(_label(step))
        if step.shared:
            if len(memo) >= _ENCODINGS and key not in memo:
                memo.pop(next(iter(memo)), None)
            memo[key] = content, results
        values.update(zip(step.results, results, strict=True))


class _Foreign:
    """Whether an operation is executed by code from outside."""

    def __init__(self, space: Mapping[Any, Any]) -> None:
        self._torch = space.get("torch_handlers") or {}
        self._resolved = {
            f"ren.{kind}.ref": space.get(f"{kind}_resolver") is not None for kind in ("material", "resource")
        }

    def __call__(self, op: Operation) -> bool:
        row = row_of(op)
        if row is None or row.handler is None or not row.name.startswith(("ren.", "torch.")):
            return True
        if op.name == "torch.call":
            return text_property(op, "ren.call.target") in self._torch
        return self._resolved.get(op.name, False)


def _sources(steps: list[tuple[Operation, bool]], returned: frozenset[SSAValue]) -> set[Operation]:
    """The public operations that returned public values come from: their results leave our hands, so no later call may be given them again."""
    wanted = set(returned)
    found: set[Operation] = set()
    for op, _ in reversed(steps):
        if any(r in wanted for r in op.results):
            found.add(op)
            wanted.update(_xdsl.operands(op))
    return found


def _memo_key(step: Step, meeting: Any, machine: Machine) -> Any:
    """What an encoding depends on besides its source."""
    engine = machine.engine
    home = engine.params, engine.device
    if meeting is None:
        return home
    one = meeting.items[0] if type(meeting) is Many else meeting
    return (*home, one.level, one.scale, one.slots, machine.operand_state(step.op, 1).layout)


def _label(step: Step) -> str:
    """How `explain` calls an encoding: by the value that is encoded."""
    source = step.operands[0]
    name = source.name_hint or step.results[0].name_hint
    return f"%{name}" if name else operation_name(step.op)


def argument_values(block: Block, values: list[Any]) -> dict[SSAValue, Any]:
    """Arguments of a call by SSA value, batches as the machine holds them."""
    return {a: batched(v) if isinstance(a.type, PlaintextType) else v for a, v in zip(block.args, values, strict=True)}


def settle(flat: Flat) -> None:
    """Compute the values in `flat` that are lazy, as one schedule: a plan takes buffers."""
    pending = [node for h in flat.handles if (node := h._node).realized is None and node.op is not Op.CONST]
    if pending:
        realize(pending)

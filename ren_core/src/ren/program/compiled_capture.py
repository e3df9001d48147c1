"""Capturing an entry: its handlers run once on stand-ins for everything encrypted, for encoded plaintexts and for keys; the graph they describe becomes a plan.

Public operations run as they always do, outside the capture; what they make is an input of the plan. The handles of a replay are, in this order, those of encrypted arguments, of
encoded plaintexts, and of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ren.engine import capture
from ren.engine.captured import CapturedPlan, Given, assemble, stand_in
from ren.engine.deferred import Deferred
from ren.engine.jit_options import JitOptions
from ren.engine.rebuild import rebuild
from ren.engine.tree import Flat
from ren.gadget import KeyBuffer
from ren.graph import next_serial
from ren.program import _xdsl
from ren.program.compiled_public import Held, Meeting, PublicPart, settle
from ren.program.interpret import call, fused_relinearizations, public_value
from ren.program.machine import Machine, Many
from ren.program.results import with_padding
from ren.schemes.ckks.keys import EvaluationKey, EvaluationKeySet, RotationKey, RotationKeySet

_OPTIONS = JitOptions(nested="inline")


class Inputs:
    """What a capture was given of one kind: encrypted arguments, or encoded plaintexts. flat: as `ren.jit` sees them. made: a stand-in for each handle.

    first: how many run-time scalars come before theirs.
    """

    def __init__(self, first: int = 0) -> None:
        self.flat = Flat()
        self.made: list[Any] = []
        self._first = first

    def add(self, value: Any) -> Any:
        """`value` around stand-ins for its handles and numbers."""
        flat = self.flat
        count = len(flat.numbers)
        flat.add(value)
        settle(flat)
        numbers = [Deferred.leaf(self._first + i, flat.numbers[i], "a bound") for i in range(count, len(flat.numbers))]
        return self.around(value, numbers)

    def around(self, value: Any, numbers: Sequence[Any]) -> Any:
        """`value`, whose handles `flat` holds, around stand-ins and these numbers."""
        handles = self.flat.handles
        self.made += [stand_in(h) for h in handles[len(self.made) :]]
        at = {id(h): s for h, s in zip(handles, self.made, strict=True)}
        return rebuild(value, iter(numbers), lambda h: at[id(h)], False)


def key_stand_ins(keys: EvaluationKeySet | None, buffers: list[KeyBuffer]) -> EvaluationKeySet | None:
    """A key set like `keys` around other buffers, one for each of its members."""
    if keys is None:
        return None
    made = [_like(key, buffer) for key, buffer in zip(keys.members(), buffers, strict=True)]
    named = {key.kind: key for key in made if not isinstance(key, RotationKey)}
    rotations = None
    if keys.rotations is not None:
        rotations = RotationKeySet({key.step: key for key in made if isinstance(key, RotationKey)})
    return EvaluationKeySet(rotations, named.get("relinearization"), named.get("conjugation"))  # type: ignore[arg-type]


def _like(key: EvaluationKey, buffer: KeyBuffer) -> EvaluationKey:
    extra = (key.step,) if isinstance(key, RotationKey) else ()
    make: Callable[..., EvaluationKey] = type(key)
    return make(*extra, key.params, key.key_id, key.level, key.seed, buffer)


class Capture:
    """One capture of an entry. meetings: what each preparation of public data met. values: of public values. plan: the result."""

    def __init__(self, block: Block, part: PublicPart, name: str) -> None:
        self._block = block
        self._part = part
        self._name = name
        self.meetings: dict[Operation, Meeting] = {}

    def run(
        self,
        arguments: Inputs,
        encrypted: Mapping[SSAValue, Any],
        public: dict[SSAValue, Any],
        known: Held | None,
        machine: Machine,
        keys: EvaluationKeySet | None,
    ) -> tuple[CapturedPlan, Held]:
        """Record the entry. encrypted: stand-ins for its encrypted arguments. public: its public inputs. known: public values, where they were computed for
        this call already. machine: of the call, with the types of its values."""
        part = self._part
        first = next_serial()
        key_inputs = Inputs()
        buffers = [] if keys is None else [key_inputs.add(key.buffer) for key in keys.members()]
        inner = Machine(
            {**machine.workspace, "evaluation_keys": key_stand_ins(keys, buffers)}, machine._engine, machine.types
        )
        inner.fused = fused_relinearizations(self._block)
        plaintexts = Inputs(len(arguments.flat.numbers))
        around: dict[SSAValue, Any] = {}
        values: dict[SSAValue, Any] = {**public, **encrypted, **({} if known is None else known.values)}
        encoded: list[str] = []
        returned: tuple[Any, ...] = ()
        for op in _xdsl.block_ops(self._block):
            operands = tuple(_xdsl.operands(op))
            if isinstance(op, ReturnOp):
                returned = tuple(
                    public_value(with_padding(values[v], machine.types[v])) for v in operands if v in part.secret
                )
                break
            step = part.step_of.get(op)
            if step is not None:
                if step.prepares:
                    self.meetings[op] = _meeting(values[operands[1]])
                if step.results and step.results[0] not in values:
                    given = [values[v] for v in (operands[:1] if step.prepares else operands)]
                    part.perform(step, given, self.meetings.get(op), machine, values, encoded)
                continue
            for v in operands:
                if v not in part.secret and v not in around:
                    around[v] = plaintexts.add(values[v])
            with capture.capturing(capture.Capture(self._name, False, True)):
                results = call(op, tuple(around[v] if v in around else values[v] for v in operands), inner)
            values.update(zip(op.results, results, strict=True))
        if known is None:
            part.encoded = tuple(encoded)
        return self._plan(returned, first, (arguments, plaintexts, key_inputs)), known or part.held(
            {v: value for v, value in values.items() if v not in part.secret}
        )

    def _plan(self, returned: tuple[Any, ...], first: int, inputs: tuple[Inputs, ...]) -> CapturedPlan:
        made = [h for i in inputs for h in i.made]
        given = {id(h._node): number for number, h in enumerate(made)}
        numbers = [n for i in inputs for n in i.flat.numbers]
        return assemble(CapturedPlan(Given(made, numbers), _OPTIONS, self._name), returned, first, given, {}, _OPTIONS)


def _meeting(ciphertext: Any) -> Meeting:
    one = ciphertext.items[0] if type(ciphertext) is Many else ciphertext
    return Meeting(one.level, one.scale, one.slots)

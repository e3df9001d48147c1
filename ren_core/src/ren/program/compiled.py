"""Programs that are replayed: an entry is captured once as a plan and run again without its handlers.

A run looks at program and workspace first (`compiled_watch`): while nothing changed, readiness is not decided again. Then at its arguments (`compiled_call`): their levels, scales,
packing and batch axes choose the plan. Public data is encoded again where its content changed (`compiled_public`), everything else is bound to the plan, which gives new
results every time. What cannot be replayed (encrypted values in the hands of handlers from outside) is interpreted, and `explain` says so.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from ren.engine import capture
from ren.engine.captured import NOTHING, CapturedPlan, Given
from ren.engine.jit_options import DEFAULT_MAXSIZE
from ren.engine.locks import Guarded
from ren.engine.plan_store import PlanKey, PlanStore
from ren.program.binding import Bound, bind_names
from ren.program.compiled_call import Call, Encrypted
from ren.program.compiled_capture import Capture
from ren.program.compiled_entry import Binding, Entry, Variant, key_handles, keys_of
from ren.program.compiled_public import Held, argument_values
from ren.program.interpret import (
    as_returned,
    check_call,
    execute,
    interpret_ready,
    observed,
    public_value,
    quiet_bounds,
)
from ren.program.machine import Machine
from ren.program.program import Program
from ren.program.results import checked_results

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine


class Replayer(Guarded):
    """The plans of one entry of one program. Keeps neither the program nor a key alive."""

    def __init__(self, name: str, maxsize: int | None = DEFAULT_MAXSIZE) -> None:
        super().__init__()
        self.name = name
        self.plans = PlanStore(maxsize, f"program entry {name!r}")
        self._entry: Entry | None = None
        #: Looks at every new plan before it is used, and raises where it is not to be.
        self.on_capture: Callable[[CapturedPlan], None] | None = None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entry = None
            self.plans.clear()

    def entry(self, program: Program) -> Entry:
        """The entry as the module is now; an edited module starts anew."""
        entry = self._entry
        if entry is None or not entry.same(program):
            with self._lock:
                entry = self._entry
                if entry is None or not entry.same(program):
                    self.plans.clear()
                    entry = self._entry = Entry(program, self.name)
        return entry

    def run(
        self, program: Program, space: MutableMapping[Any, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """See `ren.program.interpret.run`."""
        entry = self.entry(program)
        binding = entry.binding(program, space)
        if binding.part.reason is not None or capture.current() is not None:
            return interpret_ready(program, space, self.name, binding.report, entry.signature, args, kwargs)
        engine: PublicEngine = space["engine"]
        call = Call(entry.roles, bind_names(entry.signature, self.name, args, kwargs))
        variant = None if call.key is None else binding.variants.get(call.key)
        if variant is None:
            report = check_call(program, self.name, space, binding.report, entry.block, call.check(engine))
            assert report.flow is not None
            variant = entry.variant(binding, call.key, report.flow.types)
        else:
            call.check_content(engine)
        work = _Run(self, entry, binding, variant, call, space, engine).result
        with quiet_bounds(entry.block):
            return observed(program, space, self.name, binding.report, work)


class _Run:
    """One run of an entry, after all checks."""

    def __init__(
        self,
        replayer: Replayer,
        entry: Entry,
        binding: Binding,
        variant: Variant,
        call: Call,
        space: MutableMapping[Any, Any],
        engine: PublicEngine,
    ) -> None:
        self._replayer = replayer
        self._entry = entry
        self._binding = binding
        self._variant = variant
        self._call = call
        self._space = space
        self._engine = engine
        self._machine = Machine(space, engine, variant.types)

    def result(self) -> Any:
        entry, binding, variant, machine = self._entry, self._binding, self._variant, self._machine
        part = binding.part
        encrypted = self._call.encrypt(self._engine, self._space.get("public_key"))
        public = part.inputs(argument_values(entry.block, encrypted.values), machine)
        held, plan = None, None
        if variant.meetings is not None:
            held = part.evaluate(public, variant.meetings, machine, variant.last)
            plan = self._replayer.plans.get(self._key(encrypted, held))
        if held is None or plan is None:
            plan, held = self._capture(encrypted, public, held)
        if not part.volatile:
            variant.last = held
        keys = key_handles(keys_of(self._space))
        given = Given([*encrypted.flat.handles, *held.handles, *keys.handles], [*encrypted.bounds, *held.numbers])
        values = self._bounds(plan, given.numbers)
        if values is None:
            bound = Bound([public_value(v) for v in argument_values(entry.block, encrypted.values).values()], {}, ())
            return execute(entry.block, bound, machine, entry.signature)
        return self._merged(checked_results(plan.replay(given, NOTHING, values), machine), held)

    def _key(self, encrypted: Encrypted, held: Held) -> PlanKey:
        given = encrypted.flat.specify() if self._call.arrays or self._call.key is None else self._call.key
        return PlanKey(given, (self._entry.number(held.spec),), self._binding.home, None)

    def _capture(self, encrypted: Encrypted, public: dict[Any, Any], held: Held | None) -> tuple[CapturedPlan, Held]:
        entry, part = self._entry, self._binding.part
        first = held is None
        inputs, stand_ins = encrypted.stand_ins(entry.roles)
        recorder = Capture(entry.block, part, self._replayer.name)
        plan, held = recorder.run(inputs, stand_ins, public, held, self._machine, keys_of(self._space))
        plan.name = f"{self._replayer.name}({encrypted.kinds(entry.roles, held.taken)})"
        if self._replayer.on_capture is not None:
            self._replayer.on_capture(plan)
        key = self._key(encrypted, held)
        if first:
            self._replayer.plans.get(key)  # counts the miss
            self._variant.meetings = recorder.meetings
            entry.met(self._binding, self._call.key, recorder.meetings)
        self._replayer.plans.put(key, plan)
        return plan, held

    def _bounds(self, plan: CapturedPlan, numbers: list[Any]) -> list[Any] | None:
        """What follows from the bounds of the arguments: those of the results, and warnings where values may overflow. None where a bound is refused: the handlers
        then say where."""
        last = self._variant.bounds
        if last is not None and last[0] is plan and last[1] == numbers:
            return last[2]
        try:
            values = plan.recipes.run(numbers)
        except Exception:  # noqa: BLE001 - whatever it is, the run that follows raises it again with its operation and line
            return None
        self._variant.bounds = plan, numbers, values
        return values

    def _merged(self, encrypted: Any, held: Held) -> Any:
        """All results of the entry, in the structure that the caller knows."""
        entry, part = self._entry, self._binding.part
        if part.returned:
            ready = iter(encrypted)
            encrypted = tuple(next(ready) if v in part.secret else public_value(held.values[v]) for v in entry.returned)
        return as_returned(entry.signature, encrypted)


_REPLAYERS: weakref.WeakKeyDictionary[Program, dict[str, Replayer]] = weakref.WeakKeyDictionary()


def replayer_of(program: Program, entry: str) -> Replayer:
    """What `program.run` uses: kept as long as the program lives."""
    of_program = _REPLAYERS.get(program)
    if of_program is None:
        of_program = _REPLAYERS.setdefault(program, {})
    found = of_program.get(entry)
    return found if found is not None else of_program.setdefault(entry, Replayer(entry))

"""Reading plans: why a call hits or misses, and a plan as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ren.backend.capability import calibration_of
from ren.engine.cost import Cost, unit_cost
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.engine.frozen import frozen
from ren.engine.plan import Plan
from ren.engine.plan_store import PlanKey
from ren.engine.schedule.normalise import Signature

if TYPE_CHECKING:
    from ren.engine.captured import CapturedPlan
    from ren.engine.jit import Call, JitFunction

_CONSTANT_FIELDS = ("constant", "ring", "constant value", "domain", "device")


def explain(function: JitFunction, call: Call) -> str:
    """See JitFunction.explain."""
    plans = function._plans
    plan = plans.get(call.key)
    if plan is not None:
        if function.options.scalars != "recapture" and frozen(call.flat.scalars) != plan.frozen_scalars:
            return f"error: scalar argument changed (captured {plan.shown_scalars}, got {tuple(call.flat.scalars)!r})"
        return "hit"
    if not plans:
        return "miss: no plan captured yet"
    differences = [_differences(key, call) for key in list(plans)]
    nearest = min(range(len(differences)), key=lambda i: len(differences[i]))
    return "miss: " + "; ".join(differences[nearest])


def _differences(key: PlanKey, call: Call) -> list[str]:
    """What of a call differs from a plan's key."""
    now = call.key
    found = _parts("argument", key.given, now.given, call.flat.paths or [])
    found += _parts("implicit input", key.implicit, now.implicit, call.implicit.paths or [])
    if key.context != now.context:
        found.append("the active context is another one")
    if key.scalars != now.scalars:
        found.append(f"scalar arguments {tuple(call.flat.scalars)!r} were not captured")
    return found


def _parts(what: str, old: Sequence[Any], new: Sequence[Any], paths: Sequence[str]) -> list[str]:
    if len(old) != len(new):
        return [f"the structure of the {what}s differs"]
    found = []
    for a, b, path in zip(old, new, paths, strict=True):
        if a != b:
            found.append(_field(f"{what} {path}", a, b))
    return found


def _field(path: str, old: Any, new: Any) -> str:
    if isinstance(old, int) and isinstance(new, int):
        return f"{path}: another pattern of repeated Polys"
    before, now = _spec_fields(old), _spec_fields(new)
    if before and now:
        if before.keys() != now.keys():
            return f"{path}: {'a constant' if 'constant' in now else 'no constant'} now"
        return ", ".join(f"{path}: {name} {before[name]} -> {now[name]}" for name in now if before[name] != now[name])
    return f"{path}: {_readable(old)} -> {_readable(new)}"


def _spec_fields(part: Any) -> dict[str, Any]:
    """What the specification of a handle says, by name; empty for another part of a key."""
    if isinstance(part, tuple) and part and part[0] == "constant":
        return dict(zip(_CONSTANT_FIELDS, part, strict=True))
    if isinstance(part, tuple) and part and isinstance(part[0], Signature):
        signature, device = part
        return {
            "kind": signature.kind,
            "ring": signature.ring,
            "size": signature.words,
            "domain": signature.domain,
            "device": device,
        }
    return {}


def _readable(part: Any) -> str:
    if isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], str):  # a named value after its name
        part = part[1]
    if isinstance(part, tuple) and part and isinstance(part[0], type):
        return " ".join([part[0].__name__, *(repr(p) for p in part[1:])])
    return part.__name__ if isinstance(part, type) else repr(part)


class Lowered:
    """A captured plan for reading: `str()` gives slots, units, bytes and predicted cost.

    units and slots: as the backend gets them, one list per device. cost: the predicted work of one replay.
    """

    def __init__(self, name: str, captured: CapturedPlan) -> None:
        self.name = name
        self.plans: list[Plan] = [segment.plan for segment in captured.segments]

    @property
    def units(self) -> list[tuple[ExecUnit, ...]]:
        return [plan.units for plan in self.plans]

    @property
    def slots(self) -> list[tuple[Slot, ...]]:
        return [plan.slots for plan in self.plans]

    @property
    def cost(self) -> Cost:
        return sum((_plan_cost(plan) for plan in self.plans), Cost())

    def __str__(self) -> str:
        lines = [f"plan of {self.name}"]
        for plan in self.plans:
            lines.append(f"device {plan.backend.name}")
            lines += [f"  slot {i}: {s.kind} {8 * s.words} bytes" for i, s in enumerate(plan.slots)]
            lines += [f"  {i}: {_unit(u, plan.slots)}" for i, u in enumerate(plan.units)]
        return "\n".join([*lines, f"cost: {self.cost}"])

    __repr__ = __str__


def _plan_cost(plan: Plan) -> Cost:
    """Counts, and the predicted time where the backend has a calibration."""
    counted = sum((unit_cost(u) for u in plan.units), Cost())
    prices = calibration_of(plan.backend)
    return counted if prices is None else replace(counted, seconds=sum(prices.plan_times(plan.units)) + prices.replay)


def _unit(unit: ExecUnit, slots: Sequence[Slot]) -> str:
    def shown(operands: Sequence[Operand]) -> str:
        return ", ".join(f"{_LETTER[slots[o.slot].kind]}{o.slot}+{o.offset}" for o in operands)

    params = f" {unit.params!r}" if unit.params else ""
    scalars = f"; {shown(unit.scalars)}" if unit.scalars else ""
    scratch = f" scratch {shown(unit.scratch)}" if unit.scratch else ""
    shape = f"[{unit.ring.limbs}x{unit.ring.n}]"
    return f"{shown(unit.outputs)} = {unit.kernel}{shape}{params}({shown(unit.inputs)}{scalars}){scratch}"


_LETTER = {
    SlotKind.INPUT: "in",
    SlotKind.CONSTANT: "const",
    SlotKind.SCALAR: "scalar",
    SlotKind.RANDOM: "seed",
    SlotKind.TEMPORARY: "temp",
    SlotKind.OUTPUT: "out",
}

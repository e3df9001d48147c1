"""The state of every value of a function, computed beside the program: nothing in it is changed.

Without parameters, states are symbolic, as in the types. With parameters, layouts are resolved to the engine's slots, scales are compared exactly,
levels against the depth of the chain, and bounds against the capacity of each level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ren.errors import LevelExhaustedError
from ren.program import _xdsl
from ren.program.chain import concrete_type, number_of, symbolic
from ren.program.dialect import expected_types, row_of
from ren.program.layout import LayoutError
from ren.program.noise_rules import NoiseCase, UnknownNoise, fresh
from ren.program.rows import RuleError
from ren.program.states import EncryptedState, disagreement, merged
from ren.program.types import EncryptedType, PlaintextType

if TYPE_CHECKING:
    from ren.schemes.ckks.noise import Noise
    from ren.schemes.ckks.params import CKKSParams


@dataclass(frozen=True, slots=True)
class FlowProblem:
    """What a rule refused. op: None for an argument, whose number is `argument`."""

    code: str
    message: str
    op: Operation | None = None
    argument: int | None = None


@dataclass(slots=True)
class Flow:
    """types: state of every value. noises: predicted error of a slot, for the values where it could be predicted. unknown: encrypted values whose level or
    scale depends on an argument."""

    types: dict[SSAValue, Attribute] = field(default_factory=dict)
    problems: list[FlowProblem] = field(default_factory=list)
    noises: dict[SSAValue, Noise] = field(default_factory=dict)
    unknown: list[Operation] = field(default_factory=list)


def flow_of(
    function: FuncOp, params: CKKSParams | None = None, arguments: Mapping[int, Attribute] | None = None
) -> Flow:
    """Infer the states of all values of a function.

    arguments: types that replace those of arguments, by number: what a caller actually passed.
    """
    flow = Flow()
    blocks = list(function.body.blocks)
    for block in blocks:
        for i, argument in enumerate(block.args):
            type_ = argument.type
            if arguments is not None and i in arguments and block is blocks[0]:
                type_ = arguments[i]
            flow.types[argument] = _argument(flow, i, type_, params)
            if params is not None:
                _fresh_noise(flow, argument, params)
        for op in _xdsl.block_ops(block):
            _visit(flow, op, params)
            if params is not None:
                _pass_noise(flow, op, params)
    if any(p.code == "level-exhausted" for p in flow.problems):
        # A product that cannot be rescaled any more does not fit either: one cause, one finding.
        flow.problems = [p for p in flow.problems if p.code != "over-capacity"]
    return flow


def _argument(flow: Flow, index: int, type_: Attribute, params: CKKSParams | None) -> Attribute:
    if params is None:
        return type_
    try:
        type_ = concrete_type(type_, params)
    except LayoutError as error:
        flow.problems.append(FlowProblem("invalid-layout", str(error), argument=index))
        return type_
    level = type_.data.level if isinstance(type_, (EncryptedType, PlaintextType)) else None
    if level is not None and level > params.levels:
        message = f"level {level} is declared, the engine has levels 0 to {params.levels}"
        flow.problems.append(FlowProblem("level-exhausted", message, argument=index))
    return type_


def _fresh_noise(flow: Flow, argument: SSAValue, params: CKKSParams) -> None:
    type_ = flow.types[argument]
    if isinstance(type_, EncryptedType):
        with suppress(UnknownNoise):
            flow.noises[argument] = fresh(type_.data, params)


def _pass_noise(flow: Flow, op: Operation, params: CKKSParams) -> None:
    row = row_of(op)
    if row is None or row.noise is None or not op.results:
        return
    operands = _xdsl.operands(op)
    result = flow.types[op.results[0]]
    if not isinstance(result, (EncryptedType, PlaintextType)):
        return
    case = NoiseCase(
        noises=tuple(flow.noises.get(v) for v in operands),
        states=tuple(getattr(flow.types.get(v, v.type), "data", None) for v in operands),
        result=result.data,
        attributes=row.python_attributes(op.properties),
        params=params,
        same=len(operands) == 2 and operands[0] is operands[1],
    )
    with suppress(UnknownNoise):
        flow.noises.update(dict.fromkeys(op.results, row.noise(case)))


def _visit(flow: Flow, op: Operation, params: CKKSParams | None) -> None:
    types = flow.types
    row = row_of(op)
    operands = tuple(types.get(v, v.type) for v in _xdsl.operands(op))
    expected: Sequence[Attribute] | None = None
    if row is not None and row.rule is not None:
        try:
            expected = expected_types(row, operands, op.properties)
        except RuleError as error:
            flow.problems.append(FlowProblem(error.code, str(error), op))
        if expected is not None and row.check is not None and params is not None:
            refused = row.check(operands, row.python_attributes(op.properties), params)
            if refused is not None:
                flow.problems.append(FlowProblem(*refused, op))
        if expected is not None and row.name == "ren.ckks.meet" and params is not None:
            expected = _met(flow, op, operands, expected, params)
        if expected is not None and len(expected) != len(op.results):
            flow.problems.append(
                FlowProblem("invalid-state", f"{len(op.results)} results, the rule gives {len(expected)}", op)
            )
            expected = None
    for i, result in enumerate(op.results):
        declared = result.type
        try:
            declared = declared if params is None else concrete_type(declared, params)
            found = (
                declared if expected is None else expected[i] if params is None else concrete_type(expected[i], params)
            )
        except LayoutError as error:
            flow.problems.append(FlowProblem("invalid-layout", str(error), op))
            found = declared
        types[result] = _agreed(flow, op, declared, found)
    if row is not None and row.stage == "ckks" and (expected is not None or row.rule is None):
        _check_level(flow, op, operands, params)


def _agreed(flow: Flow, op: Operation, declared: Attribute, found: Attribute) -> Attribute:
    if found is declared or type(found) is not type(declared):
        return found
    if isinstance(found, (EncryptedType, PlaintextType)):
        problem = disagreement(declared.data, found.data)  # type: ignore[attr-defined]
        if problem is not None:
            flow.problems.append(FlowProblem("invalid-state", f"declared {problem}", op))
        if isinstance(found, EncryptedType):
            return EncryptedType(merged(declared.data, found.data))  # type: ignore[attr-defined]
    return found


def _met(
    flow: Flow, op: Operation, operands: Sequence[Attribute], expected: Sequence[Attribute], params: CKKSParams
) -> Sequence[Attribute]:
    """Where two values whose levels and scales are known by now will meet: what the rule cannot say without the primes."""
    from ren.schemes.ckks.alignment import for_sum

    states = []
    for type_ in operands:
        state = type_.data if isinstance(type_, EncryptedType) else None
        if state is None or state.level is None or state.scale is None or state.level > params.levels:
            return expected
        number = number_of(state.scale, params)
        if number is None:
            return expected
        states.append((state.level, number))
    try:
        plan = for_sum(params, states[0], states[1], "meet")
    except LevelExhaustedError as error:
        flow.problems.append(FlowProblem("level-exhausted", error.message, op))
        return expected
    scale = symbolic(plan.scale, params)
    return [
        EncryptedType(replace(t.data, level=plan.level, scale=scale)) if isinstance(t, EncryptedType) else t
        for t in expected
    ]


def _check_level(flow: Flow, op: Operation, operands: Sequence[Attribute], params: CKKSParams | None) -> None:
    before = [t.data.level for t in operands if isinstance(t, EncryptedType) and t.data.level is not None]
    for result in op.results:
        type_ = flow.types[result]
        if not isinstance(type_, (EncryptedType, PlaintextType)):
            continue
        state = type_.data
        if state.level is None or state.scale is None:
            if isinstance(state, EncryptedState) and not any(_unknown(t) for t in operands):
                flow.unknown.append(op)
            continue
        if params is None:
            continue
        if state.level > params.levels:
            # Reported where the limit is crossed; what follows is only deeper still.
            if all(level <= params.levels for level in before):
                message = f"the result has level {state.level}, the engine has levels 0 to {params.levels}"
                flow.problems.append(FlowProblem("level-exhausted", message, op))
            continue
        if isinstance(state, EncryptedState):
            _check_capacity(flow, op, state, params)


def _unknown(type_: Attribute) -> bool:
    return isinstance(type_, EncryptedType) and (type_.data.level is None or type_.data.scale is None)


def _check_capacity(flow: Flow, op: Operation, state: EncryptedState, params: CKKSParams) -> None:
    from ren.schemes.ckks.accuracy import value_floor
    from ren.schemes.ckks.encoder import capacity

    assert state.level is not None
    assert state.scale is not None
    scale = number_of(state.scale, params)
    if scale is None:
        return
    floor = value_floor(params, state.parts or 2)
    if scale.log2 < floor:
        message = f"the scale 2^{scale.log2:.1f} is below 2^{floor:.1f}, where noise drowns values of size 1: only products are rescaled"
        flow.problems.append(FlowProblem("scale-too-small", message, op))
        return
    limit = capacity(params.ring_at(state.level).modulus, scale)
    if limit < 1:
        message = f"level {state.level} at scale 2^{scale.log2:.1f} holds values up to {limit:.3g} only: rescale first"
        flow.problems.append(FlowProblem("over-capacity", message, op))
    elif state.bound is not None and state.bound > limit:
        message = (
            f"slots may reach {state.bound:.3g}, level {state.level} at scale 2^{scale.log2:.1f} holds {limit:.3g}"
        )
        flow.problems.append(FlowProblem("possible-overflow", message, op))

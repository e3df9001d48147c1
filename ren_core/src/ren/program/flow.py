"""The state of every value of a function, computed beside the program: nothing in it is changed.

Without parameters, states are symbolic, as in the types. With parameters, layouts are resolved to the engine's slots, scales are compared exactly,
levels against the depth of the chain, and bounds against the capacity of each level.

A bound that nobody declared is what decryption will judge by all the same: an encrypted input is assumed to hold what its level holds, as `encrypt_message` does. Overflows
that follow from such an assumption are no findings (nearly every product is one) unless bounds are strict; a result whose bound does not fit, at a level where decryption
could not tell an overflow (`ren.schemes.ckks.wraparound`), is one in any case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ren.errors import LevelExhaustedError
from ren.program import _xdsl
from ren.program.chain import concrete_type, number_of, symbolic
from ren.program.dialect import expected_types, row_of
from ren.program.layout import LayoutError
from ren.program.literals import LiteralError, decode
from ren.program.noise_rules import NoiseCase, UnknownNoise, fresh
from ren.program.parameter_checks import plaintext_fits
from ren.program.rows import Row, RuleError
from ren.program.rules import size_of
from ren.program.states import EncryptedState, disagreement, merged
from ren.program.types import EncryptedType, MessageType, PlaintextType

if TYPE_CHECKING:
    from ren.schemes.ckks.noise import Noise
    from ren.schemes.ckks.params import CKKSParams


@dataclass(frozen=True, slots=True)
class FlowProblem:
    """What a rule refused. op: None for an argument, whose number is `argument`. assumed: follows from a bound that was assumed, not declared.
    pending: the call decides. limit: what the level of a result holds."""

    code: str
    message: str
    op: Operation | None = None
    argument: int | None = None
    assumed: bool = False
    pending: bool = False
    limit: float | None = None


@dataclass(slots=True)
class Flow:
    """types: state of every value. noises: predicted error of a slot, for the values where it could be predicted. unknown: encrypted values whose level or
    scale depends on an argument. sizes: bounds by which decryption will judge, where they differ from those of `types`: infinite once a value may have overflowed, None where
    public data of the call decides. assumed: values whose size follows from an assumption. presumed: where `flow_of` was told what to take for a bound that
    nobody declares, the values that got it."""

    types: dict[SSAValue, Attribute] = field(default_factory=dict)
    problems: list[FlowProblem] = field(default_factory=list)
    noises: dict[SSAValue, Noise] = field(default_factory=dict)
    unknown: list[Operation] = field(default_factory=list)
    sizes: dict[SSAValue, float | None] = field(default_factory=dict)
    assumed: set[SSAValue] = field(default_factory=set)
    presumed: list[SSAValue] = field(default_factory=list)

    def size(self, value: SSAValue) -> float | None:
        """The bound of an encrypted value by which decryption will judge."""
        if value in self.sizes:
            return self.sizes[value]
        state = getattr(self.types.get(value, value.type), "data", None)
        return state.bound if isinstance(state, EncryptedState) else None


def flow_of(
    function: FuncOp,
    params: CKKSParams | None = None,
    arguments: Mapping[int, Attribute] | None = None,
    publics: Mapping[str, float] | None = None,
    *,
    measured: Mapping[SSAValue, float] | None = None,
    presumed: float | None = None,
) -> Flow:
    """Infer the states of all values of a function.

    arguments: types that replace those of arguments, by number: what a caller actually passed. publics: largest absolute element of materials, by symbol, where known;
    measured: of any public value. presumed: the bound to take for arguments and public values of which nobody says one (None: they have none).
    """
    flow = Flow()
    blocks = list(function.body.blocks)
    for block in blocks:
        for i, argument in enumerate(block.args):
            type_ = argument.type
            if arguments is not None and i in arguments and block is blocks[0]:
                type_ = arguments[i]
            flow.types[argument] = _presume(flow, argument, _argument(flow, i, type_, params), presumed)
            if params is not None:
                _fresh_noise(flow, argument, params)
                _assume_size(flow, argument, params)
        for op in _xdsl.block_ops(block):
            _visit(flow, op, params)
            if params is not None:
                _pass_noise(flow, op, params)
            if op.name in _PUBLIC:
                _public_bound(flow, op, publics or {}, params)
            if measured or presumed is not None:
                _settle_public(flow, op, measured or {}, presumed)
        if params is not None and block is blocks[0]:
            _check_results(flow, block, params)
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


def _assume_size(flow: Flow, argument: SSAValue, params: CKKSParams) -> None:
    """Without a declared bound, an input holds what its level holds."""
    type_ = flow.types[argument]
    if isinstance(type_, EncryptedType) and type_.data.bound is None:
        flow.assumed.add(argument)
        flow.sizes[argument] = _capacity(type_.data, params)


def _capacity(state: EncryptedState, params: CKKSParams) -> float | None:
    from ren.schemes.ckks.encoder import capacity

    if state.level is None or state.level > params.levels or state.scale is None:
        return None
    scale = number_of(state.scale, params)
    return None if scale is None else capacity(params.ring_at(state.level).modulus, scale)


#: Where public data comes from; its size is kept beside the program, so that texts do not depend on it.
_PUBLIC = frozenset({"ren.material.ref", "ren.constant", "ren.public.mask", "ren.public.slot_share"})


def _public_bound(flow: Flow, op: Operation, publics: Mapping[str, float], params: CKKSParams | None) -> None:
    bound: float | None
    if op.name == "ren.material.ref":
        bound = publics.get(getattr(op.properties.get("symbol"), "data", ""))
    elif op.name == "ren.constant":
        bound = _constant_size(op)
    elif op.name == "ren.public.slot_share" and params is not None:
        bound = 1.0 / params.slot_count
    else:
        bound = 1.0
    for result in op.results:
        type_ = flow.types[result]
        if bound is not None and isinstance(type_, MessageType):
            flow.types[result] = MessageType(replace(type_.data, bound=bound))


def _settle_public(flow: Flow, op: Operation, measured: Mapping[SSAValue, float], presumed: float | None) -> None:
    """What was measured of public values takes the place of what their rules say; what is not known is presumed."""
    for result in op.results:
        type_ = flow.types[result]
        if not isinstance(type_, MessageType):
            continue
        if result in measured:
            type_ = MessageType(replace(type_.data, bound=measured[result]))
        flow.types[result] = _presume(flow, result, type_, presumed)


def _presume(flow: Flow, value: SSAValue, type_: Attribute, presumed: float | None) -> Attribute:
    if presumed is None or not isinstance(type_, (EncryptedType, PlaintextType, MessageType)):
        return type_
    if type_.data.bound is not None:
        return type_
    flow.presumed.append(value)
    made: Attribute = type(type_)(replace(type_.data, bound=presumed))  # type: ignore[arg-type]
    return made


def _constant_size(op: Operation) -> float | None:
    try:
        value = decode(op.properties["value"], named=lambda named: None)
    except (KeyError, LiteralError):  # malformed; the verifier says so
        return None
    return size_of(value) if isinstance(value, (int, float, complex)) else None


def _pass_size(flow: Flow, op: Operation, row: Row, operands: Sequence[Attribute]) -> None:
    """Sizes of the results, by the rule of the operation, where an operand has a size of its own."""
    values = _xdsl.operands(op)
    if not any(v in flow.sizes for v in values) or row.name.endswith(".assume_bound"):
        return
    sized = tuple(
        EncryptedType(replace(t.data, bound=flow.sizes[v])) if v in flow.sizes and isinstance(t, EncryptedType) else t
        for v, t in zip(values, operands, strict=True)
    )
    try:
        found = expected_types(row, sized, op.properties)
    except RuleError:
        return
    assumed = any(v in flow.assumed for v in values)
    for result, type_ in zip(op.results, found, strict=False):
        if isinstance(type_, EncryptedType):
            flow.sizes[result] = type_.data.bound
            if assumed:
                flow.assumed.add(result)


def _check_results(flow: Flow, block: Block, params: CKKSParams) -> None:
    """Results that may not fit, at a level where decryption could not tell."""
    from ren.schemes.ckks.wraparound import is_checkable

    returned = block.last_op
    for value in dict.fromkeys(_xdsl.operands(returned)) if isinstance(returned, ReturnOp) else ():
        type_ = flow.types.get(value, value.type)
        if not isinstance(type_, EncryptedType):
            continue
        state, size = type_.data, flow.size(value)
        limit = _capacity(state, params)
        if limit is None or (size is not None and size <= limit):
            continue
        assert state.level is not None and state.scale is not None
        scale = number_of(state.scale, params)
        if scale is None or is_checkable(params, state.level, scale):
            continue
        message = (
            f"a result at level {state.level}, which holds {limit:.3g} and leaves no room to notice an overflow, is not known to fit: {_why(flow, value, size)}. "
            "Declare bounds of the inputs, encrypted(bound=...), or promise one of the results, workspace['result_bound'] = b, or use parameters with more levels"
        )
        pending = size is None and value not in flow.assumed
        op = value.owner if isinstance(value.owner, Operation) else returned
        flow.problems.append(FlowProblem("unchecked-result", message, op, pending=pending, limit=limit))


def _why(flow: Flow, value: SSAValue, size: float | None) -> str:
    if value in flow.assumed:
        return "an encrypted input declares no bound"
    if size is None:
        return "it depends on public data that comes with the call"
    return "by the declared bounds it may overflow"


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
    if row is not None and params is not None and expected is not None:
        _pass_size(flow, op, row, operands)
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
            _check_capacity(flow, op, result, state, params)
        elif (unfit := plaintext_fits(state, params)) is not None:
            flow.problems.append(FlowProblem("over-capacity", unfit, op))


def _unknown(type_: Attribute) -> bool:
    return isinstance(type_, EncryptedType) and (type_.data.level is None or type_.data.scale is None)


def _check_capacity(flow: Flow, op: Operation, value: SSAValue, state: EncryptedState, params: CKKSParams) -> None:
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
        return
    size = flow.size(value)
    if size is None or size <= limit:
        return
    if size < math.inf:  # otherwise it was reported where it happened
        message = f"slots may reach {size:.3g}, level {state.level} at scale 2^{scale.log2:.1f} holds {limit:.3g}"
        flow.problems.append(FlowProblem("possible-overflow", message, op, assumed=value in flow.assumed))
        flow.sizes[value] = math.inf

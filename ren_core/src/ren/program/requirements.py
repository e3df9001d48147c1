"""What a program needs: a pure scan of one entry that never fails on unknown content.

Six kinds of fact: operation names; symbolic materials and resources; preserved torch targets; unknown operation names; whether an engine is
needed, and with which keys; how many values are returned. Nothing here looks at a workspace or decides whether the program runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ren.errors import EntryError, UnsupportedOperandError
from ren.program import _xdsl
from ren.program._xdsl import operation_name
from ren.program.dialect import row_of
from ren.program.layout import Layout
from ren.program.literals import LiteralError
from ren.program.program import Program
from ren.program.rows import KeyNeed
from ren.program.scales import SymbolicScale
from ren.program.states import EncryptedState, PlaintextState
from ren.program.types import EncryptedType, role_of

#: Operations that run without a row of ours.
_STRUCTURE = frozenset({"func.return", "func.func", "builtin.module"})


@dataclass(frozen=True, slots=True)
class EvaluationKeyRequirements:
    """Evaluation keys that a program needs.

    rotation_steps: canonical: modulo the slots of the frame that is rotated, or of the engine when it was given; without an engine a rotation of
    the full slot vector stays as written, and a sum over all slots has the steps for the largest slot count there is; those that an engine takes for multiples of its slots need no key,
    and `engine.rotation_key` gives an empty one. 0 is left out. all_slots_from: without an engine, strides of sums over all slots: they need
    the steps stride, 2 stride, 4 stride, ... below the slot count. key_bytes: of all keys in memory, 0 without an engine. semantic_operations: operations that were
    not lowered yet and whose keys are therefore not counted. shallowest: (kind, step) -> smallest level at which the key is used, where it is known.
    """

    rotation_steps: frozenset[int] = frozenset()
    requires_relinearization: bool = False
    requires_conjugation: bool = False
    all_slots_from: frozenset[int] = frozenset()
    key_bytes: int = 0
    semantic_operations: tuple[str, ...] = ()
    shallowest: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """Whether any key is needed."""
        return bool(
            self.rotation_steps or self.all_slots_from or self.requires_relinearization or self.requires_conjugation
        )

    @property
    def key_count(self) -> int:
        return len(self.rotation_steps) + self.requires_relinearization + self.requires_conjugation


@dataclass(frozen=True, slots=True)
class ProgramRequirements:
    """operations: the name of every operation of the entry except its return, in order. unknown_operations, materials, resources, torch_targets: distinct,
    in order of appearance. malformed_references: operations whose symbol or target is missing. return_count: None unless the entry has one block that
    ends in the only return."""

    operations: tuple[str, ...]
    unknown_operations: tuple[str, ...]
    materials: tuple[str, ...]
    resources: tuple[str, ...]
    torch_targets: tuple[str, ...]
    malformed_references: tuple[str, ...]
    rotation_steps: frozenset[int]
    requires_relinearization: bool
    requires_conjugation: bool
    requires_engine: bool
    return_count: int | None


@dataclass(frozen=True, slots=True)
class InferredValueState:
    """What is known of one value. role: see `ren.program.types.role_of`, None for foreign types. type: its type as text. metadata: the known
    fields of its state. The other fields are None where they are unknown or do not apply. error: predicted RMS error of a slot, with an engine."""

    role: str | None
    type: str
    metadata: Mapping[str, Any]
    level: int | None = None
    scale: SymbolicScale | None = None
    layout: Layout | None = None
    parts: int | None = None
    domain: str | None = None
    batch: str | None = None
    bound: float | None = None
    error: float | None = None


def entry_operations(program: Program, entry: str) -> tuple[Operation, ...]:
    """The operations of the entry's block without its return; () when there is no such entry."""
    block = _block(program, entry)
    return () if block is None else tuple(op for op in _xdsl.block_ops(block) if not isinstance(op, ReturnOp))


def _block(program: Program, entry: str) -> Block | None:
    try:
        return program.entry_block(entry)
    except EntryError:
        return None


def text_property(op: Operation, name: str) -> str | None:
    """A string property, None when it is absent or something else."""
    data = getattr(op.properties.get(name), "data", None)
    return data if isinstance(data, str) else None


def reference_name(op: Operation) -> str | None:
    """The symbol or target that a reference or kept call names; "" when it is missing; None for other operations."""
    if op.name in ("ren.material.ref", "ren.resource.ref"):
        return text_property(op, "symbol") or ""
    if op.name == "torch.call":
        return text_property(op, "ren.call.target") or ""
    return None


def key_needs(op: Operation, types: Mapping[SSAValue, Attribute] | None = None) -> tuple[KeyNeed, ...]:
    """Keys that executing one operation takes. types: replaces the types of values, where states were inferred elsewhere."""
    row = row_of(op)
    if row is None:
        return ()
    operands = tuple(v.type if types is None else types.get(v, v.type) for v in _xdsl.operands(op))
    try:
        attributes = row.python_attributes(op.properties)
        return row.needs(operands, attributes)
    except (LiteralError, KeyError, TypeError, AttributeError):
        # A malformed operation; the verifier says so.
        return ()


def canonical_step(step: int, type_: Attribute | None, slots: int | None) -> int:
    """A rotation step modulo the frame that it acts on, else modulo the slots of the engine, else as written."""
    layout = type_.data.layout if isinstance(type_, EncryptedType) else None
    modulus = slots if layout is None or layout.frame is None else layout.frame
    return step if modulus is None else step % modulus


def analyze_requirements(program: Program, *, entry: str = "main") -> ProgramRequirements:
    """See the module. Raises TypeError for anything but a Program."""
    if not isinstance(program, Program):
        raise UnsupportedOperandError(f"expected a Program, got {type(program).__name__}", subject="program")
    operations = entry_operations(program, entry)
    found: dict[str, dict[str, None]] = {
        k: {} for k in ("unknown", "ren.material.ref", "ren.resource.ref", "torch.call", "malformed")
    }
    needs_engine = False
    block = _block(program, entry)
    if block is not None:
        needs_engine = any(isinstance(a.type, EncryptedType) for a in block.args)
    for op in operations:
        row = row_of(op)
        if row is None:
            if op.name not in _STRUCTURE:
                found["unknown"][operation_name(op)] = None
            continue
        needs_engine = needs_engine or row.stage == "ckks"
        name = reference_name(op)
        if name is not None:
            found[op.name if name else "malformed"][name or op.name] = None
    keys = analyze_evaluation_key_requirements(program, entry=entry)
    return ProgramRequirements(
        operations=tuple(operation_name(op) for op in operations),
        unknown_operations=tuple(found["unknown"]),
        materials=tuple(found["ren.material.ref"]),
        resources=tuple(found["ren.resource.ref"]),
        torch_targets=tuple(found["torch.call"]),
        malformed_references=tuple(found["malformed"]),
        rotation_steps=keys.rotation_steps,
        requires_relinearization=keys.requires_relinearization,
        requires_conjugation=keys.requires_conjugation,
        requires_engine=needs_engine,
        return_count=_return_count(block),
    )


def _return_count(block: Block | None) -> int | None:
    if block is None:
        return None
    returns = [op for op in _xdsl.block_ops(block) if isinstance(op, ReturnOp)]
    return len(_xdsl.operands(returns[0])) if len(returns) == 1 and returns[0] is block.last_op else None


def analyze_evaluation_key_requirements(
    program: Program, *, entry: str = "main", engine: Any = None, types: Mapping[SSAValue, Attribute] | None = None
) -> EvaluationKeyRequirements:
    """Keys that the explicit CKKS operations of the entry need. Ask after lowering: `semantic_operations` names what is not counted.

    engine: a CKKS engine or its parameters, which make steps canonical and give bytes.
    """
    if not isinstance(program, Program):
        raise UnsupportedOperandError(f"expected a Program, got {type(program).__name__}", subject="program")
    params = getattr(engine, "params", engine)
    if params is not None and not hasattr(params, "slot_count"):
        raise UnsupportedOperandError(
            f"engine is a CKKS engine or its parameters, got {type(engine).__name__}", subject="engine"
        )
    slots: int | None = None if params is None else params.slot_count
    steps: set[int] = set()
    spans: set[int] = set()
    kinds: set[str] = set()
    pending: dict[str, None] = {}
    shallowest: dict[tuple[str, int], int] = {}
    for op in entry_operations(program, entry):
        row = row_of(op)
        if row is not None and row.stage in ("semantic", "logical"):
            pending[op.name] = None
        for need in key_needs(op, types):
            source = _xdsl.operands(op)[0]
            type_ = source.type if types is None else types.get(source, source.type)
            used: list[int] = []
            if need.kind != "rotation":
                kinds.add(need.kind)
                used = [0]
            elif need.span is None:
                used = [canonical_step(need.step, type_, slots)]
            elif need.span or slots is not None:
                used = span_steps(need.step, need.span or slots or 1)
            else:
                spans.add(need.step)
                used = span_steps(need.step, most_slots() // need.step)
            if need.kind == "rotation":
                steps.update(used)
            level = type_.data.level if isinstance(type_, EncryptedType) else None
            if level is not None:
                for step in used:
                    key = need.kind, step
                    shallowest[key] = min(level, shallowest.get(key, level))
    steps.discard(0)
    count = len(steps) + len(kinds)
    return EvaluationKeyRequirements(
        rotation_steps=frozenset(steps),
        requires_relinearization="relinearization" in kinds,
        requires_conjugation="conjugation" in kinds,
        all_slots_from=frozenset(spans),
        key_bytes=0 if params is None else count * params.evaluation_key_bytes(),
        semantic_operations=tuple(pending),
        shallowest=shallowest,
    )


def span_steps(stride: int, count: int) -> list[int]:
    """Rotations that sum `count` (a power of two) slots at distance `stride`: stride, 2 stride, ..., count/2 stride."""
    return [stride << i for i in range(count.bit_length() - 1)]


def most_slots() -> int:
    """The largest slot count that any secure parameters have."""
    from ren.schemes.ckks.security import MAX_MODULUS_BITS

    return max(MAX_MODULUS_BITS) // 2


def analyze_value_states(
    program: Program, *, entry: str = "main", workspace: Mapping[Any, Any] | None = None
) -> Mapping[SSAValue, InferredValueState]:
    """The inferred state of every argument and result of the entry. With an engine in `workspace`, layouts, scales and errors are concrete.

    Raises EntryError when the entry is missing.
    """
    from ren.program.flow import flow_of

    engine = None if workspace is None else workspace.get("engine")
    flow = flow_of(program.entry_function(entry), getattr(engine, "params", None))
    return {
        value: _state(type_, noise.rms if (noise := flow.noises.get(value)) is not None else None)
        for value, type_ in flow.types.items()
    }


def _state(type_: Attribute, error: float | None) -> InferredValueState:
    data = getattr(type_, "data", None)
    role = role_of(type_)
    if not isinstance(data, (EncryptedState, PlaintextState)):
        shown: Any = data
        fields = (
            {}
            if role is None
            else {k: getattr(shown, k) for k in shown.__slots__ if getattr(shown, k) not in (None, "")}
        )
        return InferredValueState(role, str(type_), fields)
    known = {k: getattr(data, k) for k in data.__slots__ if getattr(data, k) is not None}
    common = {k: v for k, v in known.items() if k != "use"}
    return InferredValueState(role, str(type_), known, error=error, **common)

"""What a program costs with given parameters, operation by operation: key switches, transforms, rescales, memory, predicted time and errors.

The graph of the whole program is scheduled as for a run, so fusion, hoisting and shared work across operations are counted as they would happen. Each unit of
the schedule belongs to the operations whose values it computes; a transform belongs to the operation that made the transformed value. So the rows add up to the
total exactly, and an operation whose work another one did already has a row of zeros.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ren.backend.select import get_backend
from ren.engine.calibration import Calibration
from ren.engine.cost import transforms_of, work_of
from ren.engine.exec_unit import ExecUnit, SlotKind
from ren.engine.forecast import Forecast, forecast
from ren.errors import ProgramNotReadyError, UnsupportedOperandError
from ren.program import _xdsl
from ren.program._xdsl import operation_name
from ren.program.cost_errors import ErrorEstimate, estimate_errors
from ren.program.cost_graph import CostGraph, graph_of
from ren.program.diagnostics import Diagnostic, summary
from ren.program.dialect import at, source_of
from ren.program.flow import Flow, flow_of
from ren.program.program import Program
from ren.program.public_sizes import public_sizes
from ren.program.readiness import check_readiness
from ren.program.requirements import reference_name
from ren.program.scales import SymbolicScale
from ren.program.types import EncryptedType, PlaintextType
from ren.program.workspace import as_workspace
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.placeholders import PlanningEngine

if TYPE_CHECKING:
    from ren.graph import Node

#: Readiness codes that a cost does not depend on: keys and bindings of a run, public work, and what only arguments decide.
_OF_A_RUN = frozenset(
    {
        "missing-evaluation-keys",
        "incomplete-evaluation-keys",
        "incompatible-evaluation-keys",
        "missing-material",
        "missing-resource",
        "missing-torch-handler",
        "missing-public-key",
        "incompatible-public-key",
        "malformed-workspace-binding",
        "undefined-state",
        "possible-overflow",
    }
)


@dataclass(frozen=True, slots=True)
class OperationCost:
    """One operation. level: that of its first encrypted result. key_switches: products with an evaluation key. decompositions: gadget decompositions, fewer than
    key_switches where rotations are hoisted. transforms: rows through the NTT or its inverse. rescales: of whole ciphertexts. temporary_bytes: what it writes into
    temporaries. seconds: predicted; None without a calibration. error: predicted error of the slots of its first result."""

    operation: Operation
    name: str
    location: str = ""
    level: int | None = None
    key_switches: int = 0
    decompositions: int = 0
    transforms: int = 0
    rescales: int = 0
    temporary_bytes: int = 0
    seconds: float | None = None
    error: ErrorEstimate | None = None


@dataclass(frozen=True, slots=True)
class TotalCost:
    """The whole program. keys: the evaluation keys it reads; key_bytes: of those in memory. temporary_bytes: the peak of one run. output_bytes: of its results. encoded:
    plaintexts encoded on the host, whose time is not in `seconds`. seconds: one run of the schedule, None without a calibration."""

    units: int
    key_switches: int
    decompositions: int
    transforms: int
    rescales: int
    keys: tuple[str, ...]
    key_bytes: int
    temporary_bytes: int
    output_bytes: int
    encoded: int
    seconds: float | None


@dataclass(frozen=True)
class ProgramCost:
    """What `Program.cost` returns: `rows`, one per operation in program order, and `total`. `str()` and notebooks show a table.

    calibration: where the times come from. results: predicted errors of what the entry returns, in order; None for what is not encrypted or cannot be
    predicted. presumed: inputs, materials and kept calls whose values count as at most 1 in predicted errors, since nobody says how large they
    are. units: of the schedule, in order, as the backend would get them.
    """

    params: CKKSParams
    device: str
    rows: tuple[OperationCost, ...]
    total: TotalCost
    calibration: str
    results: tuple[ErrorEstimate | None, ...] = ()
    presumed: tuple[str, ...] = ()
    units: tuple[ExecUnit, ...] = field(repr=False, default=())

    def row(self, operation: Operation) -> OperationCost | None:
        """The row of an operation of the program."""
        return next((r for r in self.rows if r.operation is operation), None)

    def __str__(self) -> str:
        from ren.program.cost_table import text

        return text(self)

    def _repr_html_(self) -> str:
        from ren.program.cost_table import as_html

        return as_html(self)


# -- making one --------------------------------------------------------------------------------------------------------


def cost_of(
    program: Program,
    params: Any,
    *,
    calibration: Calibration | None = None,
    workspace: MutableMapping[Any, Any] | None = None,
    entry: str = "main",
    device: str | None = None,
    simulate: bool = True,
) -> ProgramCost:
    """See `Program.cost`. simulate: whether typical errors are measured on a simulation."""
    found, device = _target(params, device)
    backend = get_backend(device)
    engine = PlanningEngine(found, backend.name)
    space = as_workspace(workspace)
    flow = _ready(program, engine, space, entry)
    block = program.entry_block(entry)
    graph = graph_of(block, engine, space, flow.types)
    plan = forecast(graph.results, backend, calibration)
    sizes = public_sizes(block, flow.types, engine, space)
    sized = flow_of(program.entry_function(entry), found, _assumed(flow), measured=sizes, presumed=1.0)
    errors = estimate_errors(block, sized, found, space, simulate=simulate)
    rows = _rows(block, graph, plan, flow, found, errors)
    prices = plan.calibration
    return ProgramCost(
        found,
        backend.name,
        rows,
        _total(rows, graph, plan, engine),
        f"not predicted: backend {backend.name!r} has no calibration" if prices is None else prices.note,
        tuple(errors.get(v) for v in _returned(block)),
        _named(block, sized.presumed),
        plan.units,
    )


def _target(params: Any, device: str | None) -> tuple[CKKSParams, str | None]:
    if isinstance(params, str):
        return CKKSParams.preset(params), device
    found = getattr(params, "params", params)
    if not isinstance(found, CKKSParams):
        raise UnsupportedOperandError(
            f"cost: needs CKKSParams, a preset name or an engine, got {type(params).__name__}", subject="params"
        )
    return found, device if device is not None else getattr(params, "device", None)


def _ready(program: Program, engine: PlanningEngine, space: MutableMapping[Any, Any], entry: str) -> Flow:
    """The states of all values. Raises ProgramNotReadyError for everything that also a cost depends on."""
    unbound = {**space, "engine": engine, "evaluation_keys": None}
    report = check_readiness(program, unbound, entry=entry)
    assumed = _assumed(report.flow)
    if assumed:
        report = check_readiness(program, unbound, entry=entry, arguments=assumed)
    problems: list[Diagnostic] = [d for d in report.errors if d.code not in _OF_A_RUN]
    if problems or report.flow is None:
        raise ProgramNotReadyError(
            f"the cost of {entry!r} cannot be predicted: {len(problems)} problems\n{summary(problems)}", report
        )
    return report.flow


def _assumed(flow: Flow | None) -> dict[int, Attribute]:
    """Plaintexts of unknown state that the caller will pass are taken as encoded at level 0 with its scale."""
    if flow is None:
        return {}
    found: dict[int, Attribute] = {}
    for value, type_ in flow.types.items():
        if isinstance(value, BlockArgument) and isinstance(type_, PlaintextType):
            if type_.data.level is None:
                type_ = PlaintextType(replace(type_.data, level=0, scale=SymbolicScale.at_level(0)))
            found[value.index] = type_
    return found


def _returned(block: Block) -> tuple[SSAValue, ...]:
    last = block.last_op
    return tuple(_xdsl.operands(last)) if isinstance(last, ReturnOp) else ()


def _named(block: Block, presumed: Sequence[SSAValue]) -> tuple[str, ...]:
    """Names of what was presumed, as far as something encrypted depends on it other than through a call that is named itself."""
    names: dict[str, None] = {}
    for value in presumed:
        if not isinstance(value.type, EncryptedType) and all(use.operation.name == "torch.call" for use in value.uses):
            continue
        if isinstance(value, BlockArgument):
            names[f"input {value.name_hint or f'arg{value.index}'}"] = None
            continue
        op = value.owner
        assert isinstance(op, Operation)
        symbol = reference_name(op)
        what = f"material {symbol}" if op.name == "ren.material.ref" else f"{symbol or operation_name(op)}{at(op)}"
        names[what] = None
    return tuple(names)


class _Counts:
    """What is counted for one operation. rescaled: polynomials that a division took a chain prime from."""

    def __init__(self) -> None:
        self.key_switches = self.decompositions = self.transforms = self.rescaled = self.temporaries = 0
        self.seconds = 0.0


def _rows(
    block: Block, graph: CostGraph, plan: Forecast, flow: Flow, params: CKKSParams, errors: dict[SSAValue, Any]
) -> tuple[OperationCost, ...]:
    counts: dict[Operation, _Counts] = {}
    for i, unit in enumerate(plan.units):
        owners = _owners(graph, plan.made[i])
        for op in owners:
            found = counts.setdefault(op, _Counts())
            if plan.seconds is not None:
                found.seconds += plan.seconds[i] / len(owners)
        _count(counts[owners[0]], unit, plan, params)
    return tuple(
        _row(
            op,
            counts.get(op) or _Counts(),
            flow,
            plan.seconds is not None,
            errors.get(op.results[0]) if op.results else None,
        )
        for op in _xdsl.block_ops(block)
        if not isinstance(op, ReturnOp)
    )


def _owners(graph: CostGraph, made: Sequence[Node]) -> list[Operation]:
    """The operations of the values that a unit computes, once per value. A transform of an input, or another value that no operation made, belongs to nobody: it is
    counted with the first operation."""
    owners = [op for node in made if (op := graph.operation_of(node)) is not None]
    return owners or [graph.first]


def _count(found: _Counts, unit: ExecUnit, plan: Forecast, params: CKKSParams) -> None:
    """Add what a unit does. All of it goes to the first of its owners: only element-wise units, which have none of these, have several."""
    found.transforms += transforms_of(work_of(unit))
    found.key_switches += unit.kernel in ("key_switch", "gadget_product")
    found.decompositions += unit.kernel in ("key_switch", "decompose")
    if unit.kernel == "mod_down":
        dropped = unit.ring.moduli[-unit.params[0] :]
        found.rescaled += sum(q not in params.special for q in dropped)
    found.temporaries += 8 * sum(o.words for o in unit.outputs if plan.slots[o.slot].kind is SlotKind.TEMPORARY)
    found.temporaries += 8 * sum(o.words for o in unit.scratch)


def _row(op: Operation, c: _Counts, flow: Flow, timed: bool, error: ErrorEstimate | None) -> OperationCost:
    source = source_of(op)
    types = [flow.types.get(r, r.type) for r in op.results]
    level = next((t.data.level for t in types if isinstance(t, EncryptedType)), None)
    return OperationCost(
        op,
        operation_name(op),
        "" if source is None else f"{source[0]}:{source[1]}",
        level,
        c.key_switches,
        c.decompositions,
        c.transforms,
        c.rescaled // _polynomials(op, flow, c.rescaled),
        c.temporaries,
        c.seconds if timed else None,
        error,
    )


def _polynomials(op: Operation, flow: Flow, rescaled: int) -> int:
    """Polynomials per ciphertext that an operation rescales: three for a product that was not relinearized and is not relinearized by it."""
    operands = _xdsl.operands(op)
    type_ = flow.types.get(operands[0], operands[0].type) if operands else None
    three = isinstance(type_, EncryptedType) and type_.data.parts == 3
    return 3 if three and rescaled % 3 == 0 else 2


def _total(rows: Sequence[OperationCost], graph: CostGraph, plan: Forecast, engine: PlanningEngine) -> TotalCost:
    keys = [key for node in plan.read if (key := engine.key_of(node)) is not None]
    return TotalCost(
        len(plan.units),
        sum(r.key_switches for r in rows),
        sum(r.decompositions for r in rows),
        sum(r.transforms for r in rows),
        sum(r.rescales for r in rows),
        tuple(sorted(key._label() for key in keys)),
        sum(key.nbytes for key in keys),
        plan.temporary_bytes,
        plan.output_bytes,
        graph.encoded,
        plan.total_seconds,
    )

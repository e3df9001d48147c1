"""Whether a program runs with a workspace, and every reason why not, in one report. Runs nothing, calls no handler, changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ren.errors import EntryError, PassError
from ren.program import _xdsl
from ren.program import entry as entries
from ren.program._xdsl import operation_name
from ren.program.analysis import Analysis, analysis_of
from ren.program.diagnostics import CODES, Diagnostic, Severity, located, summary
from ren.program.dialect import obligations_of, row_of, source_of
from ren.program.extensions import plugin_handler
from ren.program.flow import Flow
from ren.program.key_check import key_diagnostics
from ren.program.literals import decode
from ren.program.packing import to_array
from ren.program.program import Program
from ren.program.requirements import ProgramRequirements, entry_operations, reference_name
from ren.program.results import largest_element, promised_bound
from ren.program.types import EncryptedType, MessageType, PlaintextType, role_of
from ren.program.workspace import HANDLERS, MAPPINGS, RESOLVERS, as_workspace

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine

ReadinessDiagnostic = Diagnostic


@dataclass(frozen=True)
class ReadinessReport:
    """requirements: what the entry needs. diagnostics: every finding; `runnable` unless one of them is an error. flow: the states that were
    inferred, concrete when the workspace holds an engine."""

    requirements: ProgramRequirements
    diagnostics: tuple[Diagnostic, ...]
    flow: Flow | None = None

    @property
    def runnable(self) -> bool:
        return not self.errors

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity == "error")

    @property
    def codes(self) -> frozenset[str]:
        """Codes of the errors."""
        return frozenset(d.code for d in self.errors)

    def _subjects(self, *codes: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d.subject for d in self.diagnostics if d.code in codes and d.subject is not None))

    @property
    def missing_operations(self) -> tuple[str, ...]:
        """Operations that nothing executes."""
        return self._subjects("missing-handler")

    @property
    def missing_materials(self) -> tuple[str, ...]:
        return self._subjects("missing-material")

    @property
    def missing_resources(self) -> tuple[str, ...]:
        return self._subjects("missing-resource")

    def __str__(self) -> str:
        state = "runnable" if self.runnable else f"not runnable, {len(self.errors)} problems"
        return f"{state}\n{summary(self.diagnostics, 1000)}" if self.diagnostics else state


class _Findings:
    """Diagnostics in order, each distinct one once."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}

    def add(
        self,
        code: str,
        message: str,
        *,
        subject: str | None = None,
        op: Operation | None = None,
        severity: Severity | None = None,
    ) -> None:
        source = None if op is None else source_of(op)
        if op is not None and subject is None:
            subject = operation_name(op)
        self._found[located(code, message, subject=subject, source=source, severity=severity)] = None

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._found.update(dict.fromkeys(diagnostics))

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Errors first, otherwise in the order found."""
        return tuple(sorted(self._found, key=lambda d: ("error", "warning", "note").index(d.severity)))


def check_readiness(
    program: Program,
    workspace: MutableMapping[Any, Any] | None = None,
    *,
    entry: str = "main",
    arguments: Mapping[int, Attribute] | None = None,
) -> ReadinessReport:
    """Compare an entry with a workspace. arguments: types of the arguments actually passed, by number, when the program is being called.

    Raises TypeError for anything but a Program and a mapping; everything else is a finding.
    """
    space = as_workspace(workspace)
    engine = _engine(space)
    with _xdsl.gc_paused():
        params = None if engine is None else engine.params
        analysis = analysis_of(program, entry, params, arguments, _public_bounds(program, entry, space))
        findings = _Findings()
        _check_workspace(space, findings)
        _check_versions(program, findings)
        _check_entry(program, entry, space, analysis, findings)
        _check_symbols(analysis.requirements, space, findings)
        _check_materials(program, entry, space, findings)
        if analysis.requirements.requires_engine and engine is None:
            findings.add("missing-engine", _engine_message(space), subject="engine")
        findings.extend(key_diagnostics(analysis.keys, space, engine))
    return ReadinessReport(analysis.requirements, findings.sorted(), analysis.flow)


# -- workspace -------------------------------------------------------------------------------------------------------


def _check_workspace(space: Mapping[Any, Any], findings: _Findings) -> None:
    for key in MAPPINGS:
        if space.get(key) is not None and not isinstance(space[key], Mapping):
            message = f"workspace[{key!r}] must be a mapping, got {type(space[key]).__name__}"
            findings.add("malformed-workspace-binding", message, subject=key)
    for key in HANDLERS:
        for name, handler in _mapping(space, key).items():
            if not callable(handler):
                message = f"workspace[{key!r}][{name!r}] must be callable, got {type(handler).__name__}"
                findings.add("malformed-workspace-binding", message, subject=str(name))
    for key in RESOLVERS:
        if space.get(key) is not None and not callable(space[key]):
            message = f"workspace[{key!r}] must be callable, got {type(space[key]).__name__}"
            findings.add("malformed-workspace-binding", message, subject=key)
    if space.get("result_bound") is not None and promised_bound(space) is None:
        message = f"workspace['result_bound'] must be a positive number, got {space['result_bound']!r}"
        findings.add("malformed-workspace-binding", message, subject="result_bound")


def _mapping(space: Mapping[Any, Any], key: str) -> Mapping[Any, Any]:
    found = space.get(key)
    return found if isinstance(found, Mapping) else {}


def _engine(space: Mapping[Any, Any]) -> PublicEngine | None:
    found = space.get("engine")
    if found is None:
        return None
    from ren.schemes.ckks.engine import PublicEngine

    return found if isinstance(found, PublicEngine) else None


def _engine_message(space: Mapping[Any, Any]) -> str:
    if space.get("engine") is None:
        return "the program computes on encrypted values: bind workspace['engine']"
    return f"workspace['engine'] must be a CKKS engine, got {type(space['engine']).__name__}"


def _public_bounds(program: Program, entry: str, space: Mapping[Any, Any]) -> dict[str, float]:
    """The largest absolute element of every material that is bound to numbers. What a resolver would make of it is not known before the run."""
    if space.get("material_resolver") is not None:
        return {}
    bound = _mapping(space, "materials")
    found = {}
    for op in entry_operations(program, entry) if isinstance(program, Program) and bound else ():
        symbol = reference_name(op) if op.name == "ren.material.ref" else None
        if symbol and symbol in bound and symbol not in found and (size := largest_element(bound[symbol])) is not None:
            found[symbol] = size
    return found


def _check_symbols(requirements: ProgramRequirements, space: Mapping[Any, Any], findings: _Findings) -> None:
    for kind, symbols in (("material", requirements.materials), ("resource", requirements.resources)):
        bound = _mapping(space, kind + "s")
        for symbol in symbols:
            if symbol not in bound:
                findings.add(
                    f"missing-{kind}", f"{kind} {symbol!r} is not bound in workspace['{kind}s']", subject=symbol
                )


def _check_materials(program: Program, entry: str, space: Mapping[Any, Any], findings: _Findings) -> None:
    """Bound materials against the shape that was recorded when they were captured. What a resolver makes of them is not known before the run."""
    bound = _mapping(space, "materials")
    if space.get("material_resolver") is not None or not bound or not isinstance(program, Program):
        return
    seen = set()
    for op in entry_operations(program, entry):
        descriptor = op.properties.get("descriptor") if op.name == "ren.material.ref" else None
        symbol = reference_name(op)
        if op.name == "ren.material.ref" and symbol and symbol in bound:
            _check_declared(op, symbol, bound[symbol], findings)
        if descriptor is None or not symbol or symbol not in bound or symbol in seen:
            continue
        seen.add(symbol)
        recorded = decode(descriptor)
        if not isinstance(recorded, Mapping) or "shape" not in recorded:
            continue
        shape = tuple(recorded["shape"])
        try:
            found = to_array(bound[symbol]).shape
        except (TypeError, ValueError):
            what = type(bound[symbol]).__name__
        else:
            if found == shape:
                continue
            what = f"shape {found}"
        message = f"material {symbol!r} must be numbers of shape {shape}, workspace['materials'] has {what}"
        findings.add("malformed-workspace-binding", message, subject=symbol, op=op)


def _check_declared(op: Operation, symbol: str, value: Any, findings: _Findings) -> None:
    """A material against the bound that its type declares."""
    type_ = op.results[0].type if op.results else None
    declared = type_.data.bound if isinstance(type_, MessageType) else None
    size = None if declared is None else largest_element(value)
    if declared is not None and size is not None and not size <= declared:
        message = f"material {symbol!r} is declared with bound {declared:.6g}, workspace['materials'] has values up to {size:.6g}"
        findings.add("malformed-workspace-binding", message, subject=symbol, op=op)


class _Handlers:
    """Who executes what, without calling anybody."""

    def __init__(self, space: Mapping[Any, Any]) -> None:
        self._extension = _mapping(space, "handlers")
        self._torch = _mapping(space, "torch_handlers")
        self._plugins: dict[str, str | None] = {}

    def problem(self, name: str) -> str | None:
        """Why nothing executes an extension operation, None if something does."""
        if callable(self._extension.get(name)):
            return None
        if name not in self._plugins:
            self._plugins[name] = self._ask_plugins(name)
        return self._plugins[name]

    @staticmethod
    def _ask_plugins(name: str) -> str | None:
        try:
            if plugin_handler(name) is not None:
                return None
        except Exception as error:  # noqa: BLE001 - a plugin that fails is a finding, not the end of the report
            return f"the plugin that registered one fails with {type(error).__name__}: {error}"
        return "no handler in workspace['handlers'], none from a plugin"

    def torch(self, target: str) -> bool:
        return callable(self._torch.get(target))


# -- program ---------------------------------------------------------------------------------------------------------


def _check_versions(program: Program, findings: _Findings) -> None:
    for name, supported in (
        (entries.SCHEMA_ATTRIBUTE, entries.SCHEMA_VERSION),
        (entries.DIALECT_ATTRIBUTE, entries.DIALECT_VERSION),
    ):
        attribute = program.module.attributes.get(name)
        version = getattr(attribute, "data", None)
        if attribute is None:
            findings.add("unversioned-program", f"the module has no attribute {name}", subject=name)
        elif version != supported:
            findings.add(
                "unsupported-program-version", f"{name} is {version!r}, this Ren reads {supported!r}", subject=name
            )


def _check_entry(
    program: Program, entry: str, space: Mapping[Any, Any], analysis: Analysis, findings: _Findings
) -> None:
    # A module edited by hand since it was verified.
    if analysis.fault is not None and row_of(analysis.fault[0]) is None:
        findings.add("invalid-executable-graph", analysis.fault[1], subject=entry, op=analysis.fault[0])
    try:
        function = program.entry_function(entry)
        block = program.entry_block(entry)
    except EntryError as error:
        findings.add("missing-entry", str(error), subject=entry)
        return
    returns = [op for op in _xdsl.block_ops(block) if isinstance(op, ReturnOp)]
    if len(returns) != 1 or returns[0] is not block.last_op:
        message = f"function {entry!r} must end in exactly one return, found {len(returns)}"
        findings.add("missing-entry", message, subject=entry)
    _check_arguments(function, block, findings)
    handlers = _Handlers(space)
    for op in _xdsl.block_ops(block):
        if not isinstance(op, ReturnOp):
            _check_operation(op, analysis.contract.get(op), handlers, findings)
    strict = bool(space.get("strict_bounds")) or bool(getattr(_engine(space), "strict_bounds", False))
    assert analysis.flow is not None
    _report_flow(analysis.flow, block, findings, strict=strict, promised=promised_bound(space))


def _check_arguments(function: FuncOp, block: Block, findings: _Findings) -> None:
    try:
        entries.signature(function)
    except EntryError as error:
        findings.add("malformed-input", str(error), subject=error.subject)
    for i, argument in enumerate(block.args):
        name = argument.name_hint or f"arg{i}"
        state = argument.type.data if isinstance(argument.type, EncryptedType) else None
        if state is not None and state.parts == 3:
            findings.add(
                "malformed-input", f"argument {name} is declared with three parts; inputs have two", subject=name
            )
        if role_of(argument.type) in ("static", "material", "resource"):
            findings.add(
                "malformed-input", f"argument {name} has type {argument.type}, which no caller passes", subject=name
            )


def _check_operation(op: Operation, problem: str | None, handlers: _Handlers, findings: _Findings) -> None:
    name = operation_name(op)
    row = row_of(op)
    if row is None:
        absent = handlers.problem(name)
        if absent is not None:
            findings.add("missing-handler", f"nothing executes {name}: {absent}", op=op)
        if op.regions or _xdsl.successors(op):
            findings.add("invalid-executable-graph", f"{name} has regions or successors, which are not executed", op=op)
        return
    if problem is not None:
        findings.add("invalid-executable-graph", f"{name}: {problem}", op=op)
    if row.stage in ("semantic", "logical"):
        findings.add("missing-handler", _not_lowered(op, name), op=op)
    elif row.handler is None and (absent := handlers.problem(name)) is not None:
        findings.add("missing-handler", f"nothing executes {name}: {absent}", op=op)
    pending = obligations_of(op)
    if pending:
        findings.add("pending-obligation", f"the result of {name} still has to be: {', '.join(pending)}", op=op)
    reference = reference_name(op)
    if reference == "":
        findings.add("malformed-reference", f"{name} has no {'target' if name == 'torch.call' else 'symbol'}", op=op)
    elif name == "torch.call" and reference is not None:
        _check_torch_call(op, reference, handlers, findings)


def _not_lowered(op: Operation, name: str) -> str:
    if ".divide" in name and any(isinstance(v.type, PlaintextType) for v in _xdsl.operands(op)[1:]):
        return (
            f"{name} divides by an encoded plaintext, which nothing computes: encode the reciprocal, "
            "engine.plaintext(1 / value, ...), and multiply by it, or declare the divisor message()"
        )
    return f"{name} is not lowered: run jit.default_pipeline() over the program; if it was run, none of its passes takes this operation with these operands"


def _check_torch_call(op: Operation, target: str, handlers: _Handlers, findings: _Findings) -> None:
    from ren.program.torch_calls import is_audited

    if handlers.torch(target):
        return
    values = (*_xdsl.operands(op), *op.results)
    secret = any(isinstance(v.type, (EncryptedType, PlaintextType)) for v in values)
    public = all(isinstance(v.type, MessageType) for v in values)
    kind = op.properties["ren.call.kind"].data  # type: ignore[attr-defined]
    if secret:
        reason = op.properties.get("ren.call.reason")
        why = "" if reason is None else f" ({reason.data})"  # type: ignore[attr-defined]
        message = f"{target} is called on encrypted values: it was not understood by the frontend{why}, and workspace['torch_handlers'] has no handler for it"
    elif not public:
        message = f"{target} is called on values of foreign types and workspace['torch_handlers'] has no handler for it"
    else:
        try:
            if is_audited(kind, target):
                return
            why = "is not among the audited public calls"
        except Exception as error:  # noqa: BLE001 - a frontend that does not load must not break the report
            why = f"cannot be looked up: the torch frontend fails with {type(error).__name__}: {error}"
        message = f"{target} {why}; or bind workspace['torch_handlers'][{target!r}]"
    findings.add("missing-torch-handler", message, subject=target, op=op)


def _report_flow(flow: Flow, block: Block, findings: _Findings, *, strict: bool, promised: float | None) -> None:
    for problem in flow.problems:
        if problem.assumed and not strict:
            continue  # no bound was declared: decryption notices an overflow
        severity: Severity | None = "error" if strict and problem.code == "possible-overflow" else None
        if problem.code == "unchecked-result":
            if promised is not None and problem.limit is not None and promised <= problem.limit:
                continue
            severity = "error" if strict and not problem.pending else None
        code = problem.code if problem.code in CODES else "invalid-state"
        if problem.op is not None:
            findings.add(code, f"{operation_name(problem.op)}: {problem.message}", op=problem.op, severity=severity)
        elif problem.argument is not None:
            name = block.args[problem.argument].name_hint or f"arg{problem.argument}"
            findings.add(code, f"input {name}: {problem.message}", subject=name, severity=severity)
    for op in flow.unknown:
        findings.add(
            "undefined-state", f"level or scale of the result of {operation_name(op)} depends on an argument", op=op
        )


def validate_executable_graph(
    program: Program,
    *,
    entry: str = "main",
    handled_operations: Collection[str] = (),
    handled_torch_targets: Collection[str] = (),
) -> None:
    """Raise PassError listing everything that keeps the graph from being executable, whatever the workspace will hold. Names in
    `handled_operations` and `handled_torch_targets` count as handled."""

    def handled(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("readiness calls no handler")

    space: dict[str, Any] = {
        "handlers": dict.fromkeys(handled_operations, handled),
        "torch_handlers": dict.fromkeys(handled_torch_targets, handled),
    }
    report = check_readiness(program, space, entry=entry)
    problems = [d for d in report.errors if d.code not in _LATER]
    if problems:
        raise PassError(f"entry {entry!r} is not executable:\n{summary(problems)}", subject=entry)


#: Found only with the workspace of a run.
_LATER = frozenset(
    {"missing-engine", "missing-evaluation-keys", "missing-material", "missing-resource", "missing-public-key"}
)


def values_of(block: Block) -> Iterator[SSAValue]:
    """Arguments and results of a block, in order."""
    yield from block.args
    for op in _xdsl.block_ops(block):
        yield from op.results

"""Running an entry: readiness, binding, one walk over the block that builds a lazy graph, one schedule for all results.

`run` keeps what that gave and replays it (`ren.program.compiled`); `interpret` does all of it, every time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ren.errors import CapacityError, EncodingError, ProgramInputError, ProgramNotReadyError, ProgramRunError
from ren.plugin.manager import manager
from ren.plugin.registry import resolve
from ren.program import _xdsl
from ren.program import entry as entries
from ren.program._xdsl import operation_name
from ren.program.binding import Bound, bind_names, bind_roles, encrypt_online
from ren.program.diagnostics import Diagnostic, located, summary
from ren.program.dialect import at, row_of
from ren.program.extensions import plugin_handler
from ren.program.handler_results import check_handler_results
from ren.program.machine import Machine, Many
from ren.program.program import Program
from ren.program.readiness import ReadinessReport, check_readiness
from ren.program.requirements import reference_name
from ren.program.results import checked_results, with_padding
from ren.program.types import EncryptedType, PlaintextType
from ren.program.workspace import as_workspace

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine


@dataclass(frozen=True, slots=True)
class RunReport:
    """What observers learn of a run. seconds: building the graph and computing the results."""

    program: Program
    entry: str
    operations: int
    seconds: float


def run(
    program: Program, *args: Any, workspace: MutableMapping[Any, Any] | None = None, entry: str = "main", **kwargs: Any
) -> Any:
    """Run an entry. Nothing is computed before every check has passed; what was checked and scheduled is used again while nothing changed.

    Raises ProgramNotReadyError with the whole report; ProgramArgumentError (a TypeError) for arguments that do not fit the signature;
    ProgramInputError (a ValueError) for values that do not meet their declaration; ProgramRunError naming operation and source line when one fails.
    """
    from ren.program.compiled import replayer_of

    return replayer_of(program, entry).run(program, as_workspace(workspace), args, kwargs)


def interpret(
    program: Program, *args: Any, workspace: MutableMapping[Any, Any] | None = None, entry: str = "main", **kwargs: Any
) -> Any:
    """`run` with every handler called anew: the same results, to the bit, in many times the time. What replays are compared with."""
    space = as_workspace(workspace)
    report = check_readiness(program, space, entry=entry)
    require(report, entry)
    return interpret_ready(program, space, entry, report, program.signature(entry), args, kwargs)


def interpret_ready(
    program: Program,
    space: MutableMapping[Any, Any],
    entry: str,
    report: ReadinessReport,
    signature: entries.Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """`interpret` after readiness."""
    block = program.entry_block(entry)
    engine: PublicEngine | None = space.get("engine") if report.requirements.requires_engine else None
    bound = bind_roles(block, bind_names(signature, entry, args, kwargs), engine)
    report = check_call(program, entry, space, report, block, bound)
    assert report.flow is not None
    machine = Machine(space, engine, report.flow.types)
    with quiet_bounds(block):
        return observed(program, space, entry, report, lambda: execute(block, bound, machine, signature))


def observed(
    program: Program,
    space: Mapping[Any, Any],
    entry: str,
    report: ReadinessReport,
    work: Callable[[], Any],
) -> Any:
    """The result of `work`, with observers told before, after, and of an error."""
    host = manager()
    host.notify("ren_before_run", program=program, workspace=space)
    start = time.perf_counter()
    count = len(report.requirements.operations)
    try:
        result = work()
    except Exception as error:
        seconds = time.perf_counter() - start
        host.notify("ren_on_run_error", error=error, report=RunReport(program, entry, count, seconds))
        raise
    host.notify("ren_after_run", report=RunReport(program, entry, count, time.perf_counter() - start))
    return result


def quiet_bounds(block: Block) -> contextlib.AbstractContextManager[None]:
    """No overflow warnings from the engine where an input declares no bound: every product could warn, and readiness has judged the results."""
    from ren.schemes.ckks.bounds import quiet

    undeclared = any(isinstance(a.type, EncryptedType) and a.type.data.bound is None for a in block.args)
    return quiet() if undeclared else contextlib.nullcontext()


def require(report: ReadinessReport, entry: str) -> None:
    if not report.runnable:
        raise ProgramNotReadyError(
            f"{entry!r} is not ready to run: {len(report.errors)} problems\n{summary(report.errors)}", report
        )


def check_call(
    program: Program,
    entry: str,
    space: Mapping[Any, Any],
    report: ReadinessReport,
    block: Block,
    bound: Bound,
    of_interest: Callable[[ReadinessReport], ReadinessReport] = lambda report: report,
) -> ReadinessReport:
    """Readiness once more where the arguments decide something: plaintext states, and the key for online encryption."""
    if bound.to_encrypt and space.get("public_key") is None:
        names = ", ".join(block.args[i].name_hint or f"arg{i}" for i in bound.to_encrypt)
        missing = located(
            "missing-public-key", f"encrypting {names} needs workspace['public_key']", subject="public_key"
        )
        require(_extended(report, missing), entry)
    if any(isinstance(block.args[i].type, PlaintextType) for i in bound.types) or _has_unknown(report):
        report = of_interest(check_readiness(program, dict(space), entry=entry, arguments=bound.types))
        require(report, entry)
    return report


def _has_unknown(report: ReadinessReport) -> bool:
    return report.flow is not None and bool(report.flow.unknown)


def _extended(report: ReadinessReport, *more: Diagnostic) -> ReadinessReport:
    return ReadinessReport(report.requirements, (*more, *report.diagnostics), report.flow)


def execute(block: Block, bound: Bound, machine: Machine, signature: entries.Signature) -> Any:
    values: dict[SSAValue, Any] = {}
    for i, argument in enumerate(block.args):
        value = bound.values[i]
        if i in bound.to_encrypt:
            assert isinstance(argument.type, EncryptedType)
            name = argument.name_hint or f"arg{i}"
            value = encrypt_online(name, value, argument.type.data, machine.engine, machine.workspace["public_key"])
        values[argument] = batched(value) if isinstance(argument.type, PlaintextType) else value
    remaining = _use_counts(block)
    machine.fused = fused_relinearizations(block)
    returned: tuple[Any, ...] = ()
    for op in _xdsl.block_ops(block):
        operands = tuple(values[v] for v in _xdsl.operands(op))
        if isinstance(op, ReturnOp):
            returned = tuple(with_padding(v, machine.types[o]) for v, o in zip(operands, op.operands, strict=True))
            break
        for value, result in zip(op.results, call(op, operands, machine), strict=True):
            values[value] = result
        for operand in _xdsl.operands(op):
            # Freed as soon as nothing later needs it.
            remaining[operand] -= 1
            if remaining[operand] == 0:
                values.pop(operand, None)
    results = tuple(map(public_value, checked_results(returned, machine)))
    _realize(results)
    return as_returned(signature, results)


def as_returned(signature: entries.Signature, results: tuple[Any, ...]) -> Any:
    """Results in the structure that the caller knows."""
    if signature.has_output_structure:
        return entries.rebuild(signature.output, results)
    return None if not results else results[0] if len(results) == 1 else results


def _use_counts(block: Block) -> dict[SSAValue, int]:
    counts: dict[SSAValue, int] = {}
    for op in _xdsl.block_ops(block):
        for operand in _xdsl.operands(op):
            counts[operand] = counts.get(operand, 0) + 1
    return counts


def fused_relinearizations(block: Block) -> set[Operation]:
    """Relinearizations whose only user is an unconditional rescale: both divisions are carried out as one."""
    found = set()
    for op in _xdsl.block_ops(block):
        if op.name != "ren.ckks.relinearize":
            continue
        result = op.results[0]
        use = result.first_use
        if (
            use is not None
            and result.has_one_use()
            and use.operation.name == "ren.ckks.rescale"
            and len(_xdsl.operands(use.operation)) == 1
        ):
            found.add(op)
    return found


def call(op: Operation, operands: tuple[Any, ...], machine: Machine) -> tuple[Any, ...]:
    name = operation_name(op)
    try:
        handler, builtin = _handler(op, name, machine)
        found = (
            handler(op, operands, machine)
            if builtin
            else handler(op, tuple(map(public_value, operands)), machine.workspace)
        )
        results = _as_results(name, found, len(op.results))
        if builtin and op.name != "torch.call":
            return results
        results = tuple(map(batched, results))
        check_handler_results(op, operands, results, machine)
        return results
    except ProgramRunError as error:
        raise ProgramRunError(f"{name}{at(op)}: {error}", subject=name) from error
    except Exception as error:
        if isinstance(error, ProgramInputError) and isinstance(error.__cause__, (CapacityError, EncodingError)):
            # Numbers that the call brought and that no encoding takes.
            raise ProgramInputError(f"{name}{at(op)}: {error}", subject=_public_source(op) or error.subject) from error
        raise ProgramRunError(f"{name}{at(op)} failed: {type(error).__name__}: {error}", subject=name) from error


def _public_source(op: Operation) -> str | None:
    """The name of the argument or material that an operation takes public data from."""
    for operand in _xdsl.operands(op):
        if isinstance(operand.type, EncryptedType):
            continue
        if not isinstance(operand.owner, Operation):
            return operand.name_hint
        if (symbol := reference_name(operand.owner)) is not None:
            return symbol
    return None


def _handler(op: Operation, name: str, machine: Machine) -> tuple[Callable[..., Any], bool]:
    """The handler of an operation, and whether it is called with the machine (built-in operations) or with the workspace."""
    row = row_of(op)
    if row is not None and row.handler is not None and row.name.startswith(("ren.", "torch.")):
        return builtin_handler(row.handler), True
    handler = (machine.workspace.get("handlers") or {}).get(name)
    if handler is None:
        handler = plugin_handler(name)
    if handler is None and row is not None and row.handler is not None:
        handler = resolve(row.handler)
    if handler is None:
        raise ProgramRunError(f"nothing executes {name}", subject=name)
    return handler, False


@lru_cache(maxsize=256)
def builtin_handler(target: str) -> Callable[..., Any]:
    return resolve(target)


def _as_results(name: str, found: Any, count: int) -> tuple[Any, ...]:
    if count == 1:
        return (found,)
    if count == 0:
        if found is not None:
            raise ProgramRunError(
                f"the handler of {name} has no result to return and returned {type(found).__name__}", subject=name
            )
        return ()
    if not isinstance(found, tuple) or len(found) != count:
        raise ProgramRunError(
            f"the handler of {name} must return a tuple of {count} values, got {type(found).__name__}", subject=name
        )
    return found


def public_value(value: Any) -> Any:
    """A batch as callers and third-party handlers see it."""
    if type(value) is not Many:
        return value
    from ren.schemes.ckks.batch import CiphertextBatch, PlaintextBatch
    from ren.schemes.ckks.plaintext import Plaintext

    return (PlaintextBatch if all(isinstance(i, Plaintext) for i in value.items) else CiphertextBatch)(
        value.shape, value.items
    )


def batched(value: Any) -> Any:
    """A batch from outside as the machine holds it."""
    items = getattr(value, "items", None)
    if not isinstance(items, tuple) or not hasattr(value, "shape"):
        return value
    return Many(value.shape, items)


def _realize(results: tuple[Any, ...]) -> None:
    """Compute all encrypted results as one schedule."""
    polys = []
    for value in results:
        for item in value.items if isinstance(getattr(value, "items", None), tuple) else (value,):
            polys += [
                p
                for n in ("a", "b", "c", "poly")
                if (p := getattr(item, n, None)) is not None and hasattr(p, "realize")
            ]
    if polys:
        from ren.poly import realize

        realize(*polys)

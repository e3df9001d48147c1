"""`jit.trace`: from a function and the roles of its parameters to a Program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np
import torch
from ren.errors import (
    InPlaceError,
    OptionError,
    TraceError,
    TraceRandomnessError,
    TrainingModeError,
    UnsupportedOperandError,
)
from ren.program import InputSpec, Program, entry, location
from ren.program.arguments import argument_type
from ren.program.edit import gc_paused
from ren.program.literals import OperandRef
from ren.program.workspace import as_workspace
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from ren_frontend_torch.capture import CaptureResult
from ren_frontend_torch.generators import States
from ren_frontend_torch.guards import DRAW_OUTSIDE
from ren_frontend_torch.handles import Handle
from ren_frontend_torch.inputs import Inputs, declared, filled, leaves, plain
from ren_frontend_torch.locations import UNKNOWN, line_that_changes, lines_that_compare_types, traceback_source
from ren_frontend_torch.materials import Materials
from ren_frontend_torch.state import State
from ren_frontend_torch.tracer import Tracer

MAX_OPS = 1_000_000


def trace(
    function: Callable[..., Any],
    *,
    inputs: Mapping[str, Any],
    workspace: MutableMapping[Any, Any] | None = None,
    max_ops: int = MAX_OPS,
    check: bool = False,
) -> CaptureResult:
    """Run a function once on stand-ins and record what it does.

    function: a function, partial, bound method, lambda, or `torch.nn.Module` in eval mode. inputs: parameter -> `encrypted(...)`, `message()`,
    `plaintext()`, `static(value)`, or nested tuples, lists and dicts of them; a parameter with a default may be left out and keeps it. workspace: takes the
    captured tensors; a new one by default, and unchanged when tracing fails. max_ops: limit on recorded calls, so that an endless loop ends. check: compare
    the program, lowered by the default pipeline, with the function on sample inputs, in clear numbers (`ren_frontend_torch.check`).

    Calls on encrypted values become `ren.semantic.*` operations; those without an encrypted meaning, and all public work, are kept as `torch.call`, the
    former listed in `diagnostics`. Loops are unrolled, static values steer control flow.

    Raises InputSpecError for roles that do not fit; TraceError and its subclasses, with file, line and variable, for code that needs the
    numbers of a traced value, changes memory or state that others see (which is put back), draws random numbers, or fails; TraceCheckError where a check fails.
    """
    space = as_workspace(workspace)
    materials = space.get("materials", {})
    if not isinstance(materials, MutableMapping):
        raise UnsupportedOperandError(
            f"workspace['materials'] must be a mapping, got {type(materials).__name__}", subject="materials"
        )
    if isinstance(max_ops, bool) or not isinstance(max_ops, int) or max_ops < 1:
        raise OptionError(f"max_ops must be a positive int, got {max_ops!r}", subject="max_ops")
    roles = declared(function, inputs)
    _check_training(function)
    with gc_paused():
        captured = Materials(_parameter_names(function), materials)
        arguments = [(p, s) for p, s in _all_leaves(roles) if s.role != "static"]
        block = Block(arg_types=[argument_type(s) for _, s in arguments])
        tracer = Tracer(block, captured, max_ops, _ran.__code__)
        program = _traced(roles, tracer, arguments, captured)
    if captured.all:
        space.setdefault("materials", materials)
        materials.update({m.symbol: m.value for m in captured.all})
    result = CaptureResult(program, space, roles, tuple(tracer.diagnostics), tracer.graph)
    if check:
        from ren_frontend_torch.check import check_capture

        check_capture(result, *_definition(function))
    return result


def _traced(roles: Inputs, tracer: Tracer, arguments: list[tuple[str, InputSpec]], captured: Materials) -> Program:
    block = tracer.block
    handles: dict[str, Handle] = {}
    for (path, _), value in zip(arguments, block.args, strict=True):
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in path).strip("_")
        value.name_hint = name if SSAValue.is_valid_name(name) else None
        handles[path] = tracer.argument(name, value)
    given = {
        n: filled(s, n, lambda path, spec: spec.static_value if spec.role == "static" else handles[path])
        for n, s in roles.specs.items()
    }
    out = _called(roles, tracer, given, captured)
    end = location(*_definition(roles.function))
    results: list[SSAValue] = []
    structure = _output(out, lambda x: tracer.result(x, end), results)
    tracer.output(out)
    tracer.close()
    returned = ReturnOp(*results)
    returned.location = end
    block.add_op(returned)
    numbers = {path: i for i, (path, _) in enumerate(arguments)}
    attributes: dict[str, Any] = {entry.INPUT_NAMES: list(roles.runtime)}
    if any(not isinstance(roles.specs[n], InputSpec) for n in roles.runtime):
        attributes[entry.INPUT_STRUCTURE] = {
            n: plain(filled(roles.specs[n], n, lambda p, s: None if s.role == "static" else OperandRef(numbers[p])))
            for n in roles.runtime
        }
    if roles.defaults:
        attributes[entry.INPUT_DEFAULTS] = roles.defaults
    if roles.keyword_only:
        attributes[entry.KEYWORD_ONLY] = list(roles.keyword_only)
    if roles.static_values:
        attributes[entry.STATIC_VALUES] = roles.static_values
    if not isinstance(structure, OperandRef):
        attributes[entry.OUTPUT_STRUCTURE] = structure
    return Program.from_function(
        block,
        attributes=attributes,
        module_attributes={entry.FRONTEND_ATTRIBUTE: "torch.fx", entry.PROGRAM_NAME_ATTRIBUTE: roles.name},
    )


def _called(roles: Inputs, tracer: Tracer, given: dict[str, Any], captured: Materials) -> Any:
    """What the function returns. What it changed outside is put back, whatever happens. Raises TraceError for whatever goes wrong inside."""
    state = State(roles.function, roles.static_values)
    try:
        out = _ran(roles, tracer, given, captured)
    finally:
        changes = state.restore()
    if changes:
        file, line = line_that_changes(tracer.watch.ran, changes[0].name) or _definition(roles.function)
        raise InPlaceError(
            f"{'; '.join(map(str, changes))}: a program is traced once and repeats nothing of that, so it was put back",
            subject=changes[0].path,
            hint="Pass it as an argument and return its new value. A cache is filled by calling the function once before it is traced",
            file=file,
            line=line,
            variable=changes[0].name,
        )
    return out


def _ran(roles: Inputs, tracer: Tracer, given: dict[str, Any], captured: Materials) -> Any:
    before = States(roles.function)
    work = tracer.work
    try:
        with torch.no_grad(), work, tracer.watch.watching():
            out = roles.call(given)
    except TraceError:
        raise
    except Exception as error:
        file, line = traceback_source(error.__traceback__)
        raise TraceError(
            f"{roles.name} failed while it was traced: {type(error).__name__}: {error}",
            subject=roles.name,
            file=file,
            line=line,
        ) from error
    refused = tracer.refused or work.refused
    if refused is not None:
        # The function caught it and went on with something else.
        raise refused
    for source in lines_that_compare_types(tracer.watch.ran):
        work.compares_types(source)
    file, line = _definition(roles.function)
    generator = before.changed(tracer.watch.ran if tracer.watch.knows else None)
    if generator is not None:
        also = ", unless another thread did meanwhile," if threading.active_count() > 1 else ""
        raise TraceRandomnessError(
            f"{roles.name} draws random numbers from {generator}{also} which would be frozen into the program",
            subject=roles.name,
            hint=DRAW_OUTSIDE,
            file=file,
            line=line,
        )
    captured.check_unchanged(file, line)
    return out


def _output(out: Any, value_of: Callable[[Any], SSAValue], results: list[SSAValue]) -> Any:
    """The structure of what was returned; values are added to `results`, each once."""
    if type(out) is Handle or isinstance(out, (torch.Tensor, np.ndarray)):
        value = value_of(out)
        for i, known in enumerate(results):
            if known is value:
                return OperandRef(i)
        results.append(value)
        return OperandRef(len(results) - 1)
    if isinstance(out, tuple):
        return tuple(_output(v, value_of, results) for v in out)
    if isinstance(out, list):
        return [_output(v, value_of, results) for v in out]
    if isinstance(out, Mapping):
        bad = next((k for k in out if not isinstance(k, str)), None)
        if bad is not None:
            raise TraceError(f"the function returns a mapping with the key {bad!r}; keys are str", subject="result")
        return {k: _output(v, value_of, results) for k, v in out.items()}
    plain = out.item() if isinstance(out, np.generic) else out
    if plain is not None and type(plain) not in (bool, int, float, complex, str):
        raise TraceError(
            f"the function returns a {type(out).__name__}",
            subject="result",
            hint="Return tensors, numbers, and tuples, lists and dicts of them",
        )
    return plain


def _all_leaves(roles: Inputs) -> list[tuple[str, InputSpec]]:
    return [leaf for n, s in roles.specs.items() for leaf in leaves(s, n)]


def _check_training(function: Any) -> None:
    owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        return
    for name, module in owner.named_modules():
        if module.training and isinstance(
            module, (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase, torch.nn.RReLU)
        ):
            raise TrainingModeError(
                f"module {name or type(module).__name__!r} is in training mode",
                subject=name,
                hint="Call .eval() on the model first",
            )


def _parameter_names(function: Any) -> dict[int, str]:
    """Names of the parameters and buffers of a module, by identity."""
    owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        return {}
    return {id(t): n for n, t in (*owner.named_parameters(), *owner.named_buffers())}


def _definition(function: Any) -> tuple[str, int]:
    """Where a function is defined, as well as that can be told."""
    while hasattr(function, "func"):
        function = function.func
    if isinstance(function, torch.nn.Module):
        function = type(function).forward
    function = getattr(function, "__func__", function)
    if not hasattr(function, "__code__"):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return UNKNOWN if code is None else (code.co_filename, code.co_firstlineno)


__all__ = ["MAX_OPS", "trace"]

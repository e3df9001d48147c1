"""`jit.trace(..., check=True)`: the traced and lowered program against the function itself, on sample inputs, without encryption."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ren.errors import ProgramError, TraceCheckError
from ren.program import Program, default_pipeline, entry
from ren.program.clear_run import clear_results
from ren.program.layout import Layout, power_of_two
from ren.program.packing import to_array
from ren.program.types import EncryptedType, MessageType, PlaintextType

from ren_frontend_torch.capture import CaptureResult

#: Relative to the largest value: both sides compute in double precision, in another order.
_TOLERANCE = 2.0**-30
#: Where the function computes in single precision or less, its own rounding decides.
_SINGLE = 2.0**-12


def check_capture(captured: CaptureResult, file: str, line: int) -> None:
    """Compare the default lowering of a capture with its function on two sets of samples.

    Samples are uniform in [-1, 1], or within the declared bound; full slots have as many as `workspace["engine"]`, or else the longest captured tensor. Arguments that
    admit batches come alone, as a batch of as many rows as a row has elements (where PyTorch could take one axis for the other), and of another number. Raises
    TraceCheckError, at the function: results or their shapes differ, the function gives different results for the same inputs, only one of both takes a batch,
    or there is something that cannot be checked.
    """

    def fail(message: str, hint: str | None = None) -> TraceCheckError:
        name = captured._inputs.name
        return TraceCheckError(f"checking {name}: {message}", subject=name, hint=hint, file=file, line=line)

    slots = _slots(captured)
    lowered = default_pipeline().run(captured.program, captured.workspace).program
    signature = captured.program.signature("main")
    for batch in _batches(captured, slots):
        for seed in (0, 1):
            samples = _samples(captured, slots, seed, batch)
            try:
                first, second = _reference(captured, samples), _reference(captured, samples)
            except Exception as error:
                if batch and _clear_fails(lowered, samples, captured, slots):
                    continue  # neither takes this batch
                what = f"a batch of shape {batch}, which the program takes" if batch else "sample inputs"
                raise fail(
                    f"the function failed on {what}: {type(error).__name__}: {error}",
                    'Axes have to be counted from the end: x.sum(-1, keepdim=True). Or declare batch_mode="none"'
                    if batch
                    else "Declare shapes: encrypted(slots=...), message(shape=...), or bind workspace['engine']",
                ) from error
            try:
                found = clear_results(lowered, samples, captured.workspace, slots)
            except (ProgramError, ValueError) as error:
                raise fail(f"the program does not run on numbers{_of_batch(batch)}: {error}") from error
            wanted = entry.result_leaves(signature, first, len(found))
            again = entry.result_leaves(signature, second, len(found))
            for i, (got, want, same) in enumerate(zip(found, wanted, again, strict=True)):
                target = to_array(want)
                if not np.array_equal(target, to_array(same), equal_nan=True):
                    raise fail(
                        f"result {i} differs between two calls with the same inputs",
                        "It depends on something that changes: a counter, a clock, a random number",
                    )
                _compare(f"result {i}{_of_batch(batch)}", np.asarray(to_array(got)), target, fail)


def _of_batch(batch: tuple[int, ...]) -> str:
    return f" of a batch of shape {batch}" if batch else ""


#: A batch of as many rows as a row has elements is tried up to this many elements; beyond it, the batch of another size has to do.
_SQUARE = 1 << 20


def _batches(captured: CaptureResult, slots: int) -> list[tuple[int, ...]]:
    """Batch shapes to try."""
    layouts = [
        (a.type.data.layout or Layout()).resolve(slots)
        for a in _arguments(captured)
        if isinstance(a.type, EncryptedType) and a.type.data.batch == "any"
    ]
    if not layouts:
        return [()]
    lengths = {d for layout in layouts for d in layout.shape or ()}
    largest = max(layout.elements for layout in layouts)
    other = next(n for n in itertools.count(2) if n not in lengths)
    return [(), (other,), *((n,) for n in sorted(lengths) if n * largest <= _SQUARE)]


def _clear_fails(lowered: Program, samples: list[Any], captured: CaptureResult, slots: int) -> bool:
    try:
        clear_results(lowered, samples, captured.workspace, slots)
    except (ProgramError, ValueError):
        return True
    return False


def _compare(what: str, got: NDArray[Any], want: NDArray[Any], fail: Any) -> None:
    if got.shape != want.shape:
        raise fail(f"{what} has shape {got.shape}, the function returns {want.shape}")
    size = max(1.0, float(np.abs(want).max(initial=0.0)))
    single = want.dtype.kind in "fc" and want.dtype not in (np.dtype(np.float64), np.dtype(np.complex128))
    error = float(np.abs(got - want).max(initial=0.0))
    if not error <= (_SINGLE if single else _TOLERANCE) * size:
        raise fail(
            f"{what} differs from the function by {error:.3g} on values up to {size:.3g}",
            "A bound or a layout may be declared wrongly; otherwise this is a fault of Ren: please report it",
        )


def _arguments(captured: CaptureResult) -> Sequence[Any]:
    return captured.program.entry_block().args


def _slots(captured: CaptureResult) -> int:
    engine = captured.workspace.get("engine")
    if engine is not None:
        return int(engine.num_slots)
    longest = 8
    for tensor in captured.workspace.get("materials", {}).values():
        longest = max(longest, *getattr(tensor, "shape", ()))
    for argument in _arguments(captured):
        if isinstance(argument.type, EncryptedType) and argument.type.data.layout is not None:
            layout = argument.type.data.layout
            longest = max(longest, layout.elements, layout.frame or 0)
        elif isinstance(argument.type, MessageType) and argument.type.data.shape:
            longest = max(longest, math.prod(argument.type.data.shape))
    return power_of_two(longest)


def _samples(captured: CaptureResult, slots: int, seed: int, batch: tuple[int, ...]) -> list[Any]:
    """One value per argument, those that admit batches with the axes `batch`. Messages of undeclared shape are like the first encrypted argument."""
    arguments, dtype = _arguments(captured), _dtype(captured)
    encrypted = [
        (a.type.data.layout or Layout()).resolve(slots).shape for a in arguments if isinstance(a.type, EncryptedType)
    ]
    found: list[Any] = []
    for i, argument in enumerate(arguments):
        type_, generator = argument.type, np.random.default_rng((seed, i))
        if isinstance(type_, PlaintextType):
            found.append(float(generator.uniform(0.125, 1)))
            continue
        shape = encrypted[0] if encrypted else (slots,)
        bound = 1.0
        if isinstance(type_, EncryptedType):
            shape = (type_.data.layout or Layout()).resolve(slots).shape
            if type_.data.batch == "any":
                shape = (*batch, *(shape or ()))
            bound = 1.0 if type_.data.bound is None else type_.data.bound
        elif isinstance(type_, MessageType) and type_.data.shape is not None:
            shape = type_.data.shape
        # Away from 0: public data may be divided by.
        values = generator.uniform(0.125, 1, shape) * generator.choice([-1.0, 1.0], shape) * bound
        found.append(torch.as_tensor(values, dtype=dtype))
    return found


def _dtype(captured: CaptureResult) -> torch.dtype:
    """Single precision when the captured tensors are: PyTorch's layers take no others then."""
    kinds = {getattr(t, "dtype", None) for t in captured.workspace.get("materials", {}).values()}
    return torch.float32 if torch.float32 in kinds and torch.float64 not in kinds else torch.float64


def _reference(captured: CaptureResult, samples: Sequence[Any]) -> Any:
    args, kwargs = _call(captured, samples)
    return captured.reference(*args, **kwargs)


def _call(captured: CaptureResult, samples: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Samples as positional and keyword arguments, in the containers of the parameters."""
    signature = captured.program.signature("main")
    given = {name: entry.rebuild(signature.structures[name], samples) for name in signature.inputs}
    named = {name: given.pop(name) for name in list(given) if name in signature.keyword_only}
    return list(given.values()), named

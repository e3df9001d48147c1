"""`jit.trace(..., check=True)`: the traced and lowered program against the function itself, on sample inputs, without encryption."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from ren.errors import ProgramError, TraceCheckError
from ren.program import default_pipeline, entry
from ren.program.clear_run import clear_results
from ren.program.layout import Layout, LayoutError, power_of_two
from ren.program.packing import to_array
from ren.program.types import EncryptedType, MessageType, PlaintextType

from ren_frontend_torch.capture import CaptureResult

#: Relative to the largest value: both sides compute in double precision, in another order.
_TOLERANCE = 2.0**-30
#: Where the function computes in single precision or less, its own rounding decides.
_SINGLE = 2.0**-12


def check_capture(captured: CaptureResult, file: str, line: int) -> None:
    """Compare the default lowering of a capture with its function on two sets of samples.

    Samples are uniform in [-1, 1], or within the declared bound; full slots have as many as `workspace["engine"]`, or else the longest captured tensor. Raises
    TraceCheckError, at the function: results differ, the function gives different results for the same inputs, or there is something that cannot be checked.
    """

    def fail(message: str, hint: str | None = None) -> TraceCheckError:
        name = captured._inputs.name
        return TraceCheckError(f"checking {name}: {message}", subject=name, hint=hint, file=file, line=line)

    slots = _slots(captured)
    lowered = default_pipeline().run(captured.program, captured.workspace).program
    signature = captured.program.signature("main")
    for seed in (0, 1):
        samples = _samples(captured, slots, seed)
        first, second = _reference(captured, samples, fail), _reference(captured, samples, fail)
        try:
            found = clear_results(lowered, samples, captured.workspace, slots)
        except (ProgramError, LayoutError) as error:
            raise fail(f"the program does not run on numbers: {error}") from error
        wanted = entry.result_leaves(signature, first, len(found))
        again = entry.result_leaves(signature, second, len(found))
        for i, (got, want, same) in enumerate(zip(found, wanted, again, strict=True)):
            target = to_array(want)
            if not np.array_equal(target, to_array(same), equal_nan=True):
                raise fail(
                    f"result {i} differs between two calls with the same inputs",
                    "It depends on something that changes: a counter, a clock, a random number",
                )
            _compare(i, np.asarray(to_array(got)), target, fail)


def _compare(number: int, got: NDArray[Any], want: NDArray[Any], fail: Any) -> None:
    if got.size != want.size:
        raise fail(f"result {number} has shape {got.shape}, the function returns {want.shape}")
    size = max(1.0, float(np.abs(want).max(initial=0.0)))
    single = want.dtype.kind in "fc" and want.dtype not in (np.dtype(np.float64), np.dtype(np.complex128))
    error = float(np.abs(got.reshape(want.shape) - want).max(initial=0.0))
    if not error <= (_SINGLE if single else _TOLERANCE) * size:
        raise fail(
            f"result {number} differs from the function by {error:.3g} on values up to {size:.3g}",
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


def _samples(captured: CaptureResult, slots: int, seed: int) -> list[Any]:
    """One value per argument. Messages of undeclared shape are like the first encrypted argument."""
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


def _reference(captured: CaptureResult, samples: Sequence[Any], fail: Any) -> Any:
    try:
        args, kwargs = _call(captured, samples)
        return captured.reference(*args, **kwargs)
    except Exception as error:
        raise fail(
            f"the function failed on sample inputs: {type(error).__name__}: {error}",
            "Declare shapes: encrypted(slots=...), message(shape=...), or bind workspace['engine']",
        ) from error


def _call(captured: CaptureResult, samples: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Samples as positional and keyword arguments, in the containers of the parameters."""
    signature = captured.program.signature("main")
    given = {name: entry.rebuild(signature.structures[name], samples) for name in signature.inputs}
    named = {name: given.pop(name) for name in list(given) if name in signature.keyword_only}
    return list(given.values()), named

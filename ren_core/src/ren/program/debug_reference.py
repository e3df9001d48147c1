"""A program's results beside those of its reference, when every operation did what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Block, SSAValue

from ren.program import entry
from ren.program.interpret import batched
from ren.program.machine import Many
from ren.program.states import EncryptedState, PlaintextState

if TYPE_CHECKING:
    from ren.program.debug import Walk

#: Decoding works in double precision, relative to the largest value that takes part: 2^-49 measured, times a margin for sums over slots.
DOUBLE = 2.0**-40
#: Results whose error nothing predicts are compared with the reference to this, relative to the largest, and the report says so.
_UNKNOWN = 2.0**-10


def expected_results(
    reference: Any,
    signature: entry.Signature,
    walk: Walk,
    block: Block,
    given: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """What the reference gives. A function computes on numbers: arguments that came encrypted or encoded are decrypted for it."""
    if not callable(reference):
        return reference
    numbers = [_as_array(walk, a, v) for a, v in zip(block.args, given, strict=True)]
    plain = {name: entry.rebuild(signature.structures[name], numbers) for name in signature.inputs}
    positional = [n for n in signature.inputs if n not in signature.keyword_only][: len(args)]
    return reference(*(plain[n] for n in positional), **{n: plain[n] for n in kwargs})


def _as_array(walk: Walk, argument: SSAValue, given: Any) -> Any:
    """An argument as numbers in its logical shape."""
    state = walk.states([argument])[0]
    if not isinstance(state, (EncryptedState, PlaintextState)) or not hasattr(one(batched(given)), "level"):
        return given
    found = walk.seen[argument].found
    slots = getattr(one(walk.values[argument]), "slots", None) or walk.engine.num_slots
    layout = None if state.layout is None else state.layout.resolve(walk.engine.num_slots)
    shape = (slots,) if layout is None or layout.shape is None else layout.shape
    values = found[..., : int(np.prod(shape))].reshape((*found.shape[:-1], *shape))
    # Real numbers come back with the noise of encryption in their imaginary parts.
    is_real = largest(values.imag) <= 2.0**-10 * max(1.0, largest(values.real))
    return np.ascontiguousarray(values.real) if is_real else values


def compare(walk: Walk, returned: Sequence[SSAValue], expected: Any, signature: entry.Signature) -> None:
    """Results against those of the reference, in their logical shapes."""
    wanted = entry.result_leaves(signature, expected, len(returned))
    for i, (value, want) in enumerate(zip(returned, wanted, strict=True)):
        seen, state = walk.seen[value], walk.states([value])[0]
        if not isinstance(state, EncryptedState):
            continue
        target = np.asarray(want.detach().cpu() if hasattr(want, "detach") else want)
        if state.layout is None:  # behind an operation without a rule: the leading slots
            rows = int(np.prod(seen.found.shape[:-1]))
            shape: tuple[int, ...] = (target.size // rows,)
        else:
            layout = state.layout.resolve(walk.engine.num_slots)
            shape = layout.shape or ()
        got = seen.found[..., : int(np.prod(shape))].reshape((*seen.found.shape[:-1], *shape))
        if target.size != got.size:
            walk.find("reference", f"result {i}", f"it has shape {got.shape}, the reference {target.shape}", None)
            continue
        error = largest(got.reshape(target.shape) - target)
        size = max(1.0, largest(target))
        allowed = DOUBLE * size * 2.0**8
        if seen.noise is not None:
            allowed += seen.noise.bound(walk.engine.num_slots)
        else:
            allowed += _UNKNOWN * size
            walk.notes.append(
                f"result {i} was compared with the reference to {_UNKNOWN * size:.2g} only: it depends on an operation whose error is not known"
            )
        if target.dtype in (np.float32, np.complex64, np.float16):
            allowed += float(np.finfo(target.dtype).eps) * 64 * size
        if not error <= allowed:
            walk.find("reference", f"result {i}", f"it differs by {error:.3g}, {allowed:.3g} is allowed", None)


def one(value: Any) -> Any:
    return value.items[0] if type(value) is Many else value


def largest(values: Any) -> float:
    """Largest modulus; 0 of nothing, infinite for NaN: no comparison lets it pass."""
    array = np.abs(np.asarray(values))
    if not array.size:
        return 0.0
    top = float(array.max())
    return top if top == top else float("inf")

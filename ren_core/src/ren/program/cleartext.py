"""What each executable operation means without encryption, on whole slot vectors: what decrypted results are compared with.

A clear value of an encrypted or encoded one is an array of batch axes and, last, all slots of the engine. Public data stays what the handlers give.
Every function takes (attributes as Python values, operands, the case) and returns one value, a tuple where the operation has several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ren.program.layout import Layout
from ren.program.packing import pack

if TYPE_CHECKING:
    from ren.program.states import EncryptedState
    from ren.schemes.ckks.scale import Scale

#: Slots of an encrypted or encoded value: doubles, real or complex.
Array = NDArray[np.inexact[Any]]
Attributes = Mapping[str, Any]
#: Clear values; what `encode` and `prepare` take may be public data of any kind, which `pack` checks.
Operands = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class ClearCase:
    """slots: of a whole slot vector. states: inferred states of the operands, None where they have none. scales: exact scales of the first operand as
    it was executed and of its result, None where nothing was."""

    slots: int
    states: tuple[EncryptedState | None, ...]
    scales: tuple[Scale | None, Scale | None] = (None, None)


ClearRule = Callable[[Attributes, Operands, ClearCase], Any]


def packed_clear(value: Any, layout: Layout, slots: int) -> Array:
    """Public data in the slots as a plaintext for a value of `layout` has it: zeros in the padding, a single number everywhere when there is none.

    Raises LayoutError, TypeError.
    """
    if np.ndim(value) == 0 and layout.is_dense:
        return np.full(slots, value)
    batch, rows, frame = pack(value, layout, slots)
    return framed(np.array(rows).reshape((*batch, -1)), frame, slots)


def framed(rows: Array, frame: int, slots: int) -> Array:
    """Rows of at most `frame` numbers, filled up with zeros and repeated over all slots, in double precision."""
    whole = np.zeros((*rows.shape[:-1], frame), np.result_type(rows, np.float64))
    whole[..., : rows.shape[-1]] = rows
    return np.tile(whole, slots // frame)


# -- plaintexts ------------------------------------------------------------------------------------------------------


def encode(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    return packed_clear(operands[0], at.get("layout", Layout()), case.slots)


def prepare(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    if at["source_role"] == "plaintext":
        return operands[0]
    state = case.states[1]
    layout = None if state is None else state.layout
    return packed_clear(operands[0], Layout() if layout is None else layout, case.slots)


# -- ciphertexts -----------------------------------------------------------------------------------------------------


def same(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    """Maintenance: levels, scales, parts, domains and readings change, values do not."""
    return operands[0]


def same_pair(at: Attributes, operands: Operands, case: ClearCase) -> tuple[Array, Array]:
    return operands[0], operands[1]


def negate(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    return -operands[0]


def add(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    return operands[0] + operands[1]


def subtract(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    return operands[0] - operands[1]


def multiply(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    return operands[0] * operands[1]


def square(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    return operands[0] * operands[0]


def add_scalar(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    number: complex = at["value"]
    return operands[0] + number


def multiply_scalar(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    number: complex = at["value"]
    return operands[0] * number


def reinterpret_scale(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    before, after = case.scales
    assert before is not None and after is not None
    return operands[0] * float(before / after)


def rotate(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    return np.roll(operands[0], at["shift"], axis=-1)


def rotate_group(at: Attributes, operands: Operands, case: ClearCase) -> tuple[Array, ...]:
    return tuple(np.roll(operands[0], shift, axis=-1) for shift in at["shifts"])


def conjugate(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    return np.asarray(np.conj(operands[0]))


def sum_slots(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    from ren.program.requirements import span_steps

    total, state = operands[0], case.states[0]
    layout = Layout() if state is None or state.layout is None else state.layout
    count = at.get("count") or layout.resolve(case.slots).frame or case.slots
    for step in span_steps(at.get("stride", 1), count):
        total = total + np.roll(total, step, axis=-1)
    return total


def polynomial(at: Attributes, operands: Operands, case: ClearCase) -> Array:
    kind = np.polynomial.chebyshev.chebval if at.get("basis") == "chebyshev" else np.polynomial.polynomial.polyval
    return np.asarray(kind(operands[0], at["coefficients"]))

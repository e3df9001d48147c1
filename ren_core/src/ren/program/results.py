"""What leaves a program: results that carry a bound by which decryption can judge.

Readiness has judged by what is declared (`ren.program.flow`). A call knows more: the bounds that its ciphertexts carry, and how large its public data is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from ren.engine import capture
from ren.errors import ProgramInputError
from ren.program.layout import Layout, Padding
from ren.program.machine import Machine, Many
from ren.program.packing import to_array
from ren.program.types import EncryptedType


def promised_bound(workspace: Mapping[Any, Any]) -> float | None:
    """workspace["result_bound"] when it is a positive number."""
    found = workspace.get("result_bound")
    if isinstance(found, bool) or not isinstance(found, Real):
        return None
    return float(found) if 0 < float(found) < math.inf else None


def largest_element(value: Any) -> float | None:
    """The largest absolute value in public data, infinite when a value is not finite; None for what is not numeric."""
    try:
        array = to_array(value)
    except (TypeError, ValueError):
        return None
    if array.dtype.kind not in "biufc":
        return None
    largest = float(np.abs(array.astype(np.result_type(array, np.float64))).max(initial=0.0))
    return math.inf if math.isnan(largest) else largest


def with_padding(value: Any, type_: Any) -> Any:
    """A result that carries what its padding holds, as its layout says; unchanged where the layout is unknown."""
    if not isinstance(type_, EncryptedType) or type_.data.layout is None:
        return value
    layout: Layout = type_.data.layout
    occupied = layout.elements if layout.padding is Padding.ZERO else None

    def of(item: Any) -> Any:
        return replace(item, occupied=occupied) if _is_encrypted(item) and item.occupied != occupied else item

    items = getattr(value, "items", None)
    return type(value)(value.shape, tuple(map(of, items))) if isinstance(items, tuple) else of(value)


def with_promise(values: tuple[Any, ...], machine: Machine) -> tuple[Any, ...]:
    """Results that carry the promise of the workspace, where it says more than what was tracked."""
    promised = promised_bound(machine.workspace)
    return values if promised is None else tuple(_promised(v, promised) for v in values)


def _promised(value: Any, bound: float) -> Any:
    from ren.schemes.ckks.batch import CiphertextBatch

    if type(value) is Many or isinstance(value, CiphertextBatch):
        return type(value)(value.shape, tuple(_promised(item, bound) for item in value.items))
    return replace(value, bound=bound) if _is_encrypted(value) and bound < value.bound else value


def _is_encrypted(value: Any) -> bool:
    from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct

    return isinstance(value, (Ciphertext, CiphertextProduct))


def checked_results(values: tuple[Any, ...], machine: Machine) -> tuple[Any, ...]:
    """Results with the promise of the workspace. Under strict bounds raises ProgramInputError for one that decryption could not tell from an overflow."""
    from ren.schemes.ckks.batch import CiphertextBatch

    if capture.current() is not None:
        return values  # their bounds are numbers of each replay, and a run inside of a capture ends at `realize` anyway
    values = with_promise(values, machine)
    engine = machine.workspace.get("engine")
    if engine is None or not engine.strict_bounds:
        return values  # readiness has warned, and decryption does
    for i, value in enumerate(values):
        for item in value.items if type(value) is Many or isinstance(value, CiphertextBatch) else (value,):
            if _is_encrypted(item):
                _check(i, item, machine)
    return values


def _check(index: int, value: Any, machine: Machine) -> None:
    from ren.schemes.ckks.wraparound import is_checkable, is_proven

    engine = machine.engine
    if is_proven(value.bound, value.b.ring.modulus, value.scale) or is_checkable(
        engine.params, value.level, value.scale
    ):
        return
    limit = engine.bounds.limit(value.level, value.scale)
    raise ProgramInputError(
        f"result {index} would be at level {value.level}, which holds {limit:.3g} and leaves no room to notice an overflow, and by the bounds of what was passed it may be larger",
        subject=f"result {index}",
        hint="Pass smaller public data or ciphertexts with a smaller bound (msg_bound, encrypted(bound=...)), or promise workspace['result_bound'] = b",
    )

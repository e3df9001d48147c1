"""Promises about public inputs, `message(bound=...)` and `plaintext(bound=...)`, held against what a call passes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from ren.errors import ProgramInputError
from ren.program.results import largest_element
from ren.schemes.ckks.batch import PlaintextBatch
from ren.schemes.ckks.plaintext import Plaintext

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine

#: What encodings hold was rounded to the grid of their scale: by how much more than the declared bound they may decode to.
_ROUNDING = 2.0**-20

#: Of encodings that carry no bound that says enough: the largest slot, measured once.
_MEASURED: weakref.WeakKeyDictionary[Plaintext, float] = weakref.WeakKeyDictionary()


def check_declared(name: str, value: Any, bound: float | None, engine: PublicEngine | None) -> None:
    """Raise ProgramInputError for public data or a Plaintext that is larger than its declared bound, and for what has no size."""
    if bound is None:
        return
    if isinstance(value, PlaintextBatch):
        for item in value.plaintexts:
            check_declared(name, item, bound, engine)
        return
    largest = _slots(value, bound, engine) if isinstance(value, Plaintext) else largest_element(value)
    if largest is None:
        raise ProgramInputError(
            f"input {name} is declared with bound {bound:.6g} and takes numbers, got {type(value).__name__}",
            subject=name,
        )
    if not largest <= bound:
        raise ProgramInputError(
            f"input {name} reaches {largest:.6g}, its declared bound is {bound:.6g}",
            subject=name,
            hint=f"Trace it again with bound={largest:.3g}, or pass smaller values",
        )


def _slots(value: Plaintext, bound: float, engine: PublicEngine | None) -> float:
    """The largest slot of an encoding: what it carries, or where that is only the capacity of its level what it decodes to, less rounding."""
    carried = float(value.bound)
    if carried <= bound or value.poly is None or engine is None:
        return carried
    found = _MEASURED.get(value)
    if found is None:
        found = _MEASURED[value] = float(np.abs(engine.decode(value, is_real=False)).max(initial=0.0))
    return bound if bound < found <= bound * (1 + _ROUNDING) else found

"""From units to kernel launches: one table over all kernels of this backend, and the patterns made so far."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ren.engine.exec_unit import ExecUnit
from ren.errors import KernelUnsupportedError

from ren_backend_cuda import (
    lower_automorphism,
    lower_conversion,
    lower_elementwise,
    lower_float,
    lower_key_switch,
    lower_mod_down,
    lower_sampling,
    lower_transform,
)
from ren_backend_cuda.lowered import Pattern
from ren_backend_cuda.peephole import MOD_DOWN_AUTOMORPHISM
from ren_backend_cuda.tables import Tables

LOWERINGS: dict[str, Callable[[ExecUnit, Tables], Pattern]] = {
    "elementwise": lower_elementwise.lower_elementwise,
    "copy": lower_elementwise.lower_copy,
    "ntt": lower_transform.lower_ntt,
    "intt": lower_transform.lower_intt,
    "automorphism": lower_automorphism.lower_automorphism,
    "mod_down": lower_mod_down.lower_mod_down,
    "basis_extend": lower_conversion.lower_basis_extend,
    "decompose": lower_conversion.lower_decompose,
    "gadget_product": lower_key_switch.lower_gadget_product,
    "key_switch": lower_key_switch.lower_key_switch,
    "sample": lower_sampling.lower_sample,
    "from_float": lower_float.lower_from_float,
    "lift": lower_float.lower_lift,
}

#: Units that only this backend makes (`peephole.py`).
_FUSED: dict[str, Callable[[ExecUnit, Tables], Pattern]] = {
    MOD_DOWN_AUTOMORPHISM: lower_mod_down.lower_mod_down_automorphism,
}

#: Patterns that are kept; a process with more is one that makes new rings all the time.
_KEPT = 4096


class Lowerings:
    """Patterns by what they depend on. Two equal units get the same object."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._lock = threading.RLock()
        self._made: dict[object, Pattern] = {}

    def pattern(self, unit: ExecUnit) -> Pattern:
        """Check a unit and make its launches. Raises KernelUnsupportedError, or KernelOperandError for what breaks the contract."""
        sizes = tuple(tuple(o.words for o in group) for group in (unit.inputs, unit.scalars, unit.outputs))
        key = unit.kernel, unit.ring, _frozen(unit.params), sizes
        found = self._made.get(key)
        if found is None:
            with self._lock:
                found = self._made.get(key)
                if found is None:
                    found = self._make(unit)
                    if len(self._made) >= _KEPT:
                        self._made.clear()
                    self._made[key] = found
        return found

    def _make(self, unit: ExecUnit) -> Pattern:
        lowering = LOWERINGS.get(unit.kernel) or _FUSED.get(unit.kernel)
        if lowering is None:
            raise KernelUnsupportedError(
                f"backend 'cuda' has no kernel {unit.kernel!r}",
                subject=unit.kernel,
                hint=f"It has {', '.join(LOWERINGS)}",
            )
        return lowering(unit, self._tables)


def _frozen(value: object) -> object:
    """Parameters as a key: lists, which equal no tuple, become tuples."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list | tuple) else value

"""From units to kernel rows: one table over all kernels of this backend."""

from __future__ import annotations

from ren.engine.exec_unit import ExecUnit
from ren.errors import KernelUnsupportedError

from ren_backend_cpu import (
    fuse,
    lower_automorphism,
    lower_conversion,
    lower_elementwise,
    lower_float,
    lower_key_switch,
    lower_mod_down,
    lower_remainder,
    lower_sampling,
    lower_transform,
)
from ren_backend_cpu.lowered import Lowered
from ren_backend_cpu.lowering import Lowering

LOWERINGS: dict[str, Lowering] = {
    "elementwise": lower_elementwise.ELEMENTWISE,
    "copy": lower_elementwise.COPY,
    "ntt": lower_transform.NTT,
    "intt": lower_transform.INTT,
    "automorphism": lower_automorphism.AUTOMORPHISM,
    "mod_down": lower_mod_down.MOD_DOWN,
    "basis_extend": lower_conversion.BASIS_EXTEND,
    "decompose": lower_conversion.DECOMPOSE,
    "gadget_product": lower_key_switch.GADGET_PRODUCT,
    "key_switch": lower_key_switch.KEY_SWITCH,
    "sample": lower_sampling.SAMPLE,
    "from_float": lower_float.FROM_FLOAT,
    "lift": lower_float.LIFT,
}

#: Kernels of units that `fuse` makes.
FUSED: dict[str, Lowering] = {
    fuse.FROM_FLOAT_NTT: lower_float.FROM_FLOAT_NTT,
    fuse.SAMPLE_NTT: lower_sampling.SAMPLE_NTT,
    fuse.REMAINDER_NTT: lower_remainder.REMAINDER_NTT,
}


def _lowering(unit: ExecUnit) -> Lowering:
    found = LOWERINGS.get(unit.kernel) or FUSED.get(unit.kernel)
    if found is None:
        raise KernelUnsupportedError(
            f"backend 'cpu' has no kernel {unit.kernel!r}", subject=unit.kernel, hint=f"It has {', '.join(LOWERINGS)}"
        )
    return found


def lower(unit: ExecUnit) -> Lowered:
    """Check a unit and make its kernel row. Raises KernelUnsupportedError, or KernelOperandError for what breaks the contract."""
    return _lowering(unit).lower(unit)


def scratch_words(unit: ExecUnit) -> int:
    """Scratch that the unit needs, in words."""
    return _lowering(unit).scratch_words(unit)

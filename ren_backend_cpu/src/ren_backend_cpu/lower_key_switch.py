"""Lowering of `gadget_product` and `key_switch`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

from ren_backend_cpu.kernels import inner_product as kernels
from ren_backend_cpu.lower_conversion import Gadget, digit_bounds
from ren_backend_cpu.lowered import Lowered, check_operands, parameters, part, require
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import ring_table


def _key_words(unit: ExecUnit, digits: int, key_limbs: int, index: Sequence[int], limbs: int) -> int:
    """The size of the key operand: `digits` digits or more, and limb index[i] of the key for limb i."""
    require(
        len(index) == limbs and len(set(index)) == limbs and all(0 <= i < key_limbs for i in index),
        unit,
        f"the index must name {limbs} different limbs of the {key_limbs} of the key, got {index}",
    )
    require(len(unit.inputs) == 2, unit, f"2 inputs, got {len(unit.inputs)}")
    words, digit_words = unit.inputs[1].words, 2 * key_limbs * unit.ring.n
    require(
        words % digit_words == 0 and words >= digits * digit_words,
        unit,
        f"the key must have {digits} digits or more of {digit_words} words, got {words} words",
    )
    return words


def lower_gadget_product(unit: ExecUnit) -> Lowered:
    digits, key_limbs, index = parameters(unit, 3)
    n, limbs = unit.ring.n, unit.ring.limbs
    require(digits >= 1, unit, f"at least one digit, got {digits}")
    key_words = _key_words(unit, digits, key_limbs, index, limbs)
    check_operands(unit, (digits * limbs * n, key_words), (limbs * n,) * 2)
    ring = ring_table(unit.ring)
    row = (*unit.inputs, *unit.outputs, ring.address, np.array(index, np.int64), limbs, digits, key_limbs, n)
    return Lowered(kernels.gadget_product, row, (ring,), items=limbs)


def scratch_key_switch(unit: ExecUnit) -> int:
    """A row per limb of x, and those of a thread: two per digit, and one for the transform of the limb itself."""
    return unit.ring.limbs * unit.ring.n + _local_words(unit)


def _local_words(unit: ExecUnit) -> int:
    return (2 * len(digit_bounds(unit.ring.limbs, unit.params[0])) + 1) * unit.ring.n


def lower_key_switch(unit: ExecUnit) -> Lowered:
    alpha, special, domain, key_limbs, index = parameters(unit, 5)
    require(alpha >= 1, unit, f"alpha must be at least 1, got {alpha}")
    n, limbs = unit.ring.n, unit.ring.limbs
    wide = unit.ring.extend(special) if special else unit.ring
    key_words = _key_words(unit, len(digit_bounds(limbs, alpha)), key_limbs, index, wide.limbs)
    check_operands(unit, (limbs * n, key_words), (wide.limbs * n,) * 2, scratch_key_switch(unit))
    alpha = min(alpha, limbs)
    domain = Domain(domain)
    gadget = Gadget(n, unit.ring.moduli, special, alpha, domain)
    ring = ring_table(wide)
    row = (
        *(*unit.inputs, *unit.outputs, unit.scratch[0], ring.address, gadget.records, gadget.scales, gadget.matrix),
        *(np.array(index, np.int64), limbs, wide.limbs, alpha, int(domain is Domain.NTT), key_limbs, n),
    )
    local = part(unit.scratch[0], limbs * n, _local_words(unit))
    first = (kernels.key_switch_digits, limbs)
    return Lowered(kernels.key_switch, row, (ring, gadget), wide.limbs, local, (first,))


GADGET_PRODUCT = Lowering(lower_gadget_product)
KEY_SWITCH = Lowering(lower_key_switch, scratch_key_switch)

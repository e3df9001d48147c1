"""The inner product of gadget digits with a key, and key switching as one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ren.backend.reference.basis_conversion import decompose, digit_bounds
from ren.backend.reference.operands import Prepared, Words, domain_of, parameters, require, rows
from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular


def gadget_product(
    digits: Words, key: Words, moduli: Sequence[int], index: Sequence[int], outs: Sequence[Words]
) -> None:
    """outs[c] = sum over d of digits[d] * key[d][c], limb i of the digits against limb index[i] of the key.

    digits: [digit][limb][n]; key: [digit or more][2][key limb][n]; all in the NTT domain.
    """
    n = digits.shape[2]
    q = modular.column(moduli)
    for component, out in enumerate(outs):
        total = np.zeros((len(moduli), n), np.uint64)
        for digit, key_digit in zip(
            digits, key, strict=False
        ):  # a key may have more digits than are left at this level
            key_rows = rows(key_digit[component, list(index)].reshape(-1), n, moduli)
            total = modular.add(total, modular.multiply(digit, key_rows, q), q)
        out[:] = total.reshape(-1)


def _key_words(unit: ExecUnit, digits: int, key_limbs: int, index: Sequence[int], limbs: int) -> int:
    """The size of the unit's key operand: a key with at least `digits` digits."""
    require(
        len(index) == limbs and len(set(index)) == limbs,
        unit,
        f"the index must name {limbs} different key limbs, got {index}",
    )
    require(all(0 <= i < key_limbs for i in index), unit, f"the index {index} leaves the {key_limbs} limbs of the key")
    require(len(unit.inputs) == 2, unit, f"2 inputs, got {len(unit.inputs)}")
    digit_words = 2 * key_limbs * unit.ring.n
    words = unit.inputs[1].words
    require(
        words % digit_words == 0 and words >= digits * digit_words,
        unit,
        f"the key must have {digits} digits or more of {digit_words} words, got {words} words",
    )
    return words


def prepare_gadget_product(unit: ExecUnit) -> Prepared:
    """Digits times key; the ring is that of the digits."""
    count, key_limbs, index = parameters(unit, 3)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    require(count >= 1, unit, f"at least one digit, got {count}")
    key_words = _key_words(unit, count, key_limbs, index, limbs)

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        digits = np.stack([rows(d, n, moduli) for d in ins[0].reshape(count, -1)])
        gadget_product(digits, ins[1].reshape(-1, 2, key_limbs, n), moduli, index, outs)

    return Prepared(run, (count * limbs * n, key_words), (limbs * n,) * 2)


def prepare_key_switch(unit: ExecUnit) -> Prepared:
    """`decompose`, then `gadget_product`; the ring is that of x."""
    alpha, special, domain, key_limbs, index = parameters(unit, 5)
    domain = domain_of(unit, domain)
    require(alpha >= 1, unit, f"alpha must be at least 1, got {alpha}")
    ring = unit.ring
    wide = ring.extend(special) if special else ring
    n = ring.n
    key_words = _key_words(unit, len(digit_bounds(ring.limbs, alpha)), key_limbs, index, wide.limbs)

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        digits = decompose(rows(ins[0], n, ring.moduli), ring.moduli, alpha, special, domain)
        gadget_product(digits, ins[1].reshape(-1, 2, key_limbs, n), wide.moduli, index, outs)

    return Prepared(run, (ring.limbs * n, key_words), (wide.limbs * n,) * 2)

"""Predicted work of units: counts that follow from parameters alone, the same on every backend."""

from __future__ import annotations

from dataclasses import dataclass

from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain


@dataclass(frozen=True, slots=True)
class Cost:
    """units: kernel calls. transforms: rows through the NTT or its inverse. products: modular products outside transforms.
    words: 64-bit words read and written."""

    units: int = 0
    transforms: int = 0
    products: int = 0
    words: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.units + other.units,
            self.transforms + other.transforms,
            self.products + other.products,
            self.words + other.words,
        )

    def __str__(self) -> str:
        return f"{self.units} units, {self.transforms} row transforms, {self.products} products, {8 * self.words} bytes moved"


def unit_cost(unit: ExecUnit) -> Cost:
    """The predicted work of one unit."""
    n, limbs = unit.ring.n, unit.ring.limbs
    words = sum(o.words for o in (*unit.inputs, *unit.scalars, *unit.outputs))
    transforms, products = 0, 0
    p = unit.params
    if unit.kernel in ("ntt", "intt"):
        transforms = limbs
    elif unit.kernel == "elementwise":
        products = n * limbs * sum(i[0] in ("mul", "mac", "scale") for i in p[2])
    elif unit.kernel == "mod_down":
        k, z_limbs, domain = p
        transforms = limbs if domain is Domain.NTT else 0
        products = n * ((limbs - k) * (k + 1) + z_limbs)
    elif unit.kernel == "basis_extend":
        products = n * limbs * (len(p[1]) + 1)
    elif unit.kernel in ("decompose", "key_switch"):
        alpha, special = p[:2]
        digits = -(-limbs // alpha)
        wide = limbs + len(special)
        transforms = digits * wide  # an NTT operand is inverted once and gives its own limbs back, a COEFF one is not
        products = n * limbs * wide
        if unit.kernel == "key_switch":
            products += 2 * digits * wide * n
    elif unit.kernel == "gadget_product":
        products = 2 * p[0] * limbs * n
    return Cost(1, transforms, products, words)

"""Division by dropped moduli: rescaling and the mod-down of key switching."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ren.backend.reference import ntt
from ren.backend.reference.basis_conversion import centred
from ren.backend.reference.operands import Prepared, Words, domain_of, parameters, require, rows
from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular
from ren.numtheory.crt import residues
from ren.ops import Domain


def prepare_mod_down(unit: ExecUnit) -> Prepared:
    """out = (y - c) D^-1 modulo the kept limbs: y = x + P z, D the product of the dropped moduli, c the centred conversion of y's dropped limbs.

    Where z has some of the dropped limbs, the ones it lacks (P) are divided away first: key switching and the rescale after it in one, with the
    rounding of the exact rescale. In the NTT domain the result is that of the coefficient domain, transformed; since the transform is linear, only the dropped limbs and c are transformed.
    """
    k, z_limbs, domain = parameters(unit, 3)
    domain = domain_of(unit, domain)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    kept = limbs - k
    require(1 <= k < limbs, unit, f"k must be in [1, {limbs - 1}], got {k}")
    require(z_limbs == 0 or kept <= z_limbs <= limbs, unit, f"z must have {kept} to {limbs} limbs, got {z_limbs}")
    missing = limbs - z_limbs if kept < z_limbs else 0
    factor = residues([prod(moduli[z_limbs:])], moduli)[:z_limbs]  # P, [z limbs, 1]

    def divided(y: Words, moduli: tuple[int, ...], k: int) -> Words:
        """y without its last k limbs, divided by their product."""
        low, dropped = moduli[:-k], moduli[-k:]
        q = modular.column(low)
        inverse = np.array([[modular.inverse(prod(dropped), p)] for p in low], np.uint64)
        tail = ntt.inverse(y[-k:], dropped) if domain is Domain.NTT else y[-k:]
        c = residues(centred(tail, dropped), low)
        if domain is Domain.NTT:
            c = ntt.forward(c, low)
        return modular.multiply(modular.subtract(y[:-k], c, q), inverse, q)

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        y = rows(ins[0], n, moduli)
        if z_limbs:
            z = rows(ins[1], n, moduli[:z_limbs])
            q_z = modular.column(moduli[:z_limbs])
            y = np.concatenate(
                [modular.add(y[:z_limbs], modular.multiply(z, factor, q_z), q_z), y[z_limbs:]]
            )  # P = 0 below
        if missing:
            y = divided(y, moduli, missing)
        outs[0].reshape(kept, n)[:] = divided(y, moduli[: limbs - missing], k - missing)

    inputs = (limbs * n, z_limbs * n) if z_limbs else (limbs * n,)
    return Prepared(run, inputs, (kept * n,))

"""The automorphism X -> X^g, g odd."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ren.backend.reference.operands import Prepared, Words, domain_of, parameters, require, rows
from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular
from ren.numtheory.roots import ntt_automorphism_index
from ren.ops import Domain


def prepare_automorphism(unit: ExecUnit) -> Prepared:
    """x(X^g). Coefficients: X^j goes to X^(g j mod 2n), and X^n = -1. NTT values: the value at psi^e becomes the one at psi^(g e)."""
    g, domain = parameters(unit, 2)
    n, moduli = unit.ring.n, unit.ring.moduli
    require(g % 2 == 1 and 0 < g < 2 * n, unit, f"g must be odd in [1, {2 * n}), got {g}")
    domain = domain_of(unit, domain)

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        x = rows(ins[0], n, moduli)
        out = outs[0].reshape(len(moduli), n)
        if domain is Domain.NTT:
            out[:] = x[:, ntt_automorphism_index(n, g)]
            return
        exponent = np.arange(n) * g % (2 * n)
        out[:, exponent % n] = np.where(exponent < n, x, modular.negate(x, modular.column(moduli)))

    size = len(moduli) * n
    return Prepared(run, (size,), (size,))

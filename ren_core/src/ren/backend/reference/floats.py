"""Between residues and doubles, at the border of encoding and decoding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ren.backend.reference.operands import Prepared, Words, parameters, rows
from ren.engine.exec_unit import ExecUnit
from ren.errors import KernelOperandError
from ren.numtheory.crt import recombine_centred, residues


def prepare_from_float(unit: ExecUnit) -> Prepared:
    """Residues of n doubles that are integers, of any size. The word after them is ignored."""
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        values = ins[0][:n].view(np.float64)
        wrong = ~np.isfinite(values) | (values != np.trunc(values))
        if wrong.any():
            index = int(np.argmax(wrong))
            raise KernelOperandError(
                f"from_float: coefficient {index} is {values[index]}, not an integer", subject="from_float"
            )
        outs[0][:] = residues([int(v) for v in values], moduli).reshape(-1)

    return Prepared(run, (n + 1,), (len(moduli) * n,))


def prepare_lift(unit: ExecUnit) -> Prepared:
    """Doubles nearest to the centred value modulo q_0 q_1, ties to even (Python's int to float); then how many coefficients do not fit."""
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        x = rows(ins[0], n, moduli)
        values = recombine_centred(x[:2], moduli[:2])
        outs[0][:n] = np.array([float(v) for v in values], np.float64).view(np.uint64)
        outs[0][n] = np.count_nonzero(residues(values, moduli[2:3]) != x[2:3]) if len(moduli) > 2 else 0

    return Prepared(run, (len(moduli) * n,), (n + 1,))

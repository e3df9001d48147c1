"""Random polynomials from a seed: `ren.numtheory.sampling` as a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from ren.backend.reference.operands import Prepared, Words, parameters
from ren.engine.exec_unit import ExecUnit
from ren.numtheory.sampling import check_sample, sample_rows


def prepare_sample(unit: ExecUnit) -> Prepared:
    """The seed is 4 words, its 32 bytes read as little-endian. Raises InvalidSampleError for undefined parameters."""
    distribution, argument, stream = parameters(unit, 3)
    n, moduli = unit.ring.n, unit.ring.moduli
    check_sample(distribution, argument, stream, n, len(moduli))

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        seed = ins[0].astype("<u8").tobytes()
        outs[0][:] = sample_rows(seed, distribution, argument, stream, n, moduli).reshape(-1)

    return Prepared(run, (4,), (len(moduli) * n,))

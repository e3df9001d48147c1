"""Lowering of `sample` (`ren.numtheory.sampling`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit
from ren.numtheory.sampling import (
    GAUSSIAN,
    GROUP_WORDS,
    SPARSE_TERNARY,
    TERNARY,
    UNIFORM,
    check_sample,
    gaussian_thresholds,
)

from ren_backend_cpu.kernels import sampling
from ren_backend_cpu.lowered import Lowered, check_operands, parameters, part
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import ring_table


def scratch_sample(unit: ExecUnit) -> int:
    """Key stream groups for a redraw (or for rows shorter than one), and the positions and signs of a sparse draw."""
    distribution, argument, _ = unit.params
    if distribution == UNIFORM:
        return 2 * GROUP_WORDS
    return GROUP_WORDS + (2 * argument if distribution == SPARSE_TERNARY else 0)


def lower_sample(unit: ExecUnit) -> Lowered:
    """Raises InvalidSampleError for undefined parameters."""
    distribution, argument, stream = parameters(unit, 3)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    check_sample(distribution, argument, stream, n, limbs)
    check_operands(unit, (4,), (limbs * n,), scratch_sample(unit))
    operands = unit.inputs[0], unit.outputs[0], unit.scratch[0]
    if distribution == UNIFORM:
        ring = ring_table(unit.ring)
        fast = n >= GROUP_WORDS and sampling.VECTOR_UNIFORM
        kernel = sampling.sample_uniform_vector if fast else sampling.sample_uniform
        uniform = (*operands[:2], ring.address, n, stream)
        return Lowered(kernel, uniform, (ring,), limbs, part(operands[2], 0, 2 * GROUP_WORDS))
    if distribution == GAUSSIAN:
        thresholds = gaussian_thresholds(argument)
        row = (*operands, residue_limits(moduli, len(thresholds)), limbs, n, stream)
        if sampling.sample_gaussian_tree.compiles and len(thresholds) <= sampling.TREE_THRESHOLDS:
            return Lowered(
                sampling.sample_gaussian_tree, (*row, np.array(sampling.gaussian_tree(thresholds), np.uint64))
            )
        return Lowered(sampling.sample_gaussian_scan, (*row, np.array(thresholds, np.uint64), len(thresholds)))
    row = (*operands, residue_limits(moduli, 1), limbs, n, stream)
    if distribution == TERNARY:
        return Lowered(sampling.sample_ternary, row)
    return Lowered(sampling.sample_sparse_ternary, (*row, argument))


def residue_limits(moduli: tuple[int, ...], bound: int) -> NDArray[np.int64]:
    """Per limb what turns an integer of at most `bound` in absolute value into a residue: q, shift, reciprocal (`sampling`)."""
    rows = []
    for q in moduli:
        # Only moduli no wider than the samples need a quotient; sigma is at most 64, so bound < 2^10 and 2 bound + q < 2^12.
        rows.append((q, 0, 0) if bound < q else (q, -(-bound // q) * q, (1 << 32) // q + 1))
    return np.array(rows, np.int64).reshape(-1)


SAMPLE = Lowering(lower_sample, scratch_sample)

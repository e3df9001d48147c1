"""Lowering of `sample` (`ren.numtheory.sampling`), and of a sample with its transform (`fuse`)."""

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
    """Uniform: key stream groups for a redraw (or for rows shorter than one). Else the small integers, in whole groups, and for a sparse draw a group, positions and signs."""
    distribution, argument, _ = unit.params
    if distribution == UNIFORM:
        return 2 * GROUP_WORDS
    return _small_words(unit) + (GROUP_WORDS + 2 * argument if distribution == SPARSE_TERNARY else 0)


def _small_words(unit: ExecUnit) -> int:
    return max(unit.ring.n, GROUP_WORDS)


def lower_sample(unit: ExecUnit, *, transformed: bool = False) -> Lowered:
    """Raises InvalidSampleError for undefined parameters. transformed: of small integers, the result is in the NTT domain."""
    distribution, argument, stream = parameters(unit, 3)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    check_sample(distribution, argument, stream, n, limbs)
    check_operands(unit, (4,), (limbs * n,), scratch_sample(unit))
    seed, out, scratch = unit.inputs[0], unit.outputs[0], unit.scratch[0]
    ring = ring_table(unit.ring)
    keys = sampling.key_words.address
    if distribution == UNIFORM:
        fast = n >= GROUP_WORDS and sampling.VECTOR_UNIFORM
        kernel = sampling.sample_uniform_vector if fast else sampling.sample_uniform
        uniform = (seed, out, ring.address, n, stream, keys)
        return Lowered(kernel, uniform, (ring,), limbs, part(scratch, 0, 2 * GROUP_WORDS))
    words = _small_words(unit)
    table: NDArray[np.uint64] | int = 0
    bound, count = 1, 0
    if distribution == GAUSSIAN:
        thresholds = gaussian_thresholds(argument)
        bound = count = len(thresholds)
        if sampling.draw_gaussian_tree.compiles and count <= sampling.TREE_THRESHOLDS:
            draw, table = sampling.draw_gaussian_tree, np.array(sampling.gaussian_tree(thresholds), np.uint64)
        else:
            draw, table = sampling.draw_gaussian_scan, np.array(thresholds, np.uint64)
    elif distribution == TERNARY:
        draw = sampling.draw_ternary
    else:
        draw, count = sampling.draw_sparse_ternary, argument
    row = (
        *(seed, out, scratch, part(scratch, words, scratch.words - words), residue_limits(moduli, bound)),
        *(ring.address, int(transformed), n, stream, keys, table, count),
    )
    return Lowered(sampling.small_rows, row, (ring,), limbs, before=((draw, 1),))


def largest(unit: ExecUnit) -> int | None:
    """The largest absolute value of the integers that a `sample` draws; None for a uniform draw."""
    distribution, argument, _ = unit.params
    if distribution == UNIFORM:
        return None
    return len(gaussian_thresholds(argument)) if distribution == GAUSSIAN else 1


def residue_limits(moduli: tuple[int, ...], bound: int) -> NDArray[np.int64]:
    """Per limb what turns an integer of at most `bound` in absolute value into a residue: q, shift, reciprocal (`sampling`)."""
    rows = []
    for q in moduli:
        # Only moduli no wider than the samples need a quotient; sigma is at most 64, so bound < 2^10 and 2 bound + q < 2^12.
        rows.append((q, 0, 0) if bound < q else (q, -(-bound // q) * q, (1 << 32) // q + 1))
    return np.array(rows, np.int64).reshape(-1)


SAMPLE = Lowering(lower_sample, scratch_sample)
#: A sample of small integers and the transform of all its limbs.
SAMPLE_NTT = Lowering(lambda unit: lower_sample(unit, transformed=True), scratch_sample)

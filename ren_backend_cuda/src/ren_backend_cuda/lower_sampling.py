"""Lowering of `sample`."""

from __future__ import annotations

import numpy as np
from ren.engine.exec_unit import ExecUnit
from ren.numtheory.sampling import (
    GAUSSIAN,
    GROUP_WORDS,
    TERNARY,
    UNIFORM,
    check_sample,
    gaussian_thresholds,
)

from ren_backend_cuda.lowered import Arguments, At, Pattern, Step, blocks, check_operands, parameters, u32
from ren_backend_cuda.tables import Tables

_THREADS = 64
#: Threads that make one group of key stream together.
_GROUP_THREADS = 8
_CLEAR_THREADS = 256
_CLEAR_BLOCKS = 4096


def lower_sample(unit: ExecUnit, tables: Tables) -> Pattern:
    """Raises InvalidSampleError for undefined parameters."""
    distribution, argument, stream = parameters(unit, 3)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    check_sample(distribution, argument, stream, n, limbs)
    check_operands(unit, (4,), (limbs * n,))
    ring, operands = tables.ring(n, moduli), (At(0), At(1))
    threads = _GROUP_THREADS * blocks(n, GROUP_WORDS)
    block = min(threads, _THREADS)
    grid = (blocks(threads, block), 1, 1)
    if distribution == UNIFORM:
        wide = (grid[0], limbs, 1)
        return Pattern((Step("sampling", "uniform", wide, block, operands, (ring, *u32(stream, n))),))
    if distribution == TERNARY:
        return Pattern((Step("sampling", "ternary", grid, block, operands, (ring, *u32(stream, limbs, n))),))
    if distribution == GAUSSIAN:
        thresholds = gaussian_thresholds(argument)
        bounds = tables.constant(thresholds)
        arguments: Arguments = (ring, bounds, *u32(len(thresholds), stream, limbs, n))
        return Pattern((Step("sampling", "gaussian", grid, block, operands, arguments),))
    cleared = min(blocks(limbs * n, _CLEAR_THREADS), _CLEAR_BLOCKS)
    words = np.uint64(limbs * n)
    clear = Step("sampling", "clear_rows", (cleared, 1, 1), _CLEAR_THREADS, operands, (words,))
    arguments = (ring, *u32(argument, stream, limbs, n))
    draw = Step("sampling", "sparse_ternary", (1, 1, 1), _GROUP_THREADS, operands, arguments)
    return Pattern((clear, draw))

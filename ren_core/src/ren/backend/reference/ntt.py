"""The negacyclic number-theoretic transform.

Definition: out[i] = a(psi^e[i]) = sum_j a_j psi^(e[i] j), psi and e from `ren.numtheory.roots`. Computed by the Chinese remainder theorem on
X^n + 1 = X^n - psi^n: X^(2m) - psi^(2e) = (X^m - psi^e)(X^m - psi^(e+n)), so each step reduces every block modulo both factors. After
log2(n) steps a block is a(X) mod (X - psi^e), the value at psi^e, in bit-reversed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ren.backend.reference.operands import Prepared, Words, parameters, rows
from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular
from ren.numtheory.roots import bit_reversal, ntt_exponents, primitive_root_2n


def forward(coefficients: Words, moduli: Sequence[int]) -> Words:
    """Coefficient rows [limbs, n] to NTT-domain rows."""
    limbs, n = coefficients.shape
    q = modular.column(moduli)[:, :, None]
    twiddles = np.stack([_twiddles(q_i, n) for q_i in moduli])
    values = coefficients
    blocks = 1
    while blocks < n:
        low, high = _halves(values, limbs, blocks)
        product = modular.multiply(high, twiddles[:, blocks : 2 * blocks, None], q)
        values = np.stack([modular.add(low, product, q), modular.subtract(low, product, q)], axis=2)
        blocks *= 2
    return np.ascontiguousarray(values.reshape(limbs, n)[:, _storage_order(n)])


def inverse(values: Words, moduli: Sequence[int]) -> Words:
    """NTT-domain rows [limbs, n] to coefficient rows: the steps of `forward` undone, last one first."""
    limbs, n = values.shape
    q = modular.column(moduli)[:, :, None]
    twiddles = np.stack([_inverse_twiddles(q_i, n) for q_i in moduli])
    stored = values
    values = np.empty_like(stored)
    values[:, _storage_order(n)] = stored
    blocks = n // 2
    while blocks:
        plus, minus = _halves(values, limbs, blocks)
        low = modular.add(plus, minus, q)  # 2 low
        high = modular.multiply(modular.subtract(plus, minus, q), twiddles[:, blocks : 2 * blocks, None], q)  # 2 high
        values = np.stack([low, high], axis=2)
        blocks //= 2
    scale = np.array([modular.inverse(n, q_i) for q_i in moduli], np.uint64).reshape(-1, 1)
    return modular.multiply(values.reshape(limbs, n), scale, modular.column(moduli))


def _halves(values: Words, limbs: int, blocks: int) -> tuple[Words, Words]:
    pairs = values.reshape(limbs, blocks, 2, -1)
    return pairs[:, :, 0], pairs[:, :, 1]


@lru_cache(maxsize=256)
def _twiddles(q: int, n: int) -> Words:
    """Entries blocks .. 2 blocks - 1: psi^e of the step that splits `blocks` blocks (X^(2m) - psi^(2e)). Read-only."""
    return _by_step(modular.powers(primitive_root_2n(q, n), n, q), n)


@lru_cache(maxsize=256)
def _inverse_twiddles(q: int, n: int) -> Words:
    return _by_step(modular.powers(modular.inverse(primitive_root_2n(q, n), q), n, q), n)


def _by_step(power: Words, n: int) -> Words:
    table = np.ones(n, np.uint64)
    exponents = np.array([n])  # the blocks of one step, as moduli X^(2m) - psi^exponent; it starts from X^n - psi^n
    while exponents.size < n:
        half = exponents // 2
        table[half.size : 2 * half.size] = power[half]
        exponents = np.stack([half, half + n], axis=1).reshape(-1)
    table.flags.writeable = False
    return table


@lru_cache(maxsize=32)
def _storage_order(n: int) -> NDArray[np.int64]:
    """For each stored position, where `forward` leaves its value: bit-reversed order lists the exponents 2 brv(i) + 1."""
    where = np.empty(2 * n, np.int64)
    where[2 * bit_reversal(n) + 1] = np.arange(n)
    return where[ntt_exponents(n)]


def prepare_ntt(unit: ExecUnit) -> Prepared:
    return _transform(unit, is_inverse=False)


def prepare_intt(unit: ExecUnit) -> Prepared:
    return _transform(unit, is_inverse=True)


def _transform(unit: ExecUnit, is_inverse: bool) -> Prepared:
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        x = rows(ins[0], n, moduli)
        outs[0][:] = (inverse if is_inverse else forward)(x, moduli).reshape(-1)

    size = len(moduli) * n
    return Prepared(run, (size,), (size,), in_place=True)

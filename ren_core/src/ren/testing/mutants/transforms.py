"""Faults of transforms and automorphisms."""

from __future__ import annotations

import numpy as np

from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular
from ren.numtheory.roots import bit_reversal, ntt_automorphism_index, ntt_exponents
from ren.ops import Domain
from ren.testing.mutants.base import Words, fault, moduli_of, rows_of


@fault("ntt")
def twiddle_index_is_one_off(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """Values at psi^(e + 2) instead of psi^e."""
    n = unit.ring.n
    e = ntt_exponents(n)
    where = np.empty(2 * n, np.int64)
    where[e] = np.arange(n)
    outs[0][:] = rows_of(unit, outs[0])[:, where[(e + 2) % (2 * n)]].reshape(-1)


@fault("ntt")
def blocks_are_not_transposed(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """Plain bit-reversed order, which is the same below n = 64."""
    n = unit.ring.n
    where = np.empty(2 * n, np.int64)
    where[ntt_exponents(n)] = np.arange(n)
    outs[0][:] = rows_of(unit, outs[0])[:, where[2 * bit_reversal(n) + 1]].reshape(-1)


@fault("ntt")
def another_primitive_root(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """psi^3, just as primitive: products and round trips stay right, stored keys do not."""
    n = unit.ring.n
    outs[0][:] = rows_of(unit, outs[0])[:, ntt_automorphism_index(n, 3 % (2 * n))].reshape(-1)


@fault("ntt")
def values_stay_lazy(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """The last conditional subtraction forgotten where the value is 0."""
    outs[0][:] = np.where(outs[0] == 0, moduli_of(unit, outs[0]), outs[0])


@fault("intt")
def factor_1_over_n_forgotten(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    q = modular.column(unit.ring.moduli)
    outs[0][:] = modular.multiply(rows_of(unit, outs[0]), np.uint64(unit.ring.n) % q, q).reshape(-1)


@fault("intt")
def cyclic_instead_of_negacyclic(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    upper = rows_of(unit, outs[0])[:, unit.ring.n // 2 :]
    upper[:] = modular.negate(upper, modular.column(unit.ring.moduli))


@fault("automorphism")
def sign_of_the_wrapped_coefficients_forgotten(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    g, domain = unit.params
    if domain == Domain.COEFF:
        n = unit.ring.n
        rows_of(unit, outs[0])[:, np.arange(n) * g % n] = rows_of(unit, ins[0])


@fault("automorphism")
def inverse_element_in_the_ntt_domain(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    g, domain = unit.params
    if domain == Domain.NTT:
        outs[0][:] = rows_of(unit, ins[0])[:, ntt_automorphism_index(unit.ring.n, pow(g, -1, 2 * unit.ring.n))].reshape(
            -1
        )

"""Faults of changes of modulus and of key switching."""

from __future__ import annotations

from math import prod

import numpy as np

from ren.backend.reference import ntt
from ren.backend.reference.basis_conversion import approximate, centred, decompose, digit_bounds
from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular
from ren.numtheory.crt import crt_terms, residues
from ren.ops import Domain
from ren.testing.mutants.base import Words, fault, rows_of


@fault("mod_down")
def conversion_is_not_centred(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    k, z_limbs, domain = unit.params
    if z_limbs or domain != Domain.COEFF:
        return
    x = rows_of(unit, ins[0])
    low, dropped = unit.ring.moduli[:-k], unit.ring.moduli[-k:]
    q = modular.column(low)
    inverse = np.array([[pow(prod(dropped), -1, p)] for p in low], np.uint64)
    c = residues(approximate(x[-k:], dropped), low)
    outs[0][:] = modular.multiply(modular.subtract(x[:-k], c, q), inverse, q).reshape(-1)


@fault("mod_down")
def limbs_swapped(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    rows = rows_of(unit, outs[0])
    if len(rows) > 1:
        rows[[0, 1]] = rows[[1, 0]] % np.array(unit.ring.moduli[:2], np.uint64)[:, None]


@fault("mod_down")
def addend_ignored_in_the_dropped_limbs(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    """y = x + P z must hold before the dropped limbs are converted: it matters when the mod-down is merged with a rescale."""
    k, z_limbs, domain = unit.params
    kept = unit.ring.limbs - k
    if z_limbs <= kept or domain != Domain.COEFF:
        return
    x, z = rows_of(unit, ins[0]), rows_of(unit, ins[1])[:kept]
    low, dropped = unit.ring.moduli[:kept], unit.ring.moduli[kept:]
    q = modular.column(low)
    factor = residues([prod(unit.ring.moduli[z_limbs:])], low)
    y = modular.add(x[:kept], modular.multiply(z, factor, q), q)
    inverse = np.array([[pow(prod(dropped), -1, p)] for p in low], np.uint64)
    outs[0][:] = modular.multiply(
        modular.subtract(y, residues(centred(x[kept:], dropped), low), q), inverse, q
    ).reshape(-1)


@fault("mod_down")
def stages_merged(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """One centred conversion of all dropped limbs: more than twice the rounding error of a rescale."""
    k, z_limbs, domain = unit.params
    kept, moduli = unit.ring.limbs - k, unit.ring.moduli
    if not kept < z_limbs < unit.ring.limbs or domain != Domain.COEFF:
        return
    x, z = rows_of(unit, ins[0]), rows_of(unit, ins[1])
    q, factor = modular.column(moduli[:z_limbs]), residues([prod(moduli[z_limbs:])], moduli[:z_limbs])
    y = np.concatenate([modular.add(x[:z_limbs], modular.multiply(z, factor, q), q), x[z_limbs:]])
    low, dropped = moduli[:kept], moduli[kept:]
    inverse = np.array([[pow(prod(dropped), -1, p)] for p in low], np.uint64)
    c = residues(centred(y[kept:], dropped), low)
    q = modular.column(low)
    outs[0][:] = modular.multiply(modular.subtract(y[:kept], c, q), inverse, q).reshape(-1)


@fault("basis_extend")
def exact_extension_is_approximate(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    mode, new = unit.params
    if mode == "exact":
        x = rows_of(unit, ins[0])
        outs[0][ins[0].size :] = residues(approximate(x, unit.ring.moduli), new).reshape(-1)


@fault("basis_extend")
def exact_extension_in_doubles(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """The overflow count from a sum of doubles, as most libraries do it: differs next to Q/2 only."""
    mode, new = unit.params
    if mode == "exact":
        x, moduli = rows_of(unit, ins[0]), unit.ring.moduli
        overflow = np.zeros(unit.ring.n)
        for (y, _), q in zip(crt_terms(x, moduli), moduli, strict=True):
            overflow += y.astype(np.float64) / float(q)
        v = np.array([int(o) for o in np.rint(overflow)], object)
        outs[0][ins[0].size :] = residues(approximate(x, moduli) - v * prod(moduli), new).reshape(-1)


@fault("basis_extend")
def largest_positive_digit_turns_negative(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    """y = (q - 1) / 2 centred to -(q + 1) / 2."""
    mode, new = unit.params
    if mode == "centred":
        moduli = unit.ring.moduli
        total = np.zeros(unit.ring.n, object)
        for (y, cofactor), q in zip(crt_terms(rows_of(unit, ins[0]), moduli), moduli, strict=True):
            total = total + np.where(y >= q // 2, y - q, y) * cofactor
        outs[0][ins[0].size :] = residues(total, new).reshape(-1)


@fault("decompose")
def narrow_last_digit_is_lost(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    alpha = unit.params[0]
    if unit.ring.limbs > alpha and unit.ring.limbs % alpha:
        digits = len(digit_bounds(unit.ring.limbs, alpha))
        outs[0].reshape(digits, -1)[-1] = 0


@fault("decompose")
def input_taken_for_coefficients(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    alpha, special, domain = unit.params
    if domain == Domain.NTT:
        outs[0][:] = decompose(rows_of(unit, ins[0]), unit.ring.moduli, alpha, special, Domain.COEFF).reshape(-1)


@fault("gadget_product")
def index_into_the_key_ignored(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    count, key_limbs, index = unit.params
    n, moduli = unit.ring.n, unit.ring.moduli
    q = modular.column(moduli)
    digits, key = ins[0].reshape(count, -1, n), ins[1].reshape(-1, 2, key_limbs, n)
    for component, out in enumerate(outs):
        total = np.zeros((len(moduli), n), np.uint64)
        for d in range(count):
            total = modular.add(total, modular.multiply(digits[d], key[d, component, : len(moduli)] % q, q), q)
        out[:] = total.reshape(-1)


@fault("gadget_product")
def components_swapped(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    b = outs[0].copy()
    outs[0][:] = outs[1]
    outs[1][:] = b


@fault("key_switch")
def special_limbs_from_uncentred_digits(
    unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]
) -> None:
    """Right modulo Q, so every decryption still works; only noise and bit-equality suffer."""
    alpha, special, domain, key_limbs, index = unit.params
    if not special:
        return
    ring, n = unit.ring, unit.ring.n
    x = rows_of(unit, ins[0])
    x = ntt.inverse(x, ring.moduli) if domain == Domain.NTT else x
    key = ins[1].reshape(-1, 2, key_limbs, n)
    q = modular.column(special)
    for component, out in enumerate(outs):
        total = np.zeros((len(special), n), np.uint64)
        for d, (start, stop) in enumerate(digit_bounds(ring.limbs, alpha)):
            digit = ntt.forward(residues(approximate(x[start:stop], ring.moduli[start:stop]), special), special)
            total = modular.add(total, modular.multiply(digit, key[d, component, list(index[ring.limbs :])], q), q)
        out[ring.limbs * n :] = total.reshape(-1)

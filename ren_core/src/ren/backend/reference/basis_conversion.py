"""Base conversion: from residues modulo q_0..q_(k-1) to residues modulo other primes; and gadget decomposition, made of it.

All conversions start from y_i = x_i (Q/q_i)^-1 mod q_i, for which x = sum y_i (Q/q_i) mod Q, and differ in the integer they take:

    approximate   sum y_i (Q/q_i), y_i in [0, q_i): x + v Q for some 0 <= v < k
    centred       the same with |y_i| <= (q_i - 1)/2: x + v Q with |v| about k/2 at most and mean 0
    exact         the approximate sum minus v Q with v from fixed-point arithmetic: the centred x, but up to Q/2 + k 2^-55 Q

Halevi, Polyakov, Shoup, "An improved RNS variant of the BFV homomorphic encryption scheme" (CT-RSA 2019), section 2, here with
fixed point instead of doubles, so that all machines agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ren.backend.reference import ntt
from ren.backend.reference.operands import Prepared, Words, domain_of, parameters, require, rows
from ren.engine.exec_unit import ExecUnit
from ren.numtheory.crt import BigInts, centre, crt_terms, residues
from ren.ops import Domain


def approximate(x: Words, moduli: Sequence[int]) -> BigInts:
    """sum y_i (Q/q_i) with y_i in [0, q_i), as n Python ints. x: [limbs, n] coefficient rows."""
    return np.asarray(sum(y * cofactor for y, cofactor in crt_terms(x, moduli)), object)


def centred(x: Words, moduli: Sequence[int]) -> BigInts:
    """sum y_i (Q/q_i) with |y_i| <= (q_i - 1)/2, as n Python ints."""
    terms = zip(crt_terms(x, moduli), moduli, strict=True)
    return np.asarray(sum(centre(y, q) * cofactor for (y, cofactor), q in terms), object)


def exact(x: Words, moduli: Sequence[int]) -> BigInts:
    """approximate - v Q, v = (2^55 + sum f_i) >> 56, f_i = (y_i R_i) >> (b_i + 7), R_i = floor(2^(63 + b_i) / q_i), b_i bits of q_i."""
    v = np.full(x.shape[1], 1 << 55, object)
    for (y, _), q in zip(crt_terms(x, moduli), moduli, strict=True):
        bits = q.bit_length()
        reciprocal = (1 << (63 + bits)) // q
        v = v + ((y * reciprocal) >> (bits + 7))  # y/q in units of 2^-56
    return np.asarray(approximate(x, moduli) - (v >> 56) * prod(moduli), object)


_MODES = {"approximate": approximate, "centred": centred, "exact": exact}


def prepare_basis_extend(unit: ExecUnit) -> Prepared:
    """The rows of x, then its conversion to the new moduli. Coefficient domain."""
    mode, new = parameters(unit, 2)
    require(mode in _MODES, unit, f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    n, moduli = unit.ring.n, unit.ring.moduli
    unit.ring.extend(new)  # raises unless the new moduli fit the ring

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        x = rows(ins[0], n, moduli)
        outs[0].reshape(-1, n)[:] = np.concatenate([x, residues(_MODES[mode](x, moduli), new)])

    size = len(moduli) * n
    return Prepared(run, (size,), (size + len(new) * n,))


def digit_bounds(limbs: int, alpha: int) -> list[tuple[int, int]]:
    """(start, stop) of the limbs of each digit; the last digit may be narrower."""
    return [(start, min(start + alpha, limbs)) for start in range(0, limbs, alpha)]


def decompose(x: Words, moduli: Sequence[int], alpha: int, special: Sequence[int], domain: Domain) -> Words:
    """Digits [digit][limb][n] of x [limbs, n] modulo all moduli and the special ones, NTT domain."""
    if domain is Domain.NTT:
        x = ntt.inverse(x, moduli)
    target = (*moduli, *special)
    digits = []
    for start, stop in digit_bounds(len(moduli), alpha):
        digit = centred(x[start:stop], moduli[start:stop])
        digits.append(ntt.forward(residues(digit, target), target))
    return np.stack(digits)


def prepare_decompose(unit: ExecUnit) -> Prepared:
    """Gadget decomposition; the ring is that of x."""
    alpha, special, domain = parameters(unit, 3)
    domain = domain_of(unit, domain)
    require(alpha >= 1, unit, f"alpha must be at least 1, got {alpha}")
    n, moduli = unit.ring.n, unit.ring.moduli
    if special:
        unit.ring.extend(special)

    def run(ins: Sequence[Words], _: Sequence[Words], outs: Sequence[Words]) -> None:
        outs[0][:] = decompose(rows(ins[0], n, moduli), moduli, alpha, special, domain).reshape(-1)

    digits = len(digit_bounds(len(moduli), alpha))
    return Prepared(run, (len(moduli) * n,), (digits * (len(moduli) + len(special)) * n,))

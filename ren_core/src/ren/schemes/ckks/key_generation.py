"""Key generation: hybrid key switching with RNS digits, uniform halves from published seeds.

Gadget: for digit d (alpha consecutive chain primes with product Q_d) let g_d = 1 modulo the primes of the digit and 0 modulo all others. Then
x = sum_d [x]_(Q_d) g_d modulo Q, at every level, so one key serves all of them. A row hides P g_d s' under the target key, P the product of the special
primes; dividing by P at the end divides the noise (Gentry, Halevi, Smart, "Homomorphic Evaluation of the AES Circuit", ia.cr/2012/099, section 3.1; RNS digits:
Han and Ki, "Better Bootstrapping for Approximate Homomorphic Encryption", ia.cr/2019/688).

Rotation keys are *pre-rotated*: they lead from s to sigma^-1(s), so that the key is switched first and the automorphism is applied to the two
result polynomials. The digits of a ciphertext are then the same for all rotations (hoisting).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, TypeVar, cast

import numpy as np

from ren.numtheory.sampling import fresh_seed
from ren.ops import Domain
from ren.poly import KeyBuffer, Poly, realize
from ren.ring import RingSpec
from ren.schemes.ckks.keys import (
    ConjugationKey,
    EvaluationKey,
    PublicKey,
    RelinearizationKey,
    RotationKey,
    SecretKey,
    public_key_ring,
    uniform_half,
)
from ren.schemes.ckks.params import CKKSParams

_Key = TypeVar("_Key", bound=EvaluationKey)


def new_key_id() -> str:
    """A fresh key id: 128 random bits as 32 hexadecimal digits, drawn apart from the secret, so that it says nothing about it."""
    return fresh_seed()[:16].hex()


def generate_secret(params: CKKSParams, device: str | None, key_id: str) -> SecretKey:
    """A uniform ternary secret over all chain and special primes. Realized."""
    ring = params.key_ring
    return SecretKey(params, key_id, Poly.sample("ternary", None, ring, device=device).ntt().realize())


def generate_public(secret: SecretKey) -> PublicKey:
    """(e - a s, a) over the chain and the first special prime. Realized."""
    params = secret.params
    ring = public_key_ring(params)
    seed = fresh_seed()
    a = uniform_half(ring, seed, 0, secret.device)
    error = _error(params, ring, secret.device)
    b = error - a * secret.reveal().limbs(0, ring.limbs)
    realize(b, a)
    return PublicKey(params, secret.key_id, seed, b, a)


def generate_relinearization(secret: SecretKey, level: int = 0) -> RelinearizationKey:
    """The key from s^2 to s, for ciphertexts at `level` and deeper."""
    s = _secret_at(secret, level)
    return _generate(RelinearizationKey, (), secret, s * s, s, level)


def generate_rotation(secret: SecretKey, step: int, level: int = 0) -> RotationKey:
    """The key for rotating by `step` (normalised, not 0), for ciphertexts at `level` and deeper."""
    s = _secret_at(secret, level)
    g = rotation_exponent(secret.params, step)
    return _generate(RotationKey, (step,), secret, s, s.automorphism(pow(g, -1, 2 * secret.params.n)), level)


def generate_conjugation(secret: SecretKey, level: int = 0) -> ConjugationKey:
    """The key for conjugation, for ciphertexts at `level` and deeper."""
    s = _secret_at(secret, level)
    return _generate(ConjugationKey, (), secret, s, s.automorphism(conjugation_exponent(secret.params)), level)


def rotation_exponent(params: CKKSParams, step: int) -> int:
    """g such that X -> X^g rotates the slots by `step` in the direction of torch.roll: result[i] = x[i - step].

    Slot j is the value at zeta^(5^j), so X -> X^(5^r) brings slot j + r to slot j: r = -step.
    """
    return pow(5, -step % params.slot_count, 2 * params.n)


def conjugation_exponent(params: CKKSParams) -> int:
    """g of X -> X^-1, its own inverse."""
    return 2 * params.n - 1


def _secret_at(secret: SecretKey, level: int) -> Poly:
    params, s = secret.params, secret.reveal()
    params.check_level(level)
    if level == 0:
        return s
    rows = s.residues()[list(params.key_limb_index_at(level))]
    return Poly.from_residues(np.ascontiguousarray(rows), params.key_ring_at(level), Domain.NTT, s.device)


def _error(params: CKKSParams, ring: RingSpec, device: str | None) -> Poly:
    return Poly.sample("gaussian", params.sigma, ring, device=device).ntt()


def _generate(
    cls: type[_Key], extra: tuple[int, ...], secret: SecretKey, source: Poly, target: Poly, level: int
) -> _Key:
    """Rows from `source` to `target`: b_d = e_d - a_d target + P g_d source."""
    params, device = secret.params, secret.device
    ring = params.key_ring_at(level)
    realize(source, target)  # once, for all digits
    seed = fresh_seed()  # published with the key; the errors draw seeds of their own
    rows = []
    for d, factor in enumerate(gadget_factors(params, level)):
        a = uniform_half(ring, seed, d, device)
        rows.append((_error(params, ring, device) - a * target + source * factor, a))
    key: _Key = cast(Any, cls)(*extra, params, secret.key_id, level, seed, KeyBuffer.from_polys(rows))
    return key


@lru_cache(maxsize=64)
def gadget_factors(params: CKKSParams, level: int) -> tuple[int, ...]:
    """P g_d for every digit at `level`, as integers modulo the product of chain primes left and special primes."""
    primes = params.ring_at(level).moduli
    total, special = prod(primes), prod(params.special)
    factors = []
    for start in range(0, len(primes), params.alpha):
        digit = prod(primes[start : start + params.alpha])
        rest = total // digit
        factors.append(special * (rest * pow(rest, -1, digit) % total))
    return tuple(factors)

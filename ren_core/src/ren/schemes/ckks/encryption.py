"""Encryption and decryption on polynomials.

By secret key: a uniform, b = m + e - a s; the error is one Gaussian. By public key: (b, a) = pk u + errors over one prime more than the ciphertext has,
then division by that prime, which leaves only its rounding error (about sqrt(n/18) per coefficient) of a noise of sqrt(4n/3) sigma: four bits better at the price of one
rescale. At level 0 the additional prime is the first special one, deeper it is the chain prime that the level has dropped.

An `a` of a secret-key encryption and every error is drawn from a fresh seed of the operating system; nothing is kept, so forked processes and threads never repeat one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ren.ops import Domain
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes.ckks.keys import PublicKey, SecretKey
from ren.schemes.ckks.params import CKKSParams

#: Two primes hold every sound message (a 50-bit and a 40-bit one: 2^89 at a scale of 2^40); a third one shows that it is sound.
CHECKED_LIMBS = 3


def encrypt_with_secret(secret: SecretKey, message: Poly) -> tuple[Poly, Poly]:
    """(b, a) of a message over the chain at some level. Lazy."""
    ring, device = message.ring, message.device
    a = Poly.sample("uniform", None, ring, domain=Domain.NTT, device=device)
    b = message + _gaussian(secret.params, ring, device).ntt() - a * secret.reveal().limbs(0, ring.limbs)
    return b, a


def encrypt_with_public(key: PublicKey, message: Poly) -> tuple[Poly, Poly]:
    """(b, a) of a message over the chain at some level. Lazy."""
    limbs, device = message.ring.limbs + 1, message.device
    key_b, key_a = key.b.limbs(0, limbs), key.a.limbs(0, limbs)
    u = Poly.sample("ternary", None, key_b.ring, device=device).ntt()
    b = _masked(key_b, u, _gaussian(key.params, key_b.ring, device)) + message
    a = _masked(key_a, u, _gaussian(key.params, key_a.ring, device))
    return b, a


def _masked(key: Poly, u: Poly, error: Poly) -> Poly:
    """round((key u + error) / q_last); key and u in the NTT domain, the error in the coefficient domain.

    What `(key * u + error.ntt()).rescale()` computes, with one transform per limb in place of two: the centred remainder modulo q_last is subtracted from the
    error before that is transformed. The last limb is a product of its own, so that it alone is transformed back.
    """
    kept = key.ring.limbs - 1
    moduli, last = key.ring.moduli[:kept], key.ring.moduli[kept]
    product = key.limbs(kept, kept + 1) * u.limbs(kept, kept + 1)
    rest = product.intt() + error.limbs(kept, kept + 1)
    remainder = rest.mod_raise(moduli, "centred").limbs(1, kept + 1)
    difference = (error.limbs(0, kept) - remainder).ntt()
    return (key.limbs(0, kept) * u.limbs(0, kept) + difference) * pow(last, -1, key.ring.drop(1).modulus)


def _gaussian(params: CKKSParams, ring: RingSpec, device: str) -> Poly:
    return Poly.sample("gaussian", params.sigma, ring, device=device)


def decrypt(secret: SecretKey, b: Poly, a: Poly, c: Poly | None = None) -> tuple[Poly, NDArray[np.float64], int]:
    """(m, its coefficients as doubles, how many of them do not fit) for m = b + a s (+ c s^2). Realized.

    m is in the coefficient domain, from where `decode` lifts it again, and keeps at most `CHECKED_LIMBS` primes: all that a sound message needs. Where coefficients do not fit, m has all primes.
    """
    kept = min(CHECKED_LIMBS, b.ring.limbs)
    m = opened(secret, b, a, c, kept)
    lifted, misfit = m.lift()  # one schedule for both
    if misfit and kept < b.ring.limbs:
        m = opened(secret, b, a, c, b.ring.limbs).realize()
    return m, lifted, misfit


def opened(secret: SecretKey, b: Poly, a: Poly, c: Poly | None, limbs: int) -> Poly:
    """b + a s (+ c s^2) modulo the first `limbs` primes, coefficients."""
    s = secret.reveal().limbs(0, limbs)
    inner = a.limbs(0, limbs) if c is None else a.limbs(0, limbs) + c.limbs(0, limbs) * s
    return (b.limbs(0, limbs) + inner * s).intt()

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
from ren.schemes.ckks.keys import PublicKey, SecretKey
from ren.schemes.ckks.params import CKKSParams

#: Two primes hold every sound message (a 50-bit and a 40-bit one: 2^89 at a scale of 2^40); a third one shows that it is sound.
CHECKED_LIMBS = 3


def encrypt_with_secret(secret: SecretKey, message: Poly) -> tuple[Poly, Poly]:
    """(b, a) of a message over the chain at some level. Lazy."""
    ring, device = message.ring, message.device
    a = Poly.sample("uniform", None, ring, domain=Domain.NTT, device=device)
    b = message + _error(secret.params, ring, device) - a * secret.reveal().limbs(0, ring.limbs)
    return b, a


def encrypt_with_public(key: PublicKey, message: Poly) -> tuple[Poly, Poly]:
    """(b, a) of a message over the chain at some level. Lazy."""
    limbs, device = message.ring.limbs + 1, message.device
    key_b, key_a = key.b.limbs(0, limbs), key.a.limbs(0, limbs)
    ring = key_b.ring
    u = Poly.sample("ternary", None, ring, device=device).ntt()
    b = (key_b * u + _error(key.params, ring, device)).mod_down(1, add=message)
    a = (key_a * u + _error(key.params, ring, device)).mod_down(1)
    return b, a


def _error(params: CKKSParams, ring: object, device: str) -> Poly:
    return Poly.sample("gaussian", params.sigma, ring, device=device).ntt()  # type: ignore[arg-type]


def decrypt(secret: SecretKey, b: Poly, a: Poly, c: Poly | None = None) -> tuple[Poly, NDArray[np.float64], int]:
    """(m, its coefficients as doubles, how many of them do not fit) for m = b + a s (+ c s^2). Realized.

    m is in the coefficient domain, from where `decode` lifts it again, and keeps at most `CHECKED_LIMBS` primes: all that a sound message needs. Where coefficients do not fit, m has all primes.
    """
    kept = min(CHECKED_LIMBS, b.ring.limbs)
    m = _open(secret, b, a, c, kept)
    lifted, misfit = m.lift()
    if misfit and kept < b.ring.limbs:
        m = _open(secret, b, a, c, b.ring.limbs)
    return m, lifted, misfit


def _open(secret: SecretKey, b: Poly, a: Poly, c: Poly | None, limbs: int) -> Poly:
    s = secret.reveal().limbs(0, limbs)
    inner = a.limbs(0, limbs) if c is None else a.limbs(0, limbs) + c.limbs(0, limbs) * s
    return (b.limbs(0, limbs) + inner * s).intt().realize()

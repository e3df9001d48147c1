"""Telling a result from one that wrapped around the modulus: what decryption accepts, and what can be known before.

Ciphertexts hold integers modulo Q. All operations but a modulus raise commute with that reduction, so values in between may exceed Q without harm; a result is wrong exactly
when its own coefficients exceed Q/2, and then nothing in it says so. Three facts can exclude that:

* A proof: the bound that was tracked from checked inputs fits (at most a quarter of Q). Noise has the other quarter.
* Free room: a coefficient that wrapped around lies anywhere modulo Q, and below 2^-(CHECK_BITS + 1) Q, where a result without a proof must lie, with probability
  2^-CHECK_BITS. A result whose slots are all equal has a single coefficient, so no more can be had from the others. At the last level, a first prime ten bits above the
  scale leaves no such room: a result without a proof is given with an UncheckedResultWarning there, and refused under strict bounds.
* The proof is a promise where a caller gave the bound (`assume_bound`, `jit.encrypted(bound=)`). A coefficient of twice
  the bound or more, and of at least 2 (which leaves room for noise), shows that it was broken.
"""

from __future__ import annotations

import math
import warnings

from ren.errors import DecryptionError, UncheckedResultWarning
from ren.schemes.ckks.bounds import user_stacklevel
from ren.schemes.ckks.encoder import CAPACITY_DIVISOR, capacity
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.scale import Scale

#: A value without a proof is accepted when a wrapped one would have been refused with probability 1 - 2^-30.
CHECK_BITS = 30
_ROOM = CHECK_BITS + 1  # for both signs


def is_proven(bound: float, modulus: int, scale: Scale) -> bool:
    """Whether slots up to `bound` cannot wrap around."""
    return math.isfinite(bound) and bound <= capacity(modulus, scale)


def largest_unproven(modulus: int, scale: Scale) -> float:
    """The largest absolute value of a slot that decryption accepts without a proof."""
    bits = math.log2(modulus) - _ROOM - scale.log2
    return 2.0**bits if bits < 1023 else math.inf


def is_checkable(params: CKKSParams, level: int, scale: Scale) -> bool:
    """Whether results of modulus 1 at (level, scale) are accepted without a proof."""
    return largest_unproven(params.ring_at(level).modulus, scale) >= 1


def require_sound(largest: int | float, modulus: int, scale: Scale, bound: float, *, strict: bool) -> None:
    """Judge a result by its largest absolute coefficient and what is known of the bound.

    Raises DecryptionError where something certainly wrapped around or a promise is broken; warns (strict: raises) where nothing shows
    that nothing did.
    """
    if largest * CAPACITY_DIVISOR > modulus or largest != largest:
        reason = f"above a quarter of the {math.log2(modulus):.1f}-bit modulus: the result overflowed or is noise"
        hint = "Scale the inputs down, leave more levels, or check that the ciphertext belongs to this key"
    elif not is_proven(bound, modulus, scale):
        if largest < 1 or int(largest) << _ROOM <= modulus:
            return
        reason = (
            f"and no bound shows that the result fits: it leaves less than {_ROOM} bits of the {math.log2(modulus):.1f}-bit modulus free, "
            "so an overflow could look like it"
        )
        hint = f"Where the values are known to stay within some b of at most {capacity(modulus, scale):.6g}, say so: decrypt(x.assume_bound(b)), or declare bounds of the inputs (msg_bound, encrypted(bound=)). Otherwise decrypt one level earlier"
        if not strict and largest_unproven(modulus, scale) < 1:
            # No result without a proof could be told from an overflow here; where some can, this one is too large.
            text = f"unchecked-result: decrypt: a coefficient has {_size(largest)} bits, {reason}. {hint}"
            warnings.warn(text, UncheckedResultWarning, stacklevel=user_stacklevel())
            return
    elif largest > 2 * max(bound, 1.0) * float(scale):
        reason = f"over twice what the bound {bound:.6g} allows at scale 2^{scale.log2:.1f}: the promised bound does not hold"
        hint = "Promise a bound that holds (assume_bound, encrypted(bound=)), or none"
    else:
        return
    raise DecryptionError(
        f"a decrypted coefficient has {_size(largest)} bits, {reason}", subject="coefficients", hint=hint
    )


def _size(largest: int | float) -> str:
    return f"{math.log2(largest):.1f}" if largest >= 1 else str(largest)

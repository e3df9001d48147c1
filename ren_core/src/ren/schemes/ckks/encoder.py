"""Encoding: slots to integer coefficients and back, through the canonical embedding, on the host.

Slot j of m(X) in Z[X]/(X^n + 1) is m(zeta^(5^j)), zeta = exp(pi i / n) (Cheon, Kim, Kim, Song, "Homomorphic Encryption for Arithmetic of Approximate
Numbers", ia.cr/2016/421, section 3.2; the order 5^j makes rotations automorphisms). All these points are roots of X^(n/2) - i, so with
w(X) = sum_k (m_k + i m_(k+n/2)) X^k, of n/2 complex terms, w and m agree there (`ren.schemes.ckks.embedding`).

Encoded integers are defined to the last bit and never depend on the device. Precision: the transform is good to 2^-50 of the largest slot;
integers above 2^53 are exact doubles and reduced exactly (`Poly.from_float`).

Sparse packing: a message of `slots` < n/2 slots (a power of two) is repeated n/2/slots times. Its polynomial has coefficients only at multiples of
n/2/slots, and is the encoding of the ring of degree 2 * slots spread out. Rotations then act modulo `slots`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ren.backend.capability import Embedding
from ren.errors import CapacityError, DecryptionError, EncodingError
from ren.schemes.ckks.embedding import HOST
from ren.schemes.ckks.message import Message, checked_message, integer
from ren.schemes.ckks.scale import Scale

#: Decryption accepts coefficients up to modulus / 4: half of the range is kept as a guard that tells overflow from a message.
CAPACITY_DIVISOR = 4
# Products of scale and message stay below this, far from the overflow of doubles.
_LARGEST_COEFFICIENT = 1e300


def capacity(modulus: int, scale: Scale) -> float:
    """The largest modulus of a slot value that a ciphertext of this modulus and scale can hold: modulus / (4 scale).

    A coefficient is a mean over slots times the scale, so values up to this bound give coefficients up to modulus / 4.
    """
    bits = math.log2(modulus) - math.log2(CAPACITY_DIVISOR) - scale.log2
    return 2.0**bits if bits < 1023 else math.inf


def encode_to_integers(
    values: Any,
    scale: Scale,
    *,
    n: int,
    msg_bound: float | None = None,
    modulus: int | None = None,
    slots: int | None = None,
) -> NDArray[np.float64]:
    """Coefficients round(scale * m) of the message as n integer-valued doubles.

    values: see `as_message`; fewer than `slots` are padded with zeros. msg_bound: largest modulus allowed. modulus: the ciphertext modulus that must hold
    the result. slots: the logical extent, a power of two up to n/2 (None: n/2); shorter extents are repeated through all slots.

    Raises EncodingError and TypeError as `as_message` does; CapacityError when a value exceeds `capacity(modulus, scale)`.
    """
    slots = check_extent(slots, n)
    message, largest = checked_message(values, slots=slots, msg_bound=msg_bound)
    return encode_message(message, largest, scale, n=n, modulus=modulus, slots=slots)


def encode_message(
    message: Message,
    largest: float,
    scale: Scale,
    *,
    n: int,
    modulus: int | None,
    slots: int,
    embedding: Embedding = HOST,
) -> NDArray[np.float64]:
    """See `encode_to_integers`, for what `checked_message` gives."""
    _require_capacity(message, largest, scale, modulus)
    integers = np.zeros(n) if slots < n // 2 else np.empty(n)
    embedding.to_integers(message, float(scale) / slots, slots, integers)
    return integers


def decode_from_floats(
    coefficients: NDArray[np.float64], scale: Scale, *, slots: int | None = None, embedding: Embedding = HOST
) -> NDArray[np.complex128]:
    """The `slots` slot values (None: all n/2) of a polynomial given by its n coefficients as doubles. The inverse of `encode_to_integers`.

    With slots < n/2 the other copies are averaged in: only coefficients at multiples of the repetition enter, which also drops most of the noise.
    """
    slots = check_extent(slots, coefficients.size)
    return embedding.to_slots(coefficients, 1.0 / float(scale), slots)


class Liftable(Protocol):
    """What `decode_poly` needs of a `ren.poly.Poly`."""

    @property
    def ring(self) -> Any: ...

    def lift(self) -> tuple[NDArray[np.float64], int]: ...

    def to_centered_list(self) -> list[int]: ...


def decode_poly(
    poly: Liftable,
    scale: Scale,
    *,
    slots: int | None = None,
    lifted: tuple[NDArray[np.float64], int] | None = None,
    embedding: Embedding = HOST,
) -> NDArray[np.complex128]:
    """The slots of a decrypted polynomial. lifted: what `poly.lift()` gives, where it is known.

    Two limbs hold every sound message, so `lift` reads those and checks with a third; when that fails, all limbs are read exactly. Raises DecryptionError when
    a coefficient exceeds a quarter of the modulus: the message overflowed, or the noise drowned it.
    """
    coefficients, misfit = poly.lift() if lifted is None else lifted
    return decode_lifted(
        coefficients, misfit, poly.ring.moduli, scale, exact=poly.to_centered_list, slots=slots, embedding=embedding
    )


def decode_lifted(
    lifted: NDArray[np.float64],
    misfit: int,
    moduli: tuple[int, ...],
    scale: Scale,
    *,
    exact: Callable[[], Sequence[int]],
    slots: int | None = None,
    embedding: Embedding = HOST,
) -> NDArray[np.complex128]:
    """See `decode_poly`: `lifted` and `misfit` are the results of a LIFT; `exact` gives all coefficients centred, as Python integers."""
    modulus = math.prod(moduli)
    if misfit:
        integers = exact()
        _require_sound(max(map(abs, integers)), modulus)
        # Doubles end at 2^1024: shift very long integers, and the scale with them. 60 bits kept exceed a double's 53.
        excess = max(0, max(map(abs, integers)).bit_length() - 960)
        lifted = np.array([float(c >> excess) for c in integers])
        scale = scale / Scale.power_of_two(excess)
    elif len(moduli) <= 2:
        # With three limbs or more the check limb has shown that values are below q_0 q_1 / 2, under a quarter of the modulus.
        _require_sound(max(float(lifted.max()), -float(lifted.min())), modulus)
    return decode_from_floats(lifted, scale, slots=slots, embedding=embedding)


def _require_sound(largest: int | float, modulus: int) -> None:
    if not largest * CAPACITY_DIVISOR <= modulus:
        raise DecryptionError(
            f"a decrypted coefficient has {math.log2(largest):.1f} bits, above a quarter of the {math.log2(modulus):.1f}-bit modulus: the result overflowed or is noise",
            subject="coefficients",
            hint="Scale the inputs down, leave more levels, or check that the ciphertext belongs to this key",
        )


def check_extent(slots: int | None, n: int) -> int:
    """The logical extent: `slots`, or n/2 for None. Raises EncodingError unless it is a power of two from 1 to n/2."""
    if slots is None:
        return n // 2
    count = integer(slots)
    if count is None or count < 1 or count > n // 2 or count & (count - 1):
        near = min(1 << max(0, (count - 1).bit_length()), n // 2) if count is not None and count > 0 else n // 2
        raise EncodingError(
            f"slots must be a power of two from 1 to {n // 2}, got {slots!r}",
            subject="slots",
            hint=f"The nearest that holds as many is {near}",
        )
    return count


def _require_capacity(message: NDArray[Any], largest: float, scale: Scale, modulus: int | None) -> None:
    limit = _LARGEST_COEFFICIENT / float(scale)
    if modulus is not None:
        limit = min(limit, capacity(modulus, scale))
    if largest <= limit:
        return
    moduli = np.abs(message)
    i = int(np.argmax(moduli))
    if moduli[i] > limit:
        raise CapacityError(
            f"values[{i}] has modulus {float(moduli[i]):.6g}, but at scale {scale:.6e} this level holds at most {limit:.6g} (a quarter of its modulus)",
            subject="values",
            hint="Scale the message down, use a smaller scale, or encode at a level with more primes left",
        )

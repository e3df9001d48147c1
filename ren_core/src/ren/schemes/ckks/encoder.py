"""Encoding: slots to integer coefficients and back, through the canonical embedding, on the host.

Slot j of m(X) in Z[X]/(X^n + 1) is m(zeta^(5^j)), zeta = exp(pi i / n) (Cheon, Kim, Kim, Song, "Homomorphic Encryption for Arithmetic of Approximate
Numbers", ia.cr/2016/421, section 3.2; the order 5^j makes rotations automorphisms). All these points are roots of X^(n/2) - i, so with
w(X) = sum_k (m_k + i m_(k+n/2)) X^k, of n/2 complex terms, w and m agree there: at zeta^(4t+1), which is every 5^j,

    w(zeta^(4t+1)) = sum_k (w_k zeta^k) exp(2 pi i t k / (n/2)),

a complex Fourier transform of n/2 points after the twist zeta^k and before the permutation 4 t_j + 1 = 5^j.

One implementation serves all backends, so encoded integers never depend on the device. Precision: the transform is good to 2^-50 of the largest slot;
integers above 2^53 are exact doubles and reduced exactly (`Poly.from_float`).

Sparse packing: a message of `slots` < n/2 slots (a power of two) is repeated n/2/slots times. Its polynomial has coefficients only at multiples of
n/2/slots, and is the encoding of the ring of degree 2 * slots spread out. Rotations then act modulo `slots`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ren.errors import CapacityError, DecryptionError, EncodingError
from ren.schemes.ckks.message import Message, checked_message, integer
from ren.schemes.ckks.scale import Scale

#: Decryption accepts coefficients up to modulus / 4: half of the range is kept as a guard that tells overflow from a message.
CAPACITY_DIVISOR = 4
# Products of scale and message stay below this, far from the overflow of doubles.
_LARGEST_COEFFICIENT = 1e300


@dataclass(frozen=True, slots=True)
class _Tables:
    """Of the ring of degree 2 * size. slot_of[t]: the slot at zeta^(4t+1); root_of[j]: its inverse; twist[k] = zeta^k."""

    slot_of: NDArray[np.intp]
    root_of: NDArray[np.intp]
    twist: NDArray[np.complex128]
    untwist: NDArray[np.complex128]


@lru_cache(maxsize=32)
def _tables(size: int) -> _Tables:
    # Two threads may both build them on first use; they build the same read-only values.
    root_of = np.empty(size, np.intp)
    power = 1
    for j in range(size):
        root_of[j] = (power - 1) // 4
        power = power * 5 % (4 * size)
    slot_of = np.empty(size, np.intp)
    slot_of[root_of] = np.arange(size)
    twist = np.exp(1j * np.pi * np.arange(size) / (2 * size))
    tables = _Tables(slot_of, root_of, twist, np.conj(twist))
    for array in (tables.slot_of, tables.root_of, tables.twist, tables.untwist):
        array.flags.writeable = False
    return tables


class _Scratch(threading.local):
    """One transform buffer per thread: fresh arrays of this size would be returned to the system and paged in again at each call."""

    buffer: NDArray[np.complex128] | None = None


_scratch = _Scratch()
_TRANSFORMS_IN_PLACE = int(np.__version__.split(".")[0]) >= 2


def _workspace(size: int) -> NDArray[np.complex128]:
    """Uninitialised scratch of this thread, valid until the next call."""
    if _scratch.buffer is None or _scratch.buffer.size != size:
        _scratch.buffer = np.empty(size, np.complex128)
    return _scratch.buffer


def _transform(w: NDArray[np.complex128], *, inverse: bool) -> NDArray[np.complex128]:
    """sum_k w_k exp(-2 pi i t k / size), with + for the inverse; neither is divided by the size. May overwrite w."""
    if not _TRANSFORMS_IN_PLACE:
        return np.fft.ifft(w, norm="forward") if inverse else np.fft.fft(w)
    return np.fft.ifft(w, norm="forward", out=w) if inverse else np.fft.fft(w, out=w)


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
    message: Message, largest: float, scale: Scale, *, n: int, modulus: int | None, slots: int
) -> NDArray[np.float64]:
    """See `encode_to_integers`, for what `checked_message` gives."""
    factor = float(scale)
    _require_capacity(message, largest, scale, modulus)
    integers = np.zeros(n) if slots < n // 2 else np.empty(n)
    stride = n // 2 // slots
    place = _place_real if message.dtype == np.float64 else _place_complex
    place(message, factor / slots, integers[: n // 2 : stride], integers[n // 2 :: stride])
    return integers


def _place_complex(message: Message, factor: float, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
    """Round the real parts of the coefficients w_k of the module's introduction to `low`, the imaginary ones to `high`."""
    tables = _tables(low.size)
    work = _workspace(low.size)
    if message.size < work.size:
        work[...] = 0.0
        work[tables.root_of[: message.size]] = message
    else:
        # mode="clip" (no index is out of range) lets NumPy write to `out` without a copy.
        np.take(message, tables.slot_of, out=work, mode="clip")
    w = _transform(work, inverse=False)
    w *= tables.untwist
    w *= factor
    np.rint(w.real, out=low)
    np.rint(w.imag, out=high)


def _place_real(message: Message, factor: float, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
    """As `_place_complex` in half the work: real slots mean m(1/X) = m(X), that is m_(n-k) = -m_k."""
    tables = _tables(low.size)
    spectrum: NDArray[Any]
    if message.size < low.size:
        spectrum = np.zeros(low.size)
        spectrum[tables.root_of[: message.size]] = message
    else:
        spectrum = message.take(tables.slot_of)
    w = np.fft.rfft(spectrum)
    half = w.size
    w *= tables.untwist[:half]
    w *= factor
    np.rint(w.real, out=low[:half])
    np.rint(w.imag, out=high[:half])
    mirrored = slice(low.size - half, 0, -1)
    np.negative(high[mirrored], out=low[half:])
    np.negative(low[mirrored], out=high[half:])


def decode_from_floats(
    coefficients: NDArray[np.float64], scale: Scale, *, slots: int | None = None
) -> NDArray[np.complex128]:
    """The `slots` slot values (None: all n/2) of a polynomial given by its n coefficients as doubles. The inverse of `encode_to_integers`.

    With slots < n/2 the other copies are averaged in: only coefficients at multiples of the repetition enter, which also drops most of the noise.
    """
    n = coefficients.size
    slots = check_extent(slots, n)
    tables = _tables(slots)
    stride = n // 2 // slots
    w = _workspace(slots)
    factor = 1.0 / float(scale)
    np.multiply(coefficients[: n // 2 : stride], factor, out=w.real)
    np.multiply(coefficients[n // 2 :: stride], factor, out=w.imag)
    w *= tables.twist
    return _transform(w, inverse=True).take(tables.root_of)


class Liftable(Protocol):
    """What `decode_poly` needs of a `ren.poly.Poly`."""

    @property
    def ring(self) -> Any: ...

    def lift(self) -> tuple[NDArray[np.float64], int]: ...

    def to_centered_list(self) -> list[int]: ...


def decode_poly(
    poly: Liftable, scale: Scale, *, slots: int | None = None, lifted: tuple[NDArray[np.float64], int] | None = None
) -> NDArray[np.complex128]:
    """The slots of a decrypted polynomial. lifted: what `poly.lift()` gives, where it is known.

    Two limbs hold every sound message, so `lift` reads those and checks with a third; when that fails, all limbs are read exactly. Raises DecryptionError when
    a coefficient exceeds a quarter of the modulus: the message overflowed, or the noise drowned it.
    """
    coefficients, misfit = poly.lift() if lifted is None else lifted
    return decode_lifted(coefficients, misfit, poly.ring.moduli, scale, exact=poly.to_centered_list, slots=slots)


def decode_lifted(
    lifted: NDArray[np.float64],
    misfit: int,
    moduli: tuple[int, ...],
    scale: Scale,
    *,
    exact: Callable[[], Sequence[int]],
    slots: int | None = None,
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
    return decode_from_floats(lifted, scale, slots=slots)


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

"""Between messages and ciphertexts: encode, encrypt, decrypt, decode, for single vectors and batches."""

from __future__ import annotations

import contextlib
import math
import warnings
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ren.engine.capture import current, outside_capture
from ren.errors import (
    CapacityError,
    EncodingError,
    ImaginaryPartWarning,
    LevelMismatchError,
    UnsupportedOperandError,
)
from ren.poly import Poly
from ren.schemes.ckks import accuracy, encryption, wraparound
from ren.schemes.ckks.batch import CiphertextBatch, PlaintextBatch, split
from ren.schemes.ckks.bounds import user_stacklevel, warn_transparent
from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
from ren.schemes.ckks.context import require_key
from ren.schemes.ckks.embedding import embedding_of
from ren.schemes.ckks.encoder import check_extent, decode_poly, encode_message
from ren.schemes.ckks.keys import PublicKey, SecretKey
from ren.schemes.ckks.message import checked_message, integer
from ren.schemes.ckks.plaintext import Plaintext, as_number
from ren.schemes.ckks.scale import Scale

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine

#: An imaginary part above this, relative to the real part (or to 1), is no noise of a usable result.
_IMAGINARY_TOLERANCE = 2.0**-6

#: What `Poly.lift` gives for plaintexts that decryption has lifted already. Not a field: fields are part of the plan key of a jitted function.
_lifted: WeakKeyDictionary[Plaintext, tuple[NDArray[np.float64], int]] = WeakKeyDictionary()


def encode(
    engine: PublicEngine,
    values: Any,
    msg_bound: float | None,
    level: int,
    scale: Scale | float | None,
    slots: int | None,
) -> Plaintext | PlaintextBatch:
    """See `PublicEngine.encode`. msg_bound None: the capacity of the level, which `encrypt_message` uses."""
    params = engine.params
    level = params.check_level(level)
    exact = params.scale_at(level) if scale is None else Scale.of(scale)
    accuracy.require_value_scale(params, "encode", exact)
    if getattr(values, "ndim", 1) > 1 or (
        isinstance(values, (list, tuple)) and values and isinstance(values[0], (list, tuple))
    ):
        shape, rows = split(values)
        return PlaintextBatch(shape, tuple(_encode(engine, row, msg_bound, level, exact, slots) for row in rows))
    return _encode(engine, values, msg_bound, level, exact, slots)


def _encode(
    engine: PublicEngine, values: Any, msg_bound: float | None, level: int, scale: Scale, slots: int | None
) -> Plaintext:
    params = engine.params
    extent = check_extent(slots, params.n)
    message, largest = checked_message(values, slots=extent, msg_bound=msg_bound)
    ring = params.ring_at(level)
    integers = encode_message(
        message, largest, scale, n=params.n, modulus=ring.modulus, slots=extent, embedding=embedding_of(engine.device)
    )
    bound = engine.bounds.limit(level, scale) if msg_bound is None else float(msg_bound)
    # Only where a number of slots was asked for: a whole slot vector has no padding, and ciphertexts that differ in nothing else share the plans of ren.jit.
    occupied = None if slots is None else message.size
    return _plaintext(engine, integers, level, scale, extent, bound, message.dtype.kind != "c", occupied)


def encode_operand(engine: PublicEngine, values: Any, level: int, scale: Scale, slots: int) -> Plaintext:
    """Public numbers that meet a ciphertext, encoded for its level; their bound is their largest modulus."""
    message, largest = checked_message(values, slots=slots)
    integers = encode_message(
        message,
        largest,
        scale,
        n=engine.params.n,
        modulus=engine.params.ring_at(level).modulus,
        slots=slots,
        embedding=embedding_of(engine.device),
    )
    return _plaintext(engine, integers, level, scale, slots, largest, message.dtype.kind != "c", message.size)


def encode_constant(engine: PublicEngine, value: Any, level: int, scale: Scale) -> Plaintext:
    """A number in every slot, as a polynomial of its own (unlike `Plaintext.const`, which is encoded at each use)."""
    number = as_number(value)
    params = engine.params
    integers = np.zeros(params.n)
    limit = engine.bounds.limit(level, scale)
    if abs(number) > limit:
        raise CapacityError(
            f"the constant {number!r} exceeds {limit:.6g}, what level {level} holds at scale {scale:.6e}",
            subject="value",
        )
    integers[0] = math.floor(number.real * float(scale) + 0.5)
    integers[params.n // 2] = math.floor(number.imag * float(scale) + 0.5)
    return _plaintext(
        engine, integers, level, scale, params.slot_count, float(abs(number)), not isinstance(number, complex)
    )


def _plaintext(
    engine: PublicEngine,
    integers: NDArray[np.float64],
    level: int,
    scale: Scale,
    slots: int,
    bound: float,
    is_real: bool,
    occupied: int | None = None,
) -> Plaintext:
    # Inside a captured function it becomes a constant of the plan; what is encoded elsewhere must be passed to be seen by one.
    with outside_capture() if current() is not None else contextlib.nullcontext():
        poly = Poly.from_integers(integers, engine.params.ring_at(level), engine.device).ntt().realize()
    return Plaintext(poly, level, scale, slots, bound, is_real, engine.params.fingerprint, None, occupied)


def encrypt(engine: PublicEngine, plaintext: Any, key: PublicKey | SecretKey | None) -> Any:
    """See `PublicEngine.encrypt`."""
    if isinstance(plaintext, PlaintextBatch):
        return CiphertextBatch(plaintext.shape, tuple(_encrypt(engine, p, key) for p in plaintext.plaintexts))
    if not isinstance(plaintext, Plaintext) or plaintext.poly is None or plaintext.scale is None:
        shown = "Plaintext.const" if isinstance(plaintext, Plaintext) else type(plaintext).__name__
        raise UnsupportedOperandError(
            f"encrypt: needs an encoded Plaintext, got {shown}",
            subject="encrypt",
            hint="Encode first: encrypt(encode(values, msg_bound=1.0))",
        )
    return _encrypt(engine, plaintext, key)


def _encrypt(engine: PublicEngine, plaintext: Plaintext, key: PublicKey | SecretKey | None) -> Ciphertext:
    assert plaintext.poly is not None and plaintext.scale is not None
    engine.require_params(plaintext.params_id, "encrypt")
    if key is None:
        key = engine.encryption_key()
    require_key(engine.key_id, key.key_id, "encrypt", "the encryption key")
    if isinstance(key, SecretKey):
        b, a = encryption.encrypt_with_secret(key, plaintext.poly)
    else:
        b, a = encryption.encrypt_with_public(key, plaintext.poly)
    ciphertext = Ciphertext(
        a,
        b,
        plaintext.level,
        plaintext.scale,
        plaintext.slots,
        key.key_id,
        plaintext.bound,
        plaintext.is_real,
        plaintext.occupied,
    )
    return ciphertext if current() is not None else ciphertext.realize()


def decrypt(engine: PublicEngine, x: Any, secret: SecretKey) -> Any:
    """See `PublicEngine.decrypt`."""
    if isinstance(x, CiphertextBatch):
        return PlaintextBatch(x.shape, tuple(decrypt(engine, c, secret) for c in x.ciphertexts))
    if not isinstance(x, (Ciphertext, CiphertextProduct)):
        raise UnsupportedOperandError(f"decrypt: needs a Ciphertext, got {type(x).__name__}", subject="decrypt")
    require_key(secret.key_id, x.key_id, "decrypt", "the ciphertext")
    if x.b.ring != engine.params.ring_at(x.level):
        raise LevelMismatchError(
            f"decrypt: the ciphertext says level {x.level}, its polynomials have {x.b.ring.limbs} of {engine.params.levels + 1} primes",
            subject="decrypt",
            hint="Use ckks.mod_drop and the other operations on whole ciphertexts",
        )
    x.realize()
    if _is_zero(x.a):
        warn_transparent("decrypt")
    poly, lifted, misfit = _sound(secret, x, strict=engine.strict_bounds)
    level = engine.params.levels + 1 - poly.ring.limbs
    lifted.flags.writeable = False  # shared by everything that decodes this plaintext
    identity = engine.params.fingerprint
    plaintext = Plaintext(poly, level, x.scale, x.slots, x.bound, x.is_real, identity, None, x.occupied)
    _lifted[plaintext] = lifted, misfit
    return plaintext


def _is_zero(poly: Poly) -> bool:
    """Whether the first limb of a realized polynomial is zero everywhere. Any other shows it in its first few words already."""
    start = poly.buffer().view(0, min(64, poly.ring.n)).to_host()
    return not start.any() and not poly.limbs(0, 1).residues().any()


def _sound(
    secret: SecretKey, x: Ciphertext | CiphertextProduct, *, strict: bool
) -> tuple[Poly, NDArray[np.float64], int]:
    """The decrypted polynomial and its `lift()`, judged by `ren.schemes.ckks.wraparound`. Raises DecryptionError."""
    product = x.c if isinstance(x, CiphertextProduct) else None
    poly, lifted, misfit = encryption.decrypt(secret, x.b, x.a, product)
    proven = wraparound.is_proven(x.bound, x.b.ring.modulus, x.scale)
    if not misfit and poly.ring.limbs == encryption.CHECKED_LIMBS:
        # Every coefficient is below q_0 q_1 / 2 and agrees modulo q_2.
        if proven or poly.ring.moduli[2] >> wraparound.CHECK_BITS:
            return poly, lifted, misfit
        if poly.ring.limbs < x.b.ring.limbs:
            poly = encryption.opened(secret, x.b, x.a, product, x.b.ring.limbs)
            lifted, misfit = poly.lift()
    exact = misfit or poly.ring.limbs > encryption.CHECKED_LIMBS
    largest = max(map(abs, poly.to_centered_list())) if exact else float(np.abs(lifted).max())
    wraparound.require_sound(largest, poly.ring.modulus, x.scale, x.bound, strict=strict)
    return poly, lifted, misfit


def decode(
    engine: PublicEngine, plaintext: Any, length: int | None, is_real: bool | None, round_bits: int | None
) -> NDArray[Any]:
    """See `PublicEngine.decode`."""
    if round_bits is not None:
        bits = integer(round_bits)
        if bits is None or not -1000 <= bits <= 1000:
            raise EncodingError(
                f"decode: round_bits must be an int from -1000 to 1000, got {round_bits!r}", subject="round_bits"
            )
        values = decode(engine, plaintext, length, is_real, None)
        return np.round(values * 2.0**bits) * 2.0**-bits
    if isinstance(plaintext, PlaintextBatch):
        rows = [decode(engine, p, length, is_real, None) for p in plaintext.plaintexts]
        return np.array(rows).reshape(plaintext.shape + rows[0].shape if rows else (*plaintext.shape, 0))
    if not isinstance(plaintext, Plaintext):
        raise UnsupportedOperandError(
            f"decode: needs a Plaintext, got {type(plaintext).__name__}",
            subject="decode",
            hint="Decrypt first: decode(decrypt(ciphertext))",
        )
    slots = engine.num_slots if plaintext.poly is None else plaintext.slots
    count = slots if length is None else integer(length)
    if count is None or not 1 <= count <= slots:
        raise EncodingError(f"decode: length must be 1 to {slots}, got {length!r}", subject="length")
    if plaintext.poly is None or plaintext.scale is None:
        return np.full(count, plaintext.value)
    engine.require_params(plaintext.params_id, "decode")
    poly = plaintext.poly
    embedding = embedding_of(engine.device)
    values = decode_poly(poly, plaintext.scale, slots=slots, lifted=_lifted.get(plaintext), embedding=embedding)[:count]
    if not (plaintext.is_real if is_real is None else is_real):
        return values
    real, imaginary = float(np.abs(values.real).max()), float(np.abs(values.imag).max())
    if imaginary > _IMAGINARY_TOLERANCE * max(1.0, real):
        warnings.warn(
            f"imaginary-part: decoding to real numbers drops imaginary parts of up to {imaginary:.3g} (real parts: up to {real:.3g}). "
            "Pass is_real=False to keep them; for a real message they are error, and the real parts carry as much",
            ImaginaryPartWarning,
            stacklevel=user_stacklevel(),
        )
    return np.ascontiguousarray(values.real)


def to_frontend_array(array: NDArray[Any]) -> Any:
    """The array type of an installed frontend (a torch.Tensor with the torch frontend), else the NumPy array itself."""
    from ren.plugin.manager import manager
    from ren.plugin.registry import Kind, resolve

    for entry in manager().registry.all(Kind.FRONTEND):
        adapter = entry.options.get("array_adapter")
        if adapter is not None:
            return resolve(adapter)(array)
    return array

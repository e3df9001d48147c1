"""CKKS as functions: those without a ciphertext argument use the active engine, the others the engine that the ciphertext belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ren import poly
from ren.errors import UnsupportedOperandError
from ren.schemes.ckks import files, matrices
from ren.schemes.ckks.batch import CiphertextBatch, PlaintextBatch
from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
from ren.schemes.ckks.context import context, engine_of
from ren.schemes.ckks.engine import Engine, PublicEngine
from ren.schemes.ckks.keys import EvaluationKeySet, PublicKey, RelinearizationKey, RotationKeySet, SecretKey
from ren.schemes.ckks.matrices import LinearTransform
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.plaintext import Plaintext
from ren.schemes.ckks.precision import precision_report
from ren.schemes.ckks.scale import Scale

__all__ = [
    "Ciphertext",
    "CiphertextBatch",
    "CiphertextProduct",
    "Engine",
    "Plaintext",
    "PlaintextBatch",
    "PublicEngine",
    "adjust",
    "assume_bound",
    "conjugate",
    "context",
    "decode",
    "decrypt",
    "encode",
    "encrypt",
    "from_bytes",
    "keygen",
    "linear_transform",
    "load_secret",
    "mod_drop",
    "multiply",
    "polyval",
    "precision_report",
    "prepare_linear_transform",
    "realize",
    "relinearize",
    "rescale",
    "rotate",
    "rotate_many",
    "save_secret",
    "square",
    "sum_slots",
    "to_bytes",
]

from_bytes = files.from_bytes
to_bytes = files.to_bytes
save_secret = files.save_secret
load_secret = files.load_secret


def keygen(params: CKKSParams | str, device: str | None = None, **options: Any) -> Engine:
    """A new secret key and its engine: `Engine(params, device, **options)`. Activate it with `with`; other keys are made at first use."""
    return Engine(params, device, **options)


# -- messages --------------------------------------------------------------------------------------------------------


def encode(
    values: Any, msg_bound: float = 1.0, level: int = 0, scale: Scale | float | None = None, *, slots: int | None = None
) -> Any:
    """Encode with the active engine; see `PublicEngine.encode`."""
    return context().encode(values, msg_bound, level, scale, slots=slots)


def decode(
    plaintext: Plaintext | PlaintextBatch,
    length: int | None = None,
    *,
    is_real: bool | None = None,
    round_bits: int | None = None,
) -> Any:
    """Decode with the active engine; see `PublicEngine.decode`."""
    return context().decode(plaintext, length, is_real=is_real, round_bits=round_bits)


def encrypt(plaintext: Plaintext | PlaintextBatch, key: PublicKey | SecretKey | None = None) -> Any:
    """Encrypt with the active engine, or with `key`; see `PublicEngine.encrypt`."""
    return context().encrypt(plaintext, key)


def decrypt(x: Any, secret_key: SecretKey | None = None) -> Any:
    """Decrypt with the active engine, or with `secret_key`; see `PublicEngine.decrypt`."""
    return context().decrypt(x, secret_key)


# -- operations ------------------------------------------------------------------------------------------------------


def _engine(x: Any, operation: str) -> PublicEngine:
    if not isinstance(x, (Ciphertext, CiphertextProduct)):
        raise UnsupportedOperandError(
            f"{operation}: the first operand must be a ciphertext, got {type(x).__name__}", subject=operation
        )
    return engine_of(x.key_id, operation)


def multiply(
    x: Any, y: Any, *, relinearize: bool = True, rescale: bool = True, key: RelinearizationKey | None = None
) -> Any:
    """x * y with a choice of what follows; one of the two must be a ciphertext.

    relinearize=False: a product of two ciphertexts stays a CiphertextProduct (a, b, c), which `+`, `-` and `relinearize` accept; combine it with rescale=False and
    rescale in `relinearize(rescale=True)`, since rescaling three polynomials has an error sqrt(n) times as large. rescale=False: the level
    stays, the scale is the product of both scales. key: use this relinearization key instead of the engine's. Raises LevelExhaustedError,
    MissingKeyError, KeyMismatchError.
    """
    if not isinstance(x, (Ciphertext, CiphertextProduct)) and isinstance(y, (Ciphertext, CiphertextProduct)):
        x, y = y, x
    return _engine(x, "multiply").multiply(x, y, relinearize=relinearize, rescale=rescale, key=key)


def square(x: Ciphertext, *, relinearize: bool = True, rescale: bool = True) -> Any:
    """x * x; options as `multiply`."""
    return multiply(x, x, relinearize=relinearize, rescale=rescale)


def relinearize(x: Any, *, rescale: bool = False, key: RelinearizationKey | None = None) -> Ciphertext:
    """A CiphertextProduct as a Ciphertext, by one key switch. rescale: divide by the last prime in the same step."""
    return _engine(x, "relinearize").relinearize(x, rescale=rescale, key=key)


def rescale(x: Any) -> Any:
    """Divide message and modulus by the last prime: level + 1, scale / prime. Raises LevelExhaustedError at the last level."""
    return _engine(x, "rescale").rescale(x)


def mod_drop(x: Any, levels: int = 1) -> Any:
    """Drop primes without dividing: level + levels, same scale. Free."""
    return _engine(x, "mod_drop").mod_drop(x, levels)


def adjust(x: Any, level: int, scale: Scale | None = None) -> Any:
    """x at a deeper level with the given scale (None: the standard one), as automatic alignment brings it there."""
    return _engine(x, "adjust").adjust(x, level, scale)


def assume_bound(x: Any, bound: float) -> Any:
    """x with a bound on its slots that you vouch for."""
    return _engine(x, "assume_bound").assume_bound(x, bound)


def rotate(x: Any, k: int, *, keys: EvaluationKeySet | RotationKeySet | None = None) -> Any:
    """x rolled by k: result[i] = x[i - k], as torch.roll. keys: use these and no others."""
    return _engine(x, "rotate").rotate(x, k, keys=keys)


def rotate_many(
    x: Any, steps: Iterable[int], *, keys: EvaluationKeySet | RotationKeySet | None = None
) -> list[Ciphertext]:
    """[x rolled by k for k in steps], sharing one decomposition."""
    return _engine(x, "rotate").rotate_many(x, steps, keys=keys)


def conjugate(x: Any, *, keys: EvaluationKeySet | None = None) -> Any:
    """The complex conjugate of every slot."""
    return _engine(x, "conjugate").conjugate(x, keys=keys)


def sum_slots(x: Any, *, keys: EvaluationKeySet | RotationKeySet | None = None) -> Any:
    """Every slot becomes the sum of all logical slots."""
    return _engine(x, "sum_slots").sum_slots(x, keys=keys)


def polyval(x: Any, coefficients: Sequence[Any], *, basis: str = "power", key: RelinearizationKey | None = None) -> Any:
    """A polynomial of every slot in ceil(log2(degree + 1)) levels; see `ren.schemes.ckks.polynomial.polyval`. Works on batches too."""
    if isinstance(x, CiphertextBatch):
        return x.map(lambda item: polyval(item, coefficients, basis=basis, key=key))
    return _engine(x, "polyval").polyval(x, coefficients, basis=basis, key=key)


def linear_transform(x: Any, matrix: Any, *, keys: EvaluationKeySet | None = None) -> Any:
    """Public matrix (or prepared LinearTransform) times x; level + 1. See `ren.schemes.ckks.matrices`. Works on batches too."""
    if isinstance(x, CiphertextBatch):
        prepared: Any = matrix
        if not isinstance(matrix, LinearTransform) and x.ciphertexts:
            first = x.ciphertexts[0]
            if all((c.level, c.scale, c.slots) == (first.level, first.scale, first.slots) for c in x.ciphertexts):
                engine = _engine(first, "linear_transform")
                prepared = matrices.prepare(engine, matrix, level=first.level, scale=first.scale, slots=first.slots)
        return x.map(lambda item: linear_transform(item, prepared, keys=keys))
    engine = _engine(x, "linear_transform")
    if isinstance(matrix, LinearTransform):
        return matrix.apply(engine, x, keys=keys)
    return engine.linear_transform(x, matrix, keys=keys)


def prepare_linear_transform(
    matrix: Any, *, level: int = 0, scale: Scale | None = None, slots: int | None = None
) -> LinearTransform:
    """Encode the diagonals of a public matrix once, with the active engine, for many applications."""
    return matrices.prepare(context(), matrix, level=level, scale=scale, slots=slots)


def realize(*values: Any) -> None:
    """Compute several ciphertexts, products or batches as one schedule."""
    polys = []
    for value in values:
        for item in value.ciphertexts if isinstance(value, CiphertextBatch) else (value,):
            polys += [item.a, item.b] + ([item.c] if isinstance(item, CiphertextProduct) else [])
    poly.realize(*polys)

"""Rotations, conjugation and sums over slots.

Direction, everywhere: `rotate(k)[i] = x[i - k]`, as torch.roll and numpy.roll. Steps are normalised modulo the logical slot count of the ciphertext, here, in key
generation and in every analysis; step 0 is the identity and needs no key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ren.errors import UnsupportedOperandError
from ren.poly import Poly
from ren.schemes.ckks import key_switching
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.key_generation import conjugation_exponent, rotation_exponent
from ren.schemes.ckks.keys import EvaluationKey, EvaluationKeySet, RotationKeySet

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine


def rotate(
    engine: PublicEngine, x: Ciphertext, k: int, *, keys: EvaluationKeySet | RotationKeySet | None = None
) -> Ciphertext:
    """x rolled by k: result[i] = x[i - k]. Level, scale and bound unchanged; one key switch, none for multiples of x.slots.

    keys: use these and no others. Raises MissingKeyError naming the step, the normalised step and the steps present.
    """
    return rotate_many(engine, x, (k,), keys=keys)[0]


def rotate_many(
    engine: PublicEngine, x: Ciphertext, steps: Iterable[int], *, keys: EvaluationKeySet | RotationKeySet | None = None
) -> list[Ciphertext]:
    """[x rolled by k for k in steps], sharing one decomposition ("hoisting": Halevi and Shoup, "Faster Homomorphic Linear Transformations in HElib", ia.cr/2018/244).

    All keys are looked up before any work, so a missing one leaves nothing half done.
    """
    require_ciphertext(x, "rotate")
    normalised = [step % x.slots for step in steps_of(steps)]
    found = {step: rotation_key(engine, x, step, keys) for step in dict.fromkeys(normalised) if step}
    if not found:
        return [x] * len(normalised)
    digits = key_switching.digits_of(engine.params, x.a)
    done: dict[int, Ciphertext] = {0: x}
    for step, key in found.items():
        done[step] = _apply(engine, x, digits, key, rotation_exponent(engine.params, step))
    return [done[step] for step in normalised]


def conjugate(engine: PublicEngine, x: Ciphertext, *, keys: EvaluationKeySet | None = None) -> Ciphertext:
    """The complex conjugate of every slot. Level, scale and bound unchanged; one key switch. Raises MissingKeyError."""
    require_ciphertext(x, "conjugate")
    if keys is None:
        key: EvaluationKey = engine.keys.conjugation_key()
    else:
        key = engine.use_key(keys.conjugation, x.key_id, "conjugate")
    return _apply(engine, x, key_switching.digits_of(engine.params, x.a), key, conjugation_exponent(engine.params))


def sum_slots(
    engine: PublicEngine, x: Ciphertext, *, keys: EvaluationKeySet | RotationKeySet | None = None
) -> Ciphertext:
    """Every slot becomes the sum of the x.slots logical slots: log2(x.slots) rotations by 1, 2, 4, ... Level unchanged, bound times x.slots."""
    require_ciphertext(x, "sum_slots")
    steps = [1 << i for i in range(x.slots.bit_length() - 1)]
    for step in steps:  # before any work
        rotation_key(engine, x, step, keys)
    for step in steps:
        x = engine.add(x, rotate(engine, x, step, keys=keys))
    return x


def rotation_key(
    engine: PublicEngine, x: Ciphertext, step: int, keys: EvaluationKeySet | RotationKeySet | None
) -> EvaluationKey:
    """The key for a normalised step, from `keys` or from the engine."""
    if keys is None:
        return engine.keys.rotation_key(step)
    rotations = keys.rotations if isinstance(keys, EvaluationKeySet) else keys
    return engine.use_key((RotationKeySet() if rotations is None else rotations)[step], x.key_id, "rotate")


def step_of(k: Any) -> int:
    """k as an int. Raises UnsupportedOperandError (a TypeError) for anything else."""
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise UnsupportedOperandError(f"rotate: the step must be an int, got {type(k).__name__}", subject="rotate")
    return int(k)


def steps_of(steps: Any) -> list[int]:
    """Several steps as ints. Raises UnsupportedOperandError (a TypeError) for what is no collection of ints."""
    try:
        found = list(steps)
    except TypeError:
        raise UnsupportedOperandError(
            f"rotate: steps must be a collection of ints, got {type(steps).__name__}",
            subject="rotate",
            hint="Write [k] for a single step",
        ) from None
    return [step_of(k) for k in found]


def require_ciphertext(x: Any, operation: str) -> None:
    """Raise UnsupportedOperandError unless x has two polynomials."""
    if not isinstance(x, Ciphertext):
        raise UnsupportedOperandError(
            f"{operation}: needs a Ciphertext, got {type(x).__name__}",
            subject=operation,
            hint="Relinearize a product first: .relinearize()",
        )


def _apply(engine: PublicEngine, x: Ciphertext, digits: Any, key: EvaluationKey, exponent: int) -> Ciphertext:
    b, a = key_switching.switch(digits, key, x.level, b=x.b)
    moved: tuple[Poly, Poly] = (b.automorphism(exponent), a.automorphism(exponent))
    return Ciphertext(moved[1], moved[0], x.level, x.scale, x.slots, x.key_id, x.bound, x.is_real)

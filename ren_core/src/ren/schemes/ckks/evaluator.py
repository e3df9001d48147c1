"""Arithmetic on ciphertexts: levels, scales and bounds are decided here, polynomials are combined lazily.

Every function takes the engine (parameters, keys, policy) first. Those that carry out a Python operator return NotImplemented for operands they do not know.
Values are handled as lists of polynomials (`ren.schemes.ckks.parts`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ren.engine.deferred import Deferred, deferred_call
from ren.errors import EncodingError, LevelExhaustedError, UnsupportedOperandError
from ren.ops import Op
from ren.poly import Poly
from ren.schemes.ckks import alignment, key_switching, levels
from ren.schemes.ckks.alignment import scaled_integer
from ren.schemes.ckks.batch import CiphertextBatch
from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
from ren.schemes.ckks.context import require_key
from ren.schemes.ckks.keys import RelinearizationKey
from ren.schemes.ckks.parts import (
    E,
    Encrypted,
    bound_product,
    build,
    like,
    occupied_in_product,
    occupied_in_sum,
    parts,
)
from ren.schemes.ckks.plaintext import Plaintext, as_number, magnitude
from ren.schemes.ckks.scale import Scale

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine


# -- operands --------------------------------------------------------------------------------------------------------


def _classify(engine: PublicEngine, x: Encrypted, other: Any, operation: str) -> Any:
    """`other` as an encrypted value, a plaintext, a number, or an _Array; NotImplemented for the rest."""
    if isinstance(other, (Ciphertext, CiphertextProduct)):
        require_key(x.key_id, other.key_id, operation, "the second operand")
        return other
    if isinstance(other, Plaintext):
        if other.poly is None:
            return other
        engine.require_params(other.params_id, operation)
        return other
    if isinstance(other, (int, float, complex, Deferred)):
        return other
    if isinstance(other, (CiphertextBatch, Poly, str, bytes)):
        return NotImplemented
    if getattr(other, "ndim", None) == 0 or (hasattr(other, "__index__") and not hasattr(other, "ndim")):
        return as_number(other)
    if isinstance(other, (list, tuple, range)) or hasattr(other, "__array__"):
        return _Array(other)
    return NotImplemented


class _Array:
    """Marks values that need encoding."""

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        self.values = values


def _number_of(other: Any) -> tuple[Any, float, Any] | None:
    """(value, bound, sample) of a number or a constant plaintext, else None."""
    if isinstance(other, Plaintext):
        if other.poly is not None:
            return None
        value = other.value
        return value, other.bound, value.sample if isinstance(value, Deferred) else value
    if isinstance(other, Deferred):
        return other, magnitude(other), other.sample
    if isinstance(other, (int, float, complex)):
        if type(other) is not int:
            other = as_number(other)
        return other, magnitude(other), other
    return None


# -- addition --------------------------------------------------------------------------------------------------------


def add(engine: PublicEngine, x: Encrypted, other: Any) -> Any:
    """x + other. Level: the deeper operand's. Scale: aligned exactly (`ren.schemes.ckks.alignment`)."""
    if type(other) is Ciphertext and type(x) is Ciphertext and x.key_id == other.key_id:
        if x.level == other.level and x.scale == other.scale:
            if _is_negation(x.a, other.a):
                engine.warn_transparent("add")
            bound = engine.check_bound("add", x.bound + other.bound, x.level, x.scale, x.bound, other.bound)
            return Ciphertext(
                x.a + other.a,
                x.b + other.b,
                x.level,
                x.scale,
                max(x.slots, other.slots),
                x.key_id,
                bound,
                x.is_real and other.is_real,
                x.occupied if x.occupied == other.occupied and x.slots == other.slots else occupied_in_sum(x, other),
            )
        return _sum(engine, x, other, False, "add")
    found = _classify(engine, x, other, "add")
    if found is NotImplemented:
        return NotImplemented
    number = _number_of(found)
    if number is not None:
        return _add_number(engine, x, *number, "add")
    if isinstance(found, _Array):
        found = engine.encode_operand(found.values, x.level, x.scale, x.slots)
    return _sum(engine, x, found, False, "add")


def _is_negation(p: Poly, q: Poly) -> bool:
    """Whether one is visibly the negative of the other: a hint for a warning, not a proof."""
    for s, t in ((p._node, q._node), (q._node, p._node)):
        args = s.args
        if s.op is Op.NEGATE and args and args[0] is t:
            return True
    return False


def sub(engine: PublicEngine, x: Encrypted, other: Any) -> Any:
    """x - other; as `add`."""
    found = _classify(engine, x, other, "subtract")
    if found is NotImplemented:
        return NotImplemented
    number = _number_of(found)
    if number is not None:
        value, bound, sample = number
        return _add_number(engine, x, -value, bound, -sample, "subtract")
    if isinstance(found, _Array):
        found = engine.encode_operand(found.values, x.level, x.scale, x.slots)
    if not isinstance(found, Plaintext) and found.a is x.a:
        engine.warn_transparent("subtract")
    return _sum(engine, x, found, True, "subtract")


def rsub(engine: PublicEngine, x: Encrypted, other: Any) -> Any:
    """other - x."""
    result = sub(engine, x, other)
    return result if result is NotImplemented else negate(engine, result)


def negate(engine: PublicEngine, x: E) -> E:
    """-x. Level and scale unchanged."""
    return like(x, tuple(-p for p in parts(x)), x.level, x.scale, x.bound)


def _add_number(engine: PublicEngine, x: Encrypted, value: Any, size: float, sample: Any, operation: str) -> Encrypted:
    size = engine.require_capacity(operation, size, x.level, x.scale)
    bound = engine.check_bound(operation, x.bound + size, x.level, x.scale, x.bound, size)
    b, *rest = parts(x)
    is_complex = isinstance(sample, complex)
    if is_complex:
        b = b + deferred_call(_part_of, value, x.scale, False)
        b = b + engine.imaginary_unit(b.ring) * deferred_call(_part_of, value, x.scale, True)
    else:
        b = b + deferred_call(scaled_integer, value, x.scale)
    return build((b, *rest), x.level, x.scale, x.slots, x.key_id, bound, x.is_real and not is_complex)


def _part_of(value: complex, scale: Scale, imaginary: bool) -> int:
    """The real or imaginary part of round(value * scale)."""
    return scaled_integer(value.imag if imaginary else value.real, scale)


def _sum(engine: PublicEngine, x: Encrypted, y: Encrypted | Plaintext, minus: bool, operation: str) -> Encrypted:
    assert y.scale is not None
    p, q = parts(x), parts(y)
    level, scale = x.level, x.scale
    if y.level != level or y.scale != scale:
        plan = alignment.for_sum(engine.params, (level, scale), (y.level, y.scale), operation)
        p, q, level, scale = levels.apply(plan.first, p), levels.apply(plan.second, q), plan.level, plan.scale
    bound = engine.check_bound(operation, x.bound + y.bound, level, scale, x.bound, y.bound)
    total = tuple(s - t if minus else s + t for s, t in zip(p, q, strict=False))
    if len(p) > len(q):
        total += p[len(q) :]
    elif len(q) > len(p):
        total += tuple(-t for t in q[len(p) :]) if minus else q[len(p) :]
    slots, is_real = max(x.slots, y.slots), x.is_real and y.is_real
    return build(total, level, scale, slots, x.key_id, bound, is_real, occupied_in_sum(x, y))


# -- multiplication --------------------------------------------------------------------------------------------------


def mul(engine: PublicEngine, x: Encrypted, other: Any) -> Any:
    """x * other, relinearized and rescaled: the deeper operand's level + 1; an int costs no level."""
    return multiply(engine, x, other)


def multiply(
    engine: PublicEngine,
    x: Encrypted,
    other: Any,
    *,
    relinearize: bool = True,
    rescale: bool = True,
    key: RelinearizationKey | None = None,
) -> Any:
    """x * other with a choice of what follows the product.

    relinearize=False keeps a product of ciphertexts as a CiphertextProduct. rescale=False keeps the level; the scale is then the product of
    both scales. Operands at different levels are brought to the deeper one so that the rescaled product lies on the scale ladder. An operand that is
    itself a product without its rescale is rescaled first, which takes a level (`alignment.for_factor` and `for_product` state when).

    Raises LevelExhaustedError when levels are missing, ScaleTooSmallError when the result's scale would be below the noise, CapacityError when public numbers do not fit.
    """
    if type(other) is Ciphertext and type(x) is Ciphertext and x.key_id == other.key_id:
        found, number = other, None
    else:
        found = _classify(engine, x, other, "multiply")
        if found is NotImplemented:
            return NotImplemented
        number = _number_of(found)
    if number is not None and isinstance(number[2], int):
        return _multiply_integer(engine, x, *number)
    if isinstance(x, CiphertextProduct) or isinstance(found, CiphertextProduct):
        raise UnsupportedOperandError(
            "multiply: a product that is not relinearized can be multiplied by integers only",
            subject="multiply",
            hint="Call .relinearize() first",
        )
    level = max(x.level, found.level) if isinstance(found, (Ciphertext, Plaintext)) and number is None else x.level
    if rescale:
        levels.require_level(engine, "multiply", level, x, found)
    if number is not None:
        return _multiply_number(engine, x, *number, rescale=rescale)
    if isinstance(found, _Array):
        plan = alignment.for_factor(engine.params, x.level, x.scale, rescale)
        x = levels.settled(x, plan.rescales, plan.level, plan.scale)
        found = engine.encode_operand(found.values, x.level, plan.factor, x.slots)
        p, q, level, s, t = parts(x), parts(found), plan.level, plan.scale, plan.factor
    else:
        meet = alignment.for_product(engine.params, (x.level, x.scale), (found.level, found.scale), rescale)
        p = levels.apply_all(meet.first, parts(x))
        q = p if found is x else levels.apply_all(meet.second, parts(found))
        level, s, t = meet.level, meet.first_scale, meet.second_scale
    scale = s * t
    bound = engine.check_bound("multiply", bound_product(x.bound, found.bound), level, scale, x.bound, found.bound)
    slots, is_real = max(x.slots, found.slots), x.is_real and found.is_real
    occupied = occupied_in_product(x, found)
    if isinstance(found, Plaintext):
        m = q[0]
        scaled = Ciphertext(p[1] * m, p[0] * m, level, scale, slots, x.key_id, bound, is_real, occupied)
        return levels.rescaled(engine, scaled, "multiply") if rescale else scaled
    b, a, c = key_switching.tensor(p, q)
    if not relinearize:
        product = CiphertextProduct(a, b, c, level, scale, slots, x.key_id, bound, is_real, occupied)
        return levels.rescaled(engine, product, "multiply") if rescale else product
    return _relinearized(engine, b, a, c, level, scale, slots, x.key_id, bound, is_real, rescale, key, occupied)


def square(engine: PublicEngine, x: Ciphertext, *, relinearize: bool = True, rescale: bool = True) -> Any:
    """x * x."""
    return multiply(engine, x, x, relinearize=relinearize, rescale=rescale)


def _multiply_integer(engine: PublicEngine, x: Encrypted, value: Any, size: float, sample: int) -> Encrypted:
    if not isinstance(value, Deferred) and value == 0:
        engine.warn_transparent("multiply")
    size = engine.require_capacity("multiply", size, x.level, Scale())
    bound = engine.check_bound("multiply", bound_product(x.bound, size), x.level, x.scale, x.bound, size)
    p = tuple(p * value for p in parts(x))
    return build(p, x.level, x.scale, x.slots, x.key_id, bound, x.is_real, x.occupied)


def _multiply_number(
    engine: PublicEngine, x: Ciphertext, value: Any, size: float, sample: Any, *, rescale: bool
) -> Ciphertext:
    plan = alignment.for_factor(engine.params, x.level, x.scale, rescale)
    x = levels.settled(x, plan.rescales, plan.level, plan.scale)
    factor = plan.factor
    scale = x.scale * factor
    size = engine.require_capacity("multiply", size, x.level, factor)
    bound = engine.check_bound("multiply", bound_product(x.bound, size), x.level, scale, x.bound, size)
    if not isinstance(value, Deferred) and value == 0:
        engine.warn_transparent("multiply")
    is_complex = isinstance(sample, complex)
    if is_complex:
        re, im = (deferred_call(_part_of, value, factor, part) for part in (False, True))
        unit = engine.imaginary_unit(x.b.ring)
        b, a = (p * re + (p * unit) * im for p in (x.b, x.a))
    else:
        c = deferred_call(scaled_integer, value, factor)
        b, a = x.b * c, x.a * c
    is_real = x.is_real and not is_complex
    product = Ciphertext(a, b, x.level, scale, x.slots, x.key_id, bound, is_real, x.occupied)
    return levels.rescaled(engine, product, "multiply") if rescale else product


def divide(engine: PublicEngine, x: Ciphertext, other: Any) -> Any:
    """x / other for a number, a constant plaintext or an array: a product with the reciprocal (level + 1, also for ints)."""
    found = _classify(engine, x, other, "divide")
    if found is NotImplemented:
        return NotImplemented
    number = _number_of(found)
    if number is not None:
        value = deferred_call(_reciprocal, number[0])
        constant = Plaintext.const(value)
        return multiply(engine, x, constant if isinstance(value, Deferred) else value)
    if isinstance(found, _Array):
        array = np.asarray(found.values)
        if not np.all(array):
            raise ZeroDivisionError(f"divide: the divisor is 0 at index {int(np.argmin(array != 0))}")
        return multiply(engine, x, 1.0 / array)
    raise UnsupportedOperandError(
        f"divide: the divisor must be public numbers, got {type(found).__name__}",
        subject="divide",
        hint="Approximate 1/y on the range of y with ckks.polyval, or divide after decryption",
    )


def _reciprocal(value: Any) -> Any:
    if not value:
        raise ZeroDivisionError("divide: the divisor is 0, the quotient of a ciphertext by 0 does not exist")
    return 1.0 / value


def power(engine: PublicEngine, x: Ciphertext, exponent: Any) -> Any:
    """x ** exponent for an int >= 0, in ceil(log2(exponent)) levels. x ** 0 is a transparent encryption of 1."""
    if isinstance(exponent, bool) or not hasattr(exponent, "__index__"):
        return NotImplemented
    exponent = int(exponent)
    if exponent < 0:
        raise UnsupportedOperandError(
            f"power: the exponent must be >= 0, got {exponent}",
            subject="power",
            hint="Approximate 1/x on the range of x with ckks.polyval",
        )
    if exponent == 0:
        return add(engine, multiply(engine, x, 0), 1)
    depth = (exponent - 1).bit_length()
    if depth > x.levels_left:
        raise LevelExhaustedError(
            f"power: exponent {exponent} needs {depth} levels; the ciphertext is at level {x.level}, levels left: {x.levels_left}",
            subject="power",
            hint="Use a smaller exponent, or parameters with more levels",
        )
    done: dict[int, Ciphertext] = {1: x}

    def reach(k: int) -> Ciphertext:
        if k not in done:
            # The largest power of two below k keeps the depth at ceil(log2 k) and the powers shared.
            high = 1 << ((k - 1).bit_length() - 1)
            done[k] = multiply(engine, reach(high), reach(k - high))
        return done[k]

    return reach(exponent)


# -- after a product ----------------------------------------------------------------------------------------------


def relinearize(
    engine: PublicEngine, x: Encrypted, *, rescale: bool = False, key: RelinearizationKey | None = None
) -> Ciphertext:
    """Two polynomials from three, by one key switch; a Ciphertext is returned as it is (or rescaled)."""
    if rescale:
        levels.require_level(engine, "relinearize", x.level, x)
    if isinstance(x, Ciphertext):
        return levels.rescaled(engine, x, "relinearize") if rescale else x
    return _relinearized(
        engine, x.b, x.a, x.c, x.level, x.scale, x.slots, x.key_id, x.bound, x.is_real, rescale, key, x.occupied
    )


def _relinearized(
    engine: PublicEngine,
    b: Poly,
    a: Poly,
    c: Poly,
    level: int,
    scale: Scale,
    slots: int,
    key_id: str,
    bound: float,
    is_real: bool,
    rescale: bool,
    key: RelinearizationKey | None,
    occupied: int | None,
) -> Ciphertext:
    key = engine.use_key(key, key_id, "multiply") if key is not None else engine.keys.relinearization_key()
    after = levels.scale_after(engine, level, scale, "multiply") if rescale else scale
    b, a = key_switching.relinearize(engine.params, key, level, b, a, c, rescales=int(rescale))
    level, scale = level + int(rescale), after
    return Ciphertext(a, b, level, scale, slots, key_id, bound, is_real, occupied)


# -- bounds ----------------------------------------------------------------------------------------------------------


def assume_bound(x: E, bound: float) -> E:
    """x with `bound` in place of the worst case that was tracked."""
    return like(x, parts(x), x.level, x.scale, deferred_call(_usable_bound, bound))


def _usable_bound(bound: Any) -> float:
    if not (isinstance(bound, (int, float)) and math.isfinite(bound) and bound > 0):
        raise EncodingError(f"assume_bound: the bound must be finite and positive, got {bound!r}", subject="bound")
    return float(bound)


def with_bound(x: E, bound: float) -> E:
    """x with a bound that the caller has derived."""
    return like(x, parts(x), x.level, x.scale, bound)

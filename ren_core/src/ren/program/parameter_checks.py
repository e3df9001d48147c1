"""What only an engine's parameters can decide about an operation: whether scales meet, numbers fit, slots suffice.

A check gives (readiness code, message), or None where nothing is wrong or not enough is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.ir import Attribute

from ren.program.layout import FULL, LayoutError, packed_for
from ren.program.rows import Check
from ren.program.rules import degree_of, polynomial_depth, size_of
from ren.program.scales import SymbolicScale
from ren.program.states import EncryptedState, MessageState, PlaintextState

Attributes = Mapping[str, Any]
Problem = tuple[str, str]


def equal_scales(types: tuple[Attribute, ...], attributes: Attributes, params: Any) -> Problem | None:
    """The check of sums: two known scales (canonical by now) are equal."""
    a, b = (getattr(getattr(t, "data", None), "scale", None) for t in types[:2])
    if a is None or b is None or a == b:
        return None
    return "scale-mismatch", f"scales differ: {a} and {b}"


def can_align(types: tuple[Attribute, ...], attributes: Attributes, params: Any) -> Problem | None:
    """Whether the engine has an accurate way from the operand's level and scale to the target."""
    from ren.program.chain import number_of
    from ren.schemes.ckks.alignment import adjustment

    state = getattr(types[0], "data", None)
    level: int = attributes["level"]
    if not isinstance(state, EncryptedState) or state.level is None or state.scale is None or level > params.levels:
        return None
    scale = number_of(state.scale, params)
    target = number_of(attributes.get("scale", SymbolicScale.at_level(level)), params)
    if scale is None or target is None or adjustment(params, state.level, scale, level, target) is not None:
        return None
    return (
        "scale-mismatch",
        f"there is no accurate way from level {state.level}, scale {state.scale} to level {level}: choose a deeper level",
    )


def count_fits(types: tuple[Attribute, ...], attributes: Attributes, params: Any) -> Problem | None:
    count = attributes.get("count", 1)
    return (
        ("invalid-layout", f"{count} slots are summed, the engine has {params.slot_count}")
        if count > params.slot_count
        else None
    )


def public_fits(types: tuple[Attribute, ...], attributes: Attributes, params: Any) -> Problem | None:
    """Whether public data of known shape meets a ciphertext that fills all slots of the engine: the second operand, or the one that `layout` describes."""
    public = getattr(types[0], "data", None)
    secret = getattr(types[1], "data", None) if len(types) > 1 else None
    layout = secret.layout if isinstance(secret, EncryptedState) else attributes.get("layout", FULL)
    if not isinstance(public, MessageState) or public.shape is None or layout is None or layout.shape is not None:
        return None
    try:
        packed_for(layout.resolve(params.slot_count), public.shape)
    except LayoutError as error:
        return "invalid-layout", f"{error}: it fills all slots; declare encrypted(slots=n) for shorter vectors"
    return None


def public_fits_sum(types: tuple[Attribute, ...], attributes: Attributes, params: Any) -> Problem | None:
    return public_fits(types, attributes, params) or equal_scales(types, attributes, params)


def _limit(params: Any, level: int | None, scale: SymbolicScale | None) -> tuple[float, str] | None:
    """What a level holds at a scale, and its description; None while they are not known or not there."""
    from ren.program.chain import number_of
    from ren.schemes.ckks.encoder import capacity

    if level is None or level > params.levels or scale is None or (number := number_of(scale, params)) is None:
        return None
    limit = capacity(params.ring_at(level).modulus, number)
    return limit, f"level {level} at scale 2^{number.log2:.1f} holds {limit:.3g}"


def _number_fits(level: Callable[[EncryptedState, Attributes], int | None], scale: Callable[..., Any]) -> Check:
    """The check of public numbers in attributes: all fit the level and scale at which they are rounded to integers."""

    def check(types: tuple[Attribute, ...], attributes: Attributes, params: Any) -> Problem | None:
        state = getattr(types[0], "data", None)
        if not isinstance(state, EncryptedState):
            return None
        at = level(state, attributes)
        found = _limit(params, at, scale(state, attributes, at))
        numbers = attributes["coefficients"] if "coefficients" in attributes else [attributes["value"]]
        largest = max(map(size_of, numbers), default=0.0)
        if found is None or largest <= found[0]:
            return None
        return "over-capacity", f"the public number {largest:.6g} does not fit: {found[1]}"

    return check


def _standard(level: int | None) -> SymbolicScale | None:
    return None if level is None else SymbolicScale.at_level(level)


def plaintext_fits(state: PlaintextState, params: Any) -> str | None:
    """Why public data cannot be encoded at the level and scale that were prepared for it."""
    found = None if state.bound is None else _limit(params, state.level, state.scale)
    if found is None or state.bound is None or state.bound <= found[0]:
        return None
    return f"public data of absolute value {state.bound:.6g} does not fit: {found[1]}"


added_number_fits = _number_fits(lambda s, at: s.level, lambda s, at, level: s.scale)
factor_fits = _number_fits(lambda s, at: s.level, lambda s, at, level: at.get("scale") or _standard(level))
integer_fits = _number_fits(lambda s, at: s.level, lambda s, at, level: SymbolicScale())
coefficients_fit = _number_fits(
    lambda s, at: None if s.level is None else s.level + polynomial_depth(degree_of(at["coefficients"])),
    lambda s, at, level: _standard(level),
)

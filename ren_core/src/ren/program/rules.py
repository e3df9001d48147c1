"""State rules of the CKKS operations: the state of a result from the states of the operands.

The same rules serve inference, both verifiers and readiness. Unknown fields (None) stay unknown; a rule refuses only what cannot be
right. Before an engine is known, levels are counted from the declared inputs and scales are symbolic (`ren.program.scales`), so a
program that is wrong for every engine is refused while it is being built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import Attribute

from ren.program.layout import FULL, SCALAR, Layout, LayoutError, Padding, broadcast, packed_for
from ren.program.rows import Rule, RuleError
from ren.program.scales import SymbolicScale
from ren.program.states import EncryptedState, MessageState, PlaintextState
from ren.program.types import EncryptedType, MessageType, PlaintextType

Attributes = Mapping[str, Any]
State = EncryptedState | PlaintextState | MessageState
_TYPES: dict[type[Any], Any] = {EncryptedState: EncryptedType, PlaintextState: PlaintextType, MessageState: MessageType}


def rule(function: Callable[..., State | Sequence[State]]) -> Rule:
    """A type rule from a function of (operand states..., attributes) to the state of the result, or a sequence of states."""

    def apply(types: tuple[Attribute, ...], attributes: Attributes) -> tuple[Attribute, ...]:
        try:
            found = function(*(getattr(t, "data", None) for t in types), attributes)
        except LayoutError as error:
            raise RuleError(str(error), "invalid-layout") from None
        states = found if isinstance(found, (list, tuple)) else (found,)
        return tuple(_TYPES[type(s)](s) for s in states)

    apply.__name__ = function.__name__
    apply.__doc__ = function.__doc__
    return apply


# -- pieces ----------------------------------------------------------------------------------------------------------


def either(a: str | None, b: str | None) -> str | None:
    """Batch mode of a result: "any" if an operand has batch axes."""
    return "any" if "any" in (a, b) else a if a == b else None


def _same_level(a: EncryptedState, b: EncryptedState) -> int | None:
    if a.level is not None and b.level is not None and a.level != b.level:
        raise RuleError(f"levels differ: {a.level} and {b.level}", "level-mismatch")
    return None if a.level is None or b.level is None else a.level


def _deeper(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


def _same_scale(a: SymbolicScale | None, b: SymbolicScale | None) -> SymbolicScale | None:
    if a is None or b is None or a == b:
        return a if a is not None else b
    if not (a / b).has_numbers:
        raise RuleError(f"scales differ: {a} and {b}", "scale-mismatch")
    # A scale given as a number may be that of an engine's level; `parameter_checks.equal_scales` decides when there is one.
    return b if a.has_numbers else a


def size_of(value: complex) -> float:
    """The absolute value of a number as a float; infinite when no float holds it."""
    try:
        return float(abs(value))
    except OverflowError:
        return math.inf


def _product(a: SymbolicScale | None, b: SymbolicScale | None) -> SymbolicScale | None:
    return None if a is None or b is None else a * b


def _two_parts(state: EncryptedState, before: str) -> None:
    if state.parts == 3:
        raise RuleError(f"three parts: relinearize before {before}", "unrelinearized-operand")


def _domain(a: str | None, b: str | None) -> str | None:
    """Sums of values in different domains are formed in the NTT domain."""
    return None if a is None or b is None else a if a == b else "ntt"


def joined(a: Layout | None, b: Layout | None, *, product: bool) -> Layout | None:
    return None if a is None or b is None else broadcast(a, b, product=product)


def with_public(layout: Layout | None, public: Layout | None, *, product: bool) -> Layout | None:
    """Layout after meeting an encoded public value. Encoded values are packed for their consumer, so only the padding is in question."""
    if layout is None:
        return None
    if public is None:
        # A number in every slot and a vector of unknown length: the result may be either.
        return None if layout.is_replicated else layout.with_padding(Padding.ANY)
    return broadcast(layout, public, product=product)


def times(a: float | None, b: float | None) -> float | None:
    """Bound of a product; nothing times something without a bound is nothing."""
    if a == 0 or b == 0:
        return 0.0
    return None if a is None or b is None else a * b


def plus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


# -- ciphertext arithmetic -------------------------------------------------------------------------------------------


def _add(a: EncryptedState, b: EncryptedState, attributes: Attributes) -> EncryptedState:
    parts = 3 if 3 in (a.parts, b.parts) else None if None in (a.parts, b.parts) else 2
    return EncryptedState(
        _same_level(a, b),
        _same_scale(a.scale, b.scale),
        joined(a.layout, b.layout, product=False),
        parts,
        _domain(a.domain, b.domain),
        either(a.batch, b.batch),
        plus(a.bound, b.bound),
    )


def _multiply(a: EncryptedState, b: EncryptedState, attributes: Attributes) -> EncryptedState:
    _two_parts(a, "another product")
    _two_parts(b, "another product")
    if "coeff" in (a.domain, b.domain):
        raise RuleError("a product needs both factors in the NTT domain", "domain-mismatch")
    return EncryptedState(
        _same_level(a, b),
        _product(a.scale, b.scale),
        joined(a.layout, b.layout, product=True),
        3,
        "ntt",
        either(a.batch, b.batch),
        times(a.bound, b.bound),
    )


def _square(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return _multiply(a, a, attributes)


def _keep(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return a


def _to_ntt(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return replace(a, domain="ntt")


def _from_ntt(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return replace(a, domain="coeff")


def _relinearize(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    if a.parts == 2:
        raise RuleError("two parts already: there is nothing to relinearize", "invalid-state")
    return replace(a, parts=2)


def _rescale(a: EncryptedState, *rest: Any) -> EncryptedState:
    plain: PlaintextState | None = rest[0] if len(rest) == 2 else None
    attributes: Attributes = rest[-1]
    if attributes.get("condition", "always") != "always":
        if plain is None or plain.scale is None:
            return replace(a, level=None, scale=None)
        if plain.scale.is_one:
            return a
    scale = None if a.scale is None or a.level is None else a.scale.rescaled(a.level)
    return replace(a, level=None if a.level is None else a.level + 1, scale=scale)


def _mod_switch(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return replace(a, level=None if a.level is None else a.level + attributes["levels"])


def _align(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    level: int = attributes["level"]
    scale = attributes.get("scale", SymbolicScale.at_level(level))
    _two_parts(a, "aligning")
    if a.level is not None and a.level > level:
        raise RuleError(f"a value of level {a.level} cannot come back to level {level}", "level-mismatch")
    if a.level == level and a.scale is not None and a.scale != scale:
        raise RuleError(f"changing the scale from {a.scale} to {scale} takes a level", "scale-mismatch")
    return replace(a, level=level, scale=scale)


def _meet(a: EncryptedState, b: EncryptedState, attributes: Attributes) -> list[EncryptedState]:
    _two_parts(a, "aligning")
    _two_parts(b, "aligning")
    level, scale = _deeper(a.level, b.level), None
    if a.level is not None and b.level is not None:
        if a.level != b.level:
            scale = a.scale if a.level > b.level else b.scale
        elif a.scale == b.scale:
            scale = a.scale
        else:
            level = None  # whether aligning takes a level depends on the numbers
    return [replace(a, level=level, scale=scale), replace(b, level=level, scale=scale)]


def _reinterpret_scale(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return replace(a, scale=attributes["scale"], bound=None)


def _rotated(a: EncryptedState) -> EncryptedState:
    _two_parts(a, "a rotation")
    layout = a.layout
    if layout is not None and not layout.is_dense:
        # Logical elements leave their places: what comes out is a vector of the whole frame.
        layout = FULL if layout.frame is None else Layout((layout.frame,), layout.frame)
    return replace(a, layout=layout)


def _rotate(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return _rotated(a)


def _rotate_group(a: EncryptedState, attributes: Attributes) -> list[EncryptedState]:
    return [_rotated(a)] * len(attributes["shifts"])


def _conjugate(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    _two_parts(a, "conjugation")
    return a


def _sum_slots(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    _two_parts(a, "a sum of slots")
    layout, count = a.layout, attributes.get("count")
    if layout is None:
        if count is None:
            raise RuleError("the layout is not known: say how many slots to sum", "invalid-layout")
        return replace(a, bound=None)
    if count is not None and count != layout.frame:
        if count & (count - 1):
            raise RuleError(f"slots are summed in powers of two, not {count}", "invalid-layout")
        layout = FULL if layout.frame is None else Layout((layout.frame,), layout.frame)
        return replace(a, layout=layout, bound=times(a.bound, float(count)))
    if layout.padding is Padding.ANY:
        raise RuleError("the padding holds unknown numbers: mask it before a sum", "polluted-padding")
    return replace(a, layout=SCALAR, bound=times(a.bound, float(layout.elements)) if layout.elements else None)


def relabelled(old: Layout | None, new: Layout) -> Layout:
    """`new` if the slots of `old` can be read that way. Raises LayoutError."""
    if old is not None and old.frame != new.frame:
        divides = old.frame is not None and (new.frame is None or new.frame % old.frame == 0)
        if not divides:
            raise LayoutError(f"a frame of {old.frame or 'all'} slots cannot be read as one of {new.frame or 'all'}")
    return new


def _relayout(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return replace(a, layout=relabelled(a.layout, attributes["layout"]))


def _assume_bound(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return replace(a, bound=abs(attributes["bound"]))


# -- with public values ----------------------------------------------------------------------------------------------


def _add_plaintext(a: EncryptedState, p: PlaintextState, attributes: Attributes) -> EncryptedState:
    return replace(
        a,
        level=_deeper(a.level, p.level),
        scale=_same_scale(a.scale, p.scale),
        layout=with_public(a.layout, p.layout, product=False),
        bound=plus(a.bound, p.bound),
    )


def _multiply_plaintext(a: EncryptedState, p: PlaintextState, attributes: Attributes) -> EncryptedState:
    if a.domain == "coeff":
        raise RuleError("a product needs its ciphertext in the NTT domain", "domain-mismatch")
    return replace(
        a,
        level=_deeper(a.level, p.level),
        scale=_product(a.scale, p.scale),
        layout=with_public(a.layout, p.layout, product=True),
        domain="ntt",
        bound=times(a.bound, p.bound),
    )


def _add_scalar(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    layout = None if a.layout is None else a.layout.with_padding(Padding.ANY)
    return replace(a, layout=layout, bound=plus(a.bound, size_of(attributes["value"])))


def _multiply_scalar(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    scale = attributes.get("scale")
    if scale is None and a.level is not None:
        scale = SymbolicScale.at_level(a.level)
    return replace(a, scale=_product(a.scale, scale), bound=times(a.bound, size_of(attributes["value"])))


def _multiply_integer(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return replace(a, bound=times(a.bound, size_of(attributes["value"])))


def polynomial_depth(degree: int) -> int:
    """Levels that the evaluation of a polynomial takes: ceil(log2(degree + 1)), 0 for a constant."""
    return degree.bit_length()


def degree_of(coefficients: Sequence[float]) -> int:
    return max((i for i, c in enumerate(coefficients) if c), default=0)


def _polynomial(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    _two_parts(a, "a polynomial")
    coefficients: list[float] = attributes["coefficients"]
    degree = degree_of(coefficients)
    if degree == 0:
        raise RuleError(
            f"a polynomial of degree 0 is the public number {coefficients[0] if coefficients else 0}: its result would be a ciphertext that anybody can read, "
            "which programs do not make; use the number itself, or add it to what needs it",
            "invalid-state",
        )
    if a.scale is not None and a.level is not None and a.scale != SymbolicScale.at_level(a.level):
        raise RuleError(f"a polynomial needs the scale of its level, s{a.level}, got {a.scale}", "scale-mismatch")
    level = None if a.level is None else a.level + polynomial_depth(degree)
    layout = a.layout.with_padding(Padding.ANY) if a.layout is not None and coefficients[0] else a.layout
    return replace(
        a,
        level=level,
        scale=None if level is None else SymbolicScale.at_level(level),
        layout=layout,
        bound=polynomial_bound(a.bound, coefficients, attributes.get("basis", "power")),
    )


def polynomial_bound(bound: float | None, coefficients: Sequence[float], basis: str) -> float | None:
    """The largest absolute value of a polynomial for arguments up to `bound`."""
    if bound is None:
        return None
    total = 0.0
    for i, c in enumerate(coefficients):
        try:
            size = math.cosh(i * math.acosh(max(1.0, bound))) if basis == "chebyshev" else bound**i
        except OverflowError:
            size = math.inf
        total += abs(c) * size if c else 0.0
    return total


def _bootstrap(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    level = attributes.get("level")
    scale = None if level is None else SymbolicScale.at_level(level)
    return replace(a, level=level, scale=scale, parts=2, domain=None)


def _prepare(use: str) -> Callable[..., PlaintextState]:
    def prepare(p: MessageState | PlaintextState, c: EncryptedState, attributes: Attributes) -> PlaintextState:
        mode = attributes["scale_mode"]
        level, scale = c.level, c.scale
        if isinstance(p, PlaintextState):
            level = _deeper(c.level, p.level)
            scale = p.scale if use == "multiply" else _same_scale(c.scale, p.scale)
            return PlaintextState(level, scale, p.layout, use, p.bound)
        if mode == "default_scale":
            scale = None if level is None else SymbolicScale.at_level(level)
        layout = packed_for(c.layout, p.shape)
        if use == "add" and layout is not None and c.layout is not None and layout.shape == c.layout.shape:
            # What is encoded for a sum has zeros in the padding, a number too.
            layout = layout.with_padding(Padding.ZERO)
        return PlaintextState(level, scale, layout, use, p.bound)

    return prepare


def _encode(p: MessageState | PlaintextState, attributes: Attributes) -> PlaintextState:
    level = attributes["level"]
    scale = attributes.get("scale", SymbolicScale.at_level(level))
    return PlaintextState(level, scale, attributes.get("layout"), attributes.get("use"), p.bound)


# -- public work -----------------------------------------------------------------------------------------------------


def _mask(attributes: Attributes) -> MessageState:
    start, stop, frame = attributes["start"], attributes["stop"], attributes.get("frame")
    if not 0 <= start < stop or (frame is not None and (stop > frame or frame & (frame - 1))):
        raise RuleError(f"a mask needs 0 <= start < stop <= frame, got {start}, {stop}, {frame}", "invalid-layout")
    return MessageState("message", None if frame is None else (frame,), "float64")


def _diagonal(m: MessageState, attributes: Attributes) -> MessageState:
    frame = attributes["frame"]
    if frame & (frame - 1) or frame < max(attributes["rows"], attributes["columns"]):
        raise RuleError(
            f"frame {frame} must be a power of two that holds {attributes['rows']} rows and {attributes['columns']} columns",
            "invalid-layout",
        )
    return MessageState("message", (frame,), "float64", m.bound)


def _moved_message(m: MessageState, attributes: Attributes) -> MessageState:
    """Of a negation or a shift."""
    return MessageState("message", m.shape, m.dtype, m.bound)


def _reciprocal(m: MessageState, attributes: Attributes) -> MessageState:
    """How near to zero values come says no bound."""
    return MessageState("message", m.shape, m.dtype)


def _slot_share(attributes: Attributes) -> MessageState:
    return MessageState("message", (), "float64")


def _constant(attributes: Attributes) -> MessageState:
    value = attributes["value"]
    return MessageState("static", () if isinstance(value, (bool, int, float, complex)) else None)


add = rule(_add)
multiply = rule(_multiply)
square = rule(_square)
keep = rule(_keep)
to_ntt = rule(_to_ntt)
from_ntt = rule(_from_ntt)
relinearize = rule(_relinearize)
rescale = rule(_rescale)
mod_switch = rule(_mod_switch)
align = rule(_align)
meet = rule(_meet)
reinterpret_scale = rule(_reinterpret_scale)
rotate = rule(_rotate)
rotate_group = rule(_rotate_group)
conjugate = rule(_conjugate)
sum_slots = rule(_sum_slots)
relayout = rule(_relayout)
assume_bound = rule(_assume_bound)
add_plaintext = rule(_add_plaintext)
multiply_plaintext = rule(_multiply_plaintext)
add_scalar = rule(_add_scalar)
multiply_scalar = rule(_multiply_scalar)
multiply_integer = rule(_multiply_integer)
polynomial = rule(_polynomial)
bootstrap = rule(_bootstrap)
prepare_add = rule(_prepare("add"))
prepare_multiply = rule(_prepare("multiply"))
encode = rule(_encode)
mask = rule(_mask)
diagonal = rule(_diagonal)
slot_share = rule(_slot_share)
moved_message = rule(_moved_message)
reciprocal = rule(_reciprocal)
constant = rule(_constant)

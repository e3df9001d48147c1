"""Symbolic scales against the primes of an engine.

Given parameters, a scale has one canonical symbolic form: chain primes written as p(l) = s(l)^2 / s(l+1), powers of the base scale as s0, and what is
left as numbers. So a scale that a user wrote as 2.0**40, or took from a ciphertext, equals the scale that inference found.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from xdsl.ir import Attribute

from ren.program.layout import Layout
from ren.program.scales import SymbolicScale, make
from ren.program.states import EncryptedState
from ren.program.types import EncryptedType, PlaintextType

if TYPE_CHECKING:
    from ren.schemes.ckks.params import CKKSParams
    from ren.schemes.ckks.scale import Scale


def number_of(scale: SymbolicScale, params: CKKSParams) -> Scale | None:
    """The exact scale; None when it names a level that the parameters do not have."""
    return _number_of(scale, params) if scale.deepest <= params.levels else None


@lru_cache(maxsize=4096)
def _number_of(scale: SymbolicScale, params: CKKSParams) -> Scale:
    from ren.schemes.ckks.scale import Scale

    return scale.evaluate(params.scale_at, Scale.of)  # type: ignore[no-any-return]


@lru_cache(maxsize=4096)
def symbolic(scale: Scale, params: CKKSParams) -> SymbolicScale:
    """The canonical symbolic form of an exact scale."""
    level_of = {params.prime_dropped_at(level): level for level in range(params.levels)}
    powers: dict[tuple[str, int], int] = {}

    def put(kind: str, base: int, power: int) -> None:
        powers[kind, base] = powers.get((kind, base), 0) + power

    for prime, power in scale.terms:
        if prime == 2:
            put("s", 0, power // params.scale_bits)
            put("n", 2, power % params.scale_bits)
        elif prime in level_of:
            put("s", level_of[prime], 2 * power)
            put("s", level_of[prime] + 1, -power)
        else:
            put("n", prime, power)
    return make(powers)


def canonical(scale: SymbolicScale, params: CKKSParams) -> SymbolicScale:
    """The canonical form of a symbolic scale; itself when it names a level that the parameters do not have."""
    number = number_of(scale, params)
    return scale if number is None else symbolic(number, params)


def concrete_type(type_: Attribute, params: CKKSParams) -> Attribute:
    """An encrypted or plaintext type with its scale canonical and its layout resolved to the slots of the engine; others as they are.

    Raises LayoutError when the layout does not fit.
    """
    if isinstance(type_, EncryptedType):
        s = type_.data
        state = EncryptedState(
            s.level, _scale(s.scale, params), _layout(s.layout, params), s.parts, s.domain, s.batch, s.bound
        )
        return EncryptedType(state)
    if isinstance(type_, PlaintextType):
        p = type_.data
        return PlaintextType(replace(p, scale=_scale(p.scale, params), layout=_layout(p.layout, params)))
    return type_


def _scale(scale: SymbolicScale | None, params: CKKSParams) -> SymbolicScale | None:
    return None if scale is None else canonical(scale, params)


def _layout(layout: Layout | None, params: CKKSParams) -> Layout | None:
    return None if layout is None else layout.resolve(params.slot_count)

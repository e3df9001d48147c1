"""Predicted error of results: how each CKKS operation passes on and adds noise, by the scheme's own model (`ren.schemes.ckks.noise`).

Errors are those of slots, in message units. Values without a known bound count as 1. Independent errors add as variances; an operand that is
used twice by one operation carries the same error twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ren.program.chain import number_of
from ren.program.layout import FULL
from ren.program.states import EncryptedState, PlaintextState, raised

if TYPE_CHECKING:
    from ren.schemes.ckks.noise import Noise
    from ren.schemes.ckks.params import CKKSParams


@dataclass(frozen=True, slots=True)
class NoiseCase:
    """One operation: noises and states of its operands (None where they are public or unknown), the state of its first result, attributes,
    parameters, and whether its first two operands are one value."""

    noises: Sequence[Noise | None]
    states: Sequence[Any]
    result: EncryptedState | PlaintextState
    attributes: Mapping[str, Any]
    params: CKKSParams
    same: bool

    def noise(self, index: int = 0) -> Noise:
        found = self.noises[index]
        if found is None:
            raise UnknownNoise
        return found

    def bound(self, index: int = 0) -> float:
        """Largest absolute value of an operand; 1 when it is not known."""
        found = getattr(self.states[index], "bound", None)
        if found is None:
            return 1.0
        if not math.isfinite(found):
            raise UnknownNoise
        return float(found)

    @property
    def scale(self) -> float:
        """Scale of the result."""
        return scale_number(self.result, self.params)

    @property
    def level(self) -> int:
        """Level of the first operand."""
        level = self.states[0].level
        if level is None or level > self.params.levels:
            raise UnknownNoise
        return int(level)


class UnknownNoise(Exception):
    """Level, scale or an operand's noise is not known, so neither is the result's."""


NoiseRule = Callable[[NoiseCase], "Noise"]


def scale_number(state: EncryptedState | PlaintextState, params: CKKSParams) -> float:
    number = None if state.scale is None else number_of(state.scale, params)
    if number is None:
        raise UnknownNoise
    return float(number)


def fresh(state: EncryptedState, params: CKKSParams) -> Noise:
    """Of an input that was encoded and encrypted with the public key."""
    from ren.schemes.ckks import noise

    return noise.fresh(params, scale_number(state, params), largest=1.0 if state.bound is None else state.bound)


def encoded(case: NoiseCase) -> Noise:
    from ren.schemes.ckks import noise

    largest = case.result.bound
    return noise.encoding(case.params.n, case.scale, 1.0 if largest is None else largest)


def keep(case: NoiseCase) -> Noise:
    return case.noise()


def add(case: NoiseCase) -> Noise:
    return case.noise().scaled(2) if case.same else case.noise() + case.noise(1)


def multiply(case: NoiseCase) -> Noise:
    from ren.schemes.ckks import noise

    return noise.multiply(case.noise(), case.noise(1), case.bound(), case.bound(1), same=case.same)


def square(case: NoiseCase) -> Noise:
    from ren.schemes.ckks import noise

    return noise.multiply(case.noise(), case.noise(), case.bound(), case.bound(), same=True)


def switched(case: NoiseCase) -> Noise:
    """One key switch at the level of the operand."""
    from ren.schemes.ckks import noise

    return case.noise() + noise.key_switch(case.params, case.level, case.scale)


def rotated(case: NoiseCase) -> Noise:
    """A key switch, none where every shift goes all the way round: such rotations change nothing and are not done."""
    layout = case.states[0].layout
    frame = (FULL if layout is None else layout).resolve(case.params.slot_count).frame
    # A rotation without a shift is refused elsewhere; here it counts as one that moves.
    shifts = case.attributes.get("shifts") or (case.attributes.get("shift", 1),)
    return case.noise() if all(k % frame == 0 for k in shifts) else switched(case)


def rescale(case: NoiseCase) -> Noise:
    from ren.schemes.ckks import noise

    return case.noise() + noise.rescale(case.params, case.scale)


def align(case: NoiseCase) -> Noise:
    from ren.schemes.ckks import noise

    multiplier = noise.systematic(case.bound() * 2.0 ** -(case.params.scale_bits + 1))
    return rescale(case) + multiplier if case.states[0].level != case.result.level else case.noise()


def meet(case: NoiseCase) -> Noise:
    """One prediction for both results: that of the noisier one. Either operand may be the one that is brought to the other."""
    both = [align(replace(case, noises=(n,), states=(s,))) for n, s in zip(case.noises, case.states, strict=True)]
    return max(both, key=lambda n: n.variance)


def reinterpret(case: NoiseCase) -> Noise:
    return case.noise().scaled(scale_number(case.states[0], case.params) / case.scale)


def sum_slots(case: NoiseCase) -> Noise:
    layout = case.states[0].layout
    count = case.attributes.get("count") or (
        layout.frame if layout is not None and layout.frame else case.params.slot_count
    )
    total = case.noise()
    for _ in range(int(count).bit_length() - 1):
        total = total + switched(NoiseCase((total,), case.states, case.result, {}, case.params, False))
    return total


def polynomial(case: NoiseCase) -> Noise:
    """The error of x times the largest slope, and one relinearization and rescale per level."""
    from ren.schemes.ckks import noise

    coefficients: list[float] = case.attributes["coefficients"]
    bound = case.bound()
    chebyshev = case.attributes.get("basis") == "chebyshev"
    slope = sum(abs(c) * i * (i if chebyshev else raised(bound, i - 1)) for i, c in enumerate(coefficients) if i)
    total = case.noise().scaled(slope)
    for level in range(case.level, case.level + max(1, len(coefficients) - 1).bit_length()):
        if level < case.params.levels:
            total = total + noise.relinearize_rescale(case.params, level, case.scale)
    return total


def multiply_scalar(case: NoiseCase) -> Noise:
    from ren.schemes.ckks import noise

    value = abs(case.attributes["value"])
    factor = case.scale / scale_number(case.states[0], case.params)
    return case.noise().scaled(value) + noise.systematic(case.bound() / 2 / factor)


def multiply_integer(case: NoiseCase) -> Noise:
    return case.noise().scaled(abs(case.attributes["value"]))


def add_scalar(case: NoiseCase) -> Noise:
    from ren.schemes.ckks import noise

    return case.noise() + noise.systematic(0.5 / case.scale)

"""The operations: one row each, from which Ren makes verification, state inference, key requirements, readiness and the drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ren.program import Attr, KeyNeed, RenDialect, Row, RuleError, Value
from ren.program.rules import rule
from ren.program.states import EncryptedState
from xdsl.ir import Attribute

_WIDTH = Attr("width", "int", least=2, meaning="neighbours that are added, each at one place further left")


def _dense(state: EncryptedState, attributes: Mapping[str, Any]) -> EncryptedState:
    """Both operations keep the layout; rotations of slots are rotations of elements only where there is no padding."""
    if state.layout is not None and not state.layout.is_dense:
        raise RuleError(
            "a moving average needs a vector without padding: declare a power of two of slots", "invalid-layout"
        )
    return state


def _average(state: EncryptedState, attributes: Mapping[str, Any]) -> EncryptedState:
    state = _dense(state, attributes)
    return EncryptedState(layout=state.layout, batch=state.batch, bound=state.bound)


def _window(state: EncryptedState, attributes: Mapping[str, Any]) -> EncryptedState:
    state = _dense(state, attributes)
    if state.parts == 3:
        raise RuleError("three parts: relinearize before rotating", "unrelinearized-operand")
    return replace(state, bound=None if state.bound is None else state.bound * attributes["width"])


def _rotations(types: tuple[Attribute, ...], attributes: Mapping[str, Any]) -> tuple[KeyNeed, ...]:
    return tuple(KeyNeed("rotation", step) for step in range(1, attributes["width"]))


ROWS = (
    Row(
        name="smooth.average",
        summary="Mean of each element and the `width` - 1 elements before it, around the end.",
        stage="semantic",
        operands=(Value("source", "encrypted"),),
        attributes=(_WIDTH,),
        rule=rule(_average),
    ),
    Row(
        name="smooth.window",
        summary="Sum of each element and the `width` - 1 elements before it, from one decomposition.",
        stage="ckks",
        operands=(Value("source", "encrypted"),),
        attributes=(_WIDTH,),
        rule=rule(_window),
        needs=_rotations,
        handler="ren_pass_example.handlers:window",
        cost="key_switch",
    ),
)


def dialect() -> RenDialect:
    return RenDialect("smooth", ROWS)

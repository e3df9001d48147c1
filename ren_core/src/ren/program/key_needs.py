"""Which evaluation keys an operation needs, from its types and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import Attribute

from ren.program.rows import KeyNeed

Attributes = Mapping[str, Any]


def relinearization(types: tuple[Attribute, ...], attributes: Attributes) -> tuple[KeyNeed, ...]:
    return (KeyNeed("relinearization"),)


def rotation(types: tuple[Attribute, ...], attributes: Attributes) -> tuple[KeyNeed, ...]:
    return (KeyNeed("rotation", attributes["shift"]),)


def rotations(types: tuple[Attribute, ...], attributes: Attributes) -> tuple[KeyNeed, ...]:
    return tuple(KeyNeed("rotation", shift) for shift in attributes["shifts"])


def conjugation(types: tuple[Attribute, ...], attributes: Attributes) -> tuple[KeyNeed, ...]:
    return (KeyNeed("conjugation"),)


def slot_sum(types: tuple[Attribute, ...], attributes: Attributes) -> tuple[KeyNeed, ...]:
    count = attributes.get("count")
    if count is None:
        layout = getattr(getattr(types[0], "data", None), "layout", None)
        count = 0 if layout is None or layout.frame is None else layout.frame
    return (KeyNeed("rotation", attributes.get("stride", 1), span=count),)


def polynomial(types: tuple[Attribute, ...], attributes: Attributes) -> tuple[KeyNeed, ...]:
    return (KeyNeed("relinearization"),) if any(attributes["coefficients"][2:]) else ()

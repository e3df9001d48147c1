"""What a drawing of a Program shows and in which colours."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ren.errors import OptionError
from ren.program.edit import operation_name
from xdsl.ir import Attribute, Operation

#: Sections of a node record, in the order in which they are drawn.
FIELDS = (
    "name",
    "opcode",
    "role",
    "level",
    "scale",
    "cost",
    "error",
    "operands",
    "result_types",
    "attributes",
    "scheduling_obligations",
    "num_users",
    "location",
)
DEFAULT_FIELDS = frozenset(("name", "opcode", "level", "scale", "cost", "attributes", "scheduling_obligations"))

#: Light fills; text on each of them has a contrast ratio above 7.
PALETTE = (
    "#cfe0ff",
    "#d4f0f7",
    "#ffe3b8",
    "#f9d5c7",
    "#e2e6ec",
    "#dcd6f7",
    "#d3f2dc",
    "#fbdbe8",
    "#e9efb9",
    "#c8e6e0",
    "#f3e0d2",
    "#d9e4c8",
)


def colour_key(op: Operation) -> str:
    """What operations of one colour have in common: their name, and for kept calls the target too."""
    name = operation_name(op)
    target = op.properties.get("ren.call.target")
    return f"{name}:{getattr(target, 'data', '')}" if target is not None else name


@dataclass(frozen=True, kw_only=True)
class SvgGraphTheme:
    """Colours of a drawing, as SVG colours. colours: key (see `classify`) -> fill, for keys that shall not take theirs from the palette.
    classify: key of an operation; equal keys have equal colours, in every drawing."""

    palette: tuple[str, ...] = PALETTE
    colours: Mapping[str, str] = field(default_factory=dict)
    classify: Callable[[Operation], str] = colour_key
    argument: str = "#b9d3ff"
    constant: str = "#ffefc2"
    output: str = "#bfe8c9"
    text: str = "#16202c"
    edge: str = "#66717f"
    background: str = "#ffffff"

    def __post_init__(self) -> None:
        if not self.palette:
            raise OptionError("a theme needs at least one colour in its palette", subject="palette")

    def fill(self, op: Operation) -> str:
        key = self.classify(op)
        if key in self.colours:
            return self.colours[key]
        return self.constant if is_constant(op) else self.palette[zlib.crc32(key.encode()) % len(self.palette)]


def is_constant(op: Operation) -> bool:
    return operation_name(op) in ("ren.constant", "ren.material.ref", "ren.resource.ref")


@dataclass(frozen=True, kw_only=True)
class SvgGraphPresentation:
    """What node records contain.

    fields: sections out of `FIELDS`; None is `DEFAULT_FIELDS`. attribute_names: the attributes shown inside the attributes section; None shows
    all. attribute_preview_chars: longer values are cut. The hooks, where given, replace what Ren does by itself: `select_attributes(op, attributes)`
    and `format_attribute_value(name, attribute)` inside the attributes section, `operation_sections(op, sections)` the whole record (a list
    of lines), `operation_tooltip(op)` the text shown under the pointer.

    Raises OptionError (a ValueError) for a field that does not exist.
    """

    fields: Collection[str] | None = None
    attribute_names: Collection[str] | None = None
    attribute_preview_chars: int = 180
    theme: SvgGraphTheme | None = None
    select_attributes: Callable[[Operation, dict[str, Attribute]], Mapping[str, Attribute]] | None = None
    format_attribute_value: Callable[[str, Attribute], str] | None = None
    operation_sections: Callable[[Operation, list[str]], list[str]] | None = None
    operation_tooltip: Callable[[Operation], str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.fields, str) or isinstance(self.attribute_names, str):
            raise OptionError("fields and attribute_names are collections of names, got a string", subject="fields")
        unknown = sorted(set(self.fields or ()) - set(FIELDS))
        if unknown:
            raise OptionError(f"no field is called {unknown[0]!r}; fields: {', '.join(FIELDS)}", subject="fields")
        if isinstance(self.attribute_preview_chars, bool) or self.attribute_preview_chars < 1:
            raise OptionError(
                f"attribute_preview_chars must be at least 1, got {self.attribute_preview_chars!r}",
                subject="attribute_preview_chars",
            )

    @property
    def shown(self) -> frozenset[str]:
        return DEFAULT_FIELDS if self.fields is None else frozenset(self.fields)

    @property
    def colours(self) -> SvgGraphTheme:
        return SvgGraphTheme() if self.theme is None else self.theme

    def cut(self, value: Any) -> str:
        text = str(value)
        return text if len(text) <= self.attribute_preview_chars else text[: self.attribute_preview_chars - 1] + "…"

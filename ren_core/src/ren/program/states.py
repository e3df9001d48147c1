"""What is known of a value: the content of role types.

Every field may be unknown (None): text written by hand and programs between two passes are often incomplete, and inference fills
what it can. Two states *agree* when the fields that both know are equal; a program is wrong only where they disagree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from ren.errors import ProgramVerifyError
from ren.program.layout import Layout, LayoutError
from ren.program.scales import SymbolicScale

BATCH_MODES = ("none", "any")
DOMAINS = ("coeff", "ntt")


@dataclass(frozen=True, slots=True)
class EncryptedState:
    """level: rescales used, from 0. scale: exact. layout: where elements lie. parts: polynomials, 2 or 3 (an unrelinearized product).
    domain: "coeff" or "ntt". batch: "none" or "any" (leading batch axes allowed). bound: largest absolute slot value, if known.
    """

    level: int | None = None
    scale: SymbolicScale | None = None
    layout: Layout | None = None
    parts: int | None = None
    domain: str | None = None
    batch: str | None = None
    bound: float | None = None

    def text(self) -> str:
        return _text(self)

    @staticmethod
    def read(body: str) -> EncryptedState:
        return _read(EncryptedState, body)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class PlaintextState:
    """An encoded public value. `use` is "add" or "multiply" once it has been prepared for a consumer. bound: largest absolute slot value, if known."""

    level: int | None = None
    scale: SymbolicScale | None = None
    layout: Layout | None = None
    use: str | None = None
    bound: float | None = None

    def text(self) -> str:
        return _text(self)

    @staticmethod
    def read(body: str) -> PlaintextState:
        return _read(PlaintextState, body)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class MessageState:
    """Public data. kind: "message" (runtime) or "static" (fixed when the program was written).
    shape: tensor shape when known (() is a scalar). dtype: name such as "float64". bound: largest absolute element, if known.
    """

    kind: str = "message"
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    bound: float | None = None

    def text(self) -> str:
        parts = [] if self.kind == "message" else [f"kind={self.kind}"]
        if self.shape is not None:
            parts.append("shape=" + ("x".join(map(str, self.shape)) or "scalar"))
        if self.dtype is not None:
            parts.append(f"dtype={self.dtype}")
        if self.bound is not None and math.isfinite(self.bound):
            parts.append(f"bound={self.bound.hex()}")
        return ", ".join(parts)

    @staticmethod
    def read(body: str) -> MessageState:
        found = _split(body)
        kind, shape, dtype = found.pop("kind", "message"), found.pop("shape", None), found.pop("dtype", None)
        bound = found.pop("bound", None)
        if found or kind not in ("message", "static") or not re.fullmatch(r"[\w.]{1,64}", dtype or "x", re.ASCII):
            raise ProgramVerifyError(f"malformed message type <{body[:80]}>")
        if shape is not None and not re.fullmatch(r"scalar|\d{1,12}(x\d{1,12}){0,15}", shape, re.ASCII):
            raise ProgramVerifyError(f"malformed shape {shape[:80]!r}")
        return MessageState(
            kind,
            None if shape is None else () if shape == "scalar" else tuple(map(int, shape.split("x"))),
            dtype,
            None if bound is None else _bound(bound),
        )


@dataclass(frozen=True, slots=True)
class SymbolState:
    """A value that lives in the workspace; `kind` is free text (letters, digits, `_ . -`)."""

    kind: str = ""

    def text(self) -> str:
        return self.kind

    @staticmethod
    def read(body: str) -> SymbolState:
        if not re.fullmatch(r"[\w.\-]{0,64}", body, re.ASCII):
            raise ProgramVerifyError(f"malformed kind {body[:80]!r}")
        return SymbolState(body)


def disagreement(found: EncryptedState | PlaintextState, expected: EncryptedState | PlaintextState) -> str | None:
    """The first field that both know and that differs, as text; None when they agree. Bounds are estimates and never disagree."""
    for field in fields(expected):
        a, b = getattr(found, field.name), getattr(expected, field.name)
        if a is not None and b is not None and a != b and field.name != "bound":
            return f"{field.name} is {_show(a)}, the rule gives {_show(b)}"
    return None


def merged(found: EncryptedState, expected: EncryptedState) -> EncryptedState:
    """What the rule knows, completed by what only `found` knows."""
    return EncryptedState(
        *(b if (b := getattr(expected, f.name)) is not None else getattr(found, f.name) for f in fields(expected))
    )


def _show(value: Any) -> str:
    return f"[{value.text()}]" if isinstance(value, Layout) else str(value)


def _text(state: EncryptedState | PlaintextState) -> str:
    parts = []
    for field in fields(state):
        value = getattr(state, field.name)
        if value is None or value == math.inf:  # a bound past all numbers says nothing
            continue
        if field.name == "layout":
            parts.append(value.text())
        else:
            parts.append(f"{field.name}={value.hex() if isinstance(value, float) else value}")
    return ", ".join(parts)


def _split(body: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in body.split(",") if body.strip() else ():
        key, equal, value = part.strip().partition("=")
        if not equal or key in found:
            raise ProgramVerifyError(f"malformed field {part.strip()[:80]!r}: key=value expected, each key once")
        found[key] = value
    return found


def _word(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ProgramVerifyError(f"{text[:40]!r} is none of {', '.join(allowed)}")
        return text

    return read


def _level(text: str) -> int:
    if not re.fullmatch(r"\d{1,4}", text, re.ASCII):
        raise ProgramVerifyError(f"{text[:40]!r} is no level")
    return int(text)


def _parts(text: str) -> int:
    return int(_word("2", "3")(text))


def _bound(text: str) -> float:
    try:
        # Printed in hexadecimal, which is exact; float.fromhex would read a decimal 1e3 as hexadecimal digits.
        value = float.fromhex(text) if "0x" in text else float(text)
    except (ValueError, OverflowError):
        value = math.nan
    if not (value >= 0 and math.isfinite(value)):
        raise ProgramVerifyError(f"{text[:40]!r} is no bound")
    return value


_READERS: dict[str, Callable[[str], Any]] = {
    "level": _level,
    "scale": SymbolicScale.parse,
    "parts": _parts,
    "domain": _word(*DOMAINS),
    "batch": _word(*BATCH_MODES),
    "bound": _bound,
    "use": _word("add", "multiply"),
}


def _read(cls: type[EncryptedState] | type[PlaintextState], body: str) -> EncryptedState | PlaintextState:
    found = _split(body)
    try:
        values: dict[str, Any] = {"layout": Layout.read(found)}
    except (LayoutError, ValueError) as error:
        raise ProgramVerifyError(f"malformed layout: {error}") from None
    legal = {f.name for f in fields(cls)}
    for key, text in found.items():
        if key not in legal or key == "layout":
            raise ProgramVerifyError(f"unknown field {key[:40]!r}")
        values[key] = _READERS[key](text)
    return cls(**values)


def raised(bound: float, exponent: int) -> float:
    """bound ** exponent, infinite where Python's own raises."""
    try:
        return bound**exponent
    except OverflowError:
        return math.inf

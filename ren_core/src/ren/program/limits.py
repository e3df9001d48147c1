"""Limits on program text, checked in one linear scan before anything is parsed.

Without them a few lines of text cost minutes or all memory: aliases that double, dense shapes that are allocated element by element, integer
types of a billion bits, brackets that exhaust the recursion of the parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ren.errors import ProgramParseError


@dataclass(frozen=True, slots=True)
class Limits:
    """chars: of the text. depth: brackets of all kinds, nested. digits: of one number (Python itself stops at 4300). elements: of one dense
    shape. int_width: bits of an integer type. alias_size: expanded size of one alias. unknown_names: distinct names of
    unregistered operations, types and attributes, each of which costs a class. alias_count: number of aliases."""

    chars: int = 256 << 20
    depth: int = 64
    digits: int = 4000
    elements: int = 1 << 24
    int_width: int = 1 << 16
    alias_size: int = 100_000
    unknown_names: int = 512


DEFAULT_LIMITS = Limits()

_SCAN = re.compile(
    # Possessive: an unterminated string would otherwise be tried in every way of cutting it.
    r'"(?:[^"\\\n]++|\\.)*+"|//[^\n]*|->|[\[({<]|[\])}>]|(?<![\w$.-])[su]?i(?P<width>\d{5,})\b|(?<![\w$.-])(?P<dims>\d+(?:x\d+)*)x|(?P<digits>\d{1000,})',
)
_ALIAS = re.compile(r"^[ \t]*([#!][\w$.-]+)[ \t]*=(.*)$", re.M)
_ALIAS_USE = re.compile(r"[#!][\w$.-]+")
_OPEN, _CLOSE = frozenset("[({<"), frozenset("])}>")


def line_column(text: str, position: int) -> tuple[int, int]:
    """Line and column of a character position, both from 1."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def check_limits(text: str, source: str, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise ProgramParseError, with line and column, at the first excess."""

    def fail(position: int, message: str) -> None:
        raise ProgramParseError(source, *line_column(text, position), message)

    if len(text) > limits.chars:
        fail(0, f"the text has {len(text)} characters, the limit is {limits.chars}")
    depth = 0
    for found in _SCAN.finditer(text):
        c = text[found.start()]
        if c in _OPEN:
            depth += 1
            if depth > limits.depth:
                fail(found.start(), f"nesting deeper than {limits.depth} brackets")
        elif c in _CLOSE:
            depth -= depth > 0
        elif found.lastgroup == "width":
            if len(found["width"]) > 9 or int(found["width"]) > limits.int_width:
                fail(found.start(), f"an integer type wider than {limits.int_width} bits")
        elif found.lastgroup == "digits":
            if len(found["digits"]) > limits.digits:
                fail(found.start(), f"a number longer than {limits.digits} digits")
        elif found.lastgroup == "dims":
            _check_shape(found["dims"], found.start(), limits, fail)
    _check_aliases(text, limits, fail)


def _check_shape(dims: str, position: int, limits: Limits, fail: object) -> None:
    count = 1
    for d in dims.split("x"):
        count *= int(d) if len(d) < 19 else limits.elements + 1
        if count > limits.elements:
            assert callable(fail)
            fail(position, f"a shape with more than {limits.elements} elements")


def _check_aliases(text: str, limits: Limits, fail: object) -> None:
    size: dict[str, int] = {}
    for found in _ALIAS.finditer(text):
        size[found[1]] = 1 + sum(size.get(use, 1) for use in _ALIAS_USE.findall(found[2]))
        if size[found[1]] > limits.alias_size:
            assert callable(fail)
            fail(found.start(), f"alias {found[1]} expands to more than {limits.alias_size} parts")

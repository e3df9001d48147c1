"""Where in the user's code a traced call stands."""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
from collections.abc import Iterable
from types import CodeType, FrameType, TracebackType

import numpy as np
import ren
import torch
import xdsl

#: Frames of these packages are not the user's.
_HIDDEN = tuple(os.path.dirname(str(f)) + os.sep for f in (torch.__file__, ren.__file__, xdsl.__file__, __file__))
_hidden: dict[CodeType, bool] = {}
#: Nor are those of Python's library and NumPy, when it matters who asked for a random number.
_LIBRARY = (os.path.dirname(str(np.__file__)) + os.sep, "<frozen ")
_STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))

#: (file, line)
Source = tuple[str, int]
UNKNOWN: Source = ("<unknown>", 0)


def is_hidden(code: CodeType) -> bool:
    """Whether code is PyTorch's, xDSL's or Ren's."""
    found = _hidden.get(code)
    if found is None:
        found = _hidden[code] = code.co_filename.startswith(_HIDDEN)
    return found


def user_frame() -> FrameType | None:
    """The innermost frame outside PyTorch and Ren."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_hidden(frame.f_code):
        frame = frame.f_back
    return frame


def is_library(code: CodeType) -> bool:
    """Whether code is Python's standard library or NumPy."""
    file = code.co_filename
    return file.startswith(_LIBRARY) or (file.startswith(_STANDARD) and not is_installed(file))


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return file.startswith(_INSTALLED)


def outer_source() -> Source:
    """The innermost frame outside PyTorch, Ren, NumPy and the standard library."""
    frame = user_frame()
    while frame is not None and (is_library(frame.f_code) or is_hidden(frame.f_code)):
        frame = frame.f_back
    return UNKNOWN if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def is_importing(root: CodeType) -> bool:
    """Whether a module is being imported, by code that the frame of `root` called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not root:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def user_source() -> Source:
    frame = user_frame()
    return UNKNOWN if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def traceback_source(traceback: TracebackType | None) -> Source:
    """The innermost user frame of a traceback."""
    found = UNKNOWN
    while traceback is not None:
        if not is_hidden(traceback.tb_frame.f_code):
            found = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return found


def variable_of(value: object) -> str | None:
    """The name of a local or global variable of the user's frame that holds `value`."""
    frame = user_frame()
    if frame is None:
        return None
    for scope in (frame.f_locals, frame.f_globals):
        for name, held in list(scope.items()):
            if held is value:
                return name
    return None


def line_that_changes(codes: Iterable[CodeType], name: str) -> Source | None:
    """The first line of the user's that assigns to a name or attribute, or else that names it."""
    named = None
    for code in codes:
        if is_hidden(code) or is_library(code):
            continue
        for found in dis.get_instructions(code):
            line = None if found.positions is None else found.positions.lineno
            if found.argval != name or line is None:
                continue
            if found.opname.startswith(("STORE_", "DELETE_")):
                return code.co_filename, line
            if named is None:
                named = code.co_filename, line
    return named


def lines_that_compare_types(codes: Iterable[CodeType]) -> list[Source]:
    """The user's lines where `type(...)` of a variable other than self is compared: what no object can answer in another's place. Installed packages
    are left out: their authors cannot act on it here."""
    lines: dict[Source, None] = {}
    for code in codes:
        if is_hidden(code) or is_library(code) or is_installed(code.co_filename) or code.co_filename in _GENERATED:
            continue
        found = [i for i in dis.get_instructions(code) if i.opname not in _PADDING]
        for at, asks in enumerate(found[:-3]):
            if asks.argval != "type" or not asks.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME")):
                continue
            of = next((i for i in found[at + 1 : at + 3] if i.opname not in ("PUSH_NULL",)), None)
            if of is None or not of.opname.startswith("LOAD_") or of.argval in ("self", "cls"):
                continue
            line = None if asks.positions is None else asks.positions.lineno
            after = found[at + 2 : at + 2 + _COMPARED_WITHIN]
            if line is not None and any(i.opname.startswith(("IS_OP", "COMPARE_OP", "CONTAINS_OP")) for i in after):
                lines[code.co_filename, line] = None
    return list(lines)


#: Where libraries say that code which they write themselves comes from.
_GENERATED = ("<string>", "<template>", "<unknown>")
_PADDING = ("PRECALL", "CACHE", "EXTENDED_ARG")
#: Instructions between `type` and the comparison of its result: the call and what it is compared with, a dotted name or a tuple of a few.
_COMPARED_WITHIN = 12

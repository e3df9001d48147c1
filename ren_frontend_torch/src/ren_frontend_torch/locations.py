"""Where in the user's code a traced call stands."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType, TracebackType

import ren
import torch

#: Frames of these packages are not the user's.
_HIDDEN = tuple(os.path.dirname(str(f)) + os.sep for f in (torch.__file__, ren.__file__, __file__))
_hidden: dict[CodeType, bool] = {}

#: (file, line)
Source = tuple[str, int]
UNKNOWN: Source = ("<unknown>", 0)


def _is_hidden(code: CodeType) -> bool:
    found = _hidden.get(code)
    if found is None:
        found = _hidden[code] = code.co_filename.startswith(_HIDDEN)
    return found


def user_frame() -> FrameType | None:
    """The innermost frame outside PyTorch and Ren."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_hidden(frame.f_code):
        frame = frame.f_back
    return frame


def user_source() -> Source:
    frame = user_frame()
    return UNKNOWN if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def traceback_source(traceback: TracebackType | None) -> Source:
    """The innermost user frame of a traceback."""
    found = UNKNOWN
    while traceback is not None:
        if not _is_hidden(traceback.tb_frame.f_code):
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

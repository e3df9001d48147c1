"""Where in the user's code something happened: notes added to errors."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import TypeVar

E = TypeVar("E", bound=BaseException)

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"


def user_line() -> str | None:
    """'file:line: source' of the innermost frame outside this package, None where there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    name, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(name, line, frame.f_globals).strip()
    return f"{name}:{line}: {source}" if source else f"{name}:{line}"


def noted(error: E, *notes: str) -> E:
    """`error` with `notes` and the user's line added to it."""
    for note in notes:
        error.add_note(note)
    at = user_line()
    if at is not None:
        error.add_note(f"at {at}")
    return error

"""Functions of the `ren.jit` namespace over `Program`: parse, load, run, load_plan."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from ren.errors import UnsupportedOperandError
from ren.program.program import Program

if TYPE_CHECKING:
    from ren.program.compiled_program import CompiledProgram


def parse(text: str, *, source_name: str = "<unknown>") -> Program:
    """Read program text (see Program.parse). source_name appears in error messages."""
    return Program.parse(text, source_name=source_name)


def load(path: str | os.PathLike[str]) -> Program:
    """Read a program file (see Program.load)."""
    return Program.load(path)


def run(
    program: Program, *args: Any, workspace: MutableMapping[Any, Any] | None = None, entry: str = "main", **kwargs: Any
) -> Any:
    """`program.run(...)`."""
    if not isinstance(program, Program):
        raise UnsupportedOperandError(f"run takes a Program, got {type(program).__name__}", subject="program")
    return program.run(*args, workspace=workspace, entry=entry, **kwargs)


def load_plan(path: str | os.PathLike[str]) -> CompiledProgram:
    """Read a file that `CompiledProgram.save` wrote (see ren.program.plan_file.load_plan)."""
    from ren.program import plan_file

    return plan_file.load_plan(path)

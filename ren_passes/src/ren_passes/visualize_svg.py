"""`visualize-svg`: the dataflow graph of a function as an SVG file, without Graphviz."""

from __future__ import annotations

import os
import tempfile
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ren.errors import OptionError, PassError, ProgramCostError, ProgramNotReadyError
from ren.program import Diagnostic, PassResult, PassStats, Program, Workspace

if TYPE_CHECKING:
    from ren.program.cost import ProgramCost

from ren_passes.visualize_svg_drawing import drawing
from ren_passes.visualize_svg_records import Records
from ren_passes.visualize_svg_style import FIELDS, SvgGraphPresentation, SvgGraphTheme

__all__ = ["FIELDS", "SvgGraphPresentation", "SvgGraphTheme", "SvgGraphVisualizationPass", "svg_of"]

DIRECTIONS = ("TB", "LR")
#: A drawing of more operations is of no use in a notebook, and slow to show.
NOTEBOOK_LIMIT = 2_000


def svg_of(
    program: Program,
    *,
    entry: str = "main",
    presentation: SvgGraphPresentation | None = None,
    rank_direction: str = "TB",
    workspace: MutableMapping[Any, Any] | None = None,
    cost: ProgramCost | None = None,
) -> str:
    """The drawing of a function as SVG text. cost: of this function (`Program.cost`); None asks for it with the engine of the workspace, if there is one and the
    program can run with it. Raises EntryError (a LookupError) when there is no function of that name."""
    shown = SvgGraphPresentation() if presentation is None else presentation
    space = Workspace() if workspace is None else workspace
    function = program.entry_function(entry)
    if cost is None and shown.shown & {"cost", "error"}:
        cost = _cost(program, entry, space)
    records = Records(function, shown, space, cost)
    return drawing(records.nodes, shown.colours, title=entry, sideways=rank_direction == "LR")


@dataclass(frozen=True)
class SvgGraphVisualizationPass:
    """Draw one function into a file; the program is not changed.

    output_path: ends in .svg; its folder is made. overwrite: without it an existing file is an error. rank_direction: "TB" or "LR", where
    inputs are at the top or on the left. The file is written whole or not at all. Counters: matched counts the operations drawn.

    Raises OptionError (a ValueError) for a path that does not end in .svg and an unknown direction; running raises PassError for an existing file.
    """

    output_path: str | os.PathLike[str] = "program.svg"
    overwrite: bool = False
    entry: str = "main"
    presentation: SvgGraphPresentation | None = None
    rank_direction: str = "TB"
    name: str = "visualize-svg"

    def __post_init__(self) -> None:
        if Path(self.output_path).suffix != ".svg":
            raise OptionError(
                f"output_path must end in .svg, got {os.fspath(self.output_path)!r}", subject="output_path"
            )
        if self.rank_direction not in DIRECTIONS:
            raise OptionError(
                f"rank_direction must be one of {', '.join(DIRECTIONS)}, got {self.rank_direction!r}",
                subject="rank_direction",
            )

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        path = Path(self.output_path)
        if path.exists() and not self.overwrite:
            raise PassError(f"{path} exists: pass overwrite=True to replace it", subject=os.fspath(path))
        text = svg_of(
            program,
            entry=self.entry,
            presentation=self.presentation,
            rank_direction=self.rank_direction,
            workspace=workspace,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, text)
        count = sum(len(b.ops) for b in program.entry_function(self.entry).body.blocks)
        written = Diagnostic("drawing-written", f"wrote {path}", os.fspath(path), "note")
        return PassResult(program, PassStats(matched=count), (written,), ())

    @staticmethod
    def notebook_svg(program: Program) -> str | None:
        """What a notebook shows for a program: the drawing of `main`, or of its only function; None when there is none or it is too large."""
        names = [f.sym_name.data for f in program.functions]
        name = "main" if "main" in names else names[0] if len(names) == 1 else None
        if name is None or any(i >= NOTEBOOK_LIMIT for i, _ in enumerate(program.walk())):
            return None
        return svg_of(program, entry=name)


def _cost(program: Program, entry: str, space: MutableMapping[Any, Any]) -> ProgramCost | None:
    """The cost of a program with the engine of the workspace; None where there is none, or the program cannot run with it (yet)."""
    engine = space.get("engine")
    if getattr(engine, "params", None) is None:
        return None
    try:
        return program.cost(engine, workspace=space, entry=entry)
    except (ProgramNotReadyError, ProgramCostError):
        return None


def _write(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".svg.part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # The permissions that a newly created file has here, instead of those of a temporary one.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise

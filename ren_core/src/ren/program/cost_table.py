"""Costs of programs as text and HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ren.program.cost import OperationCost, ProgramCost, TotalCost

_HEADER = (
    "operation",
    "location",
    "level",
    "key switches",
    "decompositions",
    "NTT rows",
    "rescales",
    "time us",
    "rms error",
    "max error",
    "temporaries",
)


def text(cost: ProgramCost) -> str:
    """The table of a program."""
    body = [_HEADER, *(_cells(r) for r in cost.rows if _is_shown(r)), _total_cells(cost.total)]
    return "\n".join([f"cost with {cost.params!r} on {cost.device}", *_aligned(body, 2), *_notes(cost)])


def as_html(cost: ProgramCost) -> str:
    """The same for notebooks."""
    lines = [*(_cells(r) for r in cost.rows if _is_shown(r)), _total_cells(cost.total)]
    parts = ["<table><thead><tr>", *(f"<th>{html.escape(c)}</th>" for c in _HEADER), "</tr></thead><tbody>"]
    for line in lines:
        parts += ["<tr>", *(f"<td>{html.escape(c)}</td>" for c in line), "</tr>"]
    parts += ["</tbody></table>", *(f"<p>{html.escape(n)}</p>" for n in _notes(cost))]
    return "".join(parts)


def pipeline_table(names: Sequence[str], costs: Sequence[ProgramCost | None]) -> str:
    """Totals before the first pass and after each."""
    lines: list[tuple[str, ...]] = [_PIPELINE_HEADER]
    for name, cost in zip(("(before)", *names), costs, strict=True):
        if cost is None:
            lines.append((name, "not lowered yet", *[""] * (len(_PIPELINE_HEADER) - 2)))
        else:
            t = cost.total
            counts = (len(cost.rows), t.key_switches, t.decompositions, t.transforms, t.rescales, t.encoded)
            memory = size(t.key_bytes), size(t.temporary_bytes)
            lines.append((name, *map(str, counts), *memory, "" if t.seconds is None else f"{t.seconds * 1e6:.0f}"))
    return "\n".join(_aligned(lines, 1))


def _aligned(lines: Sequence[Sequence[str]], left: int) -> list[str]:
    """Columns as wide as their widest cell; the first ones flush left."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        "  ".join(
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _notes(cost: ProgramCost) -> list[str]:
    t = cost.total
    return [
        f"keys: {', '.join(t.keys) or 'none'} ({size(t.key_bytes)})",
        f"memory of a run: temporaries {size(t.temporary_bytes)}, results {size(t.output_bytes)}",
        f"{t.units} kernel calls; {t.encoded} plaintexts are encoded on the host, which is not in the time",
        f"time: {cost.calibration}",
        *([f"errors: values up to 1 were taken for {', '.join(cost.presumed)}"] if cost.presumed else []),
    ]


_PIPELINE_HEADER = (
    "pass",
    "operations",
    "key switches",
    "decompositions",
    "NTT rows",
    "rescales",
    "encoded",
    "keys",
    "temporaries",
    "time us",
)


def _is_shown(r: OperationCost) -> bool:
    return bool(r.level is not None or r.transforms or r.seconds)


def _cells(r: OperationCost) -> tuple[str, ...]:
    counts = (r.key_switches, r.decompositions, r.transforms, r.rescales)
    return (
        r.name.removeprefix("ren."),
        r.location.rsplit("/", 1)[-1],
        "" if r.level is None else str(r.level),
        *(str(c) if c else "" for c in counts),
        "" if not r.seconds else f"{r.seconds * 1e6:.0f}",
        "" if r.error is None else bits(r.error.rms),
        "" if r.error is None else bits(r.error.maximum),
        size(r.temporary_bytes) if r.temporary_bytes else "",
    )


def _total_cells(t: TotalCost) -> tuple[str, ...]:
    counts = (t.key_switches, t.decompositions, t.transforms, t.rescales)
    time = "" if t.seconds is None else f"{t.seconds * 1e6:.0f}"
    return ("total", "", "", *map(str, counts), time, "", "", size(t.temporary_bytes))


def bits(error: float) -> str:
    """An error as a power of two."""
    return "0" if error == 0 else f"2^{math.log2(error):.1f}"


def size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"

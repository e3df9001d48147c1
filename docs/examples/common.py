"""What the examples share: command line options, the engine made from them, and tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ren.schemes import ckks


def add_engine_args(parser: argparse.ArgumentParser, *, default_preset: str = "default") -> None:
    """Add --preset (a parameter set by name) and --device (a backend; the fastest one that works when left out)."""
    parser.add_argument("--preset", default=default_preset, help="name of a parameter set (default: %(default)s)")
    parser.add_argument(
        "--device", default=None, help='backend, such as "cpu", "cuda" or "reference" (default: the fastest)'
    )


def make_engine(args: argparse.Namespace) -> ckks.Engine:
    """A new key owner with the parameters and the device that the options name."""
    return ckks.Engine(args.preset, device=args.device)


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under headers, columns as wide as their widest entry; numbers are aligned to the right."""
    text = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(headers), *text]) for i in range(len(headers))]
    right = [
        bool(rows) and all(isinstance(row[i], (int, float)) and not isinstance(row[i], bool) for row in rows)
        for i in range(len(headers))
    ]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)).rstrip()

    print(line(list(headers)))
    print(line(["-" * w for w in widths]))
    for row in text:
        print(line(row))

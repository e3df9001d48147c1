"""Ren and its peers in one process, alternating sample by sample on one pinned core.

    OMP_NUM_THREADS=1 taskset -c 1 python tests/bench/side_by_side.py --set A [--json out.json] [--repeats 9] [--rows rotate,ct]

Prints a Markdown table: median milliseconds, the ratio best peer / Ren, and the goal of each row. A peer that cannot be imported
or refuses the parameters is reported, not skipped in silence. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from timing import Samples, alternate  # noqa: E402
from workloads import SETS  # noqa: E402

PEERS = ("peer_seal", "peer_desilofhe")
#: Goal of a row: how many times faster than the best peer. Rows bound by memory bandwidth have none.
ARITHMETIC_GOAL = 10.0
BANDWIDTH_ROWS = ("ct + ct", "ct * pt")


def cell(s: Samples | None) -> str:
    return "-" if s is None else f"{s.median:.3g}{'' if s.gated else '~'}"


def report(title: str, results: dict[str, dict[str, Samples]], names: list[str]) -> None:
    print(f"\n### {title}\n\n| row (median ms) | " + " | ".join(names) + " | best peer / Ren | goal |")
    print("|---|" + "---:|" * (len(names) + 2))
    for row, by in results.items():
        peers = [s.median for name, s in by.items() if name in names and not name.startswith("Ren")]
        ours = by.get("Ren")
        ratio = f"{min(peers) / ours.median:.1f}" if peers and ours else "-"
        goal = "bandwidth" if row in BANDWIDTH_ROWS else f"{ARITHMETIC_GOAL:g}"
        print(f"| {row} | " + " | ".join(cell(by.get(n)) for n in names) + f" | {ratio} | {goal} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=sorted(SETS), default="A")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--rows", default="", help="comma-separated substrings; empty = all")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = SETS[options.set]

    contestants: dict[str, Any] = {}
    for module in ("contestant_ren", *PEERS):
        try:
            contestant = importlib.import_module(module)
            contestants[contestant.NAME] = contestant.Contestant(chosen)
        except (ImportError, RuntimeError) as error:
            print(f"{module}: not measured: {type(error).__name__}: {error}")
    if "Ren" not in contestants:
        raise SystemExit("Ren itself could not run; see above")

    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    print(
        f"set {chosen.name}: n=2^{chosen.log_n}, depth {chosen.depth}, scale 2^{chosen.scale_bits}; python {platform.python_version()}, cpus {affinity}"
    )
    if len(affinity) != 1:
        print("warning: not pinned to one core (taskset -c 1 ...): figures are not comparable")
    for name, c in contestants.items():
        print(f"- {name}: security {c.security}, rotation key {c.key_bytes() / 2**20:.1f} MiB")

    results: dict[str, dict[str, Samples]] = {}
    if chosen.name != "J":
        rows = {name: c.rows() for name, c in contestants.items()}
        for row in rows["Ren"]:
            if options.rows and not any(part in row for part in options.rows.split(",")):
                continue
            results[row] = alternate({name: r[row] for name, r in rows.items() if row in r}, repeats=options.repeats)
    errors: dict[str, float] = {}
    circuits: dict[str, str] = {"A": "matvec", "J": "chebyshev", "B": "chebyshev"}
    kind = circuits.get(chosen.name)
    if kind and (not options.rows or "circuit" in options.rows):
        calls: dict[str, Callable[[], Any]] = {}
        for name, c in contestants.items():
            calls[name], error = getattr(c, kind)()
            errors[name] = error()
        if kind == "chebyshev":
            calls["Ren eager"] = contestants["Ren"].chebyshev_eager()
        results[f"circuit: {kind}"] = alternate(calls, repeats=options.repeats, warmup=1)
    names = list(contestants) + (["Ren eager"] if any("Ren eager" in r for r in results.values()) else [])
    report(f"Set {chosen.name}", results, names)
    for name, error in errors.items():
        print(f"- max error of the circuit, {name}: {error:.2e}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"- peak memory of this process (all contestants together): {peak:.0f} MiB")
    if options.json:
        raw = {row: {n: {"quiet": s.quiet, "noisy": s.noisy} for n, s in by.items()} for row, by in results.items()}
        options.json.write_text(
            json.dumps(
                {"set": chosen.name, "python": platform.python_version(), "rows": raw, "errors": errors}, indent=1
            )
        )


if __name__ == "__main__":
    main()

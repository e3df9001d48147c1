"""Results of `side_by_side.py` as a page: Markdown tables, a plot, the raw samples beside them.

    python tests/bench/report.py results --to docs/benchmarks

Writes tables.md, ratios.svg and samples/SET.json. The page around them (README.md there) is written by hand, since it says what the figures mean.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from timing import Samples  # noqa: E402
from workloads import BANDWIDTH_ROWS, CIRCUIT_1, CIRCUIT_1_EAGER, CIRCUIT_2, CIRCUIT_2_COMPILED, SETS  # noqa: E402

ORDER = ("A", "B", "C", "J")
#: How many times faster than the best peer a row is meant to be; on a machine without AVX-512, and at set A, the smaller number.
GOAL, GOAL_WITHOUT_AVX512 = 10.0, 4.0
#: Not the same work, so not what Ren is compared with: (contestant, row) -> why.
UNLIKE = {("desilofhe", "rescale"): "its ciphertexts are coefficients, so its rescale has no transforms"}
LABELS = {
    CIRCUIT_1: "circuit (i), ten times 2 x x - 1; Ren replayed",
    CIRCUIT_1_EAGER: "the same; Ren undecorated",
    CIRCUIT_2: "circuit (ii), packed matrix-vector; Ren replayed",
    CIRCUIT_2_COMPILED: "the same; Ren as a compiled program",
}


@dataclass(frozen=True)
class Line:
    """One row of a set. best: name of the fastest peer that does the same work."""

    row: str
    times: dict[str, Samples]
    best: str | None
    goal: float | None

    @property
    def ratio(self) -> float | None:
        return self.times[self.best].median / self.times["Ren"].median if self.best else None


class Results:
    """What was measured of one set."""

    def __init__(self, path: Path) -> None:
        self.data: dict[str, Any] = json.loads(path.read_text())
        self.name = path.stem
        self.names = list(self.data["contestants"])
        self.present = [n for n in self.names if not self.data["contestants"][n].get("reason")]
        self.machine: dict[str, Any] = self.data.get("machine", {})

    def lines(self) -> Iterator[Line]:
        for row, entry in self.data.get("rows", {}).items():
            times = {name: Samples(**raw) for name, raw in entry["samples"].items()}
            alike = {n: s.median for n, s in times.items() if n != "Ren" and (n, row) not in UNLIKE}
            best = min(alike, key=alike.__getitem__) if alike else None
            slow = "avx512ifma" not in self.machine.get("vectors", []) and self.name == "A"
            goal = None if row in BANDWIDTH_ROWS else GOAL_WITHOUT_AVX512 if slow else GOAL
            yield Line(row, times, best, goal)

    def error(self, name: str | None, row: str) -> dict[str, float] | None:
        found: dict[str, float] | None = self.data.get("errors", {}).get(name, {}).get(row)
        return found


def milliseconds(s: Samples | None) -> str:
    return "-" if s is None else f"{s.median:.3g}{'' if s.gated else '~'}"


def binary(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"2^{math.log2(value):.1f}"


def table(r: Results) -> Iterator[str]:
    yield "| row (median ms) | " + " | ".join(r.present) + " | best peer / Ren | goal | mean error: Ren | that peer |"
    yield "|---|" + "---:|" * (len(r.present) + 4)
    for line in r.lines():
        cells = [
            milliseconds(line.times.get(n)) + ("†" if (n, line.row) in UNLIKE and n in line.times else "")
            for n in r.present
        ]
        ratio = "-" if line.ratio is None else f"{line.ratio:.1f}"
        goal = "memory bandwidth" if line.goal is None else f"{line.goal:g}"
        ours, theirs = r.error("Ren", line.row), r.error(line.best, line.row)
        errors = f"{binary(ours and ours['mean'])} | {binary(theirs and theirs['mean'])}"
        yield f"| {LABELS.get(line.row, line.row)} | {' | '.join(cells)} | {ratio} | {goal} | {errors} |"
    sizes = [r.data["contestants"][n]["key_bytes"] for n in r.present]
    for key, label in (("memory", "one rotation key in memory, MiB"), ("stored", "the same stored, MiB")):
        values = {n: s[key] / 2**20 for n, s in zip(r.present, sizes, strict=True)}
        yield f"| {label} | " + size_cells(r, values, "half" if key == "stored" else "")
    if "peak_mib" in r.data:
        yield "| peak memory of the whole run, MiB | " + size_cells(r, r.data["peak_mib"], "below")


def size_cells(r: Results, values: dict[str, float], goal: str) -> str:
    peers = [v for n, v in values.items() if n != "Ren" and n in r.present]
    ratio = f"{min(peers) / values['Ren']:.2f}" if peers and "Ren" in values else "-"
    shown = [
        "-" if n not in values else f"{values[n]:.3g}" if values[n] < 100 else f"{values[n]:.0f}" for n in r.present
    ]
    return " | ".join(shown) + f" | {ratio} | {goal} | | |"


def section(r: Results) -> Iterator[str]:
    s = SETS[r.name]
    yield f"## Set {r.name}: n = 2^{s.log_n}, depth {s.depth}, scale 2^{s.scale_bits}"
    yield ""
    m = r.machine
    if m and r.data.get("rows"):
        vectors = ", ".join(m["vectors"]) or "no AVX2"
        rows = r.data.get("rows", {}).values()
        dates, commits = sorted({e["date"] for e in rows}), sorted({e["commit"] for e in rows})
        when = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
        yield (
            f"{when}, commit {', '.join(commits)}, one core of {m['cores']} ({m['cpu']}, {m['system']}; {vectors}), "
            f"Python {m['python']}."
        )
        yield ""
    for name in r.names:
        facts = r.data["contestants"][name]
        if facts.get("reason"):
            yield f"- {name}: not measured: {facts['reason']}"
        else:
            note = f"; {facts['note']}" if facts.get("note") else ""
            yield f"- {name} {facts['version']} (Python {facts['python']}): security {facts['security']}{note}"
    yield ""
    yield from table(r)
    yield ""
    if any((n, line.row) in UNLIKE for line in r.lines() for n in line.times):
        yield "† not compared with: " + "; ".join(f"{n}'s {row}: {why}" for (n, row), why in UNLIKE.items()) + "."
        yield ""


# -- plot ------------------------------------------------------------------------------------------------------------------------

_WIDTH, _LEFT, _ROW, _BAR = 860, 300, 20, 13
_LOW, _HIGH = 0.25, 40.0


def _x(ratio: float) -> float:
    share = math.log(min(max(ratio, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
    return _LEFT + share * (_WIDTH - _LEFT - 60)


def plot(results: list[Results]) -> str:
    """Bars of best peer / Ren on a logarithmic axis; those that reach their goal are darker."""
    body: list[str] = []
    y = 30.0
    for r in results:
        body.append(f'<text x="8" y="{y + 12}" font-weight="bold">Set {r.name}</text>')
        y += _ROW
        for line in r.lines():
            if line.ratio is None:
                continue
            label = LABELS.get(line.row, line.row)
            colour = "#2b6cb0" if line.goal is not None and line.ratio >= line.goal else "#90b4d8"
            start, end = sorted((_x(1.0), _x(line.ratio)))
            body.append(f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end">{label}</text>')
            body.append(f'<rect x="{start:.1f}" y="{y}" width="{end - start:.1f}" height="{_BAR}" fill="{colour}"/>')
            body.append(f'<text x="{end + 4:.1f}" y="{y + 11}">{line.ratio:.1f}</text>')
            if line.goal is not None:
                g = _x(line.goal)
                body.append(f'<line x1="{g:.1f}" x2="{g:.1f}" y1="{y - 2}" y2="{y + _BAR + 2}" stroke="#c53030"/>')
            y += _ROW
        y += 8
    axis = []
    for tick in (0.5, 1, 2, 5, 10, 20):
        axis.append(f'<line x1="{_x(tick):.1f}" x2="{_x(tick):.1f}" y1="26" y2="{y}" stroke="#ddd"/>')
        axis.append(f'<text x="{_x(tick):.1f}" y="20" text-anchor="middle">{tick:g}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y + 10:.0f}" '
        'font-family="sans-serif" font-size="12"><title>Time of the best peer over that of Ren</title>'
        f'<rect width="{_WIDTH}" height="{y + 10:.0f}" fill="white"/>'
    )
    return "\n".join([head, *axis, *body, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--to", type=Path, help="folder of the page; without it the tables are printed")
    options = parser.parse_args()
    results = [Results(p) for name in ORDER if (p := options.results / f"{name}.json").exists()]
    text = "\n".join(["<!-- Made by tests/bench/report.py. -->", "", *(s for r in results for s in section(r))])
    if options.to is None:
        print(text)
        return
    samples = options.to / "samples"
    samples.mkdir(parents=True, exist_ok=True)
    (options.to / "tables.md").write_text(text.rstrip() + "\n")
    (options.to / "ratios.svg").write_text(plot(results))
    for r in results:
        source = options.results / f"{r.name}.json"
        if source.resolve() != (samples / source.name).resolve():
            shutil.copy(source, samples / source.name)


if __name__ == "__main__":
    main()

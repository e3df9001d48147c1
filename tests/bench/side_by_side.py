"""Ren and its peers, each in a process of its own, taking turns on one pinned core.

    OMP_NUM_THREADS=1 taskset -c 1 python tests/bench/side_by_side.py --set A --out results
    python tests/bench/side_by_side.py --set A --memory --out results
    python tests/bench/report.py results --to docs/benchmarks

A turn is one call that is not timed, then timed calls for some 30 ms; its median is one sample. The turns of all contestants alternate, so drift hits all
alike, and a turn counts only if a calibration loop ran at full speed right before and after it (`timing`). Rows go to results/SET.json as they
are measured and replace what was there: sets and rows may be measured apart (--rows, --missing, --limit). --memory runs every row
once, each contestant alone, for its peak memory and the errors of its results.

A peer that does not start is in the results with its reason. One that needs another Python is given it: --python openfhe=PATH, or
REN_BENCH_OPENFHE=PATH in the environment. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from timing import QuietMachine, Samples  # noqa: E402
from workloads import SETS  # noqa: E402

MODULES = ("contestant_ren", "peer_seal", "peer_openfhe", "peer_desilofhe")
TURN_MS = 30.0


class Worker:
    """The process of one contestant."""

    def __init__(self, module: str, set_name: str, python: str) -> None:
        self.module = module
        # Other Pythons have their own libraries; what this one's import path adds would break them.
        env = (
            dict(os.environ) if python == sys.executable else {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        )
        self._process = subprocess.Popen(
            [python, str(HERE / "contestant.py"), module, set_name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.facts = self._answer()
        self.reason = self.facts.get("reason", "")

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            return {"name": self.module, "reason": f"its process ended with status {self._process.wait()}"}
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, **fields: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fields) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "reason" in answer:
            raise RuntimeError(f"{self.module}, {fields}: {answer['reason']}")
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def take_turns(row: str, workers: dict[str, Worker], repeats: int, seconds: float) -> dict[str, Samples]:
    """Samples of each contestant that has the row, at least `repeats`, and that many quiet ones where the time allows."""
    machine = QuietMachine()
    out = {name: Samples() for name, w in workers.items() if row in w.facts["rows"]}
    for name in out:
        workers[name].ask(do="turn", row=row, ms=0)  # compiles, makes plans
    begin, rounds = time.perf_counter(), 0
    while rounds < repeats or (
        min(len(s.quiet) for s in out.values()) < repeats and time.perf_counter() - begin < seconds
    ):
        for name, samples in out.items():
            with machine.watch() as watch:
                times = workers[name].ask(do="turn", row=row, ms=TURN_MS)["times"]
            (samples.quiet if watch.quiet else samples.noisy).append(statistics.median(times))
        rounds += 1
    return out


def machine_facts() -> dict[str, Any]:
    """What a reader needs to judge the figures, without anything that names this installation."""
    cpu = platform.processor() or platform.machine()
    flags: set[str] = set()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                cpu = value.strip()
            elif key.strip() == "flags":
                flags = set(value.split())
    except OSError:
        pass
    # The last commit that touched what is measured.
    asked = ["git", "log", "-1", "--format=%h", "--", "../../ren_core/src", "../../ren_backend_cpu/src"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=HERE, check=False)
    pinned = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": done.stdout.strip() or "unknown",
        "cpu": cpu,
        "cores": os.cpu_count(),
        "vectors": [f for f in ("avx2", "avx512f", "avx512ifma") if f in flags],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pinned": len(pinned) == 1,
    }


def merge(path: Path, fields: dict[str, Any]) -> None:
    """Put fields into a results file: dictionaries are merged one level down, everything else replaced."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for key, value in fields.items():
        found[key] = found.get(key, {}) | value if isinstance(value, dict) else value
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")


def chosen(options: argparse.Namespace) -> list[str]:
    return [m for m in MODULES if any(part in m for part in options.only.split(","))]


def start(module: str, options: argparse.Namespace) -> Worker:
    short = module.removeprefix("peer_")
    given = dict(item.split("=", 1) for item in options.python)
    python = given.get(short) or os.environ.get(f"REN_BENCH_{short.upper()}") or sys.executable
    return Worker(module, options.set, python)


def describe(worker: Worker) -> dict[str, Any]:
    return {k: v for k, v in worker.facts.items() if k != "rows"}


def measure_memory(options: argparse.Namespace, path: Path) -> None:
    for module in chosen(options):
        worker = start(module, options)
        name = worker.facts["name"]
        if worker.reason:
            print(f"{name}: not measured: {worker.reason}", flush=True)
            merge(path, {"contestants": {name: describe(worker)}})
            continue
        errors = {row: worker.ask(do="errors", row=row)["errors"] for row in worker.facts["rows"]}
        peak = worker.ask(do="peak")["peak"]
        print(f"{name}: peak memory {peak:.0f} MiB", flush=True)
        merge(path, {"contestants": {name: describe(worker)}, "peak_mib": {name: peak}, "errors": {name: errors}})
        worker.close()


def measure_times(options: argparse.Namespace, path: Path) -> None:
    began = time.perf_counter()
    facts = machine_facts()
    if not facts["pinned"]:
        print("warning: not pinned to one core (taskset -c 1 ...): figures are not comparable")
    workers: dict[str, Worker] = {}
    for module in chosen(options):
        worker = start(module, options)
        merge(path, {"contestants": {worker.facts["name"]: describe(worker)}})
        if worker.reason:
            print(f"{worker.facts['name']}: not measured: {worker.reason}", flush=True)
        else:
            workers[worker.facts["name"]] = worker
    if "Ren" not in workers:
        raise SystemExit("Ren itself could not run; see above")
    have = json.loads(path.read_text()).get("rows", {}) if options.missing else {}
    merge(path, {"set": options.set, "machine": facts})
    for row in workers["Ren"].facts["rows"]:
        if row in have or (options.rows and not any(part in row for part in options.rows.split(","))):
            continue
        if time.perf_counter() - began > options.limit:
            print(f"time is up before {row!r}; --missing goes on from here")
            break
        samples = take_turns(row, workers, options.repeats, options.seconds)
        raw = {name: {"quiet": s.quiet, "noisy": s.noisy} for name, s in samples.items()}
        merge(path, {"rows": {row: {"date": facts["date"], "commit": facts["commit"], "samples": raw}}})
        shown = "  ".join(f"{n} {s.median:.3g}{'' if s.gated else '~'}" for n, s in samples.items())
        print(f"{row:<34}{shown}", flush=True)
    for worker in workers.values():
        worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=sorted(SETS), default="A")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), help="folder of the results")
    parser.add_argument("--rows", default="", help="comma-separated parts of row names; empty: all")
    parser.add_argument(
        "--only", default="", help="comma-separated parts of contestants' names, Ren among them; empty: all"
    )
    parser.add_argument("--missing", action="store_true", help="only rows that the results lack")
    parser.add_argument("--repeats", type=int, default=7, help="quiet samples wanted per row and contestant")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to wait for them, per row")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no further row is started")
    parser.add_argument("--memory", action="store_true", help="peak memory and errors instead of times")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="the Python of a peer")
    options = parser.parse_args()
    path = options.out / f"{options.set}.json"
    (measure_memory if options.memory else measure_times)(options, path)


if __name__ == "__main__":
    main()

"""One contestant in a process of its own: makes its keys, runs one row when told to, says what it took.

    python contestant.py MODULE SET

Talks JSON lines on standard input and output; needs nothing but the contestant's own library, so it runs in whatever Python that library needs.
`side_by_side.py` starts one per contestant and lets them take turns on one core.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from workloads import SETS, Row, errors_of  # noqa: E402


def peak_mib() -> float:
    """The most memory this process has had. Not ru_maxrss: that remembers the process that started this one."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    import resource

    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def turn(row: Row, milliseconds: float) -> list[float]:
    """One call that is not timed, since the others had the caches, then timed ones for about that long, at least one."""
    row.call()
    times = []
    until = time.perf_counter() + milliseconds / 1e3
    while not times or time.perf_counter() < until:
        start = time.perf_counter()
        result = row.call()
        times.append((time.perf_counter() - start) * 1e3)
        del result
    return times


def serve(module: str, set_name: str, answer: Any) -> None:
    try:
        library = importlib.import_module(module)
        contestant = library.Contestant(SETS[set_name])
        rows: dict[str, Row] = contestant.rows()
    except (ImportError, RuntimeError, OSError) as error:
        answer(reason=f"{type(error).__name__}: {error}", name=getattr(library_or_none(module), "NAME", module))
        return
    answer(
        name=library.NAME,
        version=library.version(),
        python=sys.version.split()[0],
        security=contestant.security,
        note=getattr(contestant, "note", ""),
        key_bytes=contestant.key_bytes(),
        rows=list(rows),
    )
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "turn":
            answer(times=turn(rows[asked["row"]], asked["ms"]))
        elif asked["do"] == "errors":
            answer(errors=errors_of(rows[asked["row"]]))
        elif asked["do"] == "peak":
            answer(peak=peak_mib())


def library_or_none(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def main() -> None:
    # Libraries print to standard output; the conversation keeps the real one.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**fields: Any) -> None:
        print(json.dumps(fields), file=out, flush=True)

    serve(sys.argv[1], sys.argv[2], answer)


if __name__ == "__main__":
    main()

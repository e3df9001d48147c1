"""How long `import ren` takes beyond `import numpy`, each in fresh processes, alternating. The goal is at most 60 ms more.

python tests/bench/import_time.py [repetitions]
"""

from __future__ import annotations

import statistics
import subprocess
import sys

PROGRAM = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def milliseconds(module: str) -> float:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(module)], capture_output=True, text=True, check=True)
    return 1e3 * float(done.stdout)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    modules = ("numpy", "ren", "ren.schemes.ckks")
    samples: dict[str, list[float]] = {m: [] for m in modules}
    for module in modules:  # the first run of each reads files that later runs find in memory
        milliseconds(module)
    for _ in range(repetitions):
        for module in modules:
            samples[module].append(milliseconds(module))
    base = statistics.median(samples["numpy"])
    print("| import | median ms | above numpy | least | most |\n| --- | --- | --- | --- | --- |")
    for module, times in samples.items():
        median = statistics.median(times)
        print(f"| {module} | {median:.1f} | {median - base:+.1f} | {min(times):.1f} | {max(times):.1f} |")


if __name__ == "__main__":
    main()

"""On a GPU, as soon as there is one: all of this is skipped elsewhere, and has never run on one.

    python -m pytest tests/cuda/test_on_a_gpu.py
    python -m pytest tests/cuda/test_on_a_gpu.py -m full -k sanitizer      # needs compute-sanitizer in PATH

Only `test_what_waits_for_a_card_runs` in test_cupy_backend.py runs parts of it without a GPU, on the emulator, so that it is not found broken on the day.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import ren
from plans import PLANS, differ, results
from ren.backend.select import facts, get_backend
from ren.errors import BackendUnavailableError
from ren.schemes import ckks
from ren.testing import BackendConformance, fixed_randomness


@pytest.fixture(autouse=True)
def gpu():
    """Asked for in the test, not at import: a probe imports CuPy."""
    try:
        found = facts("cuda")
    except BackendUnavailableError as error:
        pytest.skip(str(error))
    if not found.device_works:
        pytest.skip(f"no GPU: {found.reason}")


class TestOnAGpu(BackendConformance):
    backend_name = "cuda"
    sizes = (2, 64, 1024, 4096, 8192)


@pytest.mark.parametrize("log_n", range(12, 18))
@pytest.mark.parametrize("name", PLANS)
def test_plans_have_the_bits_of_the_cpu(name, log_n):
    """Many replays, each in memory that others had: what is reused too early gives other words in one of them."""
    plan = PLANS[name](1 << log_n)
    expected = results(get_backend("cpu"), plan)
    for _ in range(5):
        assert differ(results(get_backend("cuda"), plan), expected) == []


_FIRST = """
import sys
import numpy as np
from ren.schemes import ckks
from ren.testing import fixed_randomness
engine = ckks.keygen(ckks.CKKSParams.build(n=1 << 14, levels=4, scale_bits=40), sys.argv[1], seed=b"first")
with engine, fixed_randomness(2):
    y = ckks.encrypt(ckks.encode(np.linspace(-1, 1, engine.num_slots))).rotate(3)
    print(hash(b"".join(np.asarray(part.residues()).tobytes() for part in (y.a, y.b))))
"""


def test_the_first_call_of_a_process_is_right():
    """User need 13. The key switch is the first thing that each of these processes runs."""
    environment = os.environ | {"PYTHONHASHSEED": "0"}

    def first(device):
        return subprocess.run([sys.executable, "-c", _FIRST, device], capture_output=True, text=True, env=environment, check=True).stdout

    assert {first("cuda") for _ in range(3)} == {first("cpu")}


def words(x):
    return b"".join(np.asarray(part.residues()).tobytes() for part in (x.a, x.b))


def test_replays_of_many_threads_have_the_bits_of_the_cpu(threads=4, rounds=25):
    def step(x):
        return (2 * x * x - 1).rotate(1)

    def engine_on(device):
        return ckks.keygen(ckks.CKKSParams.build(n=1 << 13, levels=2, scale_bits=40, toy=True), device, seed=b"stress")

    engines = {device: engine_on(device) for device in ("cpu", "cuda")}
    values = np.random.default_rng(1).uniform(-1, 1, (threads, engines["cpu"].num_slots))
    inputs = {}
    for device, engine in engines.items():
        with engine, fixed_randomness(4):
            inputs[device] = [ckks.encrypt(ckks.encode(v)).realize() for v in values]
    with engines["cpu"]:
        expected = [words(step(x)) for x in inputs["cpu"]]
    replayed, found = ren.jit(step), {}

    def work(number):
        with engines["cuda"]:
            kept = [replayed(inputs["cuda"][number]) for _ in range(rounds)]
            found[number] = {words(y) for y in kept}

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found == {i: {e} for i, e in enumerate(expected)}


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_compute_sanitizer_finds_nothing(tool):
    """What the check build of the emulator says, said by the hardware."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not in PATH (it comes with the CUDA toolkit)")
    here = Path(__file__)
    chosen = "test_kernel and (64 or 4096) or test_plans_have_the_bits_of_the_cpu and (12 or 17)"
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, "-m", "pytest", str(here), "-k", chosen]
    done = subprocess.run(command, capture_output=True, text=True, cwd=here.parents[2])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

"""Threads and forked processes: tables built once, no repeated randomness, no hang."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from ren.errors import NoContextError
from ren.poly import Poly
from ren.schemes import ckks

Make = Callable[..., ckks.Engine]

FIRST_USE = """
import threading, numpy as np
from ren.schemes import ckks
engine = ckks.keygen(ckks.CKKSParams.python_test(), DEVICE)
values = np.linspace(-1, 1, 64)
x = engine.encrypt(engine.encode(values))
barrier = threading.Barrier(16)
found = [None] * 16
def work(i):
    with engine:
        barrier.wait()
        y = (x * x + x.rotate(i % 3 + 1)).conjugate() * (1 + 0.5j)
        found[i] = ckks.decode(ckks.decrypt(y))
threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
for i, y in enumerate(found):
    exact = (values**2 + np.roll(values, i % 3 + 1)) * (1 + 0.5j)
    assert y is not None and np.abs(y - exact).max() < 1e-6, i
assert engine.evaluation_keys.rotations.steps == (1, 2, 3)
print("ok")
"""


def run(code: str, timeout: float = 60) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_first_use_by_sixteen_threads_in_a_fresh_process(device: str) -> None:
    """microsoft/SEAL #216: a table built lazily by rotation was not synchronised."""
    assert run(FIRST_USE.replace("DEVICE", repr(device))) == "ok"


@pytest.mark.full
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_first_use_in_twenty_fresh_processes(device: str) -> None:
    for _ in range(20):
        assert run(FIRST_USE.replace("DEVICE", repr(device))) == "ok"


FORK = """
import os, warnings, numpy as np
warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
from ren.schemes import ckks
engine = ckks.keygen(ckks.CKKSParams.python_test(), "cpu")
values = np.linspace(-1, 1, 64)
x = engine.encrypt(engine.encode(values))
(x * x).rotate(1).realize()
child = os.fork()
y = (x * x).rotate(1) + engine.encrypt(engine.encode(values))
found = engine.decode(engine.decrypt(y))
right = np.abs(found - np.roll(values**2, 1) - values).max() < 1e-6
if child == 0:
    os._exit(0 if right else 1)
assert right and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("ok")
"""


def test_keys_are_made_once_by_many_threads(new_engine: Make) -> None:
    engine = new_engine()
    barrier = threading.Barrier(8)

    def work(_: int) -> tuple[Any, ...]:
        barrier.wait()
        return engine.relinearization_key, engine.rotation_key(1), engine.public_key, engine.conjugation_key

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert all(a is b for one in found for a, b in zip(one, found[0], strict=True))


def test_threads_enter_an_engine_themselves(lab: Any) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            ckks.encode([1.0])
        except NoContextError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(errors) == 1 and "with keygen" in str(errors[0])


def test_the_same_lazy_value_in_two_threads(lab: Any) -> None:
    x = lab.encrypt()
    y = x.ct * x.ct + x.ct
    engine = lab.engine
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: engine.decode(engine.decrypt(y)), range(8)))
    for one in found:
        np.testing.assert_allclose(one, x.exact**2 + x.exact, atol=1e-6)


def test_threads_never_draw_the_same_noise(lab: Any) -> None:
    engine, p = lab.engine, lab.engine.encode(np.zeros(64))
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: engine.encrypt(p).b.tobytes(), range(32)))
    assert len(set(drawn)) == 32


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_draw_different_randomness(lab: Any) -> None:
    """opendp/opendp #2934, pyca/cryptography #158: identical noise in forked workers."""
    engine, p = lab.engine, lab.engine.encode(np.zeros(64))
    engine.encrypt(p)  # something was drawn before the fork

    def draw(queue: Any) -> None:
        ternary = Poly.ternary(engine.params.ring, device="reference")
        queue.put((engine.encrypt(p).a.tobytes(), engine.encrypt(p, engine.public_key).b.tobytes(), ternary.tobytes()))

    fork = multiprocessing.get_context("fork")
    engine.public_key  # noqa: B018
    queue = fork.SimpleQueue()
    children = [fork.Process(target=draw, args=(queue,)) for _ in range(3)]
    for child in children:
        child.start()
    drawn = [queue.get() for _ in children]
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    own = fork.SimpleQueue()
    draw(own)
    drawn.append(own.get())
    for kind in range(3):
        assert len({one[kind] for one in drawn}) == 4


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_works_even_if_a_lock_was_held_at_the_fork(new_engine: Make) -> None:
    """numba/numba #7872 and its kind: a hang after fork."""
    engine = new_engine()
    x = engine.encrypt(engine.encode([0.5, 0.25]))
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with engine.keys.lock:
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    fork = multiprocessing.get_context("fork")
    queue = fork.SimpleQueue()
    child = fork.Process(target=lambda: queue.put(engine.decode(engine.decrypt(x.rotate(1) * x), 3)))
    child.start()
    release.set()
    thread.join()
    child.join(30)
    assert child.exitcode == 0
    np.testing.assert_allclose(queue.get(), [0.0, 0.125, 0.0], atol=1e-6)


def test_a_spawned_worker_needs_only_public_things(new_engine: Make) -> None:
    """ibarrond/Pyfhel #71, Huelse/SEAL-Python #127: pickles without their context, no pickling at all."""
    engine = new_engine()
    x = engine.encrypt(engine.encode([0.5, -0.25]))
    data = pickle.dumps((engine.public(relinearization=True), x))
    code = (
        "import pickle, sys\n"
        "server, x = pickle.loads(bytes.fromhex(sys.stdin.read()))\n"
        "with server:\n"
        "    print(pickle.dumps(x * x).hex())\n"
    )
    environment = {**os.environ, "REN_BACKEND": "reference"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=data.hex(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    result = pickle.loads(bytes.fromhex(done.stdout)).to("reference")
    np.testing.assert_allclose(engine.decode(engine.decrypt(result), 2), [0.25, 0.0625], atol=1e-6)


@needs_fork
def test_kernels_run_in_a_forked_child() -> None:
    """numba/numba #7872: a parallel kernel in the parent, then one in the child: a hang."""
    assert run(FORK, timeout=30) == "ok"


@pytest.mark.full
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the resident size from /proc")
@pytest.mark.parametrize("jitted", [False, True])
def test_memory_stays_flat(jitted: bool) -> None:
    """OpenMined/TenSEAL #317: memory grew by pass."""
    code = MEMORY.replace("JIT", "ren.jit(f)" if jitted else "f")
    early, late = map(float, run(code, timeout=300).split())
    assert late < 1.05 * early


MEMORY = """
import numpy as np, ren
from ren.schemes import ckks
engine = ckks.keygen(ckks.CKKSParams.build(n=1024, levels=4, scale_bits=40, toy=True), "cpu")
def f(x, y):
    return (x * y).rotate(1) + x * 0.5
g = JIT
def resident():
    return int(open("/proc/self/statm").read().split()[1])
with engine:
    x = ckks.encrypt(ckks.encode(np.linspace(-1, 1, 512)))
    for i in range(500):
        g(x, x + 0.25).realize()
        if i in (50, 499):
            print(resident())
"""

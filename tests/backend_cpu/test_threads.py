"""Threads: the same words whatever their number, several callers at once, fork, and a team that comes and goes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
import ren
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.errors import ConfigurationError
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.ring import RingSpec
from ren_backend_cpu.backend import CpuBackend
from ren_backend_cpu.kernels import drive

from ren_backend_cpu import driver, threads

BACKEND = CpuBackend()
N = 256
LIMBS = 7
RING = RingSpec(N, tuple(q for q, _ in zip(ntt_primes_below(1 << 45, N), range(LIMBS), strict=False)))
WORDS = N * LIMBS


@pytest.fixture(autouse=True)
def share_everything(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = ren.get_threads()
    monkeypatch.setattr(driver, "SHARED_WORDS", 0)
    yield
    ren.set_threads(before)


def chain_plan(length: int = 6) -> tuple[list[ExecUnit], list[Slot]]:
    """x to the NTT domain, squared `length` times, and back: every unit needs all of the one before."""
    whole = [Operand(k, 0, WORDS) for k in range(2)]
    units = [ExecUnit("ntt", RING, (), (whole[0],), (), (whole[1],))]
    square = (2, 0, (("mul", 0, 1),), (2,), Domain.NTT)
    for _ in range(length):
        units.append(ExecUnit("elementwise", RING, square, (whole[1], whole[1]), (), (whole[1],)))
        units.append(ExecUnit("intt", RING, (), (whole[1],), (), (whole[1],)))
        units.append(ExecUnit("ntt", RING, (), (whole[1],), (), (whole[1],)))
    return units, [Slot(SlotKind.INPUT, WORDS), Slot(SlotKind.OUTPUT, WORDS)]


def bound(seed: int) -> list[tuple[object, int]]:
    views = [(BACKEND.alloc(WORDS), 0) for _ in range(2)]
    rng = np.random.default_rng(seed)
    BACKEND.copyin(views[0][0], 0, np.concatenate([rng.integers(0, q, N, np.uint64) for q in RING.moduli]))
    return views


def result(runner: driver.Runner, seed: int) -> bytes:
    views = bound(seed)
    runner(views)
    return BACKEND.copyout(views[1][0], 0, WORDS).tobytes()


@pytest.mark.parametrize("count", [2, 3, 5])
def test_results_do_not_depend_on_the_number_of_threads(count: int) -> None:
    runner = BACKEND.graph(*chain_plan())
    ren.set_threads(1)
    expected = [result(runner, seed) for seed in range(20)]
    ren.set_threads(count)
    assert [result(runner, seed) for seed in range(20)] == expected
    team = threads.team()
    assert team is not None
    assert team.size == count


def test_helpers_take_part() -> None:
    """On a busy machine they may come late, so runs go on until one has done something."""
    ren.set_threads(2)
    runner = BACKEND.graph(*chain_plan(60))
    views = bound(1)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        runner(views)
        team = threads.team()
        assert team is not None
        if int(team._state[drive.DONE]):
            return
    pytest.fail("the helper never took an item")


def test_several_callers_at_once() -> None:
    """One has the team, the others run alone; all results are right."""
    runner = BACKEND.graph(*chain_plan())
    ren.set_threads(1)
    expected = {seed: result(runner, seed) for seed in range(4)}
    ren.set_threads(2)
    start, wrong = threading.Barrier(4), []

    def work(seed: int) -> None:
        start.wait()
        wrong.extend(1 for _ in range(100) if result(runner, seed) != expected[seed])

    callers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert wrong == []


def test_the_number_changes_while_plans_run() -> None:
    runner = BACKEND.graph(*chain_plan())
    ren.set_threads(1)
    expected = result(runner, 3)
    done, wrong = threading.Event(), []

    def work() -> None:
        while not done.is_set():
            if result(runner, 3) != expected:
                wrong.append(1)

    caller = threading.Thread(target=work)
    caller.start()
    for count in (2, 3, 1, 4, 2, 1) * 5:
        ren.set_threads(count)
        result(runner, 1)
    done.set()
    caller.join()
    assert wrong == []


def test_helpers_that_are_not_needed_go_away() -> None:
    ren.set_threads(4)
    runner = BACKEND.graph(*chain_plan())
    result(runner, 1)
    team = threads.team()
    assert team is not None
    ren.set_threads(2)
    result(runner, 1)
    for helper in team._helpers:
        helper.thread.join(30)
        assert not helper.thread.is_alive()


def test_a_machine_without_more_threads_computes_with_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    runner = BACKEND.graph(*chain_plan())
    ren.set_threads(1)
    expected = result(runner, 1)
    monkeypatch.setattr(threads, "_team", None)
    ren.set_threads(3)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.warns(UserWarning, match="only 1 of 3 threads"):
        assert result(runner, 1) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_after_fork_runs_alone_and_may_ask_for_more() -> None:
    ren.set_threads(2)
    runner = BACKEND.graph(*chain_plan())
    expected = result(runner, 1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            alone = ren.get_threads() == 1 and threads.team() is None and result(runner, 1) == expected
            ren.set_threads(2)
            more = result(runner, 1) == expected and threads.team() is not None
            status = 0 if alone and more else 2
        finally:
            os._exit(status)
    _, code = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(code) == 0
    assert result(runner, 1) == expected


_PROGRAM = """
import os, sys
import numpy as np, ren
from ren_backend_cpu import driver
from ren_backend_cpu.threads import team
driver.SHARED_WORDS = 0
x = ren.Poly(list(range(256)), ren.RingSpec(256, (7681, 12289)), device="cpu")
y = (x * x).realize()
print(ren.get_threads(), team().size)
"""


def test_the_environment_sets_the_number_and_the_process_ends_cleanly() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "REN_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stdout.split(), run.stderr) == (0, ["2", "2"], "")


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2", None])
def test_a_wrong_number_is_refused(count: object) -> None:
    before = ren.get_threads()
    with pytest.raises(ConfigurationError, match="integer of at least 1"):
        ren.set_threads(count)  # type: ignore[arg-type]
    assert ren.get_threads() == before

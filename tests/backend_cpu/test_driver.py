"""Plans: what is checked before the one call into machine code, and that a plan may run in many threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.errors import KernelOperandError, KernelUnsupportedError
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.ring import RingSpec
from ren_backend_cpu.backend import CpuBackend

BACKEND = CpuBackend()
N = 256
RING = RingSpec(N, (next(ntt_primes_below(1 << 45, N)), next(ntt_primes_below(1 << 60, N))))
WORDS = N * RING.limbs


def whole(slot: int, offset: int = 0) -> Operand:
    return Operand(slot, offset, WORDS)


def product_plan() -> tuple[list[ExecUnit], list[Slot]]:
    """out = x * y by transforms; the arena holds both transforms in one slot."""
    units = [
        ExecUnit("ntt", RING, (), (whole(0),), (), (whole(2),)),
        ExecUnit("ntt", RING, (), (whole(1),), (), (whole(2, WORDS),)),
        ExecUnit(
            "elementwise",
            RING,
            (2, 0, (("mul", 0, 1),), (2,), Domain.NTT),
            (whole(2), whole(2, WORDS)),
            (),
            (whole(2),),
        ),
        ExecUnit("intt", RING, (), (whole(2),), (), (whole(3),)),
    ]
    kinds = (SlotKind.INPUT, SlotKind.INPUT, SlotKind.TEMPORARY, SlotKind.OUTPUT)
    return units, [Slot(k, 2 * WORDS if k is SlotKind.TEMPORARY else WORDS) for k in kinds]


def negacyclic(x: list[int], y: list[int], q: int) -> list[int]:
    out = [0] * len(x)
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            k = i + j
            out[k % len(x)] += a * b if k < len(x) else -a * b
    return [v % q for v in out]


def random_poly(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.integers(0, q, N, np.uint64) for q in RING.moduli])


def views(x: np.ndarray, y: np.ndarray) -> list[tuple[object, int]]:
    made = [(BACKEND.alloc(words + 3), 3) for words in (WORDS, WORDS, 2 * WORDS, WORDS)]
    for (memory, offset), data in zip(made, (x, y), strict=False):
        BACKEND.copyin(memory, offset, data)
    return made


def test_a_plan_multiplies_polynomials() -> None:
    runner = BACKEND.graph(*product_plan())
    x, y = random_poly(1), random_poly(2)
    bound = views(x, y)
    runner(bound)
    out = BACKEND.copyout(bound[3][0], 3, WORDS)
    for j, q in enumerate(RING.moduli):
        part = slice(j * N, (j + 1) * N)
        assert out[part].tolist() == negacyclic(x[part].tolist(), y[part].tolist(), q)
    assert BACKEND.copyout(bound[0][0], 3, WORDS).tolist() == x.tolist()


def test_threads_share_a_plan() -> None:
    runner = BACKEND.graph(*product_plan())
    expected = {}
    for seed in range(4):
        bound = views(random_poly(seed), random_poly(seed + 10))
        runner(bound)
        expected[seed] = BACKEND.copyout(bound[3][0], 3, WORDS)
    start = threading.Barrier(4)
    wrong: list[int] = []

    def work(seed: int) -> None:
        bound = views(random_poly(seed), random_poly(seed + 10))
        start.wait()
        for _ in range(50):
            runner(bound)
            if not np.array_equal(BACKEND.copyout(bound[3][0], 3, WORDS), expected[seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_bad_bindings_are_refused_before_anything_runs() -> None:
    runner = BACKEND.graph(*product_plan())
    good = views(random_poly(1), random_poly(2))
    small = BACKEND.alloc(WORDS - 1)
    cases = [
        (good[:3], "4 slots, got 3"),
        ([*good, good[0]], "4 slots, got 5"),
        ([good[0], good[1], good[2], (small, 0)], "needs"),
        ([good[0], good[1], good[2], (good[3][0], 4)], "needs"),
        ([good[0], good[1], good[2], (good[3][0], -1)], "needs"),
        ([good[0], (None, 0), *good[2:]], "CpuMemory"),
        ([good[0], (np.zeros(WORDS, np.uint64), 0), *good[2:]], "CpuMemory"),
    ]
    BACKEND.copyin(good[3][0], 0, np.full(WORDS + 3, 7, np.uint64))
    for bound, message in cases:
        with pytest.raises(KernelOperandError, match=message):
            runner(bound)
    assert set(BACKEND.copyout(good[3][0], 0, WORDS + 3).tolist()) == {7}


def test_operands_outside_their_slot_are_refused() -> None:
    units, slots = product_plan()
    for operand in (whole(4), whole(2, WORDS + 1), whole(2, -1), whole(-1)):
        bad = ExecUnit("ntt", RING, (), (whole(0),), (), (operand,))
        with pytest.raises(KernelOperandError, match="does not fit its slot"):
            BACKEND.graph([*units, bad], slots)


def test_unknown_kernels_are_refused() -> None:
    with pytest.raises(KernelUnsupportedError, match="no kernel 'bootstrap'"):
        BACKEND.compile(ExecUnit("bootstrap", RING, (), (), (), ()))


def test_copies_check_their_range() -> None:
    memory = BACKEND.alloc(8)
    with pytest.raises(KernelOperandError):
        BACKEND.copyin(memory, 1, np.zeros(8, np.uint64))
    with pytest.raises(KernelOperandError):
        BACKEND.copyin(memory, 0, np.zeros(8, np.int64))
    with pytest.raises(KernelOperandError):
        BACKEND.copyout(memory, 4, 5)


def test_memory_is_aligned() -> None:
    assert all(BACKEND.alloc(words).address % 64 == 0 for words in (1, 7, 8, 1000, 4097))


_RACE = """
import threading
import numpy as np
from ren.engine.exec_unit import ExecUnit, Operand
from ren.numtheory.primes import ntt_primes_below
from ren.ring import RingSpec
from ren_backend_cpu import tables
from ren_backend_cpu.backend import CpuBackend
n, backend, start, made, sums = 256, CpuBackend(), threading.Barrier(16), [], []
built = tables.LimbTable.__init__
def counted(self, *arguments):
    made.append(arguments)
    built(self, *arguments)
tables.LimbTable.__init__ = counted
moduli = tuple(next(ntt_primes_below(1 << bits, n)) for bits in (45, 50, 60))
def work():
    start.wait()
    ring = RingSpec(n, moduli)
    words = n * ring.limbs
    memory = backend.alloc(words)
    backend.copyin(memory, 0, np.arange(words, dtype=np.uint64))
    x = Operand(0, 0, words)
    backend.compile(ExecUnit("ntt", ring, (), (x,), (), (x,)))([(memory, 0), (memory, 0)])
    sums.append(backend.copyout(memory, 0, words).tobytes())
threads = [threading.Thread(target=work) for _ in range(16)]
for t in threads: t.start()
for t in threads: t.join()
print(len(sums), len(set(sums)), len(made))
"""


def test_first_uses_at_once_build_each_table_once() -> None:
    """16 threads of a fresh process meet at a barrier before anything is compiled or tabulated."""
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", _RACE], capture_output=True, text=True, check=True, timeout=120)
        assert run.stdout.split() == ["16", "1", "3"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_after_fork_computes() -> None:
    runner = BACKEND.graph(*product_plan())
    bound = views(random_poly(1), random_poly(2))
    runner(bound)
    expected = BACKEND.copyout(bound[3][0], 3, WORDS)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            runner(bound)
            # a modulus that the parent has not met: tables and machine code are made in the child
            ring = RingSpec(N, (next(ntt_primes_below(1 << 44, N)),))
            fresh = BACKEND.alloc(N)
            BACKEND.copyin(fresh, 0, np.ones(N, np.uint64))
            unit = ExecUnit("ntt", ring, (), (Operand(0, 0, N),), (), (Operand(0, 0, N),))
            BACKEND.compile(unit)([(fresh, 0), (fresh, 0)])
            status = 0 if np.array_equal(BACKEND.copyout(bound[3][0], 3, WORDS), expected) else 2
        finally:
            os._exit(status)
    _, code = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(code) == 0

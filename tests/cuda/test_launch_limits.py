"""No launch of any unit breaks a limit of a GPU: every kernel, degrees 2 to 2^17, up to 64 limbs, in batches.

Nothing runs here. The device below has no memory, takes every kernel to use as many registers as there are, and checks launches as a GPU
would. Bounds of blocks come from the emulator's build of the same source.
"""

from __future__ import annotations

import pytest
from emulator import MISSING, EmulatedDevice
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.errors import RenError
from ren.ops import KERNELS as UNITS
from ren.ops import Domain
from ren.ring import RingSpec
from ren.testing.vectors import primes_of_width
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.limits import LIMITS, PLAIN_SHARED, Resources, check_launch

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

BITS = 55  # enough primes at every degree but the smallest
MOST = 64
LIMBS = (1, 2, 3, 18, 34, MOST)
QUICK_LIMBS = (1, 3, MOST)
SPECIAL = 4
#: The compiler's own limit: a kernel that takes more spills, which test_compile_matrix forbids. Static shared memory of the largest.
WORST = {"registers": 255, "shared": 2048}
QUICK = (1, 2, 6, 11, 12, 17)


class Memory:
    def __init__(self, words):
        self.words, self.address = words, 1 << 20


class Dry:
    """A device that only checks, and counts how often; `largest` is the most dynamic shared memory that a launch asked for."""

    name = "dry"

    def __init__(self, bounds):
        self.bounds, self.checked, self.largest = bounds, 0, 0

    def alloc(self, words):
        return Memory(words)

    def upload(self, memory, offset, data):
        assert 0 <= offset <= memory.words - data.size

    def function(self, source, defines, kernel):
        return self.bounds.function(source, defines, kernel)

    def record(self, launches):
        for launch in launches:
            function = launch.function
            function.declaration.check(launch.arguments)
            used = Resources(**WORST, bound=function.used.bound)
            for limits in LIMITS.values():
                check_launch(function.name, launch.grid, launch.block, launch.shared_bytes, limits, used)
            self.largest = max(self.largest, launch.shared_bytes)
            self.checked += 1
        return self

    def run(self):
        pass


def unit(kernel, ring, params, inputs, outputs, scalars=(), slot=0):
    """Operands of these sizes, each in a slot of its own from `slot` on."""
    places = [Operand(slot + i, 0, words) for i, words in enumerate((*inputs, *scalars, *outputs))]
    a, b = len(inputs), len(inputs) + len(scalars)
    return ExecUnit(kernel, ring, params, tuple(places[:a]), tuple(places[a:b]), tuple(places[b:]))


def moduli(n, count):
    """`count` moduli; fewer where there are no more."""
    try:
        found = primes_of_width(n, BITS, count)
    except (RenError, StopIteration):
        found = ()
    return found


def units(kernel, n, limbs):
    """Units of one kernel whose launches are as large as the ring allows."""
    q = moduli(n, limbs + SPECIAL)
    ring, special = RingSpec(n, q[:limbs]), tuple(q[limbs:])
    words, every = limbs * n, limbs + SPECIAL
    keyed = tuple(range(every))

    def make(params, inputs, outputs, scalars=(), ring=ring):
        return unit(kernel, ring, params, inputs, outputs, scalars)

    for domain in Domain:
        if kernel == "elementwise":
            program = (2, 1, (("mul", 0, 1), ("scale", 2, 0), ("mac", 3, 0, 2)), (4, 2), domain)
            yield make(program, (words, words), (words, words), (limbs,))
        elif kernel == "automorphism":
            yield make((5 % (2 * n), domain), (words,), (words,))
        elif kernel == "mod_down" and limbs > 1:
            for k in {1, limbs - 1}:
                yield make((k, 0, domain), (words,), ((limbs - k) * n,))
                yield make((k, limbs - k, domain), (words, (limbs - k) * n), ((limbs - k) * n,))
        elif kernel in ("decompose", "key_switch"):
            for alpha in {1, SPECIAL, limbs}:
                digits = -(-limbs // alpha)
                if kernel == "decompose":
                    yield make((alpha, special, domain), (words,), (digits * every * n,))
                else:
                    key = digits * 2 * every * n
                    yield make((alpha, special, domain, every, keyed), (words, key), (every * n, every * n))
    if kernel in ("ntt", "intt", "copy"):
        yield make((), (words,), (words,))
    elif kernel == "basis_extend":
        for mode in ("approximate", "centred", "exact"):
            yield make((mode, special), (words,), (every * n,))
    elif kernel == "gadget_product":
        for digits in {1, limbs}:
            yield make((digits, limbs, keyed[:limbs]), (digits * words, 2 * digits * words), (words, words))
    elif kernel == "sample":
        for draw in (("uniform", None), ("ternary", None), ("gaussian", "3.2"), ("sparse_ternary", max(1, n // 2))):
            yield make((*draw, 0), (4,), (words,))
    elif kernel == "from_float":
        yield make((), (n + 1,), (words,))
    elif kernel == "lift":
        yield make((), (words,), (n + 1,))


@pytest.fixture(scope="module")
def dry():
    return Dry(EmulatedDevice("fast"))


@pytest.mark.parametrize(
    ("log_n", "all_limbs"),
    [*((k, QUICK_LIMBS) for k in QUICK), *(pytest.param(k, LIMBS, marks=pytest.mark.full) for k in range(1, 18))],
)
def test_units(dry, log_n, all_limbs):
    n = 1 << log_n
    backend = CudaBackend(dry)
    for limbs in all_limbs:
        tried = 0
        for kernel in UNITS:
            for one in units(kernel, n, limbs):
                before = dry.checked
                backend.compile(one)
                assert dry.checked > before, f"{kernel} at {n} launches nothing"
                tried += 1
        assert tried >= len(UNITS) - 1
    assert dry.largest <= PLAIN_SHARED, "more has to be asked for, and fewer blocks then fit a multiprocessor"


@pytest.mark.parametrize("kernel", ["elementwise", "ntt", "copy", "key_switch"])
def test_many_equal_units(dry, kernel):
    """Equal units that do not depend on each other share a launch, but no more of them than a grid has places."""
    (one, *_) = units(kernel, 64, MOST)
    plan, sizes = [], []
    for _ in range(150):
        parts = (one.inputs, one.outputs, one.scalars)
        plan.append(unit(kernel, one.ring, one.params, *([o.words for o in p] for p in parts), slot=len(sizes)))
        sizes += [o.words for o in plan[-1].operands]
    before = dry.checked
    CudaBackend(dry).graph(plan, [Slot(SlotKind.INPUT, words) for words in sizes])
    assert dry.checked > before

"""What a plan becomes: how many launches, which units share one, and that order is kept where it matters."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import ren
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.ops import Domain
from ren.schemes import ckks
from ren.testing import PluginTester
from ren.testing.vectors import ring_of_width
from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.batching import group
from ren_backend_cuda.lowered import Pattern
from ren_backend_cuda.peephole import MOD_DOWN_AUTOMORPHISM, fuse
from ren_backend_cuda.source import KERNELS, declarations


class Memory:
    def __init__(self, device, words):
        self.device, self.words, self.address = device, words, 256


class Recorded:
    def __init__(self, device, launches):
        self.device, self.launches = device, launches

    def run(self):
        self.device.launched += self.launches


class Counting:
    """A device that does nothing: its memory is all zeroes. Launches of real-size rings are counted without running them."""

    name = "counting"

    def __init__(self):
        self.launched = []
        self.uploads = 0

    def alloc(self, words):
        return Memory(self, words)

    def upload(self, memory, offset, data):
        self.uploads += 1

    def download(self, memory, offset, words):
        return np.zeros(words, np.uint64)

    def function(self, source, defines, kernel):
        return declarations((KERNELS / f"{source}.cu").read_text())[kernel]

    def record(self, launches):
        for launch in launches:
            launch.function.check(launch.arguments)
        return Recorded(self, launches)

    def synchronize(self):
        pass


DEVICE = Counting()


def backend():
    return CudaBackend(DEVICE)


PLUGIN = """
from ren.plugin import PluginInfo, hookimpl
PLUGIN = PluginInfo(name="counting", api="1.0")
@hookimpl
def ren_register_backends(registry):
    registry.add_backend("cuda", "ren_counting_factory:backend")
"""


@pytest.fixture(scope="module")
def engine():
    """Set A of the benchmarks: n = 2^14, seven levels at 40 bits."""
    with PluginTester() as world:
        world.plugin("counting", PLUGIN)
        sys.modules["ren_counting_factory"] = sys.modules[__name__]
        try:
            with world.active():
                yield ckks.Engine(ckks.CKKSParams.build(n=1 << 14, levels=7, scale_bits=40), device="cuda")
        finally:
            del sys.modules["ren_counting_factory"]


def launches(operation):
    """Kernels of one run, after a first one that made tables and keys."""
    operation().realize()
    DEVICE.launched.clear()
    operation().realize()
    return [launch.function.name for launch in DEVICE.launched]


def test_launches_per_operation(engine):
    with engine:
        x, y = (ckks.encrypt(ckks.encode(np.zeros(engine.num_slots))) for _ in range(2))
        unrescaled = ckks.multiply(x, y, rescale=False).realize()
        # What docs/explanation/cuda-kernels.md says, operation by operation.
        switch = ["inverse_rows", "inverse_columns", "convert_columns", "key_rows"]
        division = ["inverse_rows", "inverse_columns", "convert_columns", "divide_rows"]
        in_two_stages = [*division[:2], "second_digits", *division[2:]]
        for operation, expected in (
            (lambda: x + y, ["elementwise"]),
            (lambda: ckks.multiply(x, y, rescale=False), ["elementwise", *switch, *division]),
            (lambda: x * y, ["elementwise", *switch, *in_two_stages]),
            (lambda: x.rotate(1), [*switch, *division]),
            (lambda: unrescaled.rescale(), division),
        ):
            assert launches(operation) == expected


def test_a_replay_is_one_upload_and_one_recording(engine):
    with engine:
        x = ckks.encrypt(ckks.encode(np.zeros(engine.num_slots))).realize()
        step = ren.jit(lambda x: 2 * x * x - 1)
        step(x)
        DEVICE.launched.clear()
        DEVICE.uploads = 0
        step(x)
        assert DEVICE.uploads == 1
        assert len(DEVICE.launched) == 11


def test_warmup_loads_every_module():
    lines = []
    asked = []

    class Device(Counting):
        def function(self, source, defines, kernel):
            asked.append((source, *defines.values()))
            return super().function(source, defines, kernel)

    CudaBackend(Device()).warmup(lines.append)
    assert {source for source, *_ in asked} == {p.stem for p in KERNELS.glob("*.cu")}
    assert [k for source, *k in asked if source == "ntt"] == [[14], [15], [16]]
    assert len(lines) == len(asked)


# -- which units share launches --------------------------------------------------------------------------------------


def unit(reads, writes, kernel="copy"):
    """A unit over single words of slot 0."""
    return ExecUnit(
        kernel, RING, (), tuple(Operand(0, r, 1) for r in reads), (), tuple(Operand(0, w, 1) for w in writes)
    )


RING = ring_of_width(16, 40, 1)
PATTERNS = {kernel: Pattern(()) for kernel in ("copy", "ntt")}
PATTERNS["ntt"] = Pattern((), 1)


def grouped(units):
    return [g.units for g in group(units, [PATTERNS[u.kernel] for u in units])]


def test_independent_units_share_launches():
    a, b, other = unit([0], [1]), unit([2], [3]), unit([4], [5], "ntt")
    assert grouped([a, b]) == [[a, b]]
    assert grouped([a, other, b]) == [[a, b], [other]]


@pytest.mark.parametrize(
    ("first", "second"),
    [(([0], [1]), ([1], [2])), (([0], [1]), ([2], [0])), (([0], [1]), ([2], [1]))],
    ids=["read after write", "write after read", "write after write"],
)
def test_dependent_units_stay_apart(first, second):
    a, b = unit(*first), unit(*second)
    assert grouped([a, b]) == [[a], [b]]
    between = unit([7], [6], "ntt")
    assert grouped([a, between, b]) == [[a], [between], [b]]


def test_a_unit_does_not_pass_one_that_it_depends_on():
    a, between, b = unit([0], [1]), unit([1], [2], "ntt"), unit([2], [3])
    assert grouped([a, between, b]) == [[a], [between], [b]]


def test_random_plans_give_the_same_memory():
    rng = np.random.default_rng(2)
    for _ in range(200):
        units = [
            unit(
                rng.integers(0, 8, rng.integers(1, 3)).tolist(),
                [int(rng.integers(0, 8))],
                str(rng.choice(["copy", "ntt"])),
            )
            for _ in range(12)
        ]
        found = [u for g in grouped(units) for u in g]
        assert sorted(map(id, found)) == sorted(map(id, units))
        assert memory(found) == memory(units)


def memory(units):
    """What running units one by one leaves, symbolically."""
    words = list(range(8))
    for u in units:
        value = (u.kernel, *(words[o.offset] for o in u.inputs))
        for o in u.outputs:
            words[o.offset] = value
    return words


# -- mod_down and automorphism in one --------------------------------------------------------------------------------


def rotation_end(kind=SlotKind.TEMPORARY, later=()):
    """mod_down into slot 1, its automorphism into slot 2, then `later`."""
    ring = ring_of_width(16, 40, 3)
    low = ring.drop(1)
    x, t, out = Operand(0, 0, 48), Operand(1, 0, 32), Operand(2, 0, 32)
    units = [
        ExecUnit("mod_down", ring, (1, 0, Domain.NTT), (x,), (), (t,)),
        ExecUnit("automorphism", low, (5, Domain.NTT), (t,), (), (out,)),
        *later,
    ]
    slots = [Slot(SlotKind.INPUT, 48), Slot(kind, 32), Slot(SlotKind.OUTPUT, 32), Slot(SlotKind.OUTPUT, 32)]
    return [u.kernel for u in fuse(units, slots)]


def test_the_automorphism_of_a_division_is_part_of_it():
    ring = ring_of_width(16, 40, 2)
    t, other = Operand(1, 0, 32), Operand(3, 0, 32)
    reads = ExecUnit("copy", ring, (), (t,), (), (other,))
    writes = ExecUnit("copy", ring, (), (other,), (), (t,))
    assert rotation_end() == [MOD_DOWN_AUTOMORPHISM]
    assert rotation_end(later=[writes, reads]) == [MOD_DOWN_AUTOMORPHISM, "copy", "copy"]
    assert rotation_end(later=[reads]) == ["mod_down", "automorphism", "copy"]
    assert rotation_end(SlotKind.OUTPUT) == ["mod_down", "automorphism"]

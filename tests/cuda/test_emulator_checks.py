"""The check build finds every planted fault, in any order of threads, and has nothing to say about right kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulator import MISSING, EmulatedDevice, KernelFault
from ren_backend_cuda.device import Launch
from ren_backend_cuda.source import declarations

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

HERE = Path(__file__).parent
N = 64

FAULTS = {
    "missing_barrier": "race",
    "write_after_read": "race",
    "write_after_write": "race",
    "past_the_end": "out-of-bounds",
    "before_the_start": "out-of-bounds",
    "shared_past_the_end": "out-of-bounds",
    "wild": "out-of-bounds",
    "uninitialised": "uninitialised",
    "uninitialised_static": "uninitialised",
    "uninitialised_global": "uninitialised",
    "uninitialised_atomic": "uninitialised",
    "misaligned": "misaligned",
    "misaligned_pair": "misaligned",
    "misaligned_copy": "misaligned",
    "misaligned_store": "misaligned",
    "barrier_in_branch": "divergent-barrier",
    "half_a_warp": "deadlock",
    "lane_outside_mask": "warp-source",
    "caller_outside_mask": "warp-mask",
    "ldg_then_write": "ldg",
    "write_then_ldg": "ldg",
    "warp_without_sync": "race",
    "shuffle_is_no_fence": "race",
    "atomic_and_plain": "race",
    "atomics_then_read": "race",
}
#: Kernel -> what it leaves in slot 0 that held 0, 1, ...
RIGHT = {
    "clean": np.roll(np.arange(N), -1),
    "warp_with_sync": np.arange(N) ^ 1,
    "warp_reads_then_writes": (np.arange(N) ^ 2) + (np.arange(N) ^ 3),
    "atomics_are_fine": np.concatenate([[N], np.arange(1, N)]),
    "atomics_with_barrier": np.concatenate([[N, N, N + 2], np.arange(3, N)]),
    "early_exit": np.concatenate([np.arange(40)[::-1], np.arange(40, N)]),
}


def run(mode, kernel, *, grid=1, shared=N * 8, arguments=(), order="random", threads=N, seed=1):
    """Slot 0: the words 0..N-1; slot 1: N words that nobody wrote; slot 2: N zeros. Returns slot 0 afterwards."""
    device = EmulatedDevice(mode, kernels=HERE, order=order, seed=seed)
    x, unwritten, other, block = device.alloc(N), device.alloc(N), device.alloc(N), device.alloc(3)
    device.upload(x, 0, np.arange(N, dtype=np.uint64))
    device.upload(other, 0, np.zeros(N, np.uint64))
    device.upload(block, 0, np.array([x.address, unwritten.address, other.address], np.uint64))
    function = device.function("faults", {}, kernel)
    device.record([Launch(function, (grid, 1, 1), (threads, 1, 1), (block, *arguments), shared)]).run()
    return device.download(x, 0, N)


@pytest.mark.parametrize("order", ["sequential", "reverse", "random"])
@pytest.mark.parametrize("kernel", FAULTS)
def test_fault_is_found(kernel, order):
    with pytest.raises(KernelFault) as error:
        run("check", kernel, order=order)
    assert FAULTS[kernel] in error.value.kinds
    if FAULTS[kernel] in ("race", "out-of-bounds", "uninitialised", "misaligned"):
        assert "faults.cu:" in str(error.value), "no source line"


@pytest.mark.parametrize("order", ["sequential", "reverse", "random"])
@pytest.mark.parametrize("mode", ["fast", "check"])
@pytest.mark.parametrize("kernel", RIGHT)
def test_right_kernels_pass(kernel, mode, order):
    assert run(mode, kernel, order=order).tolist() == RIGHT[kernel].tolist()


def test_race_between_blocks():
    with pytest.raises(KernelFault, match="race"):
        run("check", "blocks_race", grid=3)
    run("check", "blocks_race", grid=1)
    for order in ("sequential", "reverse", "random"):
        with pytest.raises(KernelFault, match="race"):
            run("check", "atomics_of_blocks_then_read", grid=3, order=order)
    run("check", "atomics_of_blocks_then_read", grid=1)


def test_variables_that_nothing_wrote_hold_a_pattern():
    """The check build does not track them, so their values are the same wrong ones in every run, and a comparison of results fails."""
    assert run("check", "own_words_unwritten", arguments=(np.int32(4),)).tolist() == [3] * N
    found = {tuple(run("check", "own_words_unwritten", arguments=(np.int32(3),), order=o).tolist()) for o in ("sequential", "random")}
    assert len(found) == 1 and found != {(3,) * N} and found.pop()[0] >> 56 in (0xFE, 0xFF)


def test_undefined_shift():
    run("check", "wide_shift", arguments=(np.int32(63),))
    with pytest.raises(KernelFault, match="shift_out_of_bounds"):
        run("check", "wide_shift", arguments=(np.int32(64),))


def test_every_kernel_of_the_file_is_tested():
    known = {*FAULTS, *RIGHT, "blocks_race", "atomics_of_blocks_then_read", "own_words_unwritten", "wide_shift", "bank_conflicts", "bounded"}
    assert set(declarations((HERE / "faults.cu").read_text())) == known


def test_a_fault_does_not_poison_the_next_launch():
    for _ in range(3):
        for kernel in ("half_a_warp", "past_the_end"):
            with pytest.raises(KernelFault):
                run("check", kernel)
        run("check", "clean")


def test_fast_build_sees_deadlock_and_damaged_guards():
    with pytest.raises(KernelFault, match="deadlock"):
        run("fast", "half_a_warp")
    with pytest.raises(KernelFault, match="shared-guard"):
        run("fast", "shared_past_the_end")
    with pytest.raises(KernelFault, match="wrote outside memory 1"):
        run("fast", "past_the_end")


@pytest.mark.parametrize("kernel", ["misaligned_copy", "misaligned_store"])
def test_a_misaligned_access_does_not_end_the_process(kernel):
    """The fast build does not see it; the check build says where it is and goes on with the next launch."""
    run("fast", kernel)
    for _ in range(2):
        with pytest.raises(KernelFault, match="16-byte access at offset .* of memory 1"):
            run("check", "misaligned_copy")
        run("check", "clean")


def test_orders_expose_a_missing_barrier_in_the_fast_build():
    found = [run("fast", "missing_barrier", order=order).tolist() for order in ("sequential", "reverse", "random")]
    assert any(f != RIGHT["clean"].tolist() for f in found)


def test_a_seed_reproduces_a_run():
    found = {seed: run("fast", "missing_barrier", seed=seed).tolist() for seed in range(4)}
    assert all(run("fast", "missing_barrier", seed=seed).tolist() == f for seed, f in found.items())
    assert len({tuple(f) for f in found.values()}) > 1


def test_use_after_free():
    device = EmulatedDevice("check", kernels=HERE)
    x, block = device.alloc(N), device.alloc(1)
    device.upload(x, 0, np.arange(N, dtype=np.uint64))
    device.upload(block, 0, np.array([x.address], np.uint64))
    recording = device.record([Launch(device.function("faults", {}, "clean"), (1, 1, 1), (N, 1, 1), (block,), N * 8)])
    recording.run()
    del x  # its address stays in the block
    with pytest.raises(KernelFault, match="out-of-bounds.*freed"):
        recording.run()


def test_bank_conflicts_are_counted():
    device = EmulatedDevice("check", kernels=HERE, order="sequential")
    x, block = device.alloc(32), device.alloc(1)
    device.upload(block, 0, np.array([x.address], np.uint64))
    device.profile()
    device.profiled = True
    function = device.function("faults", {}, "bank_conflicts")
    device.record([Launch(function, (1, 1, 1), (32, 1, 1), (block,), 32 * 16 * 8)]).run()
    rows = [r for r in device.profile() if r["space"] == "shared"]
    assert [(r["wavefronts"], r["ideal_wavefronts"]) for r in rows] == [(32, 2), (32, 2)]

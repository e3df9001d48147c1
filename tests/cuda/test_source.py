"""What is read from a kernel source, and what is refused before it reaches a device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulator import MISSING, EmulatedDevice
from ren_backend_cuda.device import Launch
from ren_backend_cuda.limits import LIMITS, Resources, check_launch
from ren_backend_cuda.source import KERNELS, LaunchError, declarations

HERE = Path(__file__).parent


def test_declarations_are_read():
    found = declarations((HERE / "faults.cu").read_text())["bounded"]
    assert found.bound == "32 * 2"
    assert [(p.name, p.dtype) for p in found.parameters] == [
        ("block", None),
        ("words", "uint32"),
        ("number", "int64"),
        ("big", "uint64"),
        ("factor", "float64"),
    ]


def test_comments_and_line_ends_do_not_matter():
    text = '// extern "C" __global__ void no(int a)\nextern "C"\n__global__ void\n__launch_bounds__(f(2) * 3) yes(const u64 *a, /* b, */\n unsigned int c) {'
    (found,) = declarations(text).values()
    assert (found.name, found.bound) == ("yes", "f(2) * 3")
    assert [(p.name, p.dtype) for p in found.parameters] == [("a", None), ("c", "uint32")]


@pytest.mark.parametrize("parameter", ["size_t n", "long n", "Modulus m", "bool b"])
def test_types_whose_size_is_not_certain_are_refused(parameter):
    with pytest.raises(ValueError, match="no known type"):
        declarations(f'extern "C" __global__ void k({parameter}) {{}}')


@pytest.mark.parametrize("file", sorted(KERNELS.glob("*.cu")), ids=lambda p: p.stem)
def test_kernels_are_written_out(file):
    """A kernel that a macro makes would be missed by everything that reads declarations."""
    text = file.read_text()
    assert len(declarations(text)) == text.count("__global__") > 0


class Memory:
    address, words = 256, 8


GOOD = (Memory(), np.uint32(1), np.int64(2), np.uint64(3), np.float64(4))


@pytest.mark.parametrize(
    ("position", "wrong", "text"),
    [
        (0, 256, "'block' is int, must be device memory"),
        (0, np.uint64(256), "'block' is uint64, must be device memory"),
        (1, 1, "'words' is int, must be numpy.uint32"),
        (1, np.int32(1), "'words' is int32, must be numpy.uint32"),
        (2, np.uint64(1), "'number' is uint64, must be numpy.int64"),
        (3, True, "'big' is bool, must be numpy.uint64"),
        (4, 1.0, "'factor' is float, must be numpy.float64"),
        (4, np.float32(1), "'factor' is float32, must be numpy.float64"),
    ],
)
def test_argument_types_are_exact(position, wrong, text):
    declaration = declarations((HERE / "faults.cu").read_text())["bounded"]
    declaration.check(GOOD)
    with pytest.raises(LaunchError, match=text):
        declaration.check((*GOOD[:position], wrong, *GOOD[position + 1 :]))
    with pytest.raises(LaunchError, match="takes 5 arguments, got 4"):
        declaration.check(GOOD[:4])


@pytest.mark.parametrize(
    ("grid", "block", "shared", "used", "text"),
    [
        ((0, 1, 1), (32, 1, 1), 0, {}, "positive"),
        ((1, 1, 1), (1025, 1, 1), 0, {}, "a block is at most"),
        ((1, 1, 1), (16, 16, 8), 0, {}, "2048 threads"),
        ((1, 1, 1), (1, 1, 65), 0, {}, "a block is at most"),
        ((1, 65536, 1), (32, 1, 1), 0, {}, "a grid is at most"),
        ((1, 1, 65536), (32, 1, 1), 0, {}, "a grid is at most"),
        ((2**31, 1, 1), (32, 1, 1), 0, {}, "a grid is at most"),
        ((1, 1, 1), (32, 1, 1), 228 * 1024, {}, "bytes of shared memory"),
        ((1, 1, 1), (32, 1, 1), 226 * 1024, {"shared": 2048}, "bytes of shared memory"),
        ((1, 1, 1), (512, 1, 1), 0, {"bound": 256}, "compiled for 256"),
        ((1, 1, 1), (1024, 1, 1), 0, {"registers": 65}, "73728, at most 65536"),
    ],
)
def test_launch_limits(grid, block, shared, used, text):
    with pytest.raises(LaunchError, match=text):
        check_launch("k", grid, block, shared, LIMITS["sm_90"], Resources(**used))


def test_a_launch_at_the_limits_is_fine():
    largest = LIMITS["sm_80"].shared
    check_launch("k", (2**31 - 1, 65535, 65535), (1024, 1, 1), largest, LIMITS["sm_80"], Resources(registers=64))
    check_launch("k", (1, 1, 1), (16, 1, 64), 0, LIMITS["sm_80"])


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
class TestOnTheEmulator:
    """A recording is refused as a whole before anything runs."""

    def record(self, kernel, arguments, grid=(1, 1, 1), block=(32, 1, 1)):
        device = EmulatedDevice("fast", kernels=HERE)
        memory = device.alloc(64)
        function = device.function("faults", {}, kernel)
        device.record([Launch(function, grid, block, (memory, *arguments), 0)])

    def test_types(self):
        with pytest.raises(LaunchError, match="'by' is int, must be numpy.int32"):
            self.record("wide_shift", (3,))

    def test_bounds_come_from_the_compiled_code(self):
        self.record("bounded", GOOD[1:], block=(64, 1, 1))
        with pytest.raises(LaunchError, match="compiled for 64"):
            self.record("bounded", GOOD[1:], block=(65, 1, 1))

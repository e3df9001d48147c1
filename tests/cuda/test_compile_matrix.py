"""Every kernel compiles for every architecture without a GPU, and keeps its variables in registers.

A register array that is indexed by something the compiler does not know goes to memory without a warning, and the kernel is several times
slower. So no kernel may have a stack frame or spill. `make test` compiles every kernel for both architectures; all degrees: `full`.
"""

from __future__ import annotations

import pytest
from ren_backend_cuda.compiler import compile_module
from ren_backend_cuda.limits import LIMITS
from ren_backend_cuda.lower_transform import LARGE
from ren_backend_cuda.source import KERNELS

from ren_backend_cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.find() is None, reason="no NVRTC: pip install nvidia-cuda-nvrtc")

ARCHITECTURES = ("sm_80", "sm_90")
DEGREES = range(LARGE.bit_length() - 1, 18)
#: Degrees at which the sources' branches differ: the smallest, and the one whose rows are longer than a warp.
QUICK = {("sm_80", DEGREES[0]), ("sm_90", DEGREES[-1])}


def modules():
    for file in sorted(KERNELS.glob("*.cu")):
        for architecture in ARCHITECTURES:
            if "REN_LOG_N" not in file.read_text():
                yield pytest.param(file.stem, {}, architecture, id=f"{file.stem}-{architecture}")
                continue
            for k in DEGREES:
                marks = [] if (architecture, k) in QUICK else [pytest.mark.full]
                yield pytest.param(
                    file.stem, {"REN_LOG_N": k}, architecture, id=f"{file.stem}-{k}-{architecture}", marks=marks
                )


@pytest.mark.parametrize(("source", "defines", "architecture"), list(modules()))
def test_module(source, defines, architecture):
    compiled = compile_module(source, defines, architecture, nvrtc.load())
    assert compiled.cubin.startswith(b"\x7fELF") and compiled.resources
    for kernel, used in compiled.resources.items():
        assert (used.stack, used.spills) == (0, 0), f"{kernel} keeps variables in memory"
        assert 0 < used.registers < 255 and used.shared <= LIMITS[architecture].shared, kernel


@pytest.mark.full
@pytest.mark.parametrize("architecture", ["sm_75", "sm_86", "sm_89", "sm_100", "sm_120"])
def test_other_cards_compile(architecture):
    """They compile within the limit of registers; that nothing is kept in memory is promised for sm_80 and sm_90 only."""
    for file in sorted(KERNELS.glob("*.cu")):
        defines = {"REN_LOG_N": 14} if "REN_LOG_N" in file.read_text() else {}
        for kernel, used in compile_module(file.stem, defines, architecture, nvrtc.load()).resources.items():
            assert 0 < used.registers <= 255, (file.stem, kernel)

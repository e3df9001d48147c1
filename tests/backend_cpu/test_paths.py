"""The same tests on every kind of arithmetic that this machine has besides the one it prefers, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ren_backend_cpu.kernels import limb

from ren_backend_cpu import features

HERE = Path(__file__).parent
KERNEL_TESTS = (
    *(
        "ntt",
        "elementwise",
        "automorphism",
        "mod_down",
        "basis_extend",
        "key_switch",
        "sampling",
        "host_float",
        "embedding",
        "fuse",
    ),
)
CONFORMANCE = HERE.parent / "conformance" / "test_cpu.py"


def _restrictions() -> list[str]:
    """Every kind of arithmetic but the preferred one; those of AVX-512 are emulated on a CPU that lacks it."""
    found = features.target()
    native = "" if found.has("avx512f") and not found.emulated else "-emulated"
    wanted = ["scalar", f"avx512{native}"]
    if limb.IFMA_LAZY not in found.paths:
        wanted.append("ifma-emulated")
    if limb.VECTOR64 in found.paths and limb.IFMA_LAZY in found.paths:
        wanted.append("u64")
    if found.fma and limb.FLOAT_LAZY not in found.paths:
        wanted.append("float")
    return wanted


@pytest.mark.parametrize("restriction", _restrictions())
@pytest.mark.skipif("REN_CPU_FEATURES" in os.environ, reason="this is such a process")
def test_all_kernels(restriction: str) -> None:
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"),
            *(str(HERE / f"test_{name}.py") for name in KERNEL_TESTS),
            str(CONFORMANCE),
            # the kit at one degree that the vector paths take
            *("-k", "(not TestCpu and not test_agrees_with) or 256]"),
        ],
        env=os.environ | {"REN_CPU_FEATURES": restriction},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]

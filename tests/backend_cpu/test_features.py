"""Which arithmetic a modulus takes, and that a target without an instruction never sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from ren.errors import ParameterError
from ren_backend_cpu.kernels import limb

from ren_backend_cpu import features

_ALL_IFMA = frozenset({limb.SCALAR, limb.VECTOR64, limb.IFMA_STRICT, limb.IFMA_LAZY})
_FLOAT = frozenset({limb.SCALAR, limb.FLOAT_STRICT, limb.FLOAT_LAZY})


def use(monkeypatch: pytest.MonkeyPatch, paths: frozenset[int]) -> None:
    found = replace(features.target(), paths=paths)
    monkeypatch.setattr(features, "target", lambda: found)


@pytest.mark.parametrize(
    ("paths", "n", "q", "path"),
    [
        (_ALL_IFMA, 64, 97, limb.SCALAR),
        (_ALL_IFMA, 128, 257, limb.IFMA_LAZY),
        (_ALL_IFMA, 1 << 14, (1 << 46) - 1, limb.IFMA_LAZY),
        (_ALL_IFMA, 1 << 14, 1 << 46, limb.IFMA_STRICT),
        (_ALL_IFMA, 1 << 16, (1 << 46) - 1, limb.IFMA_STRICT),
        (_ALL_IFMA, 1 << 16, (1 << 52) // 65, limb.IFMA_LAZY),
        (_ALL_IFMA, 1 << 14, (1 << 50) - 1, limb.IFMA_STRICT),
        (_ALL_IFMA, 1 << 14, 1 << 50, limb.VECTOR64),
        (_FLOAT, 1 << 14, (1 << 47) - 1, limb.FLOAT_LAZY),
        (_FLOAT, 1 << 14, 1 << 47, limb.FLOAT_STRICT),
        (_FLOAT, 1 << 14, 1 << 50, limb.SCALAR),
        (_FLOAT, 32, 1 << 20, limb.SCALAR),
        (frozenset({limb.SCALAR}), 1 << 14, 1 << 30, limb.SCALAR),
        (frozenset({limb.SCALAR, limb.VECTOR64}), 1 << 14, 1 << 30, limb.VECTOR64),
    ],
)
def test_path_by_modulus(monkeypatch: pytest.MonkeyPatch, paths: frozenset[int], n: int, q: int, path: int) -> None:
    use(monkeypatch, paths)
    assert features.choose_path(n, q) == path


def test_compressed_tails_need_room_for_lost_bits() -> None:
    n = 1 << 14
    assert features.compressed_tail(n, (1 << 52) // 64)
    assert not features.compressed_tail(n, (1 << 52) // 63 + 1)
    assert not features.compressed_tail(n // 2, 257)


def test_unknown_restriction_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REN_CPU_FEATURES", "avx9")
    features.target.cache_clear()
    try:
        with pytest.raises(ParameterError, match=r"'avx9'.*scalar, u64, float, avx512, ifma, avx512-emulated"):
            features.target()
    finally:
        monkeypatch.undo()
        features.target.cache_clear()


_REPORT = """
from ren_backend_cpu import features
from ren_backend_cpu.kernels import limb
import numpy as np
from ren.ring import RingSpec
from ren.engine.exec_unit import ExecUnit, Operand
from ren.numtheory.primes import ntt_primes_below
from ren_backend_cpu.backend import CpuBackend
print(",".join(limb.PATH_NAMES[p] for p in sorted(features.target().paths)))
n = 128
ring = RingSpec(n, tuple(next(ntt_primes_below(1 << b, n)) for b in (30, 46, 49, 60)))
words = n * ring.limbs
x = np.concatenate([np.arange(n, dtype=np.uint64) * np.uint64(q // n) for q in ring.moduli])
backend = CpuBackend()
m = backend.alloc(words)
backend.copyin(m, 0, x)
view = [(m, 0), (m, 0)]
for kernel in ("ntt", "intt"):
    backend.compile(ExecUnit(kernel, ring, (), (Operand(0, 0, words),), (), (Operand(0, 0, words),)))(view)
assert (backend.copyout(m, 0, words) == x).all()
"""


@pytest.mark.parametrize(
    ("environment", "paths"),
    [
        ({"REN_CPU_FEATURES": "scalar"}, "scalar"),
        ({"REN_CPU_FEATURES": "ifma-emulated"}, "scalar,vector64,ifma-strict,ifma-lazy"),
        ({"REN_CPU_FEATURES": "avx512-emulated"}, "scalar,vector64,float-strict,float-lazy"),
        # A host that knows neither instruction: it must run, not end in an LLVM error.
        ({"NUMBA_CPU_NAME": "generic"}, "scalar"),
        # numba removes every feature named avx..., fma stays
        ({"NUMBA_ENABLE_AVX": "0"}, "scalar,float-strict,float-lazy"),
        ({"NUMBA_CPU_NAME": "znver2", "NUMBA_CPU_FEATURES": ""}, "scalar,float-strict,float-lazy"),
    ],
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="names x86 processors")
def test_targets_without_instructions_run(environment: dict[str, str], paths: str) -> None:
    clean = {
        k: v for k, v in os.environ.items() if k not in ("REN_CPU_FEATURES", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
    }
    run = subprocess.run(
        [sys.executable, "-c", _REPORT], env=clean | environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == paths


def test_without_compilation_the_backend_says_so() -> None:
    code = "from ren_backend_cpu.backend import CpuBackend; CpuBackend()"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "BackendUnavailableError" in run.stderr
    assert "NUMBA_DISABLE_JIT" in run.stderr


def test_nothing_is_compiled_at_import() -> None:
    code = (
        "import ren_backend_cpu.backend, ren_backend_cpu.warmup\n"
        "from ren_backend_cpu.kernels import drive, twiddles\n"
        "from ren_backend_cpu.kernels.jit import Entry, HostFunction\n"
        "functions = [f for m in (drive, twiddles) for f in vars(m).values() if isinstance(f, HostFunction)]\n"
        "print(len(Entry.registry) > 20, len(functions) > 4, any(f.ready for f in [*Entry.registry.values(), *functions]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "True", "False"]


def test_warmup_compiles_no_kernel_that_the_target_lacks_instructions_for() -> None:
    """Compiling one ends the process, so the test asks which would be, on a target without AVX-512."""
    code = (
        "from ren_backend_cpu import backend, driver, tables, warmup\n"
        "from ren_backend_cpu.kernels.jit import Entry\n"
        "asked = []\n"
        "Entry.made = property(lambda self: asked.append(self.name))\n"
        "warmup.Runner = tables.limb_table = lambda *a: None\n"
        "warmup.warmup(lambda text: None)\n"
        "print(*asked)"
    )
    environment = os.environ | {"REN_CPU_FEATURES": "scalar"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    asked = set(run.stdout.split())
    assert {"automorphism.automorphism_ntt", "sampling.draw_gaussian_scan"} <= asked
    assert not {"automorphism.automorphism_ntt_blocks", "sampling.draw_gaussian_tree"} & asked


def test_the_plugin_module_is_light() -> None:
    code = "import sys, ren_backend_cpu.plugin; print('numba' in sys.modules or 'llvmlite' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"

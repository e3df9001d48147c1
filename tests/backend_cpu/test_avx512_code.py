"""The machine code for a CPU with AVX-512, made on any x86 machine and read, not run: the emulated paths (`test_paths`) show that the
algorithms are right, this that the real instructions are what LLVM is given and accepts. It ends a process that asks for one it lacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="names an x86 processor")

_FEATURES = "64bit sse4.2 popcnt avx avx2 bmi bmi2 fma avx512f avx512dq avx512cd avx512bw avx512vl avx512ifma"
_COMPILE = """
import json
from numba import njit, types
import ren_backend_cpu.backend
from ren_backend_cpu import features
from ren_backend_cpu.kernels import limb, sampling
from ren_backend_cpu.kernels.jit import Entry

@njit
def ternary(out, seed, stream, groups):
    sampling._ternary(out, seed, stream, groups)

@njit
def gaussian(out, seed, table, stream, groups):
    sampling._gaussian_tree(out, seed, table, stream, groups)

code = {}
for function, arity in ((ternary, 4), (gaussian, 5)):
    function.compile((types.int64,) * arity)
    (code[function.__name__],) = function.inspect_asm().values()
for entry in Entry.registry.values():
    made = entry.made
    if entry.name in ("ntt.ifma_lazy_forward", "ntt.ifma_lazy_inverse"):
        code[entry.name] = made._library.get_asm_str()  # numba shows only the LLVM text of such a function
print(json.dumps([len(Entry.registry), [limb.PATH_NAMES[p] for p in sorted(features.target().paths)], code]))
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, list[str], dict[str, str]]:
    folder: Path = tmp_path_factory.mktemp("cross")
    folder.chmod(0o700)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_") and k != "REN_CPU_FEATURES"}
    environment |= {
        "NUMBA_CPU_NAME": "icelake-server",
        "NUMBA_CPU_FEATURES": ",".join("+" + f for f in _FEATURES.split()),
        "REN_CACHE_DIR": str(folder),  # stored code has no text
    }
    run = subprocess.run([sys.executable, "-c", _COMPILE], env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    entries, paths, code = json.loads(run.stdout)
    return entries, paths, code


def _body(assembly: str) -> list[str]:
    """The instructions of the function itself, which comes before its wrapper for Python."""
    lines = assembly.splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"[^.\s].*:$", line))
    end = next(i for i in range(start, len(lines)) if re.match(r"\s+ret", lines[i]))
    return lines[start:end]


def test_every_kernel_compiles(compiled: tuple[int, list[str], dict[str, str]]) -> None:
    entries, paths, _ = compiled
    assert entries > 40
    assert paths == ["scalar", "vector64", "ifma-strict", "ifma-lazy"]


@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_transforms_multiply_with_52_bit_instructions(
    direction: str, compiled: tuple[int, list[str], dict[str, str]]
) -> None:
    text = compiled[2][f"ntt.ifma_lazy_{direction}"]
    low, high = (len(re.findall(rf"vpmadd52{half}uq\s.*%zmm", text)) for half in "lh")
    assert high >= 32
    assert low > high  # a low half of the product and one of the quotient times the modulus; tail quotients are high halves without either
    assert "vpmullq" not in text, "the 64-bit product takes three times as long"


@pytest.mark.parametrize("sampler", ["ternary", "gaussian"])
def test_secret_samplers_neither_branch_nor_look_up(
    sampler: str, compiled: tuple[int, list[str], dict[str, str]]
) -> None:
    """Three jumps, all on public counts: nothing to do, the ten double rounds, the groups. Nothing is gathered or read at a secret address."""
    body = _body(compiled[2][sampler])
    assert sum("vprold" in line for line in body) == 32, "a double round of sixteen rotations per half, in registers"
    jumps = [line for line in body if re.match(r"\s+j(?!mp)", line)]
    assert len(jumps) == 3, jumps
    assert not any("gather" in line for line in body)
    # Loads use fixed addresses: no index register except the loop's own, which only stores have.
    indexed = [line for line in body if re.search(r"vmov\w+\s+\(%r\w+,%r\w+", line)]
    assert not indexed, indexed

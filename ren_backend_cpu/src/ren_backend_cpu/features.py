"""What the CPU that numba compiles for can do, and which arithmetic path a modulus takes on it.

Decided before anything is compiled: an instruction that the target lacks ends in an LLVM fatal error that kills the process.
The target is the host unless NUMBA_CPU_NAME, NUMBA_CPU_FEATURES or NUMBA_ENABLE_AVX say otherwise. REN_CPU_FEATURES restricts the paths
further, which is how the tests run every path on one machine; with "-emulated" the paths of AVX-512 are taken on a CPU without it, their
special instructions spelled out in ordinary ones (`kernels.emit`): the same bits, many times slower, for tests only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import llvmlite.binding as llvm
from numba.core.registry import cpu_target
from ren import config
from ren.errors import ParameterError

from ren_backend_cpu.kernels import limb

#: Smallest transform of the vector paths: one pass above the 64-element tail.
MIN_VECTOR_N = 128
#: From this n on, the ultra-lazy path keeps one twiddle vector per tail level. It is slower on a limb whose tables are in the
#: second-level cache (8.4 against 7.7 us at 2^14), and faster as soon as several limbs take turns (9.7 against 12.7 us).
MIN_COMPRESSED_N = 1 << 14

@dataclass(frozen=True, slots=True)
class _Restriction:
    """What a value of REN_CPU_FEATURES leaves: paths, the one that the CPU must have, and features that count as absent (by prefix)."""

    paths: frozenset[int]
    needs: int = limb.SCALAR
    absent: str = "avx512"


_FLOAT = frozenset({limb.SCALAR, limb.FLOAT_STRICT, limb.FLOAT_LAZY})
_U64 = frozenset({limb.SCALAR, limb.VECTOR64})
_RESTRICTIONS = {
    "scalar": _Restriction(frozenset({limb.SCALAR})),
    "u64": _Restriction(_U64, limb.VECTOR64),
    "float": _Restriction(_FLOAT, limb.FLOAT_LAZY),
    "avx512": _Restriction(_U64 | _FLOAT, limb.VECTOR64, "avx512ifma"),
    "ifma": _Restriction(_U64 | {limb.IFMA_STRICT, limb.IFMA_LAZY}, limb.IFMA_LAZY, "-"),
}
_EMULATED = "-emulated"
_CHOICES = (*_RESTRICTIONS, *(name + _EMULATED for name in ("avx512", "ifma")))


@dataclass(frozen=True, slots=True)
class Target:
    """The compilation target: LLVM's name of the CPU and the feature names it is known to have."""

    cpu: str
    features: frozenset[str]
    fma: bool
    paths: frozenset[int]
    #: Whether the AVX-512 features are claimed without being there.
    emulated: bool = False

    def has(self, *names: str) -> bool:
        """Whether all these LLVM features are present, or emulated (and not switched off by REN_CPU_FEATURES)."""
        return self.features.issuperset(names)


@lru_cache(maxsize=1)
def target() -> Target:
    """The target of this process. Fixed at the first call: numba reads its variables once as well.

    Raises ParameterError for a REN_CPU_FEATURES that is unknown or that this CPU does not have.
    """
    # What numba hands to LLVM, its own variables applied. A CPU name implies features too, but LLVM does not tell which: only
    # those written out count.
    _, cpu, text = cpu_target.target_context.codegen().magic_tuple()
    features = frozenset(f[1:] for f in text.split(",") if f.startswith("+"))
    fma = _lowers_fma(cpu, text)
    wanted = config.text("REN_CPU_FEATURES")
    emulated = wanted in _CHOICES and wanted.endswith(_EMULATED)
    if emulated:
        features |= {"avx512f", "avx512dq", "avx512ifma"}
    paths = {limb.SCALAR}
    if {"avx512f", "avx512dq"} <= features:
        paths.add(limb.VECTOR64)
    if {"avx512f", "avx512ifma"} <= features:
        paths |= {limb.IFMA_STRICT, limb.IFMA_LAZY}
    if fma:
        paths |= {limb.FLOAT_STRICT, limb.FLOAT_LAZY}
    if wanted is not None:
        if wanted not in _CHOICES:
            raise ParameterError(
                f"REN_CPU_FEATURES is {wanted!r}, which is not one of {', '.join(_CHOICES)}",
                subject="REN_CPU_FEATURES",
            )
        keep = _RESTRICTIONS[wanted.removesuffix(_EMULATED)]
        if keep.needs not in paths:
            raise ParameterError(
                f"REN_CPU_FEATURES asks for {wanted!r} but {cpu} has no such instructions",
                subject="REN_CPU_FEATURES",
                hint="Unset it, or use REN_CPU_FEATURES=scalar",
            )
        paths &= keep.paths
        features = frozenset(f for f in features if not f.startswith(keep.absent))
    if limb.IFMA_LAZY in paths:
        paths -= {limb.FLOAT_STRICT, limb.FLOAT_LAZY}  # same range, slower: never chosen, so never compiled
    return Target(cpu, features, fma, frozenset(paths), emulated)


def _lowers_fma(cpu: str, features: str) -> bool:
    """Whether the target has a fused multiply-add: without one, LLVM calls the C library's fma instead (exact, but slow)."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(
        "define double @f(double %a, double %b, double %c) {\n"
        "  %r = call double @llvm.fma.f64(double %a, double %b, double %c)\n  ret double %r\n}\n"
        "declare double @llvm.fma.f64(double, double, double)\n"
    )
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features)
    text = machine.emit_assembly(module)
    return re.search(r"(?<!\w)_?fma(?!\w)", text) is None  # the symbol, however it is reached


def choose_path(n: int, q: int) -> int:
    """The fastest exact path of modulus q at ring dimension n on this target.

    The bounds are those of the range notes in `kernels.butterflies`: values of the ultra-lazy transform stay below
    (4 log2 n + 1) q and its inverse below 64 q, both under 2^52.
    """
    paths = target().paths
    log_n = n.bit_length() - 1
    if n < MIN_VECTOR_N:
        return limb.SCALAR
    if limb.IFMA_LAZY in paths and max(4 * log_n + 1, 64) * q < 1 << 52:
        return limb.IFMA_LAZY
    if limb.IFMA_STRICT in paths and q < 1 << 50:
        return limb.IFMA_STRICT
    if limb.FLOAT_LAZY in paths and q < 1 << 47:
        return limb.FLOAT_LAZY
    if limb.FLOAT_STRICT in paths and q < 1 << 50:
        return limb.FLOAT_STRICT
    if limb.VECTOR64 in paths:
        return limb.VECTOR64
    return limb.SCALAR


def compressed_tail(n: int, q: int) -> bool:
    """Whether the ultra-lazy path uses compressed tail tables: their twiddles lose a bit, so (4 log2 n + 7) q < 2^52."""
    return n >= MIN_COMPRESSED_N and (4 * (n.bit_length() - 1) + 7) * q < 1 << 52

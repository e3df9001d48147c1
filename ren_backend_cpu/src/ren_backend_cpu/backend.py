"""`CpuBackend`: memory, lowering and one call per plan. The kernels are in `kernels`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numba.core.config as numba_config
import numpy as np
from numpy.typing import NDArray
from ren.backend.capability import Embedding, Limits
from ren.backend.protocol import Capabilities, CompiledUnit, GraphRunner
from ren.engine.calibration import Calibration
from ren.engine.exec_unit import ExecUnit, Slot
from ren.errors import BackendUnavailableError, KernelOperandError

from ren_backend_cpu import cache, features, lower
from ren_backend_cpu.driver import Runner, run_alone
from ren_backend_cpu.fuse import fuse
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.memory import CpuMemory


class CpuBackend:
    """Vector kernels through numba, one core.

    Holds no state of its own: tables and machine code are shared by the process and immutable, so all methods may be called from
    several threads, and after fork. Kernels are compiled when a unit first needs them (`warmup` does it ahead of time) and kept on
    disk (`cache`).
    """

    name = "cpu"

    def __init__(self) -> None:
        """Raises BackendUnavailableError where numba is told not to compile."""
        if numba_config.DISABLE_JIT:
            raise BackendUnavailableError(
                "backend 'cpu' compiles its kernels, and NUMBA_DISABLE_JIT forbids it",
                subject="NUMBA_DISABLE_JIT",
                hint="Unset it, or use device='reference'",
            )

    def capabilities(self) -> Capabilities:
        target = features.target()
        folder = cache.folder()
        details = {
            "cpu": target.cpu,
            "arithmetic": ", ".join(limb.PATH_NAMES[p] for p in sorted(target.paths, reverse=True)),
            "cache": "none" if folder is None else str(folder),
        }
        return Capabilities(kernels=frozenset(lower.LOWERINGS), details=details)

    def alloc(self, words: int) -> CpuMemory:
        return CpuMemory(words)

    def copyin(self, memory: CpuMemory, offset: int, data: NDArray[np.uint64]) -> None:
        if data.dtype != np.uint64 or data.ndim != 1 or offset < 0 or offset + data.size > memory.words:
            raise KernelOperandError(f"copyin of {data.shape} {data.dtype} at {offset} into {memory.words} words")
        memory.array[offset : offset + data.size] = data

    def copyout(self, memory: CpuMemory, offset: int, words: int) -> NDArray[np.uint64]:
        if offset < 0 or words < 0 or offset + words > memory.words:
            raise KernelOperandError(f"copyout of {words} words at {offset} from {memory.words} words")
        return memory.array[offset : offset + words].copy()

    def scratch_words(self, unit: ExecUnit) -> int:
        return lower.scratch_words(unit)

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        """Raises KernelUnsupportedError for an unknown kernel, KernelOperandError for parameters or sizes that break the contract."""
        return run_alone(unit)

    def graph(self, units: Sequence[ExecUnit], slots: Sequence[Slot]) -> GraphRunner:
        return Runner(fuse(units, slots), [s.words for s in slots])

    def synchronize(self) -> None:
        return None

    def warmup(self, progress: Callable[[str], None]) -> None:
        """Compile now what first use would compile (`ren warmup`); one line of text per kernel."""
        from ren_backend_cpu.warmup import warmup

        warmup(progress)

    def embedding(self) -> Embedding:
        """The canonical embedding of the host in vectors."""
        from ren_backend_cpu.embedding import CPU

        return CPU

    def limits(self) -> Limits:
        """Memory bandwidth and butterflies per second of one core (`ren bench`)."""
        from ren_backend_cpu.limits import measure

        return measure()

    def calibrate(self, progress: Callable[[str], None]) -> Calibration:
        """Measure what kernels cost on this machine, and keep it (`ren warmup`)."""
        from ren_backend_cpu import calibrate

        return calibrate.calibrate(self, progress)

    def calibration(self) -> Calibration:
        """What was measured on this machine; else the shipped default, whose note says so."""
        from ren_backend_cpu import calibrate

        return calibrate.calibration()

"""`CudaBackend`: memory, lowering and one replay per plan. The kernels are in `kernels`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from ren.backend.protocol import Capabilities, CompiledUnit, GraphRunner
from ren.engine.exec_unit import ExecUnit, Slot
from ren.errors import KernelOperandError

from ren_backend_cuda.device import Device, DeviceMemory
from ren_backend_cuda.lower import LOWERINGS, Lowerings
from ren_backend_cuda.runner import Runner, Scratch, apart
from ren_backend_cuda.tables import Tables
from ren_backend_cuda.warmup import warmup


class CudaBackend:
    """All kernels on one device, in one stream: whatever is issued later happens later, and nothing waits but `copyout` and `synchronize`.

    Holds tables and scratch memory, built under locks and immutable once published, so all methods may be called from several threads. After a
    fork the child cannot use it, as it cannot use CUDA.
    """

    name = "cuda"

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lowerings = Lowerings(Tables(device))
        self._scratch = Scratch(device)

    def capabilities(self) -> Capabilities:
        return Capabilities(kernels=frozenset(LOWERINGS), details={"device": self._device.name})

    def alloc(self, words: int) -> DeviceMemory:
        return self._device.alloc(words)

    def copyin(self, memory: DeviceMemory, offset: int, data: NDArray[np.uint64]) -> None:
        if not isinstance(data, np.ndarray):
            raise KernelOperandError(f"copyin takes a 1-D numpy.uint64 array, got {type(data).__name__}")
        if data.dtype != np.uint64 or data.ndim != 1 or offset < 0 or offset + data.size > memory.words:
            raise KernelOperandError(f"copyin of {data.shape} {data.dtype} at {offset} into {memory.words} words")
        self._device.upload(memory, offset, np.ascontiguousarray(data))

    def copyout(self, memory: DeviceMemory, offset: int, words: int) -> NDArray[np.uint64]:
        if offset < 0 or words < 0 or offset + words > memory.words:
            raise KernelOperandError(f"copyout of {words} words at {offset} from {memory.words} words")
        return self._device.download(memory, offset, words)

    def scratch_words(self, unit: ExecUnit) -> int:
        """None from the plan: units that run together need scratch of their own, and all plans of a stream can share one piece."""
        return 0

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        """Raises KernelUnsupportedError for an unknown kernel, KernelOperandError for parameters or sizes that break the contract."""
        alone, slots = apart(unit)
        return Runner(self._device, self._lowerings, self._scratch, [alone], slots)

    def graph(self, units: Sequence[ExecUnit], slots: Sequence[Slot]) -> GraphRunner:
        return Runner(self._device, self._lowerings, self._scratch, units, slots)

    def synchronize(self) -> None:
        self._device.synchronize()

    def warmup(self, progress: Callable[[str], None]) -> None:
        """Compile now what first use would compile (`ren warmup`); one line of text per module."""
        warmup(self._device, progress)

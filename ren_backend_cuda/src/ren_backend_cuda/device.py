"""What this backend needs of a CUDA device: memory, kernels, a recorded sequence of launches.

Two implementations: CuPy's driver calls on a GPU, and, in the tests only, an emulator that runs the same `.cu` source on the host. The
backend above this seam is the same code, so that everything but speed is proven without a GPU.

Kernels never receive the address of an operand by value. They read it from an argument block in device memory, word i being the
address of operand i of the plan, which one copy refreshes per run: a captured CUDA graph cannot change the arguments of its nodes through CuPy.
Tables that belong to a plan do not move and may be passed as `DeviceMemory`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

#: A kernel's argument: a typed scalar (a Python int has no size, so it is refused) or memory, passed as its address.
Argument = "np.generic | DeviceMemory"


class DeviceMemory(Protocol):
    """Memory of the device, freed once the object dies and all work issued before has finished."""

    @property
    def address(self) -> int: ...

    @property
    def words(self) -> int: ...

    @property
    def device(self) -> Device:
        """The one that it is memory of: no other's kernels may be given its address."""
        ...


class Function(Protocol):
    """A kernel of a loaded module."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch. grid and block: (x, y, z). shared_bytes: dynamic shared memory."""

    function: Function
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[object, ...]
    shared_bytes: int = 0


class Recorded(Protocol):
    """Launches that are issued together, in order. Holds every object that their arguments refer to."""

    def run(self) -> None:
        """Issue them, nothing of another thread in between. Returns before they have finished."""
        ...


class Device(Protocol):
    """One device and one stream of work on it: whatever is issued later happens later."""

    @property
    def name(self) -> str: ...

    def alloc(self, words: int) -> DeviceMemory:
        """Uninitialised memory of 64-bit words, aligned to 256 bytes."""
        ...

    def upload(self, memory: DeviceMemory, offset: int, data: NDArray[np.uint64]) -> None:
        """Host to device, in stream order; `data` may be changed as soon as this returns."""
        ...

    def download(self, memory: DeviceMemory, offset: int, words: int) -> NDArray[np.uint64]:
        """Device to host, after all work issued before."""
        ...

    def function(self, source: str, defines: Mapping[str, int], kernel: str) -> Function:
        """Kernel `kernel` of `kernels/<source>.cu` compiled with these macros. Modules are loaded once per process."""
        ...

    def record(self, launches: Sequence[Launch]) -> Recorded:
        """Check the launches against the device's limits and make them replayable: a CUDA graph on a GPU."""
        ...

    def synchronize(self) -> None:
        """Wait until everything issued has finished. Raises what the device reports."""
        ...

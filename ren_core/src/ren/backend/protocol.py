"""The contract between the engine and a backend plugin.

* Memory domain: `alloc` returns memory that only this backend touches; the host reads and writes it through `copyin` and
  `copyout`. Layout is that of `ren.ops`. Memory is not zeroed.
* Bit-exactness: every kernel computes what `ren.ops` and the reference backend define, to the last bit, for every modulus below
  2^61 that `capabilities` admits. What a backend does not declare it refuses with KernelUnsupportedError; it never approximates.
* Aliasing: the engine gives a unit non-overlapping operands, except that outputs of `elementwise`, `ntt` and `intt` may *equal* an input.
* Logical synchrony: a unit sees the effect of all units issued before it; `copyout` and `synchronize` wait for what was issued.
* Threads: all methods may be called from several threads at once; a compiled unit or runner is re-entrant (views are arguments).
* No hooks run here: these are plain calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ren.ops import KERNELS

if TYPE_CHECKING:
    from ren.engine.exec_unit import ExecUnit, Slot

#: Memory of one backend: opaque to the engine.
Memory = Any
#: (memory, first word): where one operand of a unit lies.
View = tuple[Memory, int]
#: Runs one unit: takes a view per operand, in the order of ExecUnit.operands.
CompiledUnit = Callable[[Sequence[View]], None]
#: Runs a whole plan: takes one view per slot, in slot order.
GraphRunner = Callable[[Sequence[View]], None]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, as data."""

    kernels: frozenset[str] = field(default_factory=lambda: frozenset(KERNELS))
    min_n: int = 2
    max_n: int = 1 << 17
    max_modulus_bits: int = 61
    #: Word alignment that arena offsets must keep (8 words = 64 bytes suits vector loads).
    alignment: int = 8
    #: Free-form facts for `ren backends` (vector features, device name, cache folder...).
    details: dict[str, str] = field(default_factory=dict)


@runtime_checkable
class Backend(Protocol):
    """A device that executes units. One instance per device, shared by all threads."""

    #: Device string users write, such as "cpu" or "reference".
    name: str

    def capabilities(self) -> Capabilities: ...

    def alloc(self, words: int) -> Memory:
        """Uninitialised memory of `words` 64-bit words, 64-byte aligned on the CPU. Freed when the object dies."""
        ...

    def copyin(self, memory: Memory, offset: int, data: NDArray[np.uint64]) -> None:
        """Host to device: data (1-D, contiguous) to words offset.. of memory."""
        ...

    def copyout(self, memory: Memory, offset: int, words: int) -> NDArray[np.uint64]:
        """Device to host: a fresh array; waits for units issued before."""
        ...

    def scratch_words(self, unit: ExecUnit) -> int:
        """How much scratch `unit` needs (its scratch operand is planned in the arena); 0 for none."""
        ...

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        """Prepare one unit: tables, function pointers. Called once per plan and unit; may be slow. Raises KernelUnsupportedError."""
        ...

    def graph(self, units: Sequence[ExecUnit], slots: Sequence[Slot]) -> GraphRunner | None:
        """A runner for the whole plan with one call, or None: the engine then runs the compiled units one by one."""
        ...

    def synchronize(self) -> None:
        """Wait until everything issued has finished."""
        ...

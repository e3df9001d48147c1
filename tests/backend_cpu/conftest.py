"""Running units of the CPU backend next to the reference backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from ren.backend.reference import ReferenceBackend
from ren.ring import RingSpec
from ren.testing.backend import BackendConformance
from ren.testing.cases import KernelCase
from ren.testing.runner import run_apart, unit_of
from ren_backend_cpu.backend import CpuBackend

Words = NDArray[np.uint64]
Agree = Callable[[KernelCase], None]
Compute = Callable[..., list[Words]]


@pytest.fixture(scope="session")
def agree() -> Agree:
    """agree(case): the CPU backend computes what the reference backend does, to the last bit, in every arrangement of operands."""
    kit, cpu, reference = BackendConformance(), CpuBackend(), ReferenceBackend()
    return lambda case: kit.check(cpu, reference, case)


@pytest.fixture(scope="session")
def compute() -> Compute:
    """compute(kernel, ring, params, inputs, output words): the outputs of one unit on the CPU backend."""
    cpu = CpuBackend()

    def run(
        kernel: str, ring: RingSpec, params: tuple[Any, ...], inputs: Sequence[Words], outputs: Sequence[int]
    ) -> list[Words]:
        unit = unit_of(KernelCase(kernel, ring, params, ((tuple(inputs), ()),), tuple(outputs)), cpu)
        return run_apart(cpu, unit, cpu.compile(unit), inputs, ())

    return run

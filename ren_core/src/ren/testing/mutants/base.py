"""What a planted fault is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ren.backend.protocol import CompiledUnit, View
from ren.backend.reference import ReferenceBackend
from ren.engine.exec_unit import ExecUnit

Words = NDArray[np.uint64]
#: (unit, inputs as they were, scalars, outputs with the right values): spoils the outputs.
Fault = Callable[[ExecUnit, list[Words], list[Words], list[Words]], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A faulty backend. kernel: the one at fault, None where the fault lies in the contract around kernels."""

    name: str
    kernel: str | None
    make: Callable[[], ReferenceBackend]


MUTANTS: list[Mutant] = []


class _FaultyKernel(ReferenceBackend):
    """The reference backend with one kernel's outputs spoilt."""

    def __init__(self, kernel: str, spoil: Fault) -> None:
        self._kernel = kernel
        self._spoil = spoil

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        right = super().compile(unit)
        if unit.kernel != self._kernel:
            return right
        a, b = len(unit.inputs), len(unit.inputs) + len(unit.scalars)

        def run(views: Sequence[View]) -> None:
            before = arrays(unit, views)[:b]
            kept = [x.copy() for x in before]
            right(views)
            self._spoil(unit, kept[:a], kept[a:], arrays(unit, views)[b:])

        return run


def arrays(unit: ExecUnit, views: Sequence[View]) -> list[Words]:
    """The operands of one run as word arrays."""
    return [memory[offset : offset + o.words] for o, (memory, offset) in zip(unit.operands, views, strict=True)]


def fault(kernel: str) -> Callable[[Fault], Fault]:
    """Register a mutant that is the reference backend with this kernel's outputs spoilt by the decorated function."""

    def register(spoil: Fault) -> Fault:
        MUTANTS.append(Mutant(spoil.__name__, kernel, lambda: _FaultyKernel(kernel, spoil)))
        return spoil

    return register


def contract(make: type[ReferenceBackend]) -> type[ReferenceBackend]:
    """Register a mutant that breaks the contract around kernels."""
    MUTANTS.append(Mutant(make.__name__, None, make))
    return make


def moduli_of(unit: ExecUnit, words: Words) -> Words:
    """The modulus of each word of a polynomial."""
    return np.repeat(np.array(unit.ring.moduli, np.uint64), unit.ring.n)[: words.size]


def rows_of(unit: ExecUnit, words: Words) -> Words:
    """A polynomial as rows."""
    return words.reshape(-1, unit.ring.n)

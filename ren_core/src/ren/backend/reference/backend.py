"""`ReferenceBackend`: memory, dispatch and checks; the kernels are in the modules beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ren.backend.protocol import Capabilities, CompiledUnit, GraphRunner, View
from ren.backend.reference import (
    automorphism,
    basis_conversion,
    elementwise,
    floats,
    inner_product,
    mod_down,
    ntt,
    sampling,
)
from ren.backend.reference.operands import Prepared, Words, bind, check_sizes
from ren.engine.exec_unit import ExecUnit, Slot
from ren.errors import KernelOperandError, KernelUnsupportedError

_PREPARE: dict[str, Callable[[ExecUnit], Prepared]] = {
    "elementwise": elementwise.prepare_elementwise,
    "copy": elementwise.prepare_copy,
    "ntt": ntt.prepare_ntt,
    "intt": ntt.prepare_intt,
    "automorphism": automorphism.prepare_automorphism,
    "mod_down": mod_down.prepare_mod_down,
    "basis_extend": basis_conversion.prepare_basis_extend,
    "decompose": basis_conversion.prepare_decompose,
    "gadget_product": inner_product.prepare_gadget_product,
    "key_switch": inner_product.prepare_key_switch,
    "sample": sampling.prepare_sample,
    "from_float": floats.prepare_from_float,
    "lift": floats.prepare_lift,
}


class ReferenceBackend:
    """Every kernel, every ring, in NumPy and Python integers. Memory is a NumPy array of uint64.

    Stateless, so re-entrant and safe in threads and after fork. Fresh memory holds all ones, which is neither a residue nor a
    number: a unit that reads a word nobody wrote raises KernelOperandError.
    """

    name = "reference"

    def capabilities(self) -> Capabilities:
        return Capabilities(kernels=frozenset(_PREPARE), alignment=1)

    def alloc(self, words: int) -> Words:
        return np.full(words, np.iinfo(np.uint64).max, np.uint64)

    def copyin(self, memory: Words, offset: int, data: NDArray[np.uint64]) -> None:
        if data.dtype != np.uint64 or data.ndim != 1 or offset < 0 or offset + data.size > memory.size:
            raise KernelOperandError(f"copyin of {data.shape} {data.dtype} at {offset} into {memory.size} words")
        memory[offset : offset + data.size] = data

    def copyout(self, memory: Words, offset: int, words: int) -> NDArray[np.uint64]:
        if offset < 0 or words < 0 or offset + words > memory.size:
            raise KernelOperandError(f"copyout of {words} words at {offset} from {memory.size} words")
        return memory[offset : offset + words].copy()

    def scratch_words(self, unit: ExecUnit) -> int:
        return 0

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        """Check the unit and return its kernel.

        Raises KernelUnsupportedError for an unknown kernel, KernelOperandError for parameters or sizes that break the contract; the compiled unit raises
        KernelOperandError for views that overlap, leave their memory or hold words that are no residues.
        """
        prepare = _PREPARE.get(unit.kernel)
        if prepare is None:
            raise KernelUnsupportedError(
                f"backend 'reference' has no kernel {unit.kernel!r}",
                subject=unit.kernel,
                hint=f"It has {', '.join(_PREPARE)}",
            )
        prepared = prepare(unit)
        check_sizes(unit, prepared)
        scalars_at = len(unit.inputs)
        outputs_at = scalars_at + len(unit.scalars)

        def run(views: Sequence[View]) -> None:
            words = bind(unit, views, prepared.in_place)
            prepared.run(words[:scalars_at], words[scalars_at:outputs_at], words[outputs_at:])

        return run

    def graph(self, units: Sequence[ExecUnit], slots: Sequence[Slot]) -> GraphRunner | None:
        return None

    def synchronize(self) -> None:
        return None

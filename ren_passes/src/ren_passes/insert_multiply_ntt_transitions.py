"""Products are formed in the NTT domain."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.edit import operands
from ren.program.types import EncryptedType

from ren_passes.analysis.weak import weak
from ren_passes.insert_plaintext_preparation import takes_integer
from ren_passes.work import Work, operations

MARK = "multiply_ntt_transitions_inserted"
_NAMES = frozenset(
    (
        "ren.logical.multiply.encrypted_encrypted",
        "ren.logical.multiply.encrypted_public",
        "ren.logical.multiply.public_encrypted",
        "ren.logical.square.encrypted",
    )
)


@dataclass(frozen=True)
class InsertMultiplyNttTransitionsPass:
    """One `ren.ckks.to_ntt` for every encrypted operand of a product, which is marked. The operations say where the program wants the domain;
    the schedule of a run places transforms once for the whole graph."""

    name: str = "insert-multiply-ntt-transitions"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for op in operations(program):
            if op.name not in _NAMES or MARK in op.properties or takes_integer(op):
                continue
            work.matched += 1
            for i, value in enumerate(operands(op)):
                if isinstance(value.type, EncryptedType):
                    new = work.edit.build_before(op, "ren.ckks.to_ntt", (value,), result_types=(weak(value.type),))
                    work.edit.set_operand(op, i, new.results[0])
            work.edit.set_attribute(op, MARK, True)
            work.transformed += 1
        return work.result(program)

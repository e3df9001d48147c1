"""Plaintexts are encoded once for each level, scale and layout that they are needed in."""

from __future__ import annotations

from collections.abc import Hashable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.edit import block_ops, operands
from ren.program.layout import Layout
from ren.program.scales import SymbolicScale
from ren.program.types import EncryptedType, PlaintextType
from xdsl.ir import Operation, SSAValue

from ren_passes.work import Work, blocks

_PREPARE = "ren.ckks.prepare."


@dataclass(frozen=True)
class EncodePlaintextsOncePass:
    """Turn a preparation whose level, scale and layout are known into `ren.ckks.encode`, which no longer looks at its ciphertext, and share equal
    ones. A caller's plaintext, and public data for a ciphertext whose level depends on one, stay prepared for their consumer.

    Counters: matched counts preparations of public data, transformed those that became or joined an `encode`.
    """

    name: str = "encode-plaintexts-once"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            seen: dict[Hashable, SSAValue] = {}
            for op in block_ops(block):
                if op.name.startswith(_PREPARE) and not op.name.endswith(".plaintext"):
                    work.matched += 1
                    _encode(work, op, seen)
        return work.result(program)


def _encode(work: Work, op: Operation, seen: dict[Hashable, SSAValue]) -> None:
    public, ciphertext = operands(op)
    prepared, met = op.results[0].type, ciphertext.type
    if not isinstance(prepared, PlaintextType) or not isinstance(met, EncryptedType):
        return
    state = prepared.data
    layout = _layout(state.layout, met.data.layout)
    if state.level is None or state.scale is None or layout is None:
        return
    key = public, state.level, state.scale, layout, state.use
    found = seen.get(key)
    if found is None:
        attributes: dict[str, Any] = {"level": state.level, "layout": layout, "use": state.use}
        if state.scale != SymbolicScale.at_level(state.level):
            attributes["scale"] = state.scale
        made = work.edit.build_before(op, "ren.ckks.encode", (public,), attributes)
        found = seen[key] = made.results[0]
    work.edit.replace(op, (found,))
    work.transformed += 1


def _layout(prepared: Layout | None, met: Layout | None) -> Layout | None:
    """How the data is packed. One number in every slot meets data of unknown length: only the data itself tells, when it is there."""
    return None if met is None else prepared

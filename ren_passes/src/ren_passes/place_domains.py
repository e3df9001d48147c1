"""Domains: sums are formed where their terms are, and transforms that do nothing go."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.dialect import infer
from ren.program.edit import block_ops, operands
from ren.program.types import EncryptedType
from xdsl.ir import Operation

from ren_passes.work import Work, blocks

_TRANSFORMS = {"ren.ckks.to_ntt": "ntt", "ren.ckks.from_ntt": "coeff"}


@dataclass(frozen=True)
class PlaceDomainsPass:
    """Products leave their results in the NTT domain, where sums are as cheap as anywhere, so no transform back is needed before a sum
    or a rescale: every `ren.ckks.from_ntt` whose users take either domain goes, then every `ren.ckks.to_ntt` of a value that is there already,
    and equal ones are shared.

    Counters: matched counts transforms, transformed (and removed) those that went.
    """

    name: str = "place-domains"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            shared: dict[Any, Operation] = {}
            for op in block_ops(block):
                if op.name in _TRANSFORMS:
                    work.matched += 1
                    if self._goes(op, work, shared):
                        continue
                if infer(op, lambda o, error: work.note(o, error.code, str(error))):
                    work.edit.touch(op)
                    for result in op.results:
                        for use in result.uses:
                            work.edit.touch(use.operation)
        return work.result(program)

    def _goes(self, op: Operation, work: Work, shared: dict[Any, Operation]) -> bool:
        source = operands(op)[0]
        if not isinstance(source.type, EncryptedType):
            return False
        there = source.type.data.domain == _TRANSFORMS[op.name]
        before = source.owner
        if op.name == "ren.ckks.from_ntt":
            there = there or _takes_either(op)
        elif isinstance(before, Operation) and before.name == "ren.ckks.from_ntt" and not there:
            source, there = operands(before)[0], True
        same = shared.setdefault(source, op) if op.name == "ren.ckks.to_ntt" and not there else op
        if not there and same is op:
            return False
        work.edit.replace(op, (source,) if there else same.results)
        work.transformed += 1
        return True


def _takes_either(op: Operation) -> bool:
    """Every user is an operation of this dialect, whose rules accept either domain; a result of the program stays as it is."""
    return all(use.operation.name.startswith("ren.ckks.") for use in op.results[0].uses)

"""Public work is done once, or not at all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.edit import block_ops, operands
from ren.program.torch_calls import is_audited
from ren.program.types import MessageType
from xdsl.ir import Operation

from ren_passes.analysis.constants import number_of
from ren_passes.work import Work, blocks


@dataclass(frozen=True)
class FoldPublicWorkPass:
    """Compute `ren.public.negate` and `ren.public.reciprocal` of constants now; let equal kept calls on public data share one result; remove
    such calls that nobody needs.

    Only calls whose target is audited are pure for certain. One with a handler in workspace["torch_handlers"] is the caller's business
    and stays. Counters: matched counts the operations that could be folded by their kind, transformed those that were.
    """

    name: str = "fold-public-work"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        handled = workspace.get("torch_handlers")
        pure = _PureCalls(handled if isinstance(handled, Mapping) else {})
        for block in blocks(program):
            seen: dict[Hashable, Operation] = {}
            calls = []
            for op in block_ops(block):
                if op.name in ("ren.public.negate", "ren.public.reciprocal"):
                    work.matched += 1
                    _fold(op, work)
                elif op.name == "torch.call" and pure(op):
                    work.matched += 1
                    first = seen.setdefault(_key(op), op)
                    if first is op:
                        calls.append(op)
                    else:
                        work.transformed += 1
                        work.edit.replace(op, first.results)
            for op in reversed(calls):
                if all(r.first_use is None for r in op.results):
                    work.transformed += 1
                    work.edit.erase(op)
        return work.result(program)


class _PureCalls:
    """Whether a kept call touches public data only and has no effect. Answers are remembered by target."""

    def __init__(self, handled: Mapping[Any, Any]) -> None:
        self._handled = handled
        self._audited: dict[tuple[str, str], bool] = {}

    def __call__(self, op: Operation) -> bool:
        target = op.properties.get("ren.call.target")
        if target is None or not op.results:
            return False
        if not all(isinstance(v.type, MessageType) for v in (*operands(op), *op.results)):
            return False
        key: tuple[str, str] = (op.properties["ren.call.kind"].data, target.data)  # type: ignore[attr-defined]
        if key[1] in self._handled:
            return False
        if key not in self._audited:
            self._audited[key] = is_audited(*key)
        return self._audited[key]


def _key(op: Operation) -> Hashable:
    types = tuple(r.type for r in op.results)
    return tuple(operands(op)), tuple(sorted(op.properties.items(), key=lambda i: i[0])), types


def _fold(op: Operation, work: Work) -> None:
    number = number_of(operands(op)[0])
    if number is None or (number == 0 and op.name.endswith("reciprocal")):
        return
    value = -number if op.name.endswith("negate") else 1 / number
    new = work.edit.build_before(op, "ren.constant", (), {"value": value})
    work.replace(op, new.results)
    work.transformed += 1

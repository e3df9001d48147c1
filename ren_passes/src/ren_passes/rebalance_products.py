"""Products of many factors as shallow trees: fewer levels, other rounding. Not part of the default pipeline."""

from __future__ import annotations

import heapq
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.edit import block_ops, operands
from ren.program.types import EncryptedType
from xdsl.ir import Block, Operation, SSAValue

from ren_passes.work import Work, blocks

_PRODUCT = "ren.semantic.multiply"
#: Operations that take one more level than their deepest operand.
_DEEPER = frozenset(
    (_PRODUCT, "ren.semantic.square", "ren.semantic.matmul", "ren.semantic.divide", "ren.semantic.mean")
)


@dataclass(frozen=True)
class RebalanceProductsPass:
    """A product of n encrypted factors of equal depth takes ceil(log2(n)) levels instead of n - 1: the two shallowest factors are multiplied
    first, and so on (Huffman's construction with max(a, b) + 1 for the sum; Golumbic, "Combinatorial merging", 1976, shows that this is optimal).

    Only products that nobody else uses are taken apart, and only where depth is saved. Rounding differs in the last bits, so the pass runs when asked
    for: `jit.default_pipeline(enable=["rebalance-products"])`. Counters: matched counts products of three factors or more, transformed those rebuilt.
    """

    name: str = "rebalance-products"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            _rebalance(block, work)
        return work.result(program)


def _rebalance(block: Block, work: Work) -> None:
    depth: dict[SSAValue, int] = {}
    for op in block_ops(block):
        if _is_product(op) and not _is_inner(op):
            factors, inner = _factors(op)
            if len(factors) > 2:
                work.matched += 1
                op = _rebuilt(op, factors, inner, depth, work)
        here = max((depth.get(v, 0) for v in operands(op)), default=0) + (op.name in _DEEPER)
        depth.update(dict.fromkeys(op.results, here))


def _is_product(op: Operation) -> bool:
    return op.name == _PRODUCT and all(isinstance(v.type, EncryptedType) for v in operands(op))


def _is_inner(op: Operation) -> bool:
    """Whether the only user is a product in the same block that takes it once."""
    result = op.results[0]
    use = result.first_use
    return use is not None and result.has_one_use() and use.operation.parent is op.parent and _is_product(use.operation)


def _factors(op: Operation) -> tuple[list[SSAValue], list[Operation]]:
    """The factors from left to right, and the products between them and `op`, users first."""
    factors, inner, todo = [], [], list(reversed(operands(op)))
    while todo:
        value = todo.pop()
        owner = value.owner
        if isinstance(owner, Operation) and owner.parent is op.parent and _is_product(owner) and _is_inner(owner):
            inner.append(owner)
            todo += reversed(operands(owner))
        else:
            factors.append(value)
    return factors, inner


def _rebuilt(
    op: Operation, factors: list[SSAValue], inner: list[Operation], depth: dict[SSAValue, int], work: Work
) -> Operation:
    heap = [(depth.get(v, 0), i, v) for i, v in enumerate(factors)]
    heapq.heapify(heap)
    plan, deep = list(heap), 0
    while len(plan) > 1:
        first, second = heapq.heappop(plan), heapq.heappop(plan)
        deep = max(first[0], second[0]) + 1
        heapq.heappush(plan, (deep, len(factors) + len(plan), second[2]))
    if deep >= max(depth.get(v, 0) for v in operands(op)) + 1:
        return op
    count, made = len(factors), op
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        made = work.edit.build_before(op, _PRODUCT, (first[2], second[2]))
        level = max(first[0], second[0]) + 1
        depth[made.results[0]] = level
        heapq.heappush(heap, (level, count, made.results[0]))
        count += 1
    work.edit.replace(op, made.results)
    for old in inner:
        work.edit.erase(old)
    work.transformed += 1
    return made

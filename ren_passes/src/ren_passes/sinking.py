"""Moving a linear maintenance operation below sums, so that a sum of products pays for it once.

Rescaling, relinearizing and leaving the NTT domain are linear: f(a) + f(b) = f(a + b) where a and b have one level and scale. A value is
*pending* when it can be written as f of another one: it is a result of f, or a linear operation on a pending value that nobody else
uses. Where two pending values meet in a sum, their f are replaced by one below the sum. Values are visited once, in program
order, so a tree of n sums takes O(n).
"""

from __future__ import annotations

from collections.abc import Callable

from ren.program.dialect import infer
from ren.program.edit import block_ops, operands
from xdsl.ir import Block, Operation, SSAValue

from ren_passes.analysis.consumers import preparation, sole_consumer
from ren_passes.work import Work

SUMS = ("ren.ckks.add", "ren.ckks.subtract")
_UNARY = frozenset(f"ren.ckks.{n}" for n in ("negate", "from_ntt", "multiply_integer"))
_WITH_PLAINTEXT = frozenset(f"ren.ckks.{n}" for n in ("add_plaintext", "subtract_plaintext"))


class Sink:
    """One linear operation to be moved in one block.

    is_source: whether an operation is an f to move. one_sided: whether f(a) + b is f(a + b) as well, for every b that met f(a): true for a
    relinearization, whose result and operand have one level, scale and meaning. adopt: called with a value that meets a pending one and is not
    pending itself, and the source on the other side; returns the value in front of f, or None when there is none.
    """

    def __init__(
        self,
        work: Work,
        is_source: Callable[[Operation], bool],
        *,
        one_sided: bool,
        adopt: Callable[[Operation, SSAValue, Operation], SSAValue | None] | None = None,
    ) -> None:
        self.work = work
        self.is_source = is_source
        self.one_sided = one_sided
        self.adopt = adopt
        #: pending value -> which operand the chain goes on with; None for results of f itself.
        self._pending: dict[SSAValue, int | None] = {}
        self._moved: set[Operation] = set()

    def run(self, block: Block) -> None:
        for op in block_ops(block):
            if self.is_source(op):
                self.work.matched += 1
                self._pending[op.results[0]] = None
            elif op.name in SUMS:
                self._sum(op)
            else:
                self._extend(op)
        self.work.transformed += len(self._moved)

    def _is_pending(self, value: SSAValue, consumer: Operation) -> bool:
        return value in self._pending and sole_consumer(value) is consumer

    def _extend(self, op: Operation) -> None:
        if op.name not in _UNARY and op.name not in _WITH_PLAINTEXT:
            return
        values = operands(op)
        if not self._is_pending(values[0], op):
            return
        if op.name in _UNARY or preparation(values[1], values[0]) is not None:
            self._pending[op.results[0]] = 0

    def _sum(self, op: Operation) -> None:
        x, y = operands(op)
        first, second = self._is_pending(x, op), self._is_pending(y, op)
        if first and second:
            self._merge(op)
        elif first or second:
            mine, other = (0, y) if first else (1, x)
            if self.one_sided:
                self._pending[op.results[0]] = mine
            elif self.adopt is not None:
                before = self.adopt(op, other, self._source_of((x, y)[mine]))
                if before is not None:
                    self.work.edit.set_operand(op, 1 - mine, before)
                    self._lift(self._strip((x, y)[mine]), op)

    def _source_of(self, value: SSAValue) -> Operation:
        while True:
            owner = value.owner
            assert isinstance(owner, Operation)
            place = self._pending[value]
            if place is None:
                return owner
            value = operands(owner)[place]

    def _merge(self, op: Operation) -> None:
        x, y = operands(op)
        moved = self._strip(x)
        if y is not x:
            other = self._strip(y)
            del self._pending[other.results[0]]
            self._moved.add(other)
            self.work.edit.erase(other)
        self._lift(moved, op)

    def _strip(self, value: SSAValue) -> Operation:
        """Take f out of the chain that ends in `value`, which then is what f has to be applied to. Returns f, used by nobody."""
        chain: list[Operation] = []
        source = self._source_of(value)
        while value.owner is not source:
            owner = value.owner
            assert isinstance(owner, Operation)
            chain.append(owner)
            value = operands(owner)[self._pending.pop(value) or 0]
        result, before = source.results[0], operands(source)[0]
        users = {use.operation: None for use in result.uses}
        self.work.edit.replace_uses(result, before)
        for op in users:
            if op.name.startswith("ren.ckks.prepare."):
                infer(op)
        for op in reversed(chain):
            for value in operands(op):
                made = value.owner
                if isinstance(made, Operation) and made.name.startswith("ren.ckks.prepare."):
                    infer(made)
                    self.work.edit.touch(made)
            infer(op)
            self.work.edit.touch(op)
        return source

    def _lift(self, source: Operation, op: Operation) -> None:
        """Put f behind a sum whose operands are in front of it by now."""
        edit = self.work.edit
        block = op.parent
        assert block is not None
        infer(op)
        edit.touch(op)
        total, result = op.results[0], source.results[0]
        edit.replace_uses(total, result)
        result.name_hint, total.name_hint = total.name_hint, None
        block.detach_op(source)
        block.insert_op_after(source, op)
        edit.set_operand(source, 0, total)
        infer(source)
        self._pending[result] = None
        self._moved.add(source)

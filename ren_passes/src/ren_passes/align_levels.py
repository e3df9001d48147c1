"""Operands that meet are brought to one level and scale; every state is inferred."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from ren.program import PassResult, Program, RuleError, row_of
from ren.program.dialect import infer
from ren.program.edit import block_ops, operands
from ren.program.scales import SymbolicScale
from ren.program.states import EncryptedState
from ren.program.types import EncryptedType
from xdsl.ir import Block, Operation, SSAValue

from ren_passes.analysis.state_keys import StateKeys
from ren_passes.work import Work, blocks

_SUMS = ("ren.ckks.add", "ren.ckks.subtract")
_MEETING = frozenset((*_SUMS, "ren.ckks.multiply", "ren.ckks.meet"))


@dataclass(frozen=True)
class AlignLevelsPass:
    """Bring the shallower operand of sums and products down, by `ren.ckks.mod_switch` where scales are equal and by `ren.ckks.align` (drop
    primes, multiply by a constant, rescale) elsewhere.

    A sum takes the deeper operand's level and scale. A product brings its shallower factor to the scale that puts the rescaled product on the
    ladder of scales. Values aligned once are shared. Levels that depend on a caller's plaintext are left to `ren.ckks.meet` when
    the program runs, unless both operands are known to agree (`StateKeys`).

    Counters: matched counts operations whose operands have to agree, transformed those for which something was inserted.
    """

    name: str = "align-levels"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            _Aligner(work, block).run()
        return work.result(program)


def known(value: SSAValue) -> tuple[int, SymbolicScale] | None:
    """(level, scale) of an encrypted value, None unless both are known."""
    state = value.type.data if isinstance(value.type, EncryptedType) else None
    if not isinstance(state, EncryptedState) or state.level is None or state.scale is None:
        return None
    return state.level, state.scale


def product_partner(level: int, scale: SymbolicScale) -> SymbolicScale:
    """The scale of a factor whose rescaled product with (level, scale) has the scale of level + 1: s(level)^2 / scale."""
    return SymbolicScale.at_level(level) ** 2 / scale


@dataclass
class _Aligner:
    work: Work
    block: Block
    keys: StateKeys = field(default_factory=StateKeys)
    aligned: dict[tuple[SSAValue, int, SymbolicScale], SSAValue] = field(default_factory=dict)

    def run(self) -> None:
        for op in block_ops(self.block):
            row = row_of(op)
            if row is None or row.rule is None:
                continue
            if op.name in _MEETING:
                self.work.matched += 1
                try:
                    gone = self._bring_together(op)
                except RuleError as error:
                    self.work.skip(op, error.code, str(error))
                    gone = False
                if gone:
                    continue
            elif op.name == "ren.ckks.polynomial":
                self._to_ladder(op)
            if infer(op, lambda o, error: self.work.note(o, error.code, str(error))):
                self.work.edit.touch(op)
                for result in op.results:
                    for use in result.uses:
                        self.work.edit.touch(use.operation)
            self.keys.define(op)

    def _bring_together(self, op: Operation) -> bool:
        """Whether the operation itself disappeared."""
        x, y = operands(op)
        pair = self._together(op, x, y)
        if op.name == "ren.ckks.meet":
            if pair is None:
                return False
            self.work.edit.replace(op, pair)
            self.work.transformed += 1
            return True
        if pair is None:
            if op.name != "ren.ckks.meet" and self.keys.key(x) != self.keys.key(y):
                pair = tuple(self._emit(op, "ren.ckks.meet", (x, y)).results)  # type: ignore[assignment]
            else:
                return False
        assert pair is not None
        if pair != (x, y):
            self.work.edit.set_operands(op, pair)
            self.work.transformed += 1
        return False

    def _together(self, op: Operation, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue] | None:
        """Both operands where they agree; None when that is only known in a run."""
        a, b = known(x), known(y)
        if a is None or b is None:
            return None
        (l1, s1), (l2, s2) = a, b
        if l1 == l2:
            return self._at_one_level(op, x, y, l1, s1, s2)
        deep, scale = (l1, s1) if l1 > l2 else (l2, s2)
        target = scale if op.name != "ren.ckks.multiply" else product_partner(deep, scale)
        if l1 < l2:
            return self._align(op, x, deep, target), y
        return x, self._align(op, y, deep, target)

    def _at_one_level(
        self, op: Operation, x: SSAValue, y: SSAValue, level: int, s1: SymbolicScale, s2: SymbolicScale
    ) -> tuple[SSAValue, SSAValue]:
        if op.name == "ren.ckks.multiply" or s1 == s2 or (s1 / s2).has_numbers:
            return x, y
        # No integer takes one scale to the other: both go a level down, where a rescale makes room for the ratio.
        target = SymbolicScale.at_level(level + 1)
        return self._align(op, x, level + 1, target), self._align(op, y, level + 1, target)

    def _to_ladder(self, op: Operation) -> None:
        """A polynomial needs the scale of its level."""
        x = operands(op)[0]
        state = known(x)
        if state is not None and state[1] != SymbolicScale.at_level(state[0]) and not state[1].has_numbers:
            level = state[0] + 1
            self.work.matched += 1
            self.work.transformed += 1
            self.work.edit.set_operand(op, 0, self._align(op, x, level, SymbolicScale.at_level(level)))

    def _align(self, op: Operation, x: SSAValue, level: int, scale: SymbolicScale) -> SSAValue:
        key = x, level, scale
        found = self.aligned.get(key)
        if found is None:
            at = known(x)
            assert at is not None
            if at[1] == scale:
                made = self._emit(op, "ren.ckks.mod_switch", (x,), levels=level - at[0])
            elif scale == SymbolicScale.at_level(level):
                made = self._emit(op, "ren.ckks.align", (x,), level=level)
            else:
                made = self._emit(op, "ren.ckks.align", (x,), level=level, scale=scale)
            found = self.aligned[key] = made.results[0]
        return found

    def _emit(self, anchor: Operation, name: str, values: tuple[SSAValue, ...], **attributes: Any) -> Operation:
        made = self.work.edit.build_before(anchor, name, values, attributes)
        self.keys.define(made)
        return made

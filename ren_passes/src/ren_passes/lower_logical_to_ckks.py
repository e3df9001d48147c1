"""Logical operations become CKKS operations, with what still has to be done to their results written on them."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program, RuleError, row_of
from ren.program.dialect import OBLIGATIONS_ATTRIBUTE, infer, obligations_attribute
from ren.program.edit import operands
from ren.program.op_table import RELINEARIZE, RESCALE
from ren.program.rows import Row
from xdsl.ir import Operation, SSAValue

from ren_passes.analysis.constants import integer_of
from ren_passes.analysis.weak import weak_results
from ren_passes.insert_multiply_ntt_transitions import MARK as TRANSITIONS
from ren_passes.insert_plaintext_preparation import MARK as PREPARED
from ren_passes.insert_plaintext_preparation import public_place, takes_integer
from ren_passes.work import Work, operations

_MARKS = frozenset((PREPARED, TRANSITIONS, "scale_mode"))
#: Logical operations on one value whose CKKS operation has another name.
_RENAMED = {"roll": "rotate"}


@dataclass(frozen=True)
class LowerLogicalToCkksPass:
    """Lower one by one. A product owes a relinearization and a rescale, a product with a plaintext a rescale; `insert-relinearization` and
    `insert-rescale` pay. Encrypted operands whose declared levels differ meet in `ren.ckks.meet`, which `align-levels` makes exact.

    An operation without the marks of the preparing passes, or that its rule refuses, stays and is reported.
    """

    name: str = "lower-logical-to-ckks"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for op in operations(program):
            row = row_of(op)
            if row is not None and row.stage == "logical":
                work.matched += 1
                self._lower(op, row, work)
        return work.result(program)

    def _lower(self, op: Operation, row: Row, work: Work) -> None:
        _, _, kind, form = op.name.split(".")
        missing = [m for m in (PREPARED, TRANSITIONS) if row.attr(m) is not None and m not in op.properties]
        if form == "encrypted_encrypted":
            missing = [m for m in missing if m != PREPARED]
        needs = {TRANSITIONS} if kind in ("multiply", "square") else set()
        needs |= {PREPARED} if "public" in form else set()
        if not takes_integer(op) and needs.intersection(missing):
            work.skip(op, "invalid-state", f"is not marked {' or '.join(sorted(needs.intersection(missing)))}")
            return
        try:
            infer(op)
            result = _Lowering(op, work).lowered(kind, form)
        except RuleError as error:
            work.skip(op, error.code, str(error))
            return
        if result is None:
            work.skip(op, "invalid-state", "was not expanded, so it has no CKKS operation")
            return
        work.replace(op, (result,))
        work.transformed += 1


class _Lowering:
    def __init__(self, op: Operation, work: Work) -> None:
        self.op = op
        self.edit = work.edit

    def emit(
        self,
        name: str,
        values: Sequence[SSAValue],
        attributes: dict[str, Any] | None = None,
        owes: tuple[str, ...] = (),
    ) -> SSAValue:
        types = weak_results(f"ren.ckks.{name}", values, attributes)
        extra = {k: v for k, v in self.op.attributes.items() if k != OBLIGATIONS_ATTRIBUTE}
        if owes:
            extra[OBLIGATIONS_ATTRIBUTE] = obligations_attribute(owes)
        new = self.edit.build_before(self.op, f"ren.ckks.{name}", values, attributes, result_types=types, extra=extra)
        return new.results[0]

    def lowered(self, kind: str, form: str) -> SSAValue | None:
        values = operands(self.op)
        if form == "encrypted":
            return self._unary(kind, values[0])
        if form == "encrypted_encrypted":
            return self._pair(kind, values[0], values[1])
        place = public_place(self.op)
        public, secret = values[place], values[1 - place]
        if kind == "multiply":
            factor = integer_of(public)
            if factor is not None:
                return self.emit("multiply_integer", (secret,), {"value": factor})
            runtime = self.op.properties["scale_mode"].data == "runtime_plaintext_scale"  # type: ignore[attr-defined]
            condition = "plaintext_scale_not_one" if runtime else "always"
            return self.emit("multiply_plaintext", (secret, public), {"rescale_condition": condition}, (RESCALE,))
        if kind == "add":
            return self.emit("add_plaintext", (secret, public))
        if kind != "subtract":
            return None
        if place == 1:
            return self.emit("subtract_plaintext", (secret, public))
        return self.emit("add_plaintext", (self.emit("negate", (secret,)), public))

    def _pair(self, kind: str, x: SSAValue, y: SSAValue) -> SSAValue:
        owes = (RELINEARIZE, RESCALE) if kind == "multiply" else ()
        try:
            return self.emit(kind, (x, y), None, owes)
        except RuleError as error:
            if error.code not in ("level-mismatch", "scale-mismatch"):
                raise
        # Arguments declared at different levels: every other value claims none yet.
        types = weak_results("ren.ckks.meet", (x, y))
        x, y = self.edit.build_before(self.op, "ren.ckks.meet", (x, y), result_types=types).results
        return self.emit(kind, (x, y), None, owes)

    def _unary(self, kind: str, x: SSAValue) -> SSAValue | None:
        attributes = {n: a for n, a in self.op.properties.items() if n not in _MARKS}
        if kind == "square":
            return self.emit("square", (x,), None, (RELINEARIZE, RESCALE))
        if kind in ("negate", "conjugate", "polynomial", "assume_bound"):
            return self.emit(kind, (x,), attributes)
        if kind == "roll" and "dimension" not in attributes:
            return self.emit("rotate", (x,), attributes)
        return None

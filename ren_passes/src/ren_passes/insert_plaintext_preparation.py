"""Public operands of encrypted arithmetic are encoded for their consumer."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program, RuleError
from ren.program.edit import operands
from ren.program.types import role_of
from xdsl.ir import Operation

from ren_passes.analysis.constants import integer_of
from ren_passes.analysis.weak import weak_results
from ren_passes.work import Work, operations

MARK = "plaintext_prepared"
_NAMES = {
    f"ren.logical.{name}.{form}": "multiply" if name == "multiply" else "add"
    for name in ("add", "subtract", "multiply")
    for form in ("encrypted_public", "public_encrypted")
}


def public_place(op: Operation) -> int:
    """Which operand of a mixed logical operation is public."""
    return 0 if op.name.endswith(".public_encrypted") else 1


def takes_integer(op: Operation) -> bool:
    """A product with a small integer constant, which needs no encoding and no level."""
    return _NAMES.get(op.name) == "multiply" and integer_of(operands(op)[public_place(op)]) is not None


@dataclass(frozen=True)
class InsertPlaintextPreparationPass:
    """Insert `ren.ckks.prepare.<use>.<role>` before every mixed logical sum, difference and product, and mark the operation.

    scale_mode: sums take the scale of the ciphertext; a product with a caller's plaintext takes that plaintext's own; other products take
    the scale of the level, so that the rescaled product is on the ladder of scales. Products with integer constants need no preparation.
    """

    name: str = "insert-plaintext-preparation"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for op in operations(program):
            use = _NAMES.get(op.name)
            if use is not None and MARK not in op.properties and not takes_integer(op):
                work.matched += 1
                self._prepare(op, use, work)
        return work.result(program)

    def _prepare(self, op: Operation, use: str, work: Work) -> None:
        place = public_place(op)
        public, secret = operands(op)[place], operands(op)[1 - place]
        role = role_of(public.type)
        if role not in ("message", "static", "plaintext"):
            work.skip(op, "invalid-operand", f"the public operand is {public.type}")
            return
        mode = "ciphertext_scale" if use == "add" else "default_scale"
        if use == "multiply" and role == "plaintext":
            mode = "runtime_plaintext_scale"
        name = f"ren.ckks.prepare.{use}.{role}"
        attributes = {"operation": use, "source_role": role, "scale_mode": mode}
        try:
            types = weak_results(name, (public, secret), attributes)
        except RuleError as error:
            work.skip(op, error.code, str(error))
            return
        prepared = work.edit.build_before(op, name, (public, secret), attributes, result_types=types)
        work.edit.set_operand(op, place, prepared.results[0])
        work.edit.set_attribute(op, MARK, True)
        work.edit.set_attribute(op, "scale_mode", mode)
        work.transformed += 1

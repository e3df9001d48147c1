"""Say which operands are encrypted: `ren.semantic.*` becomes `ren.logical.*`."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program, RuleError
from ren.program.dialect import infer, row_named
from ren.program.edit import operands
from ren.program.inference import sync_function_type
from ren.program.types import role_of
from xdsl.ir import Operation

from ren_passes.work import Work, operations

_PREFIX = "ren.semantic."
_PUBLIC = ("message", "static", "plaintext")


@dataclass(frozen=True)
class LowerSemanticToLogicalPass:
    """Rename every semantic operation by the roles of its operands, e.g. `ren.logical.add.encrypted_public`.

    An operand that is neither encrypted nor public (a type of another dialect, a material) is never taken for a message: its user stays and
    is reported, as is an operation without an encrypted operand.
    """

    name: str = "lower-semantic-to-logical"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for op in operations(program):
            if op.name.startswith(_PREFIX):
                work.matched += 1
                self._lower(op, work)
        for function in program.functions:
            # Text written by hand may declare less of a result than is known by now.
            if sync_function_type(function):
                work.edit.touch(function)
        return work.result(program)

    def _lower(self, op: Operation, work: Work) -> None:
        roles = []
        for value in operands(op):
            role = role_of(value.type)
            if role != "encrypted" and role not in _PUBLIC:
                work.skip(op, "invalid-operand", f"an operand is {value.type}, neither encrypted nor public")
                return
            roles.append("encrypted" if role == "encrypted" else "public")
        name = f"ren.logical.{op.name.removeprefix(_PREFIX)}.{'_'.join(roles)}"
        if row_named(name) is None:
            work.skip(op, "invalid-operand", f"no logical operation takes operands that are {', '.join(roles)}")
            return
        try:
            infer(op)
            new = work.edit.build_before(op, name, operands(op), op.properties, extra=op.attributes)
        except RuleError as error:
            work.skip(op, error.code, str(error))
            return
        work.edit.replace(op, new.results)
        work.transformed += 1

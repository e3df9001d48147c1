"""`validate-cipher-states`: what inference, and a rule of your own, say about every encrypted value."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.errors import PassError
from ren.program import PassResult, Program
from ren.program.dialect import at
from ren.program.edit import block_ops, operation_name
from ren.program.flow import flow_of
from ren.program.states import EncryptedState
from ren.program.types import EncryptedType
from xdsl.ir import Operation

#: (operation, states of its encrypted results) -> what is wrong, or None.
StateValidator = Callable[[Operation, tuple[EncryptedState, ...]], "str | None"]


@dataclass(frozen=True)
class ValidateCipherStatesPass:
    """Infer the states of all values, with the primes of workspace["engine"] where there is one, and raise PassError that lists every contradiction with
    operation and source line. validator: called once for each operation with encrypted results; what it returns is listed too.

    Counters: matched counts the operations looked at.
    """

    validator: StateValidator | None = None
    name: str = "validate-cipher-states"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        params = getattr(workspace.get("engine"), "params", None)
        matched, wrong = 0, []
        for function in program.functions:
            flow = flow_of(function, params)
            for problem in flow.problems:
                where = "argument" if problem.op is None else f"{operation_name(problem.op)}{at(problem.op)}"
                wrong.append(f"{where}: {problem.message} [{problem.code}]")
            for block in function.body.blocks:
                for op in block_ops(block):
                    found = (flow.types.get(r, r.type) for r in op.results)
                    states = tuple(t.data for t in found if isinstance(t, EncryptedType))
                    if not states:
                        continue
                    matched += 1
                    said = None if self.validator is None else self.validator(op, states)
                    if said is not None:
                        wrong.append(f"{operation_name(op)}{at(op)}: {said}")
        if wrong:
            raise PassError("states are not valid:\n" + "\n".join(wrong), subject=self.name)
        return PassResult.unchanged(program, matched=matched)

"""What every pass of this library keeps while it runs: the edit, the counters, the diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ren.program import Diagnostic, Edit, PassResult, PassStats, Program
from ren.program.diagnostics import located
from ren.program.dialect import is_dead, source_of
from ren.program.edit import block_ops, operands, operation_name
from ren.program.inference import sync_function_type
from xdsl.ir import Block, Operation, SSAValue


def blocks(program: Program) -> Iterator[Block]:
    """Every block of every function, whatever the function is called."""
    for function in program.functions:
        yield from function.body.blocks


def operations(program: Program) -> Iterator[Operation]:
    """The operations of all blocks in order, returns included. The current one may be erased or have others inserted before it."""
    for block in blocks(program):
        yield from block_ops(block)


class Work:
    """Counters mean: matched, operations of the kind that the pass looks for; transformed, those rewritten; skipped, those left alone with
    a diagnostic. Inserted and removed are counted by the edit."""

    def __init__(self) -> None:
        self.edit = Edit()
        self.matched = 0
        self.transformed = 0
        self.skipped = 0
        self._diagnostics: dict[Diagnostic, None] = {}

    def note(self, op: Operation, code: str, message: str) -> None:
        """A finding at an operation."""
        name = operation_name(op)
        self._diagnostics[located(code, f"{name}: {message}", subject=name, source=source_of(op))] = None

    def skip(self, op: Operation, code: str, message: str) -> None:
        """Leave a matched operation alone and say why."""
        self.skipped += 1
        self.note(op, code, message)

    def replace(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """Let `values` stand for the results of `op`, erase it, and erase constants that only it used."""
        used = dict.fromkeys(v.owner for v in operands(op))
        self.edit.replace(op, values)
        for owner in used:
            if isinstance(owner, Operation) and owner.name == "ren.constant" and is_dead(owner):
                self.edit.erase(owner)

    def result(self, program: Program) -> PassResult:
        """The result of the pass, after making the type of each function follow what it returns by now."""
        for function in program.functions:
            if sync_function_type(function):
                self.edit.touch(function)
        stats = PassStats(self.matched, self.transformed, self.edit.inserted, self.edit.removed, self.skipped)
        return PassResult(program, stats, tuple(self._diagnostics), self.edit.touched)

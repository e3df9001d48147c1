"""Definitions before uses, and bounded nesting: what xDSL does not check.

xDSL accepts a value that is used before it is defined, and cycles of values, in its parser and its verifier. Iterative: any
depth is measured, deeper than the limit is refused before something recursive meets it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from ren.errors import ProgramVerifyError
from ren.program import _xdsl

#: Nested regions. xDSL walks, prints and clones recursively, 4 to 7 frames a level; Python allows 1000.
MAX_REGION_DEPTH = 48


def walk(root: Operation) -> Iterator[Operation]:
    """All operations under `root` and itself, outer ones first, without recursion."""
    stack = [root]
    while stack:
        op = stack.pop()
        yield op
        if op.regions:
            inner = [o for region in op.regions for block in region.blocks for o in _xdsl.block_ops(block)]
            stack.extend(reversed(inner))


def check_order(root: Operation) -> None:
    """Raise ProgramVerifyError for a value used before it is defined or outside of the region that defines it, and for regions nested
    deeper than `MAX_REGION_DEPTH`. The error's `operation` is the one at fault.

    In a region of several blocks a value defined in any of them may be used in all: dominance between blocks is left to its dialect.
    """
    defined: set[SSAValue] = set()
    scopes: list[list[SSAValue]] = []
    # Iterators over the operations of a region (with a scope each), and operations whose results become visible next.
    stack: list[Iterator[Operation] | Operation] = [iter((root,))]
    scopes.append([])
    while stack:
        top = stack[-1]
        if isinstance(top, Operation):
            stack.pop()
            _define(top.results, defined, scopes[-1])
            continue
        op = next(top, None)
        if op is None:
            stack.pop()
            defined.difference_update(scopes.pop())
            continue
        for value in _xdsl.operands(op):
            if value not in defined:
                raise _fault(op, f"operand %{value.name_hint or '?'} is used before it is defined")
        if not op.regions:
            _define(op.results, defined, scopes[-1])
            continue
        if len(scopes) > MAX_REGION_DEPTH:
            raise _fault(op, f"regions nested deeper than {MAX_REGION_DEPTH}")
        stack.append(op)
        for region in reversed(op.regions):
            blocks = list(region.blocks)
            scope: list[SSAValue] = []
            for block in blocks:
                _define(block.args, defined, scope)
            if len(blocks) > 1:
                for block in blocks:
                    for inner in _xdsl.block_ops(block):
                        _define(inner.results, defined, scope)
            scopes.append(scope)
            stack.append(op_ for block in blocks for op_ in _xdsl.block_ops(block))


def _define(values: Sequence[SSAValue], defined: set[SSAValue], scope: list[SSAValue]) -> None:
    defined.update(values)
    scope.extend(values)


class OrderError(ProgramVerifyError):
    """`operation` is where it was found."""

    operation: Operation


def _fault(op: Operation, message: str) -> OrderError:
    error = OrderError(f"{op.name}: {message}", subject=op.name)
    error.operation = op
    return error

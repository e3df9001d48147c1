"""Sums of powers and Horner chains as one polynomial: fewer levels, other rounding. Not part of the default pipeline."""

from __future__ import annotations

import math
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ren.program import PassResult, Program, row_of
from ren.program.edit import block_ops, operands
from ren.program.layout import Padding
from ren.program.rules import polynomial_depth
from ren.program.states import raised
from ren.program.types import EncryptedType
from xdsl.ir import Block, Operation, SSAValue

from ren_passes.analysis.constants import integer_of, number_of
from ren_passes.work import Work, blocks

#: Higher degrees are rarely written out, and their powers outgrow the last prime.
MAX_DEGREE = 31
#: Operations of one expression, and what they would be without sharing; bounds the work per candidate, so that the pass stays linear.
_MAX_OPERATIONS = 8 * MAX_DEGREE
_MAX_SIZE = MAX_DEGREE * MAX_DEGREE
_HEADROOM = 2.0**10
_STAGE = "ren.semantic."


@dataclass(frozen=True, slots=True)
class _Written:
    """A value as a polynomial of another one. coefficients: from degree 0 up. depth: levels from `base` to the value as the program has it.
    size: operations in between, shared ones counted once for each path."""

    base: SSAValue
    coefficients: tuple[float, ...]
    depth: int
    size: int

    @property
    def degree(self) -> int:
        return len(self.coefficients) - 1

    @property
    def is_monomial(self) -> bool:
        return sum(c != 0 for c in self.coefficients) == 1


@dataclass(frozen=True)
class CollectPolynomialsPass:
    """Replace an expression that is a polynomial of one encrypted value with real coefficients by `ren.semantic.polynomial`, which takes
    ceil(log2(degree + 1)) levels (Paterson, Stockmeyer, "On the number of nonscalar multiplications necessary to evaluate polynomials", 1973), where that
    saves a level: a Horner chain of degree 7 takes 3 levels instead of 7.

    Sums, differences, multiples, powers, and products with a power are collected. A product of two sums stays: multiplied out it would lose digits
    where terms cancel. So does an expression with a part that something else uses. Powers are formed without their coefficients, so values far above 1
    need a declared bound; where one is declared and a power would exceed the sum of all terms by more than 2^10, the expression stays.
    Rounding differs, so the pass runs when asked for: `jit.default_pipeline(enable=["collect-polynomials"])`.
    Counters: matched counts expressions that would save a level, transformed those replaced.
    """

    name: str = "collect-polynomials"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            _collect(block, work)
        return work.result(program)


def _collect(block: Block, work: Work) -> None:
    written: dict[SSAValue, _Written] = {}
    candidates: list[tuple[Operation, _Written]] = []
    for op in block_ops(block):
        found = _of(op, written) if op.name.startswith(_STAGE) and len(op.results) == 1 else None
        if found is not None and found.degree <= MAX_DEGREE:
            written[op.results[0]] = found
            candidates.append((op, found))
    covered: set[Operation] = set()
    for op, found in reversed(candidates):
        if op in covered or found.size > _MAX_SIZE or found.degree < 2 or found.depth <= polynomial_depth(found.degree):
            continue
        inner = _expression(op, found.base, written)
        if inner is None:
            continue
        work.matched += 1
        covered.update(inner)
        if not _is_tame(found):
            work.skip(
                op, "possible-overflow", "has powers far above its value: scale the input, or declare a smaller bound"
            )
            continue
        new = _build(op, found, work)
        for old in inner:
            work.replace(old, new.results if old is op else (found.base,))
        work.transformed += 1


def _build(op: Operation, found: _Written, work: Work) -> Operation:
    """The polynomial. Evaluated in every slot, it would fill padding with its constant, which a sum leaves alone: there the constant is added."""
    result = op.results[0].type
    assert isinstance(result, EncryptedType)
    layout, first = result.data.layout, found.coefficients[0]
    apart = layout is not None and layout.padding is Padding.ZERO and first != 0
    coefficients = (0.0, *found.coefficients[1:]) if apart else found.coefficients
    new = work.edit.build_before(op, f"{_STAGE}polynomial", (found.base,), {"coefficients": coefficients})
    if not apart:
        return new
    constant = work.edit.build_before(op, "ren.constant", (), {"value": first})
    return work.edit.build_before(op, f"{_STAGE}add", (new.results[0], constant.results[0]))


def _expression(root: Operation, base: SSAValue, written: dict[SSAValue, _Written]) -> list[Operation] | None:
    """The operations between `base` and `root`, users before what they use, when nothing else uses their results; else None."""
    uses: dict[Operation, int] = {root: 0}
    todo = [root]
    while todo:
        for value in _encrypted(todo.pop()):
            owner = value.owner
            if value is base or not isinstance(owner, Operation):
                continue
            if owner not in uses:
                if len(uses) == _MAX_OPERATIONS or value not in written:
                    return None
                todo.append(owner)
            uses[owner] = uses.get(owner, 0) + 1
    if any(uses[op] != sum(1 for _ in op.results[0].uses) for op in uses if op is not root):
        return None
    ordered, ready = [], [root]
    while ready:
        op = ready.pop()
        ordered.append(op)
        for value in _encrypted(op):
            owner = value.owner
            if value is not base and isinstance(owner, Operation):
                uses[owner] -= 1
                if uses[owner] == 0:
                    ready.append(owner)
    return ordered


def _encrypted(op: Operation) -> list[SSAValue]:
    return [v for v in operands(op) if isinstance(v.type, EncryptedType)]


def _is_tame(found: _Written) -> bool:
    """No power exceeds the bound of the whole by more than the headroom that a level has anyway; true where no bound is declared."""
    assert isinstance(found.base.type, EncryptedType)
    bound = found.base.type.data.bound
    if bound is None or bound <= 1:
        return True
    total = sum(abs(c) * raised(bound, i) for i, c in enumerate(found.coefficients) if c)
    return bool(raised(bound, found.degree) <= _HEADROOM * max(1.0, total))


# -- one operation as a polynomial ---------------------------------------------------------------------------------------


def _of(op: Operation, written: dict[SSAValue, _Written]) -> _Written | None:
    """What an operation computes, as a polynomial of one value; None for anything else."""
    kind = op.name.removeprefix(_STAGE)
    values = operands(op)
    forms = [_forms(v, written) for v in values if isinstance(v.type, EncryptedType)]
    if kind in ("negate", "square", "power"):
        exponent = 2
        if kind == "power":
            row = row_of(op)
            assert row is not None
            exponent = row.python_attributes(op.properties)["exponent"]
        return _first(_negated(f) if kind == "negate" else _power(f, exponent) for f in forms[0])
    if kind not in ("add", "subtract", "multiply", "divide"):
        return None
    if len(forms) == 2:
        pairs = ((f, g) for f in forms[0] for g in forms[1] if f.base is g.base)
        return _first(_product(f, g) if kind == "multiply" else _sum(f, g, kind) for f, g in pairs)
    place = 0 if isinstance(values[1].type, EncryptedType) else 1
    number = number_of(values[place])
    if isinstance(number, complex) or number is None or not math.isfinite(number):
        return None
    form = forms[0][0]
    if kind == "multiply":
        return _times(form, float(number), 0 if integer_of(values[place]) is not None else 1)
    if kind == "divide":
        return None if number == 0 else _times(form, 1 / number, 1)
    if kind == "subtract":
        return _shifted(_negated(form), number) if place == 0 else _shifted(form, -number)
    return _shifted(form, number)


def _forms(value: SSAValue, written: dict[SSAValue, _Written]) -> tuple[_Written, ...]:
    """A value as a polynomial of what it was computed from, and as itself."""
    itself = _Written(value, (0.0, 1.0), 0, 0)
    found = written.get(value)
    return (itself,) if found is None else (found, itself)


def _first(found: Iterable[_Written | None]) -> _Written | None:
    return next((f for f in found if f is not None), None)


def _times(f: _Written, factor: float, levels: int) -> _Written | None:
    product = tuple(c * factor for c in f.coefficients)
    return (
        _Written(f.base, product, f.depth + levels, f.size + 1) if factor and all(map(math.isfinite, product)) else None
    )


def _negated(f: _Written) -> _Written:
    return _Written(f.base, tuple(-c for c in f.coefficients), f.depth, f.size + 1)


def _shifted(f: _Written, number: float) -> _Written:
    return _Written(f.base, (f.coefficients[0] + number, *f.coefficients[1:]), f.depth, f.size + 1)


def _sum(f: _Written, g: _Written, kind: str) -> _Written | None:
    sign = 1.0 if kind == "add" else -1.0
    total = [a + sign * b for a, b in zip_longest(f.coefficients, g.coefficients, fillvalue=0.0)]
    while total and total[-1] == 0:
        total.pop()
    if len(total) < 2:
        return None
    return _Written(f.base, tuple(total), max(f.depth, g.depth), f.size + g.size + 1)


def _product(f: _Written, g: _Written) -> _Written | None:
    """A product of which one factor is a single power: no two terms of it meet."""
    if g.is_monomial:
        f, g = g, f
    if not f.is_monomial or f.degree + g.degree > MAX_DEGREE:
        return None
    product = (0.0,) * f.degree + tuple(f.coefficients[-1] * c for c in g.coefficients)
    if not all(map(math.isfinite, product)):
        return None
    return _Written(f.base, product, max(f.depth, g.depth) + 1, f.size + g.size + 1)


def _power(f: _Written, exponent: int) -> _Written | None:
    if not f.is_monomial or exponent < 1 or f.degree * exponent > MAX_DEGREE:
        return None
    try:
        last = f.coefficients[-1] ** exponent
    except OverflowError:
        return None
    depth = f.depth + (exponent - 1).bit_length()
    return _Written(f.base, (0.0,) * (f.degree * exponent) + (last,), depth, f.size + 1)

"""Constant factors of one value become one factor."""

from __future__ import annotations

import cmath
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.dialect import infer
from ren.program.edit import operands
from xdsl.ir import Operation, SSAValue

from ren_passes.analysis.constants import number_of
from ren_passes.insert_plaintext_preparation import MARK, public_place
from ren_passes.work import Work, operations

_PRODUCTS = ("ren.logical.multiply.encrypted_public", "ren.logical.multiply.public_encrypted")
_NEGATE = "ren.logical.negate.encrypted"


@dataclass(frozen=True)
class FuseScalarProductsPass:
    """(x * a) * b becomes x * (a b), and -(x * a) becomes x * (-a), for constants a and b: one rescale and one level less each time. A factor 1
    disappears. The numbers are multiplied in double precision, far below the error of encoding them. Only products that nobody else uses are taken
    apart.

    Counters: matched counts products with constants and their negations, transformed those that took over a factor or disappeared.
    """

    name: str = "fuse-scalar-products"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for op in operations(program):
            factor = _factor(op)
            if factor is None:
                continue
            value, number = factor
            inner = value.owner
            within = _factor(inner) if isinstance(inner, Operation) and inner.name in _PRODUCTS else None
            if op.name == _NEGATE and within is None:
                continue
            work.matched += 1
            product = None if within is None else _finite_product(number, within[1])
            if within is not None and product is not None and value.has_one_use():
                _replace(work, op, within[0], product)
                assert isinstance(inner, Operation)
                work.replace(inner, (within[0],))
            elif number == 1 and op.name in _PRODUCTS:
                work.replace(op, (value,))
                work.transformed += 1
        return work.result(program)


def _factor(op: Operation) -> tuple[SSAValue, Any] | None:
    """(x, a) when an operation is x * a, not yet prepared, or -x, whose factor is -1."""
    if op.name == _NEGATE:
        return operands(op)[0], -1
    if op.name not in _PRODUCTS or MARK in op.properties:
        return None
    place = public_place(op)
    number = number_of(operands(op)[place])
    return None if number is None else (operands(op)[1 - place], number)


def _finite_product(a: Any, b: Any) -> Any:
    """a * b, None where that is no finite number."""
    try:
        product = a * b
        return product if cmath.isfinite(product) else None
    except OverflowError:
        return None


def _replace(work: Work, op: Operation, value: SSAValue, number: Any) -> None:
    constant = work.edit.build_before(op, "ren.constant", (), {"value": number})
    new = work.edit.build_before(op, _PRODUCTS[0], (value, constant.results[0]), extra=op.attributes)
    infer(new)
    work.replace(op, new.results)
    work.transformed += 1

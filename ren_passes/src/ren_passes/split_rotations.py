"""Sums of many rotations of one value take baby steps and giant steps: fewer rotations, fewer keys."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program
from ren.program.cost_model import CostModel, cost_model_of
from ren.program.edit import block_ops, operands
from ren.program.literals import decode
from ren.program.types import EncryptedType, MessageType
from xdsl.ir import Block, Operation, SSAValue

from ren_passes.analysis.constants import number_of
from ren_passes.analysis.rotation_steps import Split, best_split
from ren_passes.expansions.emit import Emit, layout_of
from ren_passes.work import Work, blocks

_SUM = "ren.logical.add.encrypted_encrypted"
_PRODUCTS = ("ren.logical.multiply.encrypted_public", "ren.logical.multiply.public_encrypted")


@dataclass(frozen=True, slots=True)
class _Term:
    """roll(source, step) * factor. value: its result in the program."""

    value: SSAValue
    source: SSAValue
    step: int
    factor: SSAValue


@dataclass(frozen=True)
class SplitRotationsPass:
    """In a sum over terms p_i * roll(x, i) with public p_i (a matrix by diagonals, a filter by taps), write i = g + b and compute the sum over g of
    roll(sum over b of roll(p_i, -g) * roll(x, b), g): x is rotated once for each b, the inner sums once for each g (Halevi, Shoup, ia.cr/2018/244,
    section 4). The p_i are rolled before they are encoded. It happens where the count of rotations says that a quarter of their time is saved (12
    consecutive steps or more); fewer stay one hoisted group.

    Terms take part whose product nobody else uses, over a value that fills its frame, with a number or a vector as long as the frame. Counters: matched counts
    such terms in sums of one value, transformed those that were split.
    """

    name: str = "split-rotations"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        work = Work()
        for block in blocks(program):
            _split_block(block, work, cost_model_of(workspace))
        return work.result(program)


def _split_block(block: Block, work: Work, model: CostModel | None) -> None:
    for op in block_ops(block):
        if op.name != _SUM or _is_inner(op):
            continue
        terms, inner = _terms_of(op)
        by_source: dict[SSAValue, list[_Term]] = {}
        others: list[SSAValue] = []
        for value in terms:
            term = _term(value)
            if term is None:
                others.append(value)
            else:
                by_source.setdefault(term.source, []).append(term)
        splits = {source: best_split((t.step for t in found), model) for source, found in by_source.items()}
        work.matched += sum(map(len, by_source.values()))
        if any(splits.values()):
            _rewrite(op, inner, by_source, splits, others, work)


def _is_inner(op: Operation) -> bool:
    """Whether the only user is a sum in the same block that takes it once."""
    result = op.results[0]
    use = result.first_use
    return use is not None and result.has_one_use() and use.operation.name == _SUM and use.operation.parent is op.parent


def _terms_of(op: Operation) -> tuple[list[SSAValue], list[Operation]]:
    """The terms from left to right, and the sums between them and `op`, users first."""
    terms, inner, todo = [], [], list(reversed(operands(op)))
    while todo:
        value = todo.pop()
        owner = value.owner
        if isinstance(owner, Operation) and owner.name == _SUM and owner.parent is op.parent and _is_inner(owner):
            inner.append(owner)
            todo += reversed(operands(owner))
        else:
            terms.append(value)
    return terms, inner


def _term(value: SSAValue) -> _Term | None:
    """A value as a rotation times a public factor that can be rolled; None for anything else."""
    product = value.owner
    if not isinstance(product, Operation) or product.name not in _PRODUCTS or not value.has_one_use():
        return None
    place = 0 if isinstance(operands(product)[1].type, EncryptedType) else 1
    factor, source = operands(product)[place], operands(product)[1 - place]
    step, rotation = 0, source.owner
    if isinstance(rotation, Operation) and rotation.name == "ren.ckks.rotate":
        step, source = int(decode(rotation.properties["shift"])), operands(rotation)[0]
    layout = layout_of(source)
    if layout is None or layout != layout_of(operands(product)[1 - place]):
        return None
    if not _rolls(factor, layout.shape, layout.is_dense):
        return None
    return _Term(value, source, step, factor)


def _rolls(factor: SSAValue, shape: tuple[int, ...] | None, dense: bool) -> bool:
    """Whether rolling public data before it is encoded rolls the slots: it is one number, or one vector over the whole frame."""
    if number_of(factor) is not None:
        return True
    if not isinstance(factor.type, MessageType) or (shape is not None and not (dense and len(shape) == 1)):
        return False
    found = factor.type.data.shape
    return found is not None and len(found) == 1 and (shape is None or found == shape)


def _rewrite(
    op: Operation,
    inner: list[Operation],
    by_source: dict[SSAValue, list[_Term]],
    splits: dict[SSAValue, Split | None],
    others: list[SSAValue],
    work: Work,
) -> None:
    emit = Emit(work.edit, op)
    summands = list(others)
    for source, terms in by_source.items():
        split = splits[source]
        if split is None:
            summands += [t.value for t in terms]
        else:
            summands += _two_steps(emit, source, terms, split)
            work.transformed += len(terms)
    total = summands[0]
    for value in summands[1:]:
        total = emit.add(total, value)
    work.replace(op, (total,))
    for old in inner:
        work.edit.erase(old)
    for source, terms in by_source.items():
        if splits[source] is not None:
            for term in terms:
                _drop(term.value, source, work)


def _drop(value: SSAValue, source: SSAValue, work: Work) -> None:
    """Erase a product that nobody uses by now, and its rotation where nobody else uses that."""
    product = value.owner
    assert isinstance(product, Operation)
    rotations = [v.owner for v in operands(product) if v is not source and isinstance(v.type, EncryptedType)]
    work.replace(product, (source,))
    for rotation in rotations:
        assert isinstance(rotation, Operation)
        if rotation.results[0].first_use is None:
            work.edit.erase(rotation)


def _two_steps(emit: Emit, source: SSAValue, terms: list[_Term], split: Split) -> list[SSAValue]:
    """One summand for each giant step."""
    babies: dict[int, SSAValue] = {}
    sums: dict[int, SSAValue] = {}
    for term in terms:
        giant, baby = split.of(term.step)
        if baby not in babies:
            babies[baby] = emit.rotate(source, baby)
        factor = term.factor
        if giant and number_of(factor) is None:
            factor = emit.op("ren.public.roll", factor, shift=-giant)
        product = emit.multiply(babies[baby], factor)
        sums[giant] = product if giant not in sums else emit.add(sums[giant], product)
    return [emit.rotate(value, giant) for giant, value in sums.items()]

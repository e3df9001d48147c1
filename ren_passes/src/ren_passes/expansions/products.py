"""Powers, quotients, and products with a public matrix."""

from __future__ import annotations

from ren.program.cost_model import CostModel
from ren.program.layout import Layout, LayoutError, Padding, power_of_two
from ren.program.semantic_rules import matmul_shapes
from ren.program.types import MessageType
from xdsl.ir import SSAValue

from ren_passes.analysis.constants import number_of
from ren_passes.analysis.rotation_steps import Split, best_split
from ren_passes.expansions.emit import Emit, layout_of
from ren_passes.expansions.reductions import total


def power(emit: Emit, x: SSAValue, exponent: int) -> SSAValue:
    """x ** exponent, ceil(log2(exponent)) products deep: the exponent is halved, so factors differ by at most one."""
    known = {1: x}
    todo = [exponent]
    while todo:
        k = todo[-1]
        if k in known:
            todo.pop()
            continue
        high, low = (k + 1) // 2, k // 2
        missing = [h for h in (high, low) if h not in known]
        if missing:
            todo += missing
            continue
        known[k] = emit.square(known[high]) if high == low else emit.multiply(known[high], known[low])
        todo.pop()
    return known[exponent]


def divide(emit: Emit, x: SSAValue, divisor: SSAValue) -> SSAValue:
    """x times the reciprocal of public data, taken of the numbers before they are encoded. Raises ZeroDivisionError, TypeError."""
    number = number_of(divisor)
    if number is not None:
        return emit.multiply(x, emit.constant(1 / number))
    if not isinstance(divisor.type, MessageType):
        raise TypeError("the divisor is encoded already: pass it as a message, or multiply by an encoded reciprocal")
    return emit.multiply(x, emit.op("ren.public.reciprocal", divisor))


def matmul(emit: Emit, x: SSAValue, matrix: SSAValue, form: str, model: CostModel | None = None) -> SSAValue:
    """The product of a vector with a public matrix, by generalised diagonals (Halevi, Shoup, "Algorithms in HElib", 2014, section 4.3):
    output j is the sum over i of W[j, j - i] * x[j - i]. model: as for `best_split`. Raises LayoutError where shapes are not known."""
    layout = layout_of(x)
    shape = matrix.type.data.shape if isinstance(matrix.type, MessageType) else None
    if layout is None or layout.shape is None or shape is None:
        raise LayoutError("a matrix product needs the shape of the matrix and the length of the vector while lowering")
    if len(shape) == 1:
        return total(emit, emit.multiply(x, matrix), False)
    if layout.frame is None:
        raise LayoutError("a matrix product needs a vector that fills a known number of slots: encrypted(slots=n)")
    inputs, outputs = matmul_shapes(form, shape)
    frame = max(layout.frame, power_of_two(outputs))
    # Copies of x behind its elements meet zeros of the diagonals.
    whole = emit.relayout(x, Layout((frame,), frame))
    common = {"rows": outputs, "columns": inputs, "frame": frame, "form": form}
    indices = sorted({i % frame for i in range(-(inputs - 1), outputs)})
    summed = _two_steps(emit, whole, matrix, indices, best_split(indices, model), common)
    result = Layout((outputs,), frame, Padding.NONE if frame == outputs else Padding.ZERO)
    return emit.relayout(summed, result)


def _two_steps(
    emit: Emit, x: SSAValue, matrix: SSAValue, indices: list[int], split: Split | None, common: dict[str, object]
) -> SSAValue:
    """Sum over i = g + b of roll(diagonal(i) rolled by -g * roll(x, b), g): baby steps b are shared by all giant steps g."""
    groups: dict[int, list[int]] = {}
    for index in indices:
        giant, baby = (0, index) if split is None else split.of(index)
        groups.setdefault(giant, []).append(baby)
    babies = {b: emit.rotate(x, b) for b in sorted({b for group in groups.values() for b in group})}
    summed: SSAValue | None = None
    for giant, steps in groups.items():
        inner: SSAValue | None = None
        for baby in steps:
            turned = {"roll": -giant} if giant else {}
            diagonal = emit.op("ren.public.diagonal", matrix, index=giant + baby, **common, **turned)
            term = emit.multiply(babies[baby], diagonal)
            inner = term if inner is None else emit.add(inner, term)
        assert inner is not None
        moved = emit.rotate(inner, giant)
        summed = moved if summed is None else emit.add(summed, moved)
    assert summed is not None
    return summed

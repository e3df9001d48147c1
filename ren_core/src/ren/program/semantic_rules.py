"""Layout rules of the semantic and logical operations: what tracing already knows of a result.

Levels, scales, parts and domains do not exist at this stage; they appear when a program is lowered to `ren.ckks.*`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ren.program.layout import SCALAR, Layout, LayoutError, Padding, meet_public, power_of_two
from ren.program.rows import RuleError
from ren.program.rules import Attributes, either, joined, plus, polynomial_bound, rule, times, with_public
from ren.program.states import EncryptedState, MessageState, PlaintextState, raised

Operand = EncryptedState | MessageState | PlaintextState


def _result(layout: Layout | None, batch: str | None, bound: float | None = None) -> EncryptedState:
    return EncryptedState(layout=layout, batch=batch, bound=bound)


def _no_new_axes(secret: EncryptedState, shape: tuple[int, ...] | None) -> None:
    """Refuse public data that would make a batch of a value that has none: what follows would run over one element where it means all."""
    layout = secret.layout
    if layout is None or shape is None or secret.batch != "none" or layout.is_replicated:
        return
    rank = 1 if layout.shape is None else len(layout.shape)
    if len(shape) > rank:
        raise LayoutError(
            f"public data of shape {tuple(shape)} has more axes than an encrypted value of {rank}, which has no batch axes"
        )


def _binary(product: bool) -> Callable[..., EncryptedState]:
    def binary(a: Operand, b: Operand, attributes: Attributes) -> EncryptedState:
        if isinstance(a, EncryptedState) and isinstance(b, EncryptedState):
            bound = times(a.bound, b.bound) if product else plus(a.bound, b.bound)
            return _result(joined(a.layout, b.layout, product=product), either(a.batch, b.batch), bound)
        secret, public = (a, b) if isinstance(a, EncryptedState) else (b, a)
        if not isinstance(secret, EncryptedState):
            raise RuleError("one operand has to be encrypted", "invalid-operand")
        if isinstance(public, PlaintextState):
            # Its owner encoded it: what its padding holds is known only if Ren prepared it.
            return _result(with_public(secret.layout, public.layout, product=product), secret.batch)
        assert isinstance(public, MessageState)
        _no_new_axes(secret, public.shape)
        return _result(meet_public(secret.layout, public.shape, product=product), secret.batch)

    return binary


def _divide(a: EncryptedState, b: Operand, attributes: Attributes) -> EncryptedState:
    shape = b.shape if isinstance(b, MessageState) else None
    _no_new_axes(a, shape)
    return _result(meet_public(a.layout, shape, product=True), a.batch)


def _negate(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return _result(a.layout, a.batch, a.bound)


def _square(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return _result(a.layout, a.batch, times(a.bound, a.bound))


def _power(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    bound = None if a.bound is None else raised(a.bound, attributes["exponent"])
    return _result(a.layout, a.batch, bound)


def _roll(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    layout = a.layout
    if layout is not None:
        if layout.shape == ():
            raise LayoutError("a scalar has no axis to roll")
        layout = layout.with_padding(Padding.ZERO)
    return _result(layout, a.batch, a.bound)


def _total(a: EncryptedState, attributes: Attributes, count: float | None) -> EncryptedState:
    layout = a.layout
    if layout is None:
        return _result(None, a.batch)
    if layout.shape is not None and len(layout.shape) > 1 and "dimension" in attributes:
        raise LayoutError(f"a sum over one axis of shape {layout.shape} is not laid out yet: sum over all axes")
    keep = bool(attributes.get("keepdim", 0))
    rank = 1 if layout.shape is None else len(layout.shape)
    return _result(Layout((1,) * rank, 1) if keep else SCALAR, a.batch, times(a.bound, count))


def _sum(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    elements = a.layout.elements if a.layout is not None else 0
    return _total(a, attributes, float(elements) if elements else None)


def _mean(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return _total(a, attributes, 1.0)


def _slice(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    start, stop, layout = attributes["start"], attributes["stop"], a.layout
    if stop <= start:
        raise LayoutError(f"the slice [{start}:{stop}] is empty")
    if layout is None:
        return _result(None, a.batch, a.bound)
    if layout.shape is not None and len(layout.shape) != 1:
        raise LayoutError(f"slices are taken of vectors, not of shape {layout.shape}")
    if layout.shape is not None and stop > layout.shape[0]:
        raise LayoutError(f"the slice [{start}:{stop}] leaves a vector of {layout.shape[0]}")
    return _result(sliced(layout, start, stop, bool(attributes.get("drop", 0))), a.batch, a.bound)


def sliced(layout: Layout, start: int, stop: int, drop: bool) -> Layout:
    """Of elements start..stop-1 moved to the front: what follows them becomes padding. drop: one element, as a scalar."""
    length = stop - start
    shape: tuple[int, ...] = () if drop and length == 1 else (length,)
    if layout.shape == (length,):
        return Layout(shape, layout.frame, layout.padding)
    return Layout(shape, layout.frame, Padding.NONE if layout.frame == length else Padding.ANY)


def _reshape(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    shape, layout = tuple(attributes["shape"]), a.layout
    if layout is None:
        return _result(None, a.batch, a.bound)
    if layout.shape is None:
        if len(shape) != 1:
            raise LayoutError("a full slot vector is reshaped only when its length is declared: encrypted(slots=n)")
        return _result(layout, a.batch, a.bound)
    if math.prod(shape) != layout.elements:
        raise LayoutError(f"{layout.elements} elements do not form shape {shape}")
    return _result(Layout(shape, layout.frame, layout.padding), a.batch, a.bound)


def matmul_shapes(form: str, matrix: tuple[int, ...]) -> tuple[int, int]:
    """(inputs, outputs) of a product with a public matrix. form "linear": W[out, in] x; "right": x W[in, out]."""
    rows, columns = matrix
    return (columns, rows) if form == "linear" else (rows, columns)


def _needed(form: str, length: int, axes: int) -> str:
    """What shape public data needs, as PyTorch writes the product."""
    if axes == 1:
        return f"({length},) is needed"
    return (
        f"W @ x and linear(x, W) need W of shape (outputs, {length})"
        if form == "linear"
        else f"x @ W needs W of shape ({length}, outputs)"
    )


def _matmul(a: EncryptedState, w: Operand, attributes: Attributes) -> EncryptedState:
    shape = w.shape if isinstance(w, MessageState) else None
    layout = a.layout
    if layout is None or shape is None:
        return _result(None, a.batch)
    if layout.shape is None or len(layout.shape) != 1:
        raise LayoutError("a matrix product needs a vector of declared length: encrypted(slots=n)")
    if len(shape) == 1:
        inputs, outputs = shape[0], 0
    elif len(shape) == 2:
        inputs, outputs = matmul_shapes(attributes["form"], shape)
    else:
        raise LayoutError(f"a matrix product needs a matrix, got shape {tuple(shape)}")
    if inputs != layout.shape[0]:
        raise LayoutError(
            f"public data of shape {tuple(shape)} does not meet an encrypted vector of {layout.shape[0]}: {_needed(attributes['form'], layout.shape[0], len(shape))}"
        )
    if outputs == 0:
        return _result(SCALAR, a.batch)
    if layout.frame is None:
        frame = None
        padding = Padding.ZERO
    else:
        frame = max(layout.frame, power_of_two(outputs))
        padding = Padding.NONE if frame == outputs else Padding.ZERO
    return _result(Layout((outputs,), frame, padding), a.batch)


def _polynomial(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    coefficients = attributes["coefficients"]
    layout = a.layout.with_padding(Padding.ANY) if a.layout is not None and coefficients[0] else a.layout
    return _result(layout, a.batch, polynomial_bound(a.bound, coefficients, attributes.get("basis", "power")))


def _assume_bound(a: EncryptedState, attributes: Attributes) -> EncryptedState:
    return _result(a.layout, a.batch, abs(attributes["bound"]))


add = rule(_binary(product=False))
multiply = rule(_binary(product=True))
divide = rule(_divide)
negate = rule(_negate)
square = rule(_square)
power = rule(_power)
roll = rule(_roll)
sum_ = rule(_sum)
mean = rule(_mean)
slice_ = rule(_slice)
reshape = rule(_reshape)
matmul = rule(_matmul)
polynomial = rule(_polynomial)
assume_bound = rule(_assume_bound)

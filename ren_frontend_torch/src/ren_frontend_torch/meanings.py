"""What calls mean on encrypted values: one function per meaning, with the parameter names of PyTorch.

Each function gets the emitter and the arguments, and returns the value of the result (the operand itself where nothing changes), a tuple of
values, or something public. It raises Unsupported, or the RuleError of an operation, where there is no encrypted meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.ir import SSAValue

from ren_frontend_torch import moving, products
from ren_frontend_torch.broadcasting import met
from ren_frontend_torch.emit import Emitter, Unsupported, encrypted_state, is_public, number
from ren_frontend_torch.handles import Handle
from ren_frontend_torch.moving import axes_of
from ren_frontend_torch.targets import SPELLINGS


@dataclass(frozen=True, slots=True)
class Meaning:
    """parameters: names in order; *name takes the rest, ?name is given by keyword only. fresh: the result is memory of its own."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    fresh: bool

    def apply(self, e: Emitter, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.function(e, **self._bound(args, kwargs))

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = tuple(n for n in self.parameters if n[0] not in "*?")
        rest = next((n[1:] for n in self.parameters if n[0] == "*"), None)
        by_keyword = tuple(n[1:] for n in self.parameters if n[0] == "?")
        bound = dict(zip(names, args, strict=False))
        extra = args[len(names) :]
        if rest is not None:
            if extra:
                bound[rest] = extra[0] if len(extra) == 1 and isinstance(extra[0], (tuple, list)) else tuple(extra)
            names = (*names, rest)
        elif extra:
            raise Unsupported(f"{len(args)} arguments are not understood")
        names = (*names, *by_keyword)
        for key, value in kwargs.items():
            name = _ALIASES.get(key, key)
            if name not in names and key == "size" and "shape" in names:
                name = "shape"
            if name not in names or name in bound:
                raise Unsupported(f"its argument {key!r} is not understood")
            bound[name] = value
        return bound


_ALIASES = {"self": "input", "x": "input", "x1": "input", "axis": "dim", "keepdims": "keepdim", "x2": "other"}


# -- arithmetic ------------------------------------------------------------------------------------------------------


def _scaled(e: Emitter, x: Any, alpha: Any) -> SSAValue:
    """alpha * x."""
    factor = number(alpha)
    if factor is None:
        raise Unsupported("alpha is no number")
    if factor == 1:
        return e.value(x)
    plain = number(x)
    return e.value(plain * factor) if plain is not None else multiply(e, x, factor)


def add(e: Emitter, input: Any, other: Any, alpha: Any = 1) -> SSAValue:
    return met(e, "ren.semantic.add", e.value(input), _scaled(e, other, alpha))


def subtract(e: Emitter, input: Any, other: Any, alpha: Any = 1) -> SSAValue:
    return met(e, "ren.semantic.subtract", e.value(input), _scaled(e, other, alpha))


def reversed_subtract(e: Emitter, input: Any, other: Any, alpha: Any = 1) -> SSAValue:
    return met(e, "ren.semantic.subtract", e.value(other), _scaled(e, input, alpha))


def multiply(e: Emitter, input: Any, other: Any) -> SSAValue:
    a, b = e.value(input), e.value(other)
    if is_public(a) and is_public(b):
        return e.public("function", "torch.mul", input, other)
    return met(e, "ren.semantic.multiply", a, b)


def divide(e: Emitter, input: Any, other: Any, rounding_mode: Any = None) -> SSAValue:
    if rounding_mode is not None:
        raise Unsupported("rounding is no arithmetic on encrypted values")
    a, b = e.value(input), e.value(other)
    if encrypted_state(a) is None or encrypted_state(b) is not None:
        raise Unsupported(
            "division by an encrypted value is not arithmetic: multiply by a polynomial approximation of 1/x"
        )
    if number(other) == 0 or (
        type(other) is not Handle and isinstance(other, torch.Tensor) and not bool((other != 0).all())
    ):
        raise Unsupported("the divisor contains 0")
    return met(e, "ren.semantic.divide", a, b)


def power(e: Emitter, input: Any, exponent: Any) -> Any:
    if type(exponent) is not Handle and isinstance(exponent, torch.Tensor) and exponent.ndim == 0:
        exponent = exponent.item()
    plain = number(exponent)
    if type(input) is not Handle or plain is None or isinstance(plain, complex) or plain != int(plain) or plain < 0:
        raise Unsupported("powers of encrypted values have a whole exponent of at least 0")
    x, exponent = e.value(input), int(plain)
    if exponent == 0:
        return moving.ones_like(e, input)
    if exponent == 1:
        return x
    if exponent == 2:
        return e.build("ren.semantic.square", [x])
    return e.build("ren.semantic.power", [x], {"exponent": exponent})


def negate(e: Emitter, input: Any) -> SSAValue:
    return e.build("ren.semantic.negate", [e.value(input)])


def square(e: Emitter, input: Any) -> SSAValue:
    return e.build("ren.semantic.square", [e.value(input)])


def conjugate(e: Emitter, input: Any) -> SSAValue:
    return e.build("ren.semantic.conjugate", [e.value(input)])


def add_product(e: Emitter, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> SSAValue:
    """input + value * tensor1 * tensor2."""
    return add(e, input, multiply(e, tensor1, tensor2), value)


# -- reductions ------------------------------------------------------------------------------------------------------


def _reduction(name: str) -> Callable[..., SSAValue]:
    def reduce(e: Emitter, input: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> SSAValue:
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise Unsupported(f"{dtype} rounds")
        x = e.value(input)
        axes = axes_of(e, x, dim)
        rank = e.rank(x)
        if rank == 0:
            return x
        if len(axes) != rank:
            return _partial(e, x, axes, bool(keepdim), mean=name.endswith("mean"))
        return e.build(name, [x], {"keepdim": 1} if keepdim else {})

    return reduce


def _partial(e: Emitter, x: SSAValue, axes: set[int], keepdim: bool, mean: bool) -> SSAValue:
    """A sum or mean over some axes. Over leading ones, rows are added; over others, a product with a matrix brings the sums together."""
    shape = e.layout(x).shape
    assert shape is not None  # it has several axes
    kept = [d for i, d in enumerate(shape) if i not in axes]
    count = math.prod(d for i, d in enumerate(shape) if i in axes)
    share = 1.0 / count if mean else 1.0
    if axes == set(range(len(axes))):
        width = math.prod(kept)
        flat = moving.reshaped(e, x, (math.prod(shape),))
        ranges = [
            e.build("ren.semantic.slice", [flat], {"start": i, "stop": i + width})
            for i in range(0, count * width, width)
        ]
        summed = ranges[0]
        for row in ranges[1:]:
            summed = e.build("ren.semantic.add", [summed, row])
        if mean:
            summed = e.build("ren.semantic.multiply", [summed, e.constant(share)])
    else:
        numbers = torch.arange(math.prod(kept)).reshape([1 if i in axes else d for i, d in enumerate(shape)])
        target = numbers.expand(shape).reshape(-1).tolist()
        summed = moving.by_matrix(e, x, tuple(enumerate(target)), (len(target), math.prod(kept)), share)
    return moving.reshaped(e, summed, [1 if i in axes else d for i, d in enumerate(shape)] if keepdim else kept)


# -- nothing to do ---------------------------------------------------------------------------------------------------


def same(e: Emitter, input: Any, **ignored: Any) -> SSAValue:
    return e.value(input)


def convert(e: Emitter, input: Any, target: Any = (), **options: Any) -> SSAValue:
    """Conversions of device and precision; encrypted values have neither."""
    wanted = [*(target if isinstance(target, (tuple, list)) else (target,)), *options.values()]
    for x in wanted:
        if type(x) is not Handle and isinstance(x, torch.Tensor):
            x = x.dtype
        if isinstance(x, torch.dtype) and not (x.is_floating_point or x.is_complex):
            raise Unsupported(f"{x} rounds")
    return e.value(input)


def dropout(
    e: Emitter, input: Any, p: Any = 0.5, training: Any = True, inplace: Any = False, **options: Any
) -> SSAValue:
    # In training it was refused before, as random.
    return e.value(input)


# -- table -----------------------------------------------------------------------------------------------------------

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": add,
    "add_product": add_product,
    "chunk": moving.chunk,
    "conjugate": conjugate,
    "convert": convert,
    "divide": divide,
    "dot": products.dot,
    "dropout": dropout,
    "flatten": moving.flatten,
    "getitem": moving.getitem,
    "inner": products.inner,
    "linear": products.linear,
    "matmul": products.matmul,
    "matrix_matrix": products.matrix_matrix,
    "matrix_vector": products.matrix_vector,
    "mean": _reduction("ren.semantic.mean"),
    "multiply": multiply,
    "narrow": moving.narrow,
    "negate": negate,
    "ones_like": moving.ones_like,
    "power": power,
    "reshape": moving.reshape,
    "reversed_subtract": reversed_subtract,
    "roll": moving.roll,
    "same": same,
    "select": moving.select,
    "split": moving.split,
    "square": square,
    "squeeze": moving.squeeze,
    "subtract": subtract,
    "sum": _reduction("ren.semantic.sum"),
    "permute": moving.permute,
    "swap_axes": moving.swap_axes,
    "transpose": moving.transpose,
    "unbind": moving.unbind,
    "unsqueeze": moving.unsqueeze,
    "zeros_like": moving.zeros_like,
}

#: Dotted name of a function, or name of a method after a dot -> what it means on encrypted values.
MEANINGS: dict[str, Meaning] = {
    spelling: Meaning(_FUNCTIONS[row.meaning], row.parameters, row.fresh)
    for row in SPELLINGS
    for spelling in row.spellings
}

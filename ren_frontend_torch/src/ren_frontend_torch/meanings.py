"""What calls mean on encrypted values: one function per meaning, with the parameter names of PyTorch.

Each function gets the emitter and the arguments, and returns the value of the result (the operand itself where nothing changes), a tuple of
values, or something public. It raises Unsupported, or the RuleError of an operation, where there is no encrypted meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ren.program.rows import RuleError
from xdsl.ir import SSAValue

from ren_frontend_torch.emit import Emitter, Unsupported, encrypted_state, is_public, number, role_of
from ren_frontend_torch.handles import Handle


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


def _met(e: Emitter, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """An element-wise operation. One element of a vector lies in one slot; before it meets a whole vector it is copied to all slots, as a sum over itself."""
    try:
        return e.build(name, [a, b])
    except RuleError:
        if all(encrypted_state(v) is not None for v in (a, b)):
            spread = [e.build("ren.semantic.sum", [v]) if e.layout(v).elements == 1 else v for v in (a, b)]
            if any(new is not old for new, old in zip(spread, (a, b), strict=True)):
                return e.build(name, spread)
        raise


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
    return _met(e, "ren.semantic.add", e.value(input), _scaled(e, other, alpha))


def subtract(e: Emitter, input: Any, other: Any, alpha: Any = 1) -> SSAValue:
    return _met(e, "ren.semantic.subtract", e.value(input), _scaled(e, other, alpha))


def reversed_subtract(e: Emitter, input: Any, other: Any, alpha: Any = 1) -> SSAValue:
    return _met(e, "ren.semantic.subtract", e.value(other), _scaled(e, input, alpha))


def multiply(e: Emitter, input: Any, other: Any) -> SSAValue:
    a, b = e.value(input), e.value(other)
    if is_public(a) and is_public(b):
        return e.public("function", "torch.mul", input, other)
    return _met(e, "ren.semantic.multiply", a, b)


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
    return e.build("ren.semantic.divide", [a, b])


def power(e: Emitter, input: Any, exponent: Any) -> SSAValue:
    if type(exponent) is not Handle and isinstance(exponent, torch.Tensor) and exponent.ndim == 0:
        exponent = exponent.item()
    plain = number(exponent)
    if type(input) is not Handle or plain is None or isinstance(plain, complex) or plain != int(plain) or plain < 1:
        raise Unsupported("powers of encrypted values have a whole exponent of at least 1")
    x, exponent = e.value(input), int(plain)
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


def _axes(e: Emitter, x: SSAValue, dim: Any) -> set[int]:
    """Axes as numbers from 0. Raises Unsupported for axes that a batch shifts, or that are no numbers."""
    rank = e.rank(x)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        if e.batched(x):
            raise Unsupported("without dim= it would run over the batch axes too: give dim=-1")
        return set(range(rank))
    found = set()
    for axis in dim if isinstance(dim, (tuple, list)) else (dim,):
        if type(axis) is not int or not -max(rank, 1) <= axis < max(rank, 1):
            raise Unsupported(f"dim={axis!r} is no axis of a value of {rank} axes")
        if e.batched(x) and axis >= 0:
            raise Unsupported(f"dim={axis} counts from the batch axes: count from the end, dim={axis - rank}")
        found.add(axis % rank if rank else 0)
    return found


def _reduction(name: str) -> Callable[..., SSAValue]:
    def reduce(e: Emitter, input: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> SSAValue:
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise Unsupported(f"{dtype} rounds")
        x = e.value(input)
        axes = _axes(e, x, dim)
        rank = e.rank(x)
        if rank == 0:
            return x
        attributes: dict[str, int] = {}
        if rank > 1 and len(axes) != rank:
            attributes["dimension"] = min(axes) - rank
        if keepdim:
            attributes["keepdim"] = 1
        return e.build(name, [x], attributes)

    return reduce


# -- moving elements -------------------------------------------------------------------------------------------------


def roll(e: Emitter, input: Any, shifts: Any, dims: Any = None) -> SSAValue:
    x = e.value(input)
    rank = e.rank(x)
    steps = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    axes = () if dims is None else tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if any(number(s) is None or int(s) != s for s in steps) or not steps:
        raise Unsupported("a roll takes places that are known while tracing: declare them static(...)")
    if not axes:
        if len(steps) != 1:
            raise Unsupported("a roll without dims= takes one shift")
        _axes(e, x, None)
        return _rolled(e, x, int(steps[0]), -1 if rank == 1 else None)
    if len(axes) != len(steps):
        raise Unsupported("shifts and dims have different lengths")
    for step, dim in zip(steps, axes, strict=True):
        (axis,) = _axes(e, x, dim)
        x = _rolled(e, x, int(step), axis - rank)
    return x


def _rolled(e: Emitter, x: SSAValue, shift: int, dimension: int | None) -> SSAValue:
    if shift == 0:
        return x
    return e.build("ren.semantic.roll", [x], {"shift": shift} | ({} if dimension is None else {"dimension": dimension}))


def getitem(e: Emitter, input: Any, index: Any) -> SSAValue:
    x = e.value(input)
    rank = e.rank(x)
    items = _index_items(index, rank, e.batched(x))
    if all(item == slice(None) for item in items):
        return x
    if any(item != slice(None) for item in items[1:]):
        raise Unsupported("only the first axis of an encrypted value is sliced")
    shape = e.layout(x).shape
    start, stop, drop = _range(items[0], None if shape is None else shape[0])
    if rank == 1:
        return e.build("ren.semantic.slice", [x], {"start": start, "stop": stop, **({"drop": 1} if drop else {})})
    assert shape is not None
    # Rows of a row-major array are a range of the flattened one.
    width = math.prod(shape[1:])
    flat = e.build("ren.semantic.reshape", [x], {"shape": [math.prod(shape)]})
    rows = e.build("ren.semantic.slice", [flat], {"start": start * width, "stop": stop * width})
    return e.build("ren.semantic.reshape", [rows], {"shape": list(shape[1:] if drop else (stop - start, *shape[1:]))})


def _index_items(index: Any, rank: int, batched: bool) -> list[Any]:
    """One index per axis of the logical shape."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [i.item() if isinstance(i, np.integer) else i for i in items]
    for item in items:
        if item is not Ellipsis and type(item) is not slice and (type(item) is bool or type(item) is not int):
            raise Unsupported(f"an index of type {'tensor' if type(item) is Handle else type(item).__name__}")
    if Ellipsis in items:
        at = items.index(Ellipsis)
        if batched and at != 0:
            raise Unsupported("an index on the left counts from the batch axes: write x[..., index]")
        missing = rank - (len(items) - 1)
        items = items[:at] + [slice(None)] * missing + items[at + 1 :]
    elif batched:
        raise Unsupported("an index on the left counts from the batch axes: write x[..., index]")
    items += [slice(None)] * (rank - len(items))
    if len(items) != rank:
        raise Unsupported(f"{len(items)} indices for {rank} axes")
    return items


def _range(item: Any, length: int | None) -> tuple[int, int, bool]:
    """(start, stop, whether the axis goes away) of an index on an axis of `length`, None when only the engine knows it."""
    if length is None:
        bounds = (item,) if type(item) is int else (item.start or 0, item.stop)
        if any(type(b) is not int or b < 0 for b in bounds):
            raise Unsupported(
                "its length is not declared, so this end of the range is unknown: declare encrypted(slots=n)"
            )
        length = 1 << 62
    if type(item) is int:
        start = item + length if item < 0 else item
        if not 0 <= start < length:
            raise IndexError(f"index {item} is out of range for {length} elements")
        return start, start + 1, True
    if item.step not in (None, 1):
        raise Unsupported("a step in a slice")
    for bound in (item.start, item.stop):
        if bound is not None and type(bound) is not int:
            raise Unsupported("a slice takes bounds that are known while tracing: declare them static(...)")
    start, stop, _ = item.indices(length)
    return start, stop, False


def narrow(e: Emitter, input: Any, dim: Any, start: Any, length: Any) -> SSAValue:
    return getitem(e, input, _along(e, input, dim, slice(start, start + length)))


def select(e: Emitter, input: Any, dim: Any, index: Any) -> SSAValue:
    return getitem(e, input, _along(e, input, dim, index))


def _along(e: Emitter, input: Any, dim: Any, item: Any) -> Any:
    x = e.value(input)
    (axis,) = _axes(e, x, dim)
    items = [slice(None)] * e.rank(x)
    items[axis] = item
    return (Ellipsis, *items)


def split(e: Emitter, input: Any, split_size: Any, dim: Any = 0) -> tuple[SSAValue, ...]:
    length = _length(e, input, dim)
    if type(split_size) is int and split_size > 0:
        sizes = [min(split_size, length - at) for at in range(0, length, split_size)]
    elif (
        isinstance(split_size, (tuple, list)) and all(type(s) is int for s in split_size) and sum(split_size) == length
    ):
        sizes = list(split_size)
    else:
        raise Unsupported(f"{split_size!r} does not divide {length} elements")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return tuple(narrow(e, input, dim, end - size, size) for end, size in zip(ends, sizes, strict=True))


def chunk(e: Emitter, input: Any, chunks: Any, dim: Any = 0) -> tuple[SSAValue, ...]:
    if type(chunks) is not int or chunks < 1:
        raise Unsupported("a number of chunks that is unknown while tracing")
    return split(e, input, -(-_length(e, input, dim) // chunks), dim)


def unbind(e: Emitter, input: Any, dim: Any = 0) -> tuple[SSAValue, ...]:
    return tuple(select(e, input, dim, i) for i in range(_length(e, input, dim)))


def _length(e: Emitter, input: Any, dim: Any) -> int:
    x = e.value(input)
    shape = e.layout(x).shape
    (axis,) = _axes(e, x, dim)
    if shape is None:
        raise Unsupported("its length is not declared: declare encrypted(slots=n)")
    return shape[axis]


# -- shapes ----------------------------------------------------------------------------------------------------------


def _shape(e: Emitter, x: SSAValue) -> tuple[int, ...]:
    if e.batched(x):
        raise Unsupported("its shape has batch axes that are unknown while tracing")
    shape = e.layout(x).shape
    if shape is None:
        raise Unsupported("its length is not declared: declare encrypted(slots=n)")
    return shape


def _reshaped(e: Emitter, x: SSAValue, shape: Sequence[int]) -> SSAValue:
    """x in another shape. A scalar has the one element of shape (1,), and takes its slots."""
    old = _shape(e, x)
    if tuple(shape) == old:
        return x
    if not shape:
        raise Unsupported("a reshape to a scalar: take element [0]")
    return e.build("ren.semantic.reshape", [x], {"shape": list(shape)})


def reshape(e: Emitter, input: Any, shape: Any = ()) -> SSAValue:
    x = e.value(input)
    wanted = [shape] if type(shape) is int else list(shape)
    if any(type(d) is not int for d in wanted):
        raise Unsupported("a shape that is unknown while tracing")
    if wanted == [-1] and not e.batched(x) and e.rank(x) == 1:
        return x
    count = math.prod(_shape(e, x))
    if -1 in wanted:
        rest = math.prod(d for d in wanted if d != -1)
        if wanted.count(-1) > 1 or rest == 0 or count % rest:
            raise Unsupported(f"{count} elements do not form shape {tuple(wanted)}")
        wanted[wanted.index(-1)] = count // rest
    return _reshaped(e, x, wanted)


def flatten(e: Emitter, input: Any, start_dim: Any = 0, end_dim: Any = -1) -> SSAValue:
    x = e.value(input)
    if e.rank(x) == 1 and not e.batched(x):
        return x
    shape = _shape(e, x)
    if not shape:
        return _reshaped(e, x, (1,))
    start, stop = start_dim % len(shape), end_dim % len(shape)
    return _reshaped(e, x, (*shape[:start], math.prod(shape[start : stop + 1]), *shape[stop + 1 :]))


def squeeze(e: Emitter, input: Any, dim: Any = None) -> SSAValue:
    x = e.value(input)
    shape = _shape(e, x)
    axes = _axes(e, x, dim)
    return _reshaped(e, x, [d for i, d in enumerate(shape) if i not in axes or d != 1])


def unsqueeze(e: Emitter, input: Any, dim: Any) -> SSAValue:
    x = e.value(input)
    shape = list(_shape(e, x))
    if type(dim) is not int or not -len(shape) - 1 <= dim <= len(shape):
        raise Unsupported(f"dim={dim!r}")
    shape.insert(dim % (len(shape) + 1), 1)
    return _reshaped(e, x, shape)


def transpose(e: Emitter, input: Any) -> SSAValue:
    x = e.value(input)
    if e.batched(x) or e.rank(x) > 1:
        raise Unsupported("a transposition moves elements between slots: keep the array in the order that is needed")
    return x


# -- matrix products -------------------------------------------------------------------------------------------------


def matmul(e: Emitter, input: Any, other: Any) -> SSAValue:
    a, b = e.value(input), e.value(other)
    left, right = encrypted_state(a) is not None, encrypted_state(b) is not None
    if left and right:
        if e.rank(a) != 1 or e.rank(b) != 1 or e.batched(a) or e.batched(b):
            raise Unsupported("a product of an encrypted matrix")
        return e.build("ren.semantic.sum", [multiply(e, a, b)])
    if role_of(b if left else a) == "plaintext":
        raise Unsupported("the matrix is a plaintext: declare it message()")
    if left:
        return e.build("ren.semantic.matmul", [a, b], {"form": "right"})
    if e.batched(b):
        raise Unsupported("with batch axes the matrix stands on the right: x @ W.T")
    return e.build("ren.semantic.matmul", [b, a], {"form": "linear"})


def inner(e: Emitter, input: Any, other: Any) -> SSAValue:
    """Over the last axes of both."""
    a, b = e.value(input), e.value(other)
    if encrypted_state(a) is not None and encrypted_state(b) is None and role_of(b) != "plaintext":
        return e.build("ren.semantic.matmul", [a, b], {"form": "linear"})
    return matmul(e, input, other)


def _matrix_vector(e: Emitter, input: Any, vec: Any) -> SSAValue:
    return matmul(e, input, vec)


def linear(e: Emitter, input: Any, weight: Any, bias: Any = None) -> SSAValue:
    x, w = e.value(input), e.value(weight)
    if encrypted_state(x) is None or encrypted_state(w) is not None or role_of(w) == "plaintext":
        raise Unsupported("the weight of a linear layer has to be public data")
    product = e.build("ren.semantic.matmul", [x, w], {"form": "linear"})
    return product if bias is None else add(e, product, bias)


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


def zeros_like(e: Emitter, input: Any, dtype: Any = None, **options: Any) -> Any:
    return torch.zeros(_shape(e, e.value(input)), dtype=dtype or torch.float64)


def ones_like(e: Emitter, input: Any, dtype: Any = None, **options: Any) -> Any:
    return torch.ones(_shape(e, e.value(input)), dtype=dtype or torch.float64)


# -- spellings -------------------------------------------------------------------------------------------------------

_BINARY = "input other"
#: (meaning, parameters, fresh result, spellings: functions by dotted name, methods with a leading dot)
_SPELLINGS: tuple[tuple[Callable[..., Any], str, bool, str], ...] = (
    (add, "input other alpha", True, "torch.add operator.add .add"),
    (subtract, "input other alpha", True, "torch.sub torch.subtract operator.sub .sub .subtract"),
    (reversed_subtract, "input other alpha", True, "torch.rsub"),
    (multiply, _BINARY, True, "torch.mul torch.multiply operator.mul .mul .multiply"),
    (
        divide,
        "input other rounding_mode",
        True,
        "torch.div torch.divide torch.true_divide operator.truediv .div .divide .true_divide .truediv",
    ),
    (power, "input exponent", True, "torch.pow torch.float_power operator.pow .pow .float_power"),
    (negate, "input", True, "torch.neg torch.negative operator.neg .neg .negative"),
    (square, "input", True, "torch.square .square"),
    (conjugate, "input", False, "torch.conj torch.conj_physical .conj .conj_physical"),
    (add_product, "input tensor1 tensor2 value", True, "torch.addcmul .addcmul"),
    (_reduction("ren.semantic.sum"), "input dim keepdim dtype", True, "torch.sum .sum"),
    (_reduction("ren.semantic.mean"), "input dim keepdim dtype", True, "torch.mean .mean"),
    (roll, "input shifts dims", True, "torch.roll .roll"),
    (getitem, "input index", False, "operator.getitem .getitem"),
    (narrow, "input dim start length", False, "torch.narrow .narrow"),
    (select, "input dim index", False, "torch.select .select"),
    (split, "input split_size dim", False, "torch.split .split"),
    (chunk, "input chunks dim", False, "torch.chunk .chunk"),
    (unbind, "input dim", False, "torch.unbind .unbind"),
    (reshape, "input *shape", False, "torch.reshape .reshape .view"),
    (flatten, "input start_dim end_dim", False, "torch.flatten .flatten"),
    (flatten, "input", False, "torch.ravel .ravel"),
    (squeeze, "input dim", False, "torch.squeeze .squeeze"),
    (unsqueeze, "input dim", False, "torch.unsqueeze .unsqueeze"),
    (transpose, "input", False, "torch.t .t .T"),
    (matmul, _BINARY, True, "torch.matmul torch.mm torch.linalg.matmul operator.matmul .matmul .mm"),
    (matmul, _BINARY, True, "torch.dot .dot"),
    (_matrix_vector, "input vec", True, "torch.mv .mv"),
    (inner, _BINARY, True, "torch.inner .inner"),
    (linear, "input weight bias", True, "torch.nn.functional.linear"),
    (
        same,
        "input ?memory_format",
        False,
        "torch.positive operator.pos .positive .contiguous .detach .cpu .resolve_conj .resolve_neg torch.resolve_conj torch.resolve_neg",
    ),
    (same, "input ?memory_format", True, "torch.clone .clone"),
    (same, "input ?memory_format", False, ".double .float .half .bfloat16"),
    (convert, "input *target ?dtype ?device ?non_blocking ?copy ?memory_format", False, ".to .type_as"),
    (
        dropout,
        "input p training inplace",
        False,
        "torch.nn.functional.dropout torch.nn.functional.alpha_dropout torch.dropout",
    ),
    (
        dropout,
        "input p training inplace",
        False,
        "torch.nn.functional.dropout1d torch.nn.functional.dropout2d torch.nn.functional.feature_alpha_dropout",
    ),
    (zeros_like, "input ?dtype ?device", True, "torch.zeros_like"),
    (ones_like, "input ?dtype ?device", True, "torch.ones_like"),
)


MEANINGS: dict[str, Meaning] = {
    spelling: Meaning(function, tuple(parameters.split()), fresh)
    for function, parameters, fresh, spellings in _SPELLINGS
    for spelling in spellings.split()
}

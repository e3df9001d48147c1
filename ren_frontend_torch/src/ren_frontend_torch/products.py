"""Matrix products of encrypted values with public data: see `meanings`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from xdsl.ir import SSAValue

from ren_frontend_torch import broadcasting, moving
from ren_frontend_torch.emit import Emitter, Unsupported, encrypted_state, is_public
from ren_frontend_torch.handles import Handle

#: Elements of the largest matrix that a product of an encrypted matrix is written as.
_LARGEST = 1 << 24


def matmul(e: Emitter, input: Any, other: Any) -> SSAValue:
    a, b = e.value(input), e.value(other)
    left, right = encrypted_state(a) is not None, encrypted_state(b) is not None
    if left and right:
        if e.rank(a) != 1 or e.rank(b) != 1 or e.batched(a) or e.batched(b):
            raise Unsupported(
                "of two encrypted values only vectors without batch axes have a product: one of two matrices has to be public"
            )
        return e.build("ren.semantic.sum", [broadcasting.met(e, "ren.semantic.multiply", a, b)])
    return _right(e, a, other, "right") if left else _left(e, input, b)


def _known(e: Emitter, matrix: SSAValue) -> tuple[int, ...]:
    """The shape of public data that multiplies: of one or two axes."""
    if not is_public(matrix):
        raise Unsupported("the matrix is a plaintext: declare it message(shape=...)")
    shape = e.public_shape(matrix)
    if shape is None:
        raise Unsupported("the shape of the matrix is unknown: declare it message(shape=...)")
    if len(shape) not in (1, 2):
        raise Unsupported(f"public data of shape {shape}, where a vector or a matrix is needed")
    return shape


def _right(e: Emitter, x: SSAValue, matrix: Any, form: str) -> SSAValue:
    """x W (form "right"), or x W^T ("linear"), over the last axis of x."""
    w = e.value(matrix)
    wanted = _known(e, w)
    shape = e.layout(x).shape
    if shape is None or len(shape) == 1:
        return e.build("ren.semantic.matmul", [x, w], {"form": form})
    inputs = wanted[0] if form == "right" or len(wanted) == 1 else wanted[1]
    if not shape or inputs != shape[-1]:
        raise Unsupported(
            f"public data of shape {wanted} does not meet the last axis of an encrypted value of shape {shape}"
        )
    ahead, outputs = shape[:-1], () if len(wanted) == 1 else (wanted[1] if form == "right" else wanted[0],)
    count = math.prod(ahead)
    _check_size(count * count * math.prod(wanted))
    turned = matrix if form == "right" or len(wanted) == 1 else _public(e, "torch.t", matrix)
    if not outputs:
        turned = _public(e, "torch.reshape", turned, (inputs, 1))
    blocks = _blocks(e, torch.eye(count, dtype=torch.float64), turned)
    flat = moving.reshaped(e, x, (math.prod(shape),))
    return moving.reshaped(
        e, e.build("ren.semantic.matmul", [flat, e.value(blocks)], {"form": "right"}), (*ahead, *outputs)
    )


def _left(e: Emitter, matrix: Any, x: SSAValue) -> SSAValue:
    """A x, over the last axis but one of x; over the only one of a vector."""
    a = e.value(matrix)
    wanted = _known(e, a)
    shape = e.layout(x).shape
    if shape is None or len(shape) == 1:
        if e.batched(x):
            raise Unsupported("with batch axes the matrix stands on the right: x @ W.T")
        return e.build("ren.semantic.matmul", [x, a], {"form": "linear"})
    if not shape or wanted[-1] != shape[-2]:
        raise Unsupported(
            f"public data of shape {wanted} does not meet the last axis but one of an encrypted value of shape {shape}"
        )
    ahead, width = shape[:-2], shape[-1]
    outputs = wanted[:-1]
    count = math.prod(ahead)
    _check_size((count * width) ** 2 * math.prod(wanted))
    turned = _public(e, "torch.t", matrix) if outputs else _public(e, "torch.reshape", matrix, (wanted[0], 1))
    blocks = _blocks(e, turned, torch.eye(width, dtype=torch.float64))
    blocks = _blocks(e, torch.eye(count, dtype=torch.float64), blocks)
    flat = moving.reshaped(e, x, (math.prod(shape),))
    product = e.build("ren.semantic.matmul", [flat, e.value(blocks)], {"form": "right"})
    return moving.reshaped(e, product, (*ahead, *outputs, width))


def _check_size(elements: int) -> None:
    if elements > _LARGEST:
        raise Unsupported(
            f"the product of this encrypted matrix needs a matrix of {elements} elements, more than {_LARGEST}: multiply its rows one by one"
        )


def _blocks(e: Emitter, a: Any, b: Any) -> Any:
    """The Kronecker product. PyTorch's takes no transposed matrix as it is."""
    flat = [_public(e, "torch.clone", x, memory_format=torch.contiguous_format) for x in (a, b)]
    return _public(e, "torch.kron", *flat)


def _public(e: Emitter, target: str, *args: Any, **kwargs: Any) -> Any:
    """A call on public data: now on what was captured, when the program runs on arguments."""
    if any(type(a) is Handle or isinstance(a, SSAValue) for a in args):
        return e.public("function", target, *args, **kwargs)
    args = tuple(torch.as_tensor(a).detach() if isinstance(a, (torch.Tensor, np.ndarray)) else a for a in args)
    return getattr(torch, target.rpartition(".")[2])(*args, **kwargs)


def _rank(e: Emitter, x: SSAValue) -> int | None:
    if encrypted_state(x) is not None:
        return e.rank(x)
    shape = e.public_shape(x)
    return None if shape is None else len(shape)


def _check_ranks(e: Emitter, name: str, a: SSAValue, b: SSAValue, left: int, right: int) -> None:
    """Raise Unsupported for what PyTorch refuses: torch.mm and its like take a fixed number of axes, and a batch may have any."""
    if e.batched(a) or e.batched(b):
        raise Unsupported(f"{name} takes no batch of any number of axes: write x @ W, or (x * w).sum(-1)")
    for value, wanted in ((a, left), (b, right)):
        found = _rank(e, value)
        if found is not None and found != wanted:
            raise Unsupported(
                f"{name} takes {'a matrix' if left == 2 else 'a vector'} and {'a matrix' if right == 2 else 'a vector'}, and got a value of {found} axes: write a @ b"
            )


def matrix_matrix(e: Emitter, input: Any, mat2: Any) -> SSAValue:
    _check_ranks(e, "mm", e.value(input), e.value(mat2), 2, 2)
    return matmul(e, input, mat2)


def matrix_vector(e: Emitter, input: Any, vec: Any) -> SSAValue:
    _check_ranks(e, "mv", e.value(input), e.value(vec), 2, 1)
    return matmul(e, input, vec)


def dot(e: Emitter, input: Any, tensor: Any) -> SSAValue:
    """Of two vectors, and nothing else."""
    _check_ranks(e, "dot", e.value(input), e.value(tensor), 1, 1)
    return matmul(e, input, tensor)


def inner(e: Emitter, input: Any, other: Any) -> SSAValue:
    """Over the last axes of both."""
    a, b = e.value(input), e.value(other)
    left, right = encrypted_state(a) is not None, encrypted_state(b) is not None
    if left and not right:
        return _right(e, a, other, "linear")
    if right and e.rank(b) != 1:
        raise Unsupported("an encrypted matrix stands on the left of torch.inner")
    return matmul(e, input, other)


def linear(e: Emitter, input: Any, weight: Any, bias: Any = None) -> SSAValue:
    x, w = e.value(input), e.value(weight)
    if encrypted_state(x) is None or encrypted_state(w) is not None:
        raise Unsupported("the weight of a linear layer has to be public data")
    product = _right(e, x, weight, "linear")
    return product if bias is None else broadcasting.met(e, "ren.semantic.add", product, e.value(bias))

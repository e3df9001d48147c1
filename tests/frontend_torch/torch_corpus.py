"""Functions that tracing gets right: a corpus for the tracer alone, and for encrypted runs. Each takes x (8 elements) and w (8 elements)."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

X = torch.linspace(-1, 1, 8, dtype=torch.float64)
W = torch.linspace(1, 2, 8, dtype=torch.float64)
CLOSED = torch.arange(8.0, dtype=torch.float64)
PARAMETER = nn.Parameter(torch.ones(8, dtype=torch.float64))
ARRAY = np.arange(8.0)
MATRIX = torch.arange(24.0, dtype=torch.float64).reshape(3, 8) / 10
torch.manual_seed(1)
LINEAR = nn.Linear(8, 4).double().eval()


class Obj:
    def method(self, x: Any, w: Any) -> Any:
        return x * w


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("shift", torch.ones(8))

    def forward(self, x: Any, w: Any) -> Any:
        return self.second(self.dropout(torch.square(self.first(x)))) + w + self.shift


def in_place_method(x: Any, w: Any) -> Any:
    y = x * 1.0
    y.mul_(w)
    return y


def in_place_alias(x: Any, w: Any) -> Any:
    y = x * 1.0
    z = y
    y += w
    return z


def out_keyword(x: Any, w: Any) -> Any:
    y = x * 1.0
    torch.add(x, w, out=y)
    return y


def in_place_chain(x: Any, w: Any) -> Any:
    y = x.clone()
    y.add_(w).mul_(2).sub_(x, alpha=3)
    y **= 2
    y /= 4
    return y


def in_place_of_a_copy_of_a_view(x: Any, w: Any) -> Any:
    y = x[2:6].clone()
    y += 1
    return y, x


def static_loop(x: Any, w: Any) -> Any:
    for i in range(3):
        x = x * w + i
    return x


def tensor_test(x: Any, w: Any) -> Any:
    if isinstance(x, torch.Tensor) and torch.is_tensor(w):
        return x + w
    return x - w


def several(x: Any, w: Any) -> Any:
    a, b = torch.chunk(x, 2)
    first, second, third = x.split([2, 3, 3])
    return a * b, first, second, third, torch.unbind(x)[3]


def accumulated(x: Any, w: Any) -> Any:
    return sum([x * w, x, w])


RIGHT: dict[str, Any] = {
    "x * 2 + w": lambda x, w: x * 2 + w,
    "reflected": lambda x, w: 2 - (3 * x) + (1 + w),
    "pow and div": lambda x, w: x**2 / 3 + x**3 / w,
    "pow spelled": lambda x, w: torch.pow(x, 3) + x.pow(2) + x**1 + torch.square(x) + x.square(),
    "neg spelled": lambda x, w: -x + torch.neg(x) + x.neg() + torch.negative(x) + (+x),
    "sub spelled": lambda x, w: torch.sub(x, w) + torch.subtract(w, x, alpha=2) + x.sub(1) + torch.rsub(x, w),
    "mul spelled": lambda x, w: torch.mul(x, w) * torch.multiply(w, x) + x.mul(input_scale(w)),
    "add alpha": lambda x, w: torch.add(x, w, alpha=2) + x.add(x, alpha=3) + torch.add(w, x, alpha=0.5),
    "input and other by name": lambda x, w: torch.add(input=x, other=w) + torch.sum(input=x),
    "addcmul": lambda x, w: torch.addcmul(x, w, x, value=2),
    "operator module": lambda x, w: operator.add(operator.mul(x, w), operator.neg(x)),
    "y.mul_(w); return y": in_place_method,
    "z = y; y += w; return z": in_place_alias,
    "torch.add(x, w, out=y)": out_keyword,
    "in-place chain": in_place_chain,
    "in-place of a copy of a view": in_place_of_a_copy_of_a_view,
    "x @ W.T": lambda x, w: x @ MATRIX.T,
    "W @ x": lambda x, w: MATRIX @ x + torch.mv(MATRIX, x),
    "matmul spelled": lambda x, w: torch.matmul(x, MATRIX.T) + x.matmul(MATRIX.T) + torch.inner(x, MATRIX),
    "dot with public": lambda x, w: torch.dot(x, CLOSED) + x @ CLOSED + CLOSED @ x,
    "dot of two": lambda x, w: x @ (x * w) + torch.dot(x, x),
    "F.linear": lambda x, w: F.linear(x, MATRIX),
    "F.linear with bias": lambda x, w: F.linear(x, MATRIX, bias=torch.ones(3, dtype=torch.float64)),
    "sum and mean": lambda x, w: x.sum() + x.mean(),
    "sum spelled": lambda x, w: (
        torch.sum(x, dim=-1) + x.sum(0) + x.sum(dim=(0,), dtype=torch.float64) + torch.mean(x, 0)
    ),
    "sum keepdim": lambda x, w: x.sum(-1, keepdim=True) + x.mean(dim=0, keepdim=True),
    "centred": lambda x, w: (x - x.mean()) * (x - x.mean()),
    "roll keywords": lambda x, w: (
        torch.roll(x, shifts=(1,), dims=(-1,)) + torch.roll(x, -2) + x.roll(3, 0) + x.roll(shifts=[2], dims=[0])
    ),
    "roll by nothing and far": lambda x, w: torch.roll(x, 0, 0) + torch.roll(x, 8, 0) + torch.roll(x, -23, -1),
    "roll of several": lambda x, w: torch.roll(x, (1, 2), (0, 0)),
    "slices": lambda x, w: x[2:6] + x[-4:] + x[:4] + x[..., 1:5] + x.narrow(0, 3, 4) + x[0:4:1],
    "elements": lambda x, w: x[0] + x[-1] + x[3] * 2 + x.select(0, 5),
    "element meets vector": lambda x, w: x * x[0] + x[-1],
    "whole slice": lambda x, w: x[:] + x[...] + x[0:8],
    "reshape": lambda x, w: x.reshape(2, 4) + torch.reshape(x, (2, -1)) + x.view(2, 4),
    "rows": lambda x, w: x.view(4, 2)[1:3].flatten() + x.view(2, 4)[1],
    "roll of rows": lambda x, w: (
        torch.roll(x.view(4, 2), 1, 0) + torch.roll(x.view(4, 2), 3) + x.view(4, 2).roll((1, 2), (1, 0))
    ),
    "squeeze": lambda x, w: x.unsqueeze(0).squeeze(0) + x.reshape(8, 1).squeeze() + x.ravel() + x.flatten(),
    "steps": lambda x, w: x[::2] + x[1::2] + x[:-1:2],
    "step beyond the end": lambda x, w: x[1::7] * x[2::9],
    "x ** 0": lambda x, w: x + x**0 + torch.pow(x, 0) * x,
    "columns": lambda x, w: x.view(2, 4)[:, 1] + x.view(2, 4)[..., -1] + x.view(4, 2)[1:3, 0],
    "blocks": lambda x, w: x.view(2, 4)[:, 1:3] * x.view(4, 2)[::2],
    "transposed": lambda x, w: x.view(2, 4).T + torch.transpose(x.view(2, 4), 0, 1) * x.view(4, 2),
    "permuted": lambda x, w: x.view(2, 2, 2).permute(2, 0, 1) + torch.permute(x.view(2, 2, 2), (1, 0, 2)),
    "swapped axis of length 1": lambda x, w: x.view(1, 8).T.flatten() + x.view(8, 1).swapaxes(0, 1).view(8),
    "sum of rows": lambda x, w: x.view(2, 4).sum(0) + x.view(2, 4).mean(0, keepdim=True).flatten(),
    "sum of columns": lambda x, w: x.view(2, 4).sum(-1) + torch.mean(x.view(2, 4), dim=1, keepdim=True).squeeze(1),
    "sum of the middle": lambda x, w: x.view(2, 2, 2).sum((0, 2)) + x.view(2, 2, 2).sum(1)[0],
    "scalars": lambda x, w: (
        x[2:3].squeeze() + x[1:2].reshape(()) + x.sum().reshape(1).squeeze() + x[0].view(1, 1)[0, 0]
    ),
    "x.shape": lambda x, w: x * x.shape[0] + x.size(0) + x.size(-1) + x.numel() + x.ndim + x.dim(),
    "len(x)": lambda x, w: x * len(x),
    "zeros and ones like": lambda x, w: x + torch.zeros_like(x) + torch.ones_like(x),
    "conversions": lambda x, w: (
        x.double().to(torch.float64).contiguous().detach().cpu().to(x.device, x.dtype) + x.clone()
    ),
    "complex": lambda x, w: (x * 1j).conj() + torch.conj(x) * (1 - 2j),
    "chunk, split, unbind": several,
    "sum() of Python": accumulated,
    "partial": functools.partial(lambda k, x, w: x * k + w, 2.0),
    "partial by keyword": functools.partial(lambda x, w, k: x * k + w, k=2.0),
    "bound method": Obj().method,
    "closure nn.Linear": lambda x, w: LINEAR(x) + 1,
    "closure parameter": lambda x, w: x * PARAMETER,
    "closure array": lambda x, w: x * ARRAY + x * np.float64(2.0) - np.int64(3) + x[np.int64(2)],
    "closure twice": lambda x, w: (x + CLOSED) * CLOSED - CLOSED,
    "tensor on the left": lambda x, w: CLOSED - CLOSED * x,
    "static loop": static_loop,
    "isinstance": tensor_test,
    "tuple, list, dict": lambda x, w: {"a": x + w, "b": [x, 3], "c": (None, "text")},
    "public work": lambda x, w: (
        x * torch.cat((w[4:], w[:4])).roll(1).sin().clamp(min=0.25, max=float("inf")).reshape(8)
    ),
    "public dtype and shape": lambda x, w: x * w.to(torch.float32).repeat(1).double(),
    "public T": lambda x, w: x * w.reshape(2, 4).T.reshape(8),
    "public result": lambda x, w: (x, w * 2 + CLOSED),
    "returned closure": lambda x, w: (x, CLOSED),
    "returned input": lambda x, w: (x, x, w),
    "dropout in eval": lambda x, w: F.dropout(x, 0.5, False) + F.dropout(x, training=False),
}


def input_scale(w: Any) -> Any:
    return w * 2

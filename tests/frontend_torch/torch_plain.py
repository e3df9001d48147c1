"""Evaluates traced programs on plain tensors: what their semantic operations mean, written independently of how they are lowered."""

from __future__ import annotations

from typing import Any

import torch
from ren.program import entry
from ren.program.binding import bind_names
from ren.program.literals import decode
from xdsl.dialects.func import ReturnOp

from ren_frontend_torch import lookup


def _reduce(function: Any) -> Any:
    def apply(x: Any, at: dict[str, Any]) -> Any:
        keep = bool(at.get("keepdim", 0))
        return function(x, dim=tuple(range(x.ndim)), keepdim=keep)

    return apply


def _slice(x: Any, at: dict[str, Any]) -> Any:
    part = x[at["start"] : at["stop"]]
    return part[0] if at.get("drop") else part


def _roll(x: Any, at: dict[str, Any]) -> Any:
    return torch.roll(x, at["shift"], at["dimension"]) if "dimension" in at else torch.roll(x, at["shift"])


_MEANING: dict[str, Any] = {
    "add": lambda a, b, at: a + b,
    "subtract": lambda a, b, at: a - b,
    "multiply": lambda a, b, at: a * b,
    "divide": lambda a, b, at: a / b,
    "negate": lambda x, at: -x,
    "square": lambda x, at: x * x,
    "power": lambda x, at: x ** at["exponent"],
    "conjugate": lambda x, at: torch.conj(x).resolve_conj(),
    "roll": _roll,
    "sum": _reduce(torch.sum),
    "mean": _reduce(torch.mean),
    "slice": _slice,
    "reshape": lambda x, at: x.reshape(at["shape"]),
    "matmul": lambda x, w, at: torch.nn.functional.linear(x, w) if at["form"] == "linear" and w.ndim == 2 else x @ w,
}


def run_plain(captured: Any, *args: Any, **kwargs: Any) -> Any:
    """The program of a capture on tensors, taking and returning what its caller would."""
    program = captured.program
    signature = program.signature("main")
    block = program.entry_block("main")
    values = dict(zip(block.args, bind_names(signature, "main", args, kwargs), strict=True))
    results: tuple[Any, ...] = ()
    for op in block.ops:
        operands = [values[v] for v in op.operands]
        if isinstance(op, ReturnOp):
            results = tuple(operands)
            break
        at = {k: decode(a) for k, a in op.properties.items()}
        if op.name == "ren.constant":
            found = at["value"]
        elif op.name == "ren.material.ref":
            found = captured.workspace["materials"][at["symbol"]]
        elif op.name == "torch.call":
            arguments, keywords = op.properties.get("ren.call.arguments"), op.properties.get("ren.call.keywords")
            given = (
                tuple(operands) if arguments is None else tuple(decode(arguments, operands.__getitem__, lookup.resolve))
            )
            named = {} if keywords is None else decode(keywords, operands.__getitem__, lookup.resolve)
            found = lookup.call(at["ren.call.kind"], at["ren.call.target"], given, named)
        else:
            found = _MEANING[op.name.removeprefix("ren.semantic.")](*operands, at)
        values[op.results[0]] = found
    if signature.has_output_structure:
        return entry.rebuild(signature.output, results)
    return results[0]


def assert_same(found: Any, expected: Any) -> None:
    """Equal structure, close numbers."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        assert list(found) == list(expected)
        for key, part in expected.items():
            assert_same(found[key], part)
    elif isinstance(expected, (tuple, list)):
        assert type(found) is type(expected)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
    elif expected is None or isinstance(expected, str):
        assert found == expected
    else:
        torch.testing.assert_close(
            torch.as_tensor(found), torch.as_tensor(expected), rtol=1e-6, atol=1e-9, check_dtype=False
        )

"""What executes `smooth.window`."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from ren.program.literals import decode
from xdsl.ir import Operation


def window(op: Operation, operands: tuple[Any, ...], workspace: MutableMapping[Any, Any]) -> Any:
    """Lazy like everything else: the rotations share one decomposition and join the schedule of the program."""
    (x,) = operands
    engine, keys = workspace["engine"], workspace["evaluation_keys"]
    total = x
    for rotated in engine.rotate_many(x, range(1, decode(op.properties["width"])), keys=keys):
        total = engine.add(total, rotated)
    return total


def window_handler() -> Callable[..., Any]:
    """The factory that the registry calls once."""
    return window

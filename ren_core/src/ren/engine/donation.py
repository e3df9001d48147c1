"""Donated arguments: memory that a plan may overwrite, and the Polys that lose it."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from ren.backend.buffer import Buffer
from ren.engine.exec_unit import ExecUnit, Operand
from ren.engine.pool import pool_of
from ren.engine.where import user_line
from ren.errors import DonatedError
from ren.graph import Node
from ren.ops import Op
from ren.poly import Poly


class DonatedPoly(Poly):
    """What a Poly becomes when a jitted function was given its memory: any use raises DonatedError."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return DonatedPoly
        return _refuse(object.__getattribute__(self, "_node"))

    def __repr__(self) -> str:
        return "<Poly donated>"

    def _used(self, *_: Any, **__: Any) -> NoReturn:
        _refuse(object.__getattribute__(self, "_node"))

    # Operators are looked up on the type, past __getattribute__.
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __pos__ = _used
    __eq__ = __bool__ = __copy__ = __deepcopy__ = __reduce__ = _used

    def __hash__(self) -> int:
        return id(self) >> 4


def _refuse(node: Node) -> NoReturn:
    at = node.params[0]
    raise DonatedError(
        f"this Poly was donated to a jitted function{f' at {at}' if at else ''}; its memory holds something else now",
        hint="Leave its parameter out of donate=, or use the function's result",
    )


def take_over(poly: Poly) -> Buffer:
    """The buffer of a realized Poly for a plan that overwrites it. If anything else may read the buffer, a copy of it."""
    node = poly._node
    buffer = node.realized
    assert buffer is not None
    # References to the node: poly._node, our local, the call's argument. To the buffer: node.realized, our local, the argument.
    if sys.getrefcount(node) <= 3 and sys.getrefcount(buffer) <= 3 and buffer.owner is None:
        return buffer
    backend = buffer.backend
    private = pool_of(backend).take(buffer.words)
    copy = ExecUnit("copy", node.ring, (), (Operand(0, 0, buffer.words),), outputs=(Operand(1, 0, buffer.words),))
    backend.compile(copy)([buffer.location, private.location])
    return private


def give_up(poly: Poly) -> None:
    """Make every later use of `poly` raise."""
    node = poly._node
    poly._node = Node(Op.BUFFER, (), (user_line(),), node.ring, node.domain, node.device)
    poly.__class__ = DonatedPoly

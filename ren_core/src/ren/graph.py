"""Nodes of the lazy polynomial graph: immutable descriptions, no arithmetic, no backend.

A node is either a leaf (BUFFER, CONST, SAMPLE) or an operation on other nodes. Realizing a node stores its buffer in
`realized` *before* its arguments are released, so a thread that reads `args` first and `realized` second always sees one
of the two (see `operands`). Graphs are acyclic by construction and always walked iteratively.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count as _counter
from typing import TYPE_CHECKING, Any

from ren.ops import Domain, Kind, Op
from ren.ring import RingSpec

if TYPE_CHECKING:
    from ren.backend.buffer import Buffer
    from ren.engine.deferred import Deferred
    from ren.engine.schedule.normalise import Signature

#: Next creation number. Taken under the interpreter's own lock, so numbers are unique over threads.
next_serial = _counter(1).__next__


class Node:
    """One value of the lazy graph.

    ring: for DIGITS and KEY values the ring that their limbs live in. count: digits of a DIGITS or KEY value, else 1.
    seed: of a SAMPLE leaf, 32 bytes; None means "a fresh one at each replay" (ren.jit, random="fresh").
    recipe: of a CONST leaf whose residues follow from a run-time scalar of a captured function, else None.
    serial: creation number, rising: tells what a captured function made from what it reached.
    signature: of a realized leaf, the scheduler's interned description of it once it was needed.
    pinned: made by `outside_capture` (keys): a captured function may reach it without being given it.
    """

    __slots__ = (
        "op",
        "args",
        "params",
        "ring",
        "domain",
        "kind",
        "count",
        "device",
        "seed",
        "recipe",
        "realized",
        "serial",
        "signature",
        "pinned",
        "__weakref__",
    )

    def __init__(
        self,
        op: Op,
        args: tuple[Node, ...],
        params: tuple[Any, ...],
        ring: RingSpec,
        domain: Domain,
        device: str,
        *,
        kind: Kind = Kind.POLY,
        count: int = 1,
        seed: bytes | None = None,
        recipe: Deferred | None = None,
        realized: Buffer | None = None,
    ) -> None:
        self.op = op
        self.args = args
        self.params = params
        self.ring = ring
        self.domain = domain
        self.kind = kind
        self.count = count
        self.device = device
        self.seed = seed
        self.recipe = recipe
        self.realized = realized
        self.serial = next_serial()
        self.signature: Signature | None = None
        self.pinned = False

    @property
    def words(self) -> int:
        """Size of the value in 64-bit words."""
        n, limbs = self.ring.n, self.ring.limbs
        if self.kind is Kind.POLY:
            return limbs * n
        if self.kind is Kind.FLOAT:
            return n + 1
        return self.count * limbs * n * (2 if self.kind is Kind.KEY else 1)

    def operands(self) -> tuple[Node, ...]:
        """Arguments of an unrealized node, () for leaves and realized nodes. Safe against a concurrent `set_realized`."""
        args = self.args
        return () if self.realized is not None else args

    def set_realized(self, buffer: Buffer) -> None:
        """Turn the node into a leaf. Order matters (module docstring)."""
        self.realized = buffer
        self.args = ()

    def __repr__(self) -> str:
        state = "realized" if self.realized is not None else f"{len(self.args)} operands"
        return (
            f"<Node {self.op} {self.kind} n={self.ring.n} limbs={self.ring.limbs} {self.domain} {self.device} {state}>"
        )


def postorder(roots: Sequence[Node]) -> list[Node]:
    """All unrealized and leaf nodes reachable from `roots`, operands before users. Iterative: depth is unbounded."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        for arg in reversed(node.operands()):
            if id(arg) not in seen:
                stack.append((arg, False))
    return order

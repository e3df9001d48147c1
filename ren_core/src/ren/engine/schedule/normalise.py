"""The normalised form of a graph: what the schedule cache is keyed on.

One pass over the graph turns nodes into a flat tuple in which leaves are abstract slots: two expressions of the same shape
over other buffers, other constants and other seeds have equal keys. Everything after this pass works on the key alone, so a
schedule can never depend on data, and a concurrent `set_realized` cannot be seen half-way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ren.backend.buffer import Buffer
from ren.engine.exec_unit import SlotKind
from ren.graph import Node
from ren.ops import Domain, Kind, Op
from ren.ring import RingSpec


class Signature:
    """What a node is, apart from its operands. Interned, compared by identity, so that keys hash at C speed.

    arity: number of operands. role: of a BUFFER leaf INPUT or CONSTANT; SCALAR of a CONST; RANDOM of a SAMPLE; else None.
    """

    __slots__ = ("op", "params", "ring", "domain", "kind", "count", "arity", "role")

    def __init__(
        self,
        op: Op,
        params: tuple[Any, ...],
        ring: RingSpec,
        domain: Domain,
        kind: Kind,
        count: int,
        arity: int,
        role: SlotKind | None,
    ) -> None:
        self.op = op
        self.params = params
        self.ring = ring
        self.domain = domain
        self.kind = kind
        self.count = count
        self.arity = arity
        self.role = role

    @property
    def words(self) -> int:
        """Size of the value in 64-bit words."""
        n, limbs = self.ring.n, self.ring.limbs
        if self.kind is Kind.POLY:
            return limbs * n
        if self.kind is Kind.FLOAT:
            return n + 1
        return self.count * limbs * n * (2 if self.kind is Kind.KEY else 1)

    def __repr__(self) -> str:
        return f"{self.op}{self.params or ''}:{self.kind}[{self.ring.limbs}x{self.ring.n}]:{self.domain}"


#: Normalised form: for each node, operands first, its signature and the positions of its operands; then None and the positions of the roots.
Key = tuple[Any, ...]

_BUFFER, _CONST, _SAMPLE = Op.BUFFER, Op.CONST, Op.SAMPLE
_INPUT, _CONSTANT, _SCALAR, _RANDOM = SlotKind.INPUT, SlotKind.CONSTANT, SlotKind.SCALAR, SlotKind.RANDOM


class Normal:
    """A key and what its leaf slots are bound to, each list in order of appearance in the key.

    inputs: leaf nodes and their buffers (INPUT and CONSTANT roles alike). scalars: CONST nodes. randoms: SAMPLE nodes.
    """

    __slots__ = ("key", "inputs", "buffers", "scalars", "randoms")

    def __init__(
        self, key: Key, inputs: list[Node], buffers: list[Buffer], scalars: list[Node], randoms: list[Node]
    ) -> None:
        self.key = key
        self.inputs = inputs
        self.buffers = buffers
        self.scalars = scalars
        self.randoms = randoms


def intern(
    op: Op,
    params: tuple[Any, ...],
    ring: RingSpec,
    domain: Domain,
    kind: Kind = Kind.POLY,
    count: int = 1,
    arity: int = 0,
    role: SlotKind | None = None,
) -> Signature:
    """The one Signature with these fields. The table hangs on the (interned) ring and dies with it."""
    table = ring.__dict__.get("_signatures")
    if table is None:
        table = ring.__dict__.setdefault("_signatures", {})
    at = (op, params, domain, kind, count, arity, role)
    found = table.get(at)
    if found is None:
        found = table.setdefault(at, Signature(op, params, ring, domain, kind, count, arity, role))
    return found  # type: ignore[no-any-return]


def normalise(roots: Sequence[Node], constant: Callable[[Node], bool] | None = None) -> Normal:
    """The normalised form of the graph under `roots`. Iterative; linear time.

    constant: tells which realized leaves belong to the plan (CONSTANT slots) instead of being given at each run.
    """
    where: dict[int, int] = {}
    flat: list[Any] = []
    inputs: list[Node] = []
    buffers: list[Buffer] = []
    scalars: list[Node] = []
    randoms: list[Node] = []
    stack = list(reversed(roots))
    pop = stack.pop
    while stack:
        node = stack[-1]
        at = id(node)
        if at in where:
            pop()
            continue
        args = node.args  # before `realized`: see Node.set_realized
        buffer = node.realized
        op = node.op
        if op is _CONST:
            where[at] = len(where)
            flat.append(intern(op, (), node.ring, node.domain, role=_SCALAR))
            scalars.append(node)
            pop()
        elif buffer is not None:
            where[at] = len(where)
            role = _INPUT if constant is None or not constant(node) else _CONSTANT
            flat.append(intern(_BUFFER, (), node.ring, node.domain, node.kind, node.count, 0, role))
            inputs.append(node)
            buffers.append(buffer)
            pop()
        elif op is _SAMPLE:
            where[at] = len(where)
            flat.append(intern(op, node.params, node.ring, node.domain, role=_RANDOM))
            randoms.append(node)
            pop()
        else:
            missing = False
            for arg in args:
                if id(arg) not in where:
                    if not missing:
                        missing = True
                        start = len(stack)
                    stack.append(arg)
            if missing:
                stack[start:] = stack[start:][::-1]  # first operand first
                continue
            where[at] = len(where)
            flat.append(intern(op, node.params, node.ring, node.domain, node.kind, node.count, len(args)))
            for arg in args:
                flat.append(where[id(arg)])
            pop()
    flat.append(None)
    for root in roots:
        flat.append(where[id(root)])
    return Normal(tuple(flat), inputs, buffers, scalars, randoms)

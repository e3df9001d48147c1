"""The normalised form of a graph: what the schedule cache is keyed on.

One pass over the graph turns nodes into a flat tuple in which leaves are abstract slots: two expressions of the same shape
over other buffers, other constants and other seeds have equal keys. Everything after this pass works on the key alone, so a
schedule can never depend on data, and a concurrent `set_realized` cannot be seen half-way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

_BUFFER, _CONST = Op.BUFFER, Op.CONST
_NONE: dict[Any, Signature] = {}
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


def leaf_signature(node: Node) -> Signature:
    """The signature of a realized node as an input: all that a plan depends on, apart from its device. Kept on the node."""
    node.signature = intern(_BUFFER, (), node.ring, node.domain, node.kind, node.count, 0, _INPUT)
    return node.signature


def normalise(
    roots: Sequence[Node],
    constant: Callable[[Node], bool] | None = None,
    positions: dict[Node, int] | None = None,
) -> Normal:
    """The normalised form of the graph under `roots`. Iterative; linear time.

    constant: tells which realized leaves belong to the plan (CONSTANT slots) instead of being given at each run. positions: an empty
    dict, filled with the position of each node in the key (`Value.at`).
    """
    where: dict[Node, int] = {} if positions is None else positions
    flat: list[Any] = []
    inputs: list[Node] = []
    buffers: list[Buffer] = []
    scalars: list[Node] = []
    randoms: list[Node] = []
    append = flat.append
    # Each undecorated operation runs this loop, so leaves are done where they are met and interned signatures looked up in place.
    node: Node | None = None
    args: Sequence[Node] = roots
    rest = iter(roots)
    stack: list[tuple[Node | None, Sequence[Node], Iterator[Node]]] = []
    while True:
        for arg in rest:
            if arg in where:
                continue
            below = arg.args  # before `realized`: see Node.set_realized
            buffer = arg.realized
            if buffer is None and below:
                stack.append((node, args, rest))
                node, args, rest = arg, below, iter(below)
                break
            if buffer is not None and arg.op is not _CONST:
                if constant is None or not constant(arg):
                    append(arg.signature or leaf_signature(arg))
                else:
                    append(intern(_BUFFER, (), arg.ring, arg.domain, arg.kind, arg.count, 0, _CONSTANT))
                inputs.append(arg)
                buffers.append(buffer)
            elif arg.op is _CONST:
                append(intern(_CONST, (), arg.ring, arg.domain, role=_SCALAR))
                scalars.append(arg)
            else:
                append(intern(arg.op, arg.params, arg.ring, arg.domain, role=_RANDOM))
                randoms.append(arg)
            where[arg] = len(where)
        else:
            if node is None:
                break
            ring, arity = node.ring, len(args)
            table = ring.__dict__.get("_signatures", _NONE)
            found = table.get((node.op, node.params, node.domain, node.kind, node.count, arity, None))
            append(found or intern(node.op, node.params, ring, node.domain, node.kind, node.count, arity))
            for arg in args:
                append(where[arg])
            where[node] = len(where)
            node, args, rest = stack.pop()
    append(None)
    for root in roots:
        append(where[root])
    return Normal(tuple(flat), inputs, buffers, scalars, randoms)

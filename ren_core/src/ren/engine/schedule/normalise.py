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

_BUFFER, _CONST, _POLY = Op.BUFFER, Op.CONST, Kind.POLY
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


def _plain(ring: RingSpec) -> dict[tuple[Op, Domain], Signature]:
    """Signatures of operations without parameters, by operation and domain: most nodes, so the look-up is short."""
    table: dict[tuple[Op, Domain], Signature] | None = ring.__dict__.get("_plain_signatures")
    return table if table is not None else ring.__dict__.setdefault("_plain_signatures", {})


def intern_plain(op: Op, ring: RingSpec, domain: Domain, arity: int) -> Signature:
    return _plain(ring).setdefault((op, domain), intern(op, (), ring, domain, arity=arity))


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
    stack = list(reversed(roots))
    pop, push, append = stack.pop, stack.append, flat.append
    while stack:
        node = stack[-1]
        if node in where:
            pop()
            continue
        args = node.args  # before `realized`: see Node.set_realized
        buffer = node.realized
        op = node.op
        if buffer is None and args:
            waiting = False
            for arg in reversed(args):  # the first operand comes to lie on top
                if arg not in where:
                    waiting = True
                    push(arg)
            if waiting:
                continue
            params = node.params
            if params or node.kind is not _POLY:
                append(intern(op, params, node.ring, node.domain, node.kind, node.count, len(args)))
            else:
                found = _plain(node.ring).get((op, node.domain))
                append(found if found is not None else intern_plain(op, node.ring, node.domain, len(args)))
            for arg in args:
                append(where[arg])
        elif op is _CONST:
            append(intern(op, (), node.ring, node.domain, role=_SCALAR))
            scalars.append(node)
        elif buffer is not None:
            if constant is None or not constant(node):
                append(node.signature or leaf_signature(node))
            else:
                append(intern(_BUFFER, (), node.ring, node.domain, node.kind, node.count, 0, _CONSTANT))
            inputs.append(node)
            buffers.append(buffer)
        else:
            append(intern(op, node.params, node.ring, node.domain, role=_RANDOM))
            randoms.append(node)
        where[node] = len(where)
        pop()
    append(None)
    for root in roots:
        append(where[root])
    return Normal(tuple(flat), inputs, buffers, scalars, randoms)

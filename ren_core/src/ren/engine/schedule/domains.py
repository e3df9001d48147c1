"""Which domain each value is stored in: the fewest transforms over the whole graph.

Linear operations, constants and automorphisms work in either domain; products need NTT, basis extension and lifting need
COEFF, leaves and roots have theirs. A value that is wanted in the domain it is not stored in costs one transform of its limbs,
however many users want it (nothing, for one that is computed once). MOD_DOWN in the NTT domain transforms as many rows as its operand has limbs.

That cost is submodular in the choice, so the optimum is a minimum s-t cut (Kolmogorov and Zabih, "What energy functions can be
minimized via graph cuts?", 2004; the "one transform serves all users" term is the usual hyperedge construction with an
auxiliary node). Where several are, the one with most values in the NTT domain is taken: a MOD_DOWN there transforms its
rows while they are in the cache. Connected components are solved one by one: trivially where all their neighbours agree, exactly (Dinic) up to
EXACT_LIMIT free values, beyond that by a linear-time heuristic: majority of the operands in graph order, then SWEEPS passes in
which each value takes the domain that is cheaper given its neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ren.engine.schedule.values import Ref, Value, Values
from ren.ops import Domain, Kind, Op

EXACT_LIMIT = 1500
SWEEPS = 4

_N, _C = Domain.NTT, Domain.COEFF
_INFINITE = 1 << 60
#: Operations that run in whatever domain their operands are in.
_SAME = frozenset({Op.ADD, Op.SUBTRACT, Op.NEGATE, Op.MULTIPLY, Op.AUTOMORPHISM, Op.MOD_DOWN})
_COEFF_OPERANDS = frozenset({Op.BASIS_EXTEND, Op.LIFT})


def place(graph: Values) -> list[Domain | None]:
    """The domain of each value: None for constants (stored in none) and values that are no polynomial."""
    problem = Problem(graph)
    for component in problem.components():
        problem.solve(component)
    return problem.domain[: len(graph.values)]


def scalar_product(value: Value, values: list[Value]) -> bool:
    """A MULTIPLY by a constant polynomial, which works in either domain."""
    return any(values[a.value].op is Op.CONST for a in value.args)


class Problem:
    """The placement problem of one graph.

    free: values to decide. wants[v]: who uses v: a value number ("the domain of that value") or a Domain. weight: limbs of v that anyone
    uses. Numbers beyond the graph's values stand for the second component of gadget products, which is transformed on its own.
    """

    def __init__(self, graph: Values) -> None:
        values = graph.values
        self.weight = [0] * len(values)
        self.domain: list[Domain | None] = []
        self.free: list[bool] = []
        self.unary = [0] * len(values)
        self.wants: list[list[int | Domain]] = [[] for _ in values]
        self.operands: list[tuple[int, ...]] = [()] * len(values)
        uses: list[tuple[int | Domain | None, tuple[Ref, ...]]] = []
        for i, v in enumerate(values):
            fixed = v.fixed
            if v.op is Op.MULTIPLY and not scalar_product(v, values):
                fixed = _N
            poly = v.kind is Kind.POLY and v.op is not Op.CONST
            self.domain.append(fixed if poly else None)
            self.free.append(poly and fixed is None)
            if v.op is Op.MOD_DOWN and not v.once:
                self.unary[i] = v.args[0].stop - v.args[0].start
            want: int | Domain | None = None
            if v.op in _SAME:
                want = fixed if fixed is not None else i
            elif v.op in _COEFF_OPERANDS:
                want = _C
            uses.append((want, v.args))
        uses += [(root.domain, (root.ref,)) for root in graph.roots]
        second: dict[int, int] = {}
        span: dict[int, tuple[int, int]] = {}
        for i, (want, refs) in enumerate(uses):
            operands = []
            for ref in refs:
                v = values[ref.value]
                if want is None or v.kind is not Kind.POLY or v.op is Op.CONST:
                    continue
                at = ref.value if not ref.part else second.setdefault(ref.value, len(self.domain))
                if at == len(self.domain):
                    self._append(self.domain[ref.value])
                self.wants[at].append(want)
                operands.append(at)
                lo, hi = span.get(at, (ref.start, ref.stop))
                span[at] = (min(lo, ref.start), max(hi, ref.stop))
                self.weight[at] = 0 if v.once else span[at][1] - span[at][0]
            if i < len(values):
                self.operands[i] = tuple(operands)

    def _append(self, domain: Domain | None) -> None:
        self.domain.append(domain)
        self.free.append(False)
        self.weight.append(0)
        self.unary.append(0)
        self.wants.append([])
        self.operands.append(())

    # -- structure

    def components(self) -> Iterator[list[int]]:
        """Values that must be decided together: a producer and its users, free or not. Those without free values are left out."""
        parent = list(range(len(self.domain)))

        def find(i: int) -> int:
            while parent[i] != i:
                parent[i] = parent[parent[i]]
                i = parent[i]
            return i

        for v, wants in enumerate(self.wants):
            members = [w for w in wants if isinstance(w, int) and not isinstance(w, str)]
            if self.free[v]:
                members.append(v)
            for w in members[1:]:
                parent[find(w)] = find(members[0])
            if members and not self.free[v]:
                parent[v] = find(members[0])  # decided itself, but part of this component's cost
        groups: dict[int, list[int]] = {}
        for v in range(len(parent)):
            groups.setdefault(find(v), []).append(v)
        for group in groups.values():
            if any(self.free[v] for v in group):
                yield group

    def solve(self, component: list[int]) -> None:
        ends = {self.domain[v] for v in component if not self.free[v]}
        ends.update(w for v in component for w in self.wants[v] if isinstance(w, Domain))
        free = [v for v in component if self.free[v]]
        if len(ends) < 2 and not any(self.unary[v] for v in free):
            only = next(iter(ends), _C)
            for v in free:
                self.domain[v] = only
        elif len(free) <= EXACT_LIMIT:
            self._cut(component, free)
        else:
            self._sweep(free)

    # -- exact

    def _cut(self, component: list[int], free: list[int]) -> None:
        """Source side: NTT. Sink side: COEFF."""
        flow = _Flow()
        source, sink = flow.node(), flow.node()
        at: dict[int, int] = {v: flow.node() for v in free}

        def node(w: int | Domain) -> int:
            if isinstance(w, Domain):
                return source if w is _N else sink
            return at[w]

        for v in component:
            me = at[v] if self.free[v] else node(self.domain[v])  # type: ignore[arg-type]
            users = {node(w) for w in self.wants[v]} - {me}
            weight = self.weight[v]
            if self.unary[v] and self.free[v]:
                flow.edge(me, sink, self.unary[v])
            if not users:
                continue
            if len(users) == 1:
                user = users.pop()
                flow.edge(user, me, weight)
                flow.edge(me, user, weight)
                continue
            if me != source:  # some user wants NTT, v is stored in COEFF
                if source in users:
                    flow.edge(source, me, weight)
                else:
                    any_ntt = flow.node()
                    flow.edge(any_ntt, me, weight)
                    for user in users - {sink}:
                        flow.edge(user, any_ntt, _INFINITE)
            if me != sink:  # some user wants COEFF, v is stored in NTT
                if sink in users:
                    flow.edge(me, sink, weight)
                else:
                    any_coeff = flow.node()
                    flow.edge(me, any_coeff, weight)
                    for user in users - {source}:
                        flow.edge(any_coeff, user, _INFINITE)
        ntt_side = flow.cut(source, sink)
        for v in free:
            self.domain[v] = _N if ntt_side[at[v]] else _C

    # -- heuristic

    def _sweep(self, free: list[int]) -> None:
        for v in free:  # graph order: operands are decided
            ntt = sum(self.weight[o] if self.domain[o] is _N else -self.weight[o] for o in self.operands[v])
            if ntt == 0:
                ntt = sum(1 if w is _N else -1 for w in self.wants[v] if isinstance(w, Domain))
            self.domain[v] = _N if ntt > 0 else _C
        for sweep in range(SWEEPS):
            changed = False
            for v in reversed(free) if sweep % 2 == 0 else free:
                now = self.domain[v]
                other = _C if now is _N else _N
                before = self._local_cost(v)
                self.domain[v] = other
                if self._local_cost(v) < before:
                    changed = True
                else:
                    self.domain[v] = now
            if not changed:
                return

    def _local_cost(self, v: int) -> int:
        return self._cost_of(v) + sum(self._cost_of(o) for o in set(self.operands[v]))

    def _cost_of(self, v: int) -> int:
        """Rows transformed because of value v as it stands."""
        mine = self.domain[v]
        cost = self.unary[v] if mine is _N else 0
        if any((w if isinstance(w, Domain) else self.domain[w]) is not mine for w in self.wants[v]):
            cost += self.weight[v]
        return cost

    def cost(self) -> int:
        """Rows transformed by the whole graph as placed."""
        return sum(self._cost_of(v) for v in range(len(self.domain)) if self.domain[v] is not None)


class _Flow:
    """Maximum flow by Dinic's algorithm, iterative."""

    def __init__(self) -> None:
        self._out: list[list[int]] = []
        self._to: list[int] = []
        self._left: list[int] = []

    def node(self) -> int:
        self._out.append([])
        return len(self._out) - 1

    def edge(self, u: int, v: int, capacity: int) -> None:
        self._out[u].append(len(self._to))
        self._to.append(v)
        self._left.append(capacity)
        self._out[v].append(len(self._to))
        self._to.append(u)
        self._left.append(0)

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self._out)
        level[source] = 0
        queue = deque([source])
        while queue:
            u = queue.popleft()
            for e in self._out[u]:
                v = self._to[e]
                if self._left[e] and level[v] < 0:
                    level[v] = level[u] + 1
                    queue.append(v)
        return level

    def _before(self, sink: int) -> list[bool]:
        """For each node whether no flow can be sent from it to the sink any more."""
        reaches = [False] * len(self._out)
        reaches[sink] = True
        queue = deque([sink])
        while queue:
            v = queue.popleft()
            for e in self._out[v]:  # e ^ 1 leads to v
                u = self._to[e]
                if self._left[e ^ 1] and not reaches[u]:
                    reaches[u] = True
                    queue.append(u)
        return [not r for r in reaches]

    def cut(self, source: int, sink: int) -> list[bool]:
        """For each node whether it is on the source side of a minimum cut; of several the one with the largest source side."""
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return self._before(sink)
            next_edge = [0] * len(self._out)
            path: list[int] = []
            u = source
            while True:
                if u == sink:
                    pushed = min(self._left[e] for e in path)
                    for e in path:
                        self._left[e] -= pushed
                        self._left[e ^ 1] += pushed
                    full = next(at for at, e in enumerate(path) if not self._left[e])
                    u = self._to[path[full] ^ 1]
                    del path[full:]
                    continue
                while next_edge[u] < len(self._out[u]):
                    e = self._out[u][next_edge[u]]
                    if self._left[e] and level[self._to[e]] == level[u] + 1:
                        break
                    next_edge[u] += 1
                else:
                    if u == source:
                        break
                    e = path.pop()
                    u = self._to[e ^ 1]
                    next_edge[u] += 1
                    continue
                path.append(e)
                u = self._to[e]

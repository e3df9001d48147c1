"""From a key to values: transforms and views dissolved, common subexpressions merged, dead code gone.

In this form a polynomial has no domain: NTT and INTT are the identity, and which values are stored in which domain is decided
afterwards, for the whole graph at once (`domains`). A view (LIMBS, PART) is a `Ref`, that is part of a value, so it costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ren.engine.exec_unit import SlotKind
from ren.engine.schedule.normalise import Key, Signature
from ren.ops import Domain, Kind, Op
from ren.ring import RingSpec


class Ref(NamedTuple):
    """Limbs start..stop-1 of output `part` of value number `value` (stop = 0: all of a value that is no polynomial)."""

    value: int
    part: int
    start: int
    stop: int


@dataclass(slots=True)
class Value:
    """One computed or given value.

    fixed: the domain in which it is stored whatever its users want, None where the scheduler is free to choose.
    role: slot kind of a leaf. slot: its number among the leaves of that kind (INPUT and CONSTANT count together).
    once: it follows from constants of the plan alone and is computed once, when the plan is made. at: position in the key of the first
    node that has this value.
    """

    op: Op
    args: tuple[Ref, ...]
    params: tuple[Any, ...]
    ring: RingSpec
    kind: Kind
    count: int
    fixed: Domain | None
    role: SlotKind | None = None
    slot: int = -1
    once: bool = False
    at: int = -1


class Static(NamedTuple):
    """Leaves whose value belongs to the plan, for a plan that runs input-independent work once: numbers of CONST and SAMPLE leaves
    (CONSTANT buffers always belong to it)."""

    scalars: frozenset[int]
    randoms: frozenset[int]


class Root(NamedTuple):
    """What the caller asked for: a ref, the domain to store it in, and whether it must own its memory (COPY)."""

    ref: Ref
    domain: Domain
    own: bool
    kind: Kind


@dataclass(slots=True)
class Values:
    values: list[Value]
    roots: list[Root]


#: Where the value of an operation is stored, for those that leave no choice.
FIXED: dict[Op, Domain] = {
    Op.BASIS_EXTEND: Domain.COEFF,
    Op.FROM_FLOAT: Domain.COEFF,
    Op.LIFT: Domain.COEFF,
    Op.DECOMPOSE: Domain.NTT,
    Op.GADGET_PRODUCT: Domain.NTT,
}
_COMMUTATIVE = frozenset({Op.ADD, Op.MULTIPLY})


def values_of(key: Key, static: Static | None = None) -> Values:
    """Read a key. Linear time; the values come out in the key's order, operands before users.

    static: mark what can be computed once (`Value.once`).
    """
    builder = _Builder(static)
    refs: list[tuple[Ref, bool, Signature]] = []
    i, end = 0, len(key)
    while key[i] is not None:
        sig: Signature = key[i]
        args = tuple(refs[j] for j in key[i + 1 : i + 1 + sig.arity])
        builder.position = len(refs)
        refs.append((*builder.ref(sig, [a[0] for a in args], [a[1] for a in args]), sig))
        i += 1 + sig.arity
    roots = []
    for j in key[i + 1 : end]:
        ref, own, sig = refs[j]
        roots.append(Root(ref, sig.domain, own, sig.kind))
    return _sweep(Values(builder.values, roots))


class _Builder:
    def __init__(self, static: Static | None) -> None:
        self._static = static
        self.values: list[Value] = []
        self._known: dict[Any, int] = {}
        self.position = 0  # of the node that is read
        self._leaves = {SlotKind.INPUT: 0, SlotKind.SCALAR: 0, SlotKind.RANDOM: 0}

    def ref(self, sig: Signature, args: list[Ref], own: list[bool]) -> tuple[Ref, bool]:
        """The value of one node; True if a root there must own its memory."""
        op = sig.op
        if op is Op.NTT or op is Op.INTT:
            return args[0], own[0]
        if op is Op.COPY:
            return args[0], True
        if op is Op.LIMBS:
            start, stop = sig.params
            v, part, base, _ = args[0]
            return Ref(v, part, base + start, base + stop), False
        if op is Op.PART:
            v = args[0].value
            return Ref(v, sig.params[0], 0, sig.ring.limbs), False
        if op is Op.AUTOMORPHISM and sig.params[0] == 1:
            return args[0], own[0]
        return self._value(sig, args), False

    def _value(self, sig: Signature, args: list[Ref]) -> Ref:
        op, limbs = sig.op, sig.ring.limbs if sig.kind is Kind.POLY else 0
        if sig.role is not None:
            counter = SlotKind.INPUT if sig.role is SlotKind.CONSTANT else sig.role
            slot = self._leaves[counter]
            self._leaves[counter] += 1
            fixed = None if op is Op.CONST else sig.domain
            once = self._static is not None and (
                sig.role is SlotKind.CONSTANT
                or (op is Op.CONST and slot in self._static.scalars)
                or (op is Op.SAMPLE and slot in self._static.randoms)
            )
            at = self.position
            self.values.append(
                Value(op, (), sig.params, sig.ring, sig.kind, sig.count, fixed, sig.role, slot, once, at)
            )
            return Ref(len(self.values) - 1, 0, 0, limbs)
        if op in _COMMUTATIVE and args[1] < args[0]:
            args.reverse()
        known = (op, tuple(args), sig.params, sig.ring)
        index = self._known.get(known)
        if index is None:
            index = self._known[known] = len(self.values)
            once = self._static is not None and all(self.values[a.value].once for a in args)
            self.values.append(
                Value(
                    op,
                    tuple(args),
                    sig.params,
                    sig.ring,
                    sig.kind,
                    sig.count,
                    FIXED.get(op),
                    once=once,
                    at=self.position,
                )
            )
        return Ref(index, 0, 0, limbs)


def _sweep(graph: Values) -> Values:
    """Without values that no root needs. Leaves keep their slot numbers."""
    live = [False] * len(graph.values)
    for root in graph.roots:
        live[root.ref.value] = True
    for i in range(len(graph.values) - 1, -1, -1):
        if live[i]:
            for arg in graph.values[i].args:
                live[arg.value] = True
    if all(live):
        return graph
    new = {old: at for at, old in enumerate(i for i, alive in enumerate(live) if alive)}
    values = []
    for old in new:
        v = graph.values[old]
        v.args = tuple(a._replace(value=new[a.value]) for a in v.args)
        values.append(v)
    return Values(values, [r._replace(ref=r.ref._replace(value=new[r.ref.value])) for r in graph.roots])

"""Fusion of element-wise operations into `elementwise` programs.

Values arrive one by one in a valid order. A value joins the open groups that compute its operands (merging them) or that read
an operand of its own, as long as ring and domain agree and the limits below hold. A group is emitted when something outside
needs one of its values. Open groups never depend on each other, so no cycle can arise: a value that is added after a group
was emitted only reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ren.engine.schedule.steps import Cell, Span, Step
from ren.ops import Domain
from ren.ring import RingSpec

#: Limits of one program: an interpreter keeps that many blocks of registers and row pointers in the fast cache.
MAX_INPUTS = 12
MAX_OUTPUTS = 6
MAX_SCALARS = 8
MAX_INSTRUCTIONS = 24

#: An operand of a member: the number of a value in the same group, or a span of memory.
Operand = int | Span


@dataclass(slots=True)
class Member:
    """One instruction of a group. scalar: for scale, addc, subc, csub, const."""

    value: int
    opcode: str
    operands: tuple[Operand, ...]
    scalar: Span | None = None


class Group:
    """An elementwise program under construction."""

    __slots__ = ("ring", "domain", "once", "members", "inputs", "scalars", "pending")

    def __init__(self, ring: RingSpec, domain: Domain, once: bool) -> None:
        self.ring = ring
        self.domain = domain
        self.once = once
        self.members: dict[int, Member] = {}
        self.inputs: dict[Span, int] = {}
        self.scalars: dict[Span, int] = {}
        self.pending: set[int] = set()  # members that something outside still needs

    @property
    def room(self) -> int:
        """How many more values fit at most."""
        if len(self.inputs) >= MAX_INPUTS or len(self.pending) >= MAX_OUTPUTS:
            return 0
        return MAX_INSTRUCTIONS - len(self.members)


class Fuser:
    """total[v]: how often value v is used, roots included. emit: takes finished steps. write: the cell a value is stored in.
    positions[v]: `Value.at`."""

    def __init__(
        self,
        total: Sequence[int],
        emit: Callable[[Step], None],
        write: Callable[[int], Cell],
        positions: Sequence[int],
    ) -> None:
        self._total = total
        self._positions = positions
        self._inside: dict[int, int] = {}
        self._emit = emit
        self._write = write
        self._group_of: dict[int, Group] = {}
        self._readers: dict[tuple[Span, Domain, bool], Group] = {}

    def open_group(self, value: int) -> Group | None:
        """The group that will compute `value`, if it is not emitted yet."""
        return self._group_of.get(value)

    def flush(self, value: int) -> None:
        """Emit the group of `value`, if it is open."""
        group = self._group_of.get(value)
        if group is not None:
            self._close(group)

    def flush_all(self) -> None:
        for group in list({id(g): g for g in self._group_of.values()}.values()):
            self._close(group)

    def add(self, member: Member, ring: RingSpec, domain: Domain, once: bool) -> None:
        """Put one value into a group. Operands given as numbers are members of open groups of the same ring, domain and `once`."""
        groups: list[Group] = []
        for own in (True, False):  # groups that compute an operand first, then groups that read one
            for op in member.operands:
                if isinstance(op, int) is own:
                    group = self._group_of.get(op) if isinstance(op, int) else self._readers.get((op, domain, once))
                    if group is not None and group not in groups and group.ring == ring:
                        groups.append(group)
        home: Group | None = None
        for group in groups:
            if home is None:
                home = group if self._fits(group, member) else None
            elif self._merge(home, group) and not self._fits(home, member):
                home = None
                break
        if home is None:
            home = Group(ring, domain, once)
        for op in member.operands:  # what could not be merged must be in memory
            if isinstance(op, int) and op not in home.members:
                self.flush(op)
        member.operands = tuple(
            Span(cell := self._write(op), 0, cell.words) if isinstance(op, int) and op not in home.members else op
            for op in member.operands
        )
        self._insert(home, member)

    def _insert(self, home: Group, member: Member) -> None:
        for op in member.operands:
            if isinstance(op, int):
                self._inside[op] = self._inside.get(op, 0) + 1
                if self._inside[op] == self._total[op]:
                    home.pending.discard(op)
            else:
                home.inputs.setdefault(op, len(home.inputs))
                self._readers[op, home.domain, home.once] = home
        if member.scalar is not None:
            home.scalars.setdefault(member.scalar, len(home.scalars))
        home.members[member.value] = member
        home.pending.add(member.value)
        self._group_of[member.value] = home

    def _merge(self, into: Group, other: Group) -> bool:
        """Move `other` into `into`; False if the result would be too large."""
        if (
            len(into.inputs.keys() | other.inputs.keys()) > MAX_INPUTS
            or len(into.scalars.keys() | other.scalars.keys()) > MAX_SCALARS
            or len(into.members) + len(other.members) >= MAX_INSTRUCTIONS
            or len(into.pending) + len(other.pending) > MAX_OUTPUTS
        ):
            return False
        for span in other.inputs:
            into.inputs.setdefault(span, len(into.inputs))
            self._readers[span, into.domain, into.once] = into
        for span in other.scalars:
            into.scalars.setdefault(span, len(into.scalars))
        into.members.update(other.members)
        into.pending |= other.pending
        for value in other.members:
            self._group_of[value] = into
        return True

    def _fits(self, group: Group, member: Member) -> bool:
        spans = set(group.inputs)
        pending = len(group.pending) + 1
        for op in set(member.operands):
            if not isinstance(op, int):
                spans.add(op)
            elif op in group.members:
                pending -= self._inside.get(op, 0) + member.operands.count(op) == self._total[op]
            else:
                spans.add(Span(self._write(op), 0, 0))  # read from memory, unless its group is merged next
        scalars = len(group.scalars) + (member.scalar is not None and member.scalar not in group.scalars)
        return (
            len(spans) <= MAX_INPUTS
            and scalars <= MAX_SCALARS
            and len(group.members) < MAX_INSTRUCTIONS
            and pending <= MAX_OUTPUTS
        )

    # -- emission

    def _close(self, group: Group) -> None:
        for value in group.members:
            del self._group_of[value]
        for span in group.inputs:
            if self._readers.get((span, group.domain, group.once)) is group:
                del self._readers[span, group.domain, group.once]
        program, outputs = _program(group, self._single_use)
        self._emit(
            Step(
                "elementwise",
                group.ring,
                (len(group.inputs), len(group.scalars), program, tuple(outputs.values()), group.domain),
                list(group.inputs),
                [self._write(v) for v in outputs],
                list(group.scalars),
                group.once,
                tuple([self._positions[v] for v in group.members]),
            )
        )

    def _single_use(self, value: int) -> bool:
        return self._total[value] == 1


def _program(group: Group, single_use: Callable[[int], bool]) -> tuple[tuple[tuple[Any, ...], ...], dict[int, int]]:
    """The instructions of a group and the register of each output value. A product that only an addition uses becomes one `mac`."""
    absorbed: dict[int, int] = {}  # addition -> product
    gone: set[int] = set()
    for v, m in group.members.items():
        if m.opcode == "add":
            for op in m.operands:
                if isinstance(op, int) and op not in gone and group.members[op].opcode == "mul" and single_use(op):
                    absorbed[v] = op
                    gone.add(op)
                    break
    register: dict[Operand, int] = dict(group.inputs)  # type: ignore[arg-type]
    program: list[tuple[Any, ...]] = []
    for v, m in group.members.items():
        if v in gone:
            continue
        regs = [register[op] for op in m.operands if op != absorbed.get(v)]
        if v in absorbed:
            a, b = (register[op] for op in group.members[absorbed[v]].operands)
            program.append(("mac", a, b, regs[0]))
        elif m.scalar is not None:
            program.append((m.opcode, *regs, group.scalars[m.scalar]))
        else:
            program.append((m.opcode, *regs))
        register[v] = len(group.inputs) + len(program) - 1
    return tuple(program), {v: register[v] for v in group.members if v in group.pending}

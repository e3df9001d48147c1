"""Element-wise work beside a group that is about to be emitted.

A group is emitted when something outside needs one of its values, often while other values that read the same operands are
still to come: of a ciphertext product the part that is key-switched is needed first. Whatever is ready and reads what the group
reads or computes joins it, so that those operands pass through the cache once. A MOD_DOWN that could run now counts as ready: it
frees more memory than it takes, so nothing is lost by running it early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ren.engine.schedule.values import Ref, Value
from ren.ops import Domain, Kind, Op

ELEMENTWISE = frozenset({Op.ADD, Op.SUBTRACT, Op.NEGATE, Op.MULTIPLY})
#: Users looked at for one group, so that a value with thousands of users costs no more than another.
_LOOKED_AT = 64


class Neighbours:
    """begun[v], placed[v]: whether lowering value v has begun, and whether it is in a group or emitted. available: whether an
    operand can be read in that domain."""

    def __init__(
        self, values: Sequence[Value], domains: Sequence[Domain | None], available: Callable[[Ref, Domain], bool]
    ) -> None:
        self._values = values
        self._domains = domains
        self._available = available
        self.placed = [v.role is not None for v in values]
        self.begun = self.placed.copy()
        self._users: list[list[int]] = [[] for _ in values]
        for i, v in enumerate(values):
            if v.op in ELEMENTWISE:
                for a in v.args:
                    if values[a.value].kind is Kind.POLY and values[a.value].op is not Op.CONST:
                        self._users[a.value].append(i)
        self._first = [0] * len(values)  # users before this position are placed

    def ready_beside(self, members: Iterable[int], room: int) -> list[int] | None:
        """Values to lower next beside a group with these members, in a valid order: an element-wise one that reads an operand or result
        of the group, with the unplaced values it needs. At most `room` element-wise values. None if there is none."""
        like = None
        looked = 0
        seen: set[int] = set()
        for member in members:
            like = member
            for source in (member, *(a.value for a in self._values[member].args)):
                users = self._users[source]
                at = self._first[source]
                while at < len(users) and self.placed[users[at]]:
                    at += 1
                self._first[source] = at
                for user in users[at:]:
                    if looked == _LOOKED_AT:
                        return None
                    if self.begun[user] or user in seen:
                        continue
                    looked += 1
                    seen.add(user)
                    needed = self._closure(user, like, room)
                    if needed is not None:
                        return needed
        return None

    def _closure(self, value: int, like: int, room: int) -> list[int] | None:
        """`value` and the unplaced values it needs, if all of them can run in the program of `like` now."""
        needed: set[int] = set()
        first: set[int] = set()
        stack = [value]
        model = self._values[like]
        while stack:
            index = stack.pop()
            if index in needed:
                continue
            v = self._values[index]
            domain = self._domains[like]
            if (
                v.op not in ELEMENTWISE
                or self.begun[index]
                or v.once is not model.once
                or self._domains[index] is not domain
                or v.ring != model.ring
                or len(needed) == room
                or domain is None
            ):
                return None
            needed.add(index)
            for a in v.args:
                if self._values[a.value].op is Op.CONST:
                    continue
                if self.placed[a.value]:
                    if not self._available(a, domain):
                        return None
                elif self._could_run(a.value) and self._domains[a.value] is domain:
                    first.add(a.value)
                elif a.stop - a.start == v.ring.limbs == self._values[a.value].ring.limbs:
                    stack.append(a.value)
                else:
                    return None
        return sorted(needed | first)

    def _could_run(self, value: int) -> bool:
        """Whether a value is a MOD_DOWN whose operands are there."""
        v = self._values[value]
        domain = self._domains[value]
        return (
            v.op is Op.MOD_DOWN
            and not self.begun[value]
            and domain is not None
            and all(self.placed[a.value] and self._available(a, domain) for a in v.args)
        )

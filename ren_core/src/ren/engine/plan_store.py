"""The bounded set of plans of one jitted function (or of one method of one instance)."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from ren.engine.locks import Guarded

if TYPE_CHECKING:
    from ren.engine.captured import CapturedPlan
    from ren.engine.recent import Recent

#: Keys remembered after their plan was dropped, to notice that they come back.
_REMEMBERED = 1024


class PlanKey(NamedTuple):
    """What a plan of a jitted function depends on.

    given, implicit: structure and specification of arguments and implicit inputs (`Flat.specify`). context: the active contexts.
    scalars: of the call, where each value has its own plan, else None.
    """

    given: tuple[Any, ...]
    implicit: tuple[Any, ...]
    context: Hashable
    scalars: Hashable


class PlanStore(Guarded):
    """Least recently used plans are dropped beyond maxsize. hits and misses count calls. recent: the last call, where it was replayed. Safe from any thread."""

    def __init__(self, maxsize: int | None, name: str) -> None:
        super().__init__()
        self.maxsize = maxsize
        self.name = name
        self.plans: OrderedDict[PlanKey, CapturedPlan] = OrderedDict()
        self.hits = 0
        self.misses = 0
        self._dropped: OrderedDict[int, None] = OrderedDict()
        self._warned = False
        self.recent: Recent | None = None
        self._latest: CapturedPlan | None = None  # the last in `plans`: it need not be moved there

    def get(self, key: PlanKey) -> CapturedPlan | None:
        """The plan for a call; counts it."""
        with self._lock:
            plan = self.plans.get(key)
            if plan is None:
                self.misses += 1
            else:
                self.hits += 1
                if plan is not self._latest:
                    self.plans.move_to_end(key)
                    self._latest, self.recent = plan, None
            return plan

    def peek(self, key: PlanKey) -> CapturedPlan | None:
        """The same without counting."""
        return self.plans.get(key)

    def remember(self, recent: Recent) -> None:
        """Make a call the recent one, unless its plan is no longer the one that was used last."""
        with self._lock:
            if recent.plan is self._latest:
                self.recent = recent

    def repeated(self, recent: Recent) -> bool:
        """Count a replay of the recent call; False where it no longer is the recent one."""
        with self._lock:
            if recent is not self.recent:
                return False
            self.hits += 1
            return True

    def put(self, key: PlanKey, plan: CapturedPlan) -> None:
        thrash = False
        with self._lock:
            self.plans[key] = self._latest = plan
            self.recent = None
            self.plans.move_to_end(key)
            if hash(key) in self._dropped and not self._warned:
                thrash = self._warned = True
            while self.maxsize is not None and len(self.plans) > self.maxsize:
                old, _ = self.plans.popitem(last=False)
                self._dropped[hash(old)] = None
                if len(self._dropped) > _REMEMBERED:
                    self._dropped.popitem(last=False)
        if thrash:
            warnings.warn(
                f"ren.jit: {self.name} captured again a plan it had dropped: more than maxsize={self.maxsize} kinds of calls alternate. "
                f"Raise maxsize, or pass what varies as a Poly or Plaintext.const(...); .explain(...) names the key field that differs.",
                RuntimeWarning,
                stacklevel=3,
            )

    def clear(self) -> None:
        with self._lock:
            self.plans.clear()
            self._latest = self.recent = None
            self._dropped.clear()

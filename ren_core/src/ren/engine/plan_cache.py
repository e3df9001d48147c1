"""The schedule cache: plans by normalised graph, so that the second run of an expression neither schedules nor plans memory."""

from __future__ import annotations

from collections import OrderedDict

from ren.backend.protocol import Backend
from ren.engine.locks import Guarded
from ren.engine.plan import Plan, build_plan
from ren.engine.schedule import Key

#: Plans kept, least recently used dropped.
MAX_PLANS = 512


class PlanCache(Guarded):
    """A bounded map from (backend, key) to Plan, safe from any thread. hits and misses are counted for tests and `explain`."""

    def __init__(self, maxsize: int = MAX_PLANS) -> None:
        super().__init__()
        self.maxsize = maxsize
        self.hits = 0
        self.misses = 0
        self._plans: OrderedDict[tuple[int, Key], Plan] = OrderedDict()
        self._latest: Plan | None = None  # the last in `_plans`: it need not be moved there

    def plan(self, key: Key, backend: Backend) -> Plan:
        """The plan for a normalised graph. Two threads that miss at once may both build it; one of the two equal plans is kept."""
        at = (id(backend), key)
        with self._lock:
            plan = self._plans.get(at)
            if plan is not None and plan.backend is backend:
                self.hits += 1
                if plan is not self._latest:
                    self._plans.move_to_end(at)
                    self._latest = plan
                return plan
            self.misses += 1
        plan = build_plan(key, backend)
        with self._lock:
            self._plans[at] = self._latest = plan
            self._plans.move_to_end(at)
            while len(self._plans) > self.maxsize:
                self._plans.popitem(last=False)
        return plan

    def clear(self) -> None:
        with self._lock:
            self._plans.clear()
            self._latest = None

    def __len__(self) -> int:
        return len(self._plans)


#: The one cache of the process.
PLANS = PlanCache()

"""From a normalised graph to kernel steps: the scheduler.

values     transforms and views dissolved, common subexpressions merged, dead code gone
domains    which domain each value is stored in
lower      transforms inserted, element-wise chains fused (`fuse`), key switches merged
order      the order with the lowest peak of live memory
"""

from __future__ import annotations

from ren.engine.schedule.domains import place
from ren.engine.schedule.lower import lower
from ren.engine.schedule.normalise import Key as Key
from ren.engine.schedule.normalise import Normal as Normal
from ren.engine.schedule.normalise import normalise as normalise
from ren.engine.schedule.order import best_order
from ren.engine.schedule.steps import Steps
from ren.engine.schedule.values import Static as Static
from ren.engine.schedule.values import values_of


def schedule(key: Key, kernels: frozenset[str], static: Static | None = None) -> Steps:
    """Steps for a normalised graph, for a backend that declares `kernels`. static: mark the steps that need no input."""
    graph = values_of(key, static)
    steps = lower(graph, place(graph), kernels)
    steps.steps = best_order(steps)
    return steps

"""The order of steps: the one with the lowest peak of live memory among a few valid ones."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from ren.engine.schedule.steps import Cell, Step, Steps


def best_order(graph: Steps) -> list[Step]:
    """The steps in the given order or in that of a greedy list scheduler (least growth of live memory first), whichever peaks lower."""
    given = graph.steps
    if len(given) < 3:
        return given
    kept = {id(r.span.cell) for r in graph.roots}
    greedy = _greedy(given, kept)
    return greedy if peak_words(greedy, kept) < peak_words(given, kept) else given


def peak_words(steps: Sequence[Step], kept: set[int]) -> int:
    """Most words of computed cells that are alive at once; cells in `kept` (by id) never die."""
    last: dict[int, int] = {}
    for at, step in enumerate(steps):
        for span in step.inputs:
            last[id(span.cell)] = at
    made: set[int] = set()
    live = peak = 0
    for at, step in enumerate(steps):
        for cell in step.outputs:
            live += cell.words
            made.add(id(cell))
        peak = max(peak, live)
        for cell in {id(s.cell): s.cell for s in step.inputs}.values():
            if last[id(cell)] == at and id(cell) in made and id(cell) not in kept:
                live -= cell.words
        for cell in step.outputs:
            if id(cell) not in last and id(cell) not in kept:
                live -= cell.words
    return peak


def _greedy(steps: Sequence[Step], kept: set[int]) -> list[Step]:
    producer: dict[int, int] = {id(c): i for i, s in enumerate(steps) for c in s.outputs}
    reads: list[list[Cell]] = [
        [c for c in {id(x.cell): x.cell for x in s.inputs}.values() if id(c) in producer] for s in steps
    ]
    users: dict[int, list[int]] = {at: [] for at in producer}
    waiting = [0] * len(steps)
    for i, cells in enumerate(reads):
        for cell in cells:
            users[id(cell)].append(i)
        waiting[i] = len(cells)
    left = {at: len(u) for at, u in users.items()}

    def growth(i: int) -> int:
        freed = sum(c.words for c in reads[i] if left[id(c)] == 1 and id(c) not in kept)
        return sum(c.words for c in steps[i].outputs) - freed

    ready = [(growth(i), i) for i in range(len(steps)) if not waiting[i]]
    heapq.heapify(ready)
    done = [False] * len(steps)
    order: list[Step] = []
    while ready:
        score, i = heapq.heappop(ready)
        if done[i] or score != growth(i):
            continue  # superseded: an entry with the present score was pushed when it changed
        done[i] = True
        order.append(steps[i])
        for cell in reads[i]:
            left[id(cell)] -= 1
            if left[id(cell)] == 1:
                for user in users[id(cell)]:
                    if not done[user] and not waiting[user]:
                        heapq.heappush(ready, (growth(user), user))
        for cell in steps[i].outputs:
            for user in users[id(cell)]:
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, (growth(user), user))
    return order

"""The order in which passes run: by stage, then by what they say about each other, then by name. Install order has no influence."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ren.errors import PassOrderError


class Stage(StrEnum):
    """The stages of a pipeline, in the order in which they run."""

    CLEAN = "clean"  # remove what nothing needs; operations of any level
    SEMANTIC = "semantic"  # semantic operations become logical ones
    LOGICAL = "logical"  # logical operations get what CKKS will need: prepared plaintexts, transforms
    LOWER = "lower"  # logical operations become CKKS operations
    CKKS = "ckks"  # CKKS operations get their maintenance: relinearization, rescale, level alignment
    OPTIMIZE = "optimize"  # the same result with less work
    VALIDATE = "validate"  # checks that change nothing
    REPORT = "report"  # drawings and other output that changes nothing


STAGES: tuple[Stage, ...] = tuple(Stage)


@dataclass(frozen=True, slots=True)
class PassPlace:
    """Where a pass wants to run. Names in `after` and `before` that are not part of the pipeline have no effect."""

    name: str
    stage: Stage
    after: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


def order_passes(places: Iterable[PassPlace]) -> tuple[str, ...]:
    """The names of `places` in running order.

    Inside a stage: topological, and among passes that are free to run, the first by name (Kahn 1962 with a heap).
    Raises PassOrderError that names the passes: a name given twice, a wish against the order of stages, or a cycle.
    """
    by_name: dict[str, PassPlace] = {}
    for place in places:
        if place.name in by_name:
            raise PassOrderError(f"Pass {place.name!r} is in the pipeline twice", subject=place.name)
        by_name[place.name] = place
    edges = {(a, p.name) for p in by_name.values() for a in p.after if a in by_name}
    edges |= {(p.name, b) for p in by_name.values() for b in p.before if b in by_name}
    rank = {stage: i for i, stage in enumerate(STAGES)}
    for first, second in sorted(edges):
        a, b = by_name[first], by_name[second]
        if rank[a.stage] > rank[b.stage]:
            raise PassOrderError(
                f"Pass {first!r} of stage '{a.stage}' is to run before {second!r}, whose stage '{b.stage}' runs earlier",
                subject=first,
            )
    ordered: list[str] = []
    for stage in STAGES:
        ordered.extend(_order_stage({n for n, p in by_name.items() if p.stage is stage}, edges))
    return tuple(ordered)


def _order_stage(names: set[str], edges: set[tuple[str, str]]) -> list[str]:
    users: dict[str, list[str]] = {n: [] for n in names}
    waits = dict.fromkeys(names, 0)
    for first, second in edges:
        if first in names and second in names:
            users[first].append(second)
            waits[second] += 1
    free = [n for n, count in waits.items() if count == 0]
    heapq.heapify(free)
    ordered: list[str] = []
    while free:
        name = heapq.heappop(free)
        ordered.append(name)
        for user in users[name]:
            waits[user] -= 1
            if waits[user] == 0:
                heapq.heappush(free, user)
    if len(ordered) < len(names):
        cycle = _cycle(names - set(ordered), users)
        raise PassOrderError(
            f"Passes wait for each other: {' -> '.join(cycle)}",
            subject=cycle[0],
            hint="Remove one `after` or `before` of them",
        )
    return ordered


def _cycle(stuck: set[str], users: dict[str, list[str]]) -> list[str]:
    """One cycle among `stuck`, closed, starting at its first name. Every stuck pass waits for a stuck one: walk back until one repeats."""
    waits_for = {n: min(m for m in stuck if n in users[m]) for n in stuck if any(n in users[m] for m in stuck)}
    path = [min(waits_for)]
    while path.count(path[-1]) == 1:
        path.append(waits_for[path[-1]])
    loop = path[path.index(path[-1]) :][:-1][::-1]
    start = loop.index(min(loop))
    loop = loop[start:] + loop[:start]
    return [*loop, loop[0]]

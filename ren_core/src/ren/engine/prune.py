"""Input-independent work, taken out of a plan: it runs once, when the plan is made, and its results become constants."""

from __future__ import annotations

from dataclasses import replace

from ren.engine.exec_unit import SlotKind
from ren.engine.schedule.steps import Cell, RootSpan, Span, Step, Steps
from ren.ops import Domain


def split(graph: Steps, leaves: int) -> tuple[Steps, Steps] | None:
    """(what runs once, what runs at each replay), None if nothing can run once.

    leaves: buffer leaves of the graph. The results of the first part, in the order of its roots, are the leaves numbered from there
    on of the second.
    """
    once = [s for s in graph.steps if s.once]
    if not once:
        return None
    made = {id(c): c for s in once for c in s.outputs}
    later = [s for s in graph.steps if not s.once]
    used = [span.cell for s in later for span in s.inputs] + [r.span.cell for r in graph.roots]
    frontier = list({id(c): c for c in used if id(c) in made}.values())
    for cell in frontier:
        cell.kind = SlotKind.OUTPUT
    first = Steps(
        once,
        [RootSpan(Span(c, 0, c.words), Domain.NTT) for c in frontier],
        _read(once, graph.inputs),
        _scalars(once, graph.scalars),
        _read(once, graph.randoms),
    )
    constant = {id(c): Cell(c.words, SlotKind.CONSTANT, leaves + i) for i, c in enumerate(frontier)}

    def moved(span: Span) -> Span:
        return span._replace(cell=constant.get(id(span.cell), span.cell))

    steps = [replace(s, inputs=[moved(x) for x in s.inputs]) for s in later]
    roots = [RootSpan(moved(r.span), r.domain) for r in graph.roots]
    kept = {id(c): c for c in _read(later, graph.inputs)} | {
        id(r.span.cell): r.span.cell for r in roots if r.span.cell in graph.inputs
    }
    second = Steps(
        steps, roots, [*kept.values(), *constant.values()], _scalars(later, graph.scalars), _read(later, graph.randoms)
    )
    return first, second


def _read(steps: list[Step], cells: list[Cell]) -> list[Cell]:
    """Those of `cells` that are read."""
    read = {id(span.cell) for s in steps for span in s.inputs}
    return [c for c in cells if id(c) in read]


def _scalars(steps: list[Step], cells: list[Cell]) -> list[Cell]:
    read = {id(span.cell) for s in steps for span in s.scalars}
    return [c for c in cells if id(c) in read]

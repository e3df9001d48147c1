"""A layered drawing of a dataflow graph, in pure Python.

Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures" (1981): layers by longest path, order inside a
layer by sweeps of barycentres, coordinates by placing nodes in order near the mean of their neighbours. Program order is
topological, so no cycles have to be broken. Linear in nodes and edges, up to the sorting of layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 22.0
_LAYER_GAP = 46.0
_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Box:
    """Upper left corner and size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    boxes: tuple[Box, ...]
    width: float
    height: float


def arrange(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], *, sideways: bool = False
) -> Layout:
    """Boxes for nodes of the given (width, height). edges: (from, to) with from < to. sideways: layers from left to right."""
    if not sizes:
        return Layout((), 2 * _GAP, 2 * _GAP)
    if sideways:
        turned = arrange([(h, w) for w, h in sizes], edges)
        boxes = tuple(Box(b.y, b.x, b.height, b.width) for b in turned.boxes)
        return Layout(boxes, turned.height, turned.width)
    before: list[list[int]] = [[] for _ in sizes]
    after: list[list[int]] = [[] for _ in sizes]
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    layers = _order(_layers(before, after), before, after)
    return _coordinates(layers, sizes, before, after)


def _layers(before: list[list[int]], after: list[list[int]]) -> list[list[int]]:
    """Nodes by layer: a sink as early as possible, everything else right before its first user, which keeps long sums narrow."""
    rank = [0] * len(before)
    for i, sources in enumerate(before):
        rank[i] = 1 + max((rank[s] for s in sources), default=-1)
    for i in reversed(range(len(before))):
        if after[i]:
            rank[i] = min(rank[t] for t in after[i]) - 1
    layers: list[list[int]] = [[] for _ in range(max(rank) + 1)]
    for i, r in enumerate(rank):
        layers[r].append(i)
    return [layer for layer in layers if layer]


def _order(layers: list[list[int]], before: list[list[int]], after: list[list[int]]) -> list[list[int]]:
    """Few crossings: each layer is sorted by the mean relative position of its neighbours, down and up in turn."""
    place = {node: (k + 0.5) / len(layer) for layer in layers for k, node in enumerate(layer)}
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = before if down else after
        for layer in layers if down else reversed(layers):
            layer.sort(key=lambda n: _mean([place[m] for m in neighbours[n]], place[n]))
            for k, node in enumerate(layer):
                place[node] = (k + 0.5) / len(layer)
    return layers


def _coordinates(
    layers: list[list[int]], sizes: Sequence[tuple[float, float]], before: list[list[int]], after: list[list[int]]
) -> Layout:
    centre: dict[int, float] = {}
    for layer in layers:
        _place(layer, sizes, {n: _mean([centre[m] for m in before[n] if m in centre], 0.0) for n in layer}, centre)
    for layer in reversed(layers):
        _place(layer, sizes, {n: _mean([centre[m] for m in after[n]], centre[n]) for n in layer}, centre)
    left = min(centre[n] - sizes[n][0] / 2 for n in centre)
    boxes: list[Box] = [Box(0, 0, 0, 0)] * len(sizes)
    y = _GAP
    for layer in layers:
        height = max(sizes[n][1] for n in layer)
        for n in layer:
            w, h = sizes[n]
            boxes[n] = Box(centre[n] - w / 2 - left + _GAP, y + (height - h) / 2, w, h)
        y += height + _LAYER_GAP
    return Layout(tuple(boxes), max(b.x + b.width for b in boxes) + _GAP, y - _LAYER_GAP + _GAP)


def _place(
    layer: list[int], sizes: Sequence[tuple[float, float]], wanted: dict[int, float], centre: dict[int, float]
) -> None:
    """Centres in the order of the layer, without overlap, as near to the wanted ones as pushing right and then shifting all allows."""
    edge = None
    for n in layer:
        half = sizes[n][0] / 2
        at = wanted[n] if edge is None else max(wanted[n], edge + _GAP + half)
        centre[n] = at
        edge = at + half
    shift = sum(wanted[n] - centre[n] for n in layer) / len(layer)
    for n in layer:
        centre[n] += shift


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default

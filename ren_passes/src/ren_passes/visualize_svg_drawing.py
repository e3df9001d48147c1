"""SVG text of arranged nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from ren_passes.visualize_svg_layout import Box, arrange
from ren_passes.visualize_svg_records import Node
from ren_passes.visualize_svg_style import SvgGraphTheme

_CHARACTER = 6.7
_LINE = 15.0
_PADDING = 9.0
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
#: Characters that XML 1.0 cannot hold in any form.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def drawing(nodes: Sequence[Node], theme: SvgGraphTheme, *, title: str, sideways: bool) -> str:
    """One SVG document: edges below, records above, a title for assistive tools."""
    sizes = [_size(node) for node in nodes]
    edges = sorted({(source, i) for i, node in enumerate(nodes) for source, _ in node.sources})
    layout = arrange(sizes, edges, sideways=sideways)
    names = {(source, i): name for i, node in enumerate(nodes) for source, name in node.sources}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{layout.width:.0f}" height="{layout.height:.0f}" '
        f'viewBox="0 0 {layout.width:.0f} {layout.height:.0f}" role="img" font-family="{_FONT}" font-size="11">',
        f"<title>{_text(title)}</title>",
        '<defs><marker id="ren-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{_text(theme.edge)}"/></marker></defs>',
        f'<rect width="100%" height="100%" fill="{_text(theme.background)}"/>',
        f'<g class="edges" fill="none" stroke="{_text(theme.edge)}" stroke-width="1.1">',
    ]
    for a, b in edges:
        path = _curve(layout.boxes[a], layout.boxes[b], sideways)
        parts.append(f'<path d="{path}" marker-end="url(#ren-arrow)"><title>{_text(names[a, b])}</title></path>')
    parts.append("</g>")
    parts += [_record(node, box, theme) for node, box in zip(nodes, layout.boxes, strict=True)]
    parts.append("</svg>\n")
    return "\n".join(parts)


def _size(node: Node) -> tuple[float, float]:
    longest = max(len(line) for line in node.lines)
    return longest * _CHARACTER + 2 * _PADDING, len(node.lines) * _LINE + 2 * _PADDING - 4


def _curve(a: Box, b: Box, sideways: bool) -> str:
    if sideways:
        x1, y1, x2, y2 = a.x + a.width, a.y + a.height / 2, b.x, b.y + b.height / 2
        bend = (x2 - x1) / 2
        return f"M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    x1, y1, x2, y2 = a.x + a.width / 2, a.y + a.height, b.x + b.width / 2, b.y
    bend = (y2 - y1) / 2
    return f"M{x1:.1f} {y1:.1f} C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"


def _record(node: Node, box: Box, theme: SvgGraphTheme) -> str:
    lines = [
        f'<g class="{node.kind}"><title>{_text(node.tooltip)}</title>',
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6" '
        f'fill="{_text(node.fill)}" stroke="{_text(theme.edge)}"/>',
    ]
    for i, line in enumerate(node.lines):
        y = box.y + _PADDING + 9 + i * _LINE
        weight = ' font-weight="bold"' if i == 0 else ""
        lines.append(
            f'<text x="{box.x + _PADDING:.1f}" y="{y:.1f}" fill="{_text(theme.text)}"{weight}>{_text(line)}</text>'
        )
    lines.append("</g>")
    return "".join(lines)


def _text(value: str) -> str:
    return escape(_ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", value), quote=True)

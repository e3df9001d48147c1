"""Drawings: what is in them, the file rule, colours, layout, and notebooks."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from ren import jit
from ren.errors import PassError
from ren.program import Program, Workspace, encrypted, message, types
from ren.testing.program_kit import ProgramBuilder
from ren_passes.visualize_svg import FIELDS, SvgGraphPresentation, SvgGraphTheme, svg_of
from ren_passes.visualize_svg_layout import arrange

NS = {"s": "http://www.w3.org/2000/svg"}


def sample() -> Program:
    b = ProgramBuilder(x=encrypted(), w=message())
    sines = [
        b(
            "torch.call",
            b["w"],
            types=[types.message()],
            **{"ren.call.kind": "function", "ren.call.target": target},
        )
        for target in ("torch.sin", "torch.cos")
    ]
    out: Any = b["x"]
    for public in (*sines, b.constant(0.5)):
        out = b("ren.semantic.multiply", out, public, loc=jit.location("model.py", 9))
    return b.program(out)


def lowered() -> Program:
    return jit.default_pipeline().run(sample()).program


def groups(text: str, kind: str) -> list[ET.Element]:
    return ET.fromstring(text).findall(f"s:g[@class='{kind}']", NS)


def lines(group: ET.Element) -> list[str]:
    return [t.text or "" for t in group.findall("s:text", NS)]


def fill(group: ET.Element) -> str:
    rect = group.find("s:rect", NS)
    assert rect is not None
    return rect.attrib["fill"]


def test_every_operation_argument_and_output_is_drawn() -> None:
    program = lowered()
    text = svg_of(program)
    operations = [op for op in program.walk() if op.name.startswith(("ren.", "torch."))]
    assert len(groups(text, "operation")) == len(operations)
    assert [lines(g)[0] for g in groups(text, "argument")] == ["%x: argument 0", "%w: argument 1"]
    assert len(groups(text, "output")) == 1
    edges = ET.fromstring(text).findall("s:g[@class='edges']/s:path", NS)
    assert len(edges) == len({(id(v), id(op)) for op in [*operations, program.entry_block().last_op] for v in op.operands})  # fmt: skip


def test_level_scale_and_cost_of_every_node(engine: Any) -> None:
    text = svg_of(lowered(), workspace=Workspace(engine=engine))
    (rescale, *_) = [lines(g) for g in groups(text, "operation") if "ren.ckks.rescale" in lines(g)[0]]
    assert "level: 1" in rescale
    assert "scale: s1" in rescale
    cost = lowered().cost(engine)
    row = next(r for r in cost.rows if r.name == "ren.ckks.rescale")
    assert f"cost: rescale, {row.transforms} NTT rows, 1 rescale" in rescale, "the numbers of the table"
    without = svg_of(lowered())
    assert "NTT rows" not in without
    assert "cost: rescale" in without


def test_errors_are_drawn_where_they_are_asked_for(engine: Any) -> None:
    shown = SvgGraphPresentation(fields=("opcode", "error"))
    text = svg_of(lowered(), presentation=shown, workspace=Workspace(engine=engine))
    assert any(line.startswith("error: 2^-") and line.endswith(" max") for g in groups(text, "operation") for line in lines(g))  # fmt: skip
    assert "error: " not in svg_of(lowered(), workspace=Workspace(engine=engine))


def test_colours() -> None:
    theme = SvgGraphTheme(colours={"ren.ckks.rescale": "#123456"})
    text = svg_of(lowered(), presentation=SvgGraphPresentation(theme=theme))
    by_title: dict[str, set[str]] = {}
    for group in groups(text, "operation"):
        title = lines(group)[0].split(" = ")[-1]
        target = next((line for line in lines(group) if line.startswith("target: ")), "")
        by_title.setdefault(f"{title} {target}".strip(), set()).add(fill(group))
    assert all(len(fills) == 1 for fills in by_title.values()), "one kind, one colour"
    assert by_title["ren.ckks.rescale"] == {"#123456"}
    assert by_title["ren.constant"] == {theme.constant}
    assert by_title["torch.call target: torch.sin"] != by_title["torch.call target: torch.cos"]
    assert {fill(g) for g in groups(text, "argument")} == {theme.argument}
    assert {fill(g) for g in groups(text, "output")} == {theme.output}
    texts = ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")
    assert {t.attrib["fill"] for t in texts} == {theme.text}


def contrast(a: str, b: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_is_readable_on_every_fill() -> None:
    theme = SvgGraphTheme()
    for colour in (*theme.palette, theme.argument, theme.constant, theme.output):
        assert contrast(colour, theme.text) > 7, colour


def test_fields_select_sections_and_attribute_names_attributes() -> None:
    every = svg_of(sample(), presentation=SvgGraphPresentation(fields=FIELDS))
    all_lines = [line for g in groups(every, "operation") for line in lines(g)]
    for start in ("role: ", "operands: ", "type: ", "ren.call.target: ", "users: ", "at model.py:9"):
        assert any(line.startswith(start) for line in all_lines), start
    few = svg_of(
        sample(),
        presentation=SvgGraphPresentation(fields={"opcode", "attributes"}, attribute_names={"ren.call.kind"}),
    )
    shown = {line.split(": ")[0] for g in groups(few, "operation") for line in lines(g)[1:]}
    assert shown == {"target", "ren.call.kind"}


def test_hooks() -> None:
    presentation = SvgGraphPresentation(
        fields={"attributes"},
        select_attributes=lambda op, found: {k: v for k, v in found.items() if k == "value"},
        format_attribute_value=lambda name, value: f"<{name}>",
        operation_sections=lambda op, sections: [op.name, *sections],
        operation_tooltip=lambda op: "tip & more",
    )
    text = svg_of(sample(), presentation=presentation)
    constant = next(g for g in groups(text, "operation") if lines(g)[0] == "ren.constant")
    assert lines(constant) == ["ren.constant", "value: <value>"]
    title = constant.find("s:title", NS)
    assert title is not None
    assert title.text == "tip & more"


def test_long_attributes_are_cut() -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.semantic.multiply", b["x"], b.constant([0.5] * 400)))
    text = svg_of(program, presentation=SvgGraphPresentation(attribute_preview_chars=20))
    assert max(len(line) for g in groups(text, "operation") for line in lines(g)[1:]) == 20


def test_bad_presentations_are_refused() -> None:
    with pytest.raises(ValueError, match="no field is called 'opcodes'"):
        SvgGraphPresentation(fields={"opcodes"})
    with pytest.raises(ValueError, match="collections of names"):
        SvgGraphPresentation(fields="opcode")
    with pytest.raises(ValueError, match="at least 1"):
        SvgGraphPresentation(attribute_preview_chars=0)
    with pytest.raises(ValueError, match="palette"):
        SvgGraphTheme(palette=())


def test_file_rule(tmp_path: Path) -> None:
    program, path = lowered(), tmp_path / "deep" / "er" / "graph.svg"
    text = program.to_text()
    result = jit.SvgGraphVisualizationPass(path).run(program, Workspace())
    assert result.program is program
    assert program.to_text() == text
    assert not result.changed
    assert result.stats.matched == sum(1 for op in program.walk() if op.name != "func.func")
    assert [d.subject for d in result.diagnostics] == [str(path)]
    path.write_text("mine")
    with pytest.raises(PassError, match="overwrite=True"):
        jit.SvgGraphVisualizationPass(path).run(program, Workspace())
    assert path.read_text() == "mine"
    jit.SvgGraphVisualizationPass(path, overwrite=True).run(program, Workspace())
    assert path.read_text() == svg_of(program)
    assert [p.name for p in path.parent.iterdir()] == ["graph.svg"]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"must end in \.svg"):
        jit.SvgGraphVisualizationPass("graph.png")
    with pytest.raises(ValueError, match="one of TB, LR"):
        jit.SvgGraphVisualizationPass("graph.svg", rank_direction="RL")
    with pytest.raises(LookupError, match="other"):
        svg_of(lowered(), entry="other")


def test_hostile_names_stay_text() -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.semantic.multiply", b["x"], b.constant('</text><script>&"\x01')))
    root = ET.fromstring(svg_of(program))
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_same_program_same_bytes() -> None:
    assert svg_of(lowered()) == svg_of(lowered())


def test_notebooks_draw_programs() -> None:
    program = lowered()
    assert program._repr_svg_() == svg_of(program)
    assert Program.empty()._repr_svg_() is None


# -- layout ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sideways", [False, True])
def test_boxes_do_not_overlap_and_edges_go_forward(sideways: bool) -> None:
    sizes = [(20.0 + 7 * (i % 5), 10.0 + 3 * (i % 3)) for i in range(60)]
    edges = [(i // 2, i) for i in range(1, 60)] + [(i, i + 7) for i in range(0, 50, 4)]
    layout = arrange(sizes, sorted(set(edges)), sideways=sideways)
    boxes = layout.boxes
    assert [(round(b.width, 6), round(b.height, 6)) for b in boxes] == sizes
    for i, a in enumerate(boxes):
        assert a.x >= 0
        assert a.x + a.width <= layout.width
        assert a.y >= 0
        assert a.y + a.height <= layout.height
        for b in boxes[i + 1 :]:
            apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
            assert apart
    for i, j in edges:
        a, b = boxes[i], boxes[j]
        assert a.x + a.width < b.x if sideways else a.y + a.height < b.y


def test_empty_graph() -> None:
    assert arrange([], []).boxes == ()

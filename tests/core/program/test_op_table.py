"""One table drives everything: registration, both verifiers, inference, purity, keys, execution, the reference page."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from ren.errors import ProgramVerifyError
from ren.plugin.registry import resolve
from ren.program import RenDialect, Row, RuleError, Value, build, encrypted, message, plaintext, rules, types
from ren.program.arguments import argument_type
from ren.program.dialect import (
    REN,
    TORCH,
    add_dialect,
    infer,
    is_dead,
    is_pure,
    problem_of,
    quick_verify,
    result_types,
    row_of,
    set_type,
)
from ren.program.layout import FULL, SCALAR, Layout, Padding, packed
from ren.program.op_table import TABLE
from ren.program.rows import KINDS, no_keys
from ren.program.scales import SymbolicScale
from ren.testing.program_kit import ProgramBuilder
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

X = argument_type(encrypted())
W = argument_type(message())


def test_rows_are_consistent() -> None:
    names = [r.name for r in TABLE]
    assert len(names) == len(set(names))
    assert {cls.name for d in (REN, TORCH) for cls in d.operations} == set(names)
    for row in TABLE:
        assert row.summary.endswith("."), row.name
        assert all(v.kind in KINDS for v in (*row.operands, *row.results)), row.name
        assert row.stage in ("reference", "call", "semantic", "logical", "ckks"), row.name
        assert (row.handler is None) == (row.stage in ("semantic", "logical") or row.name == "ren.ckks.bootstrap"), (
            row.name
        )
        assert row.obligations == () or row.stage == "ckks", row.name
        assert row.needs is no_keys or row.stage == "ckks", row.name
        assert len({a.name for a in row.attributes}) == len(row.attributes), row.name


def test_every_handler_exists_and_takes_operation_operands_machine() -> None:
    for row in TABLE:
        if row.handler is not None:
            assert len(inspect.signature(resolve(row.handler)).parameters) == 3, row.name


def test_the_documents_vocabulary_is_there() -> None:
    names = {r.name for r in TABLE}
    forms = ("encrypted_encrypted", "encrypted_public", "public_encrypted")
    expected = {f"ren.semantic.{n}" for n in ("add", "subtract", "multiply", "negate", "roll")}
    expected |= {f"ren.logical.{n}.{f}" for n in ("add", "subtract", "multiply") for f in forms}
    expected |= {
        "ren.logical.negate.encrypted",
        "ren.logical.roll.encrypted",
        "ren.material.ref",
        "ren.resource.ref",
        "ren.constant",
        "torch.call",
    }
    expected |= {f"ren.ckks.prepare.{u}.{s}" for u in ("add", "multiply") for s in ("message", "plaintext", "static")}
    expected |= {
        f"ren.ckks.{n}"
        for n in (
            "negate",
            "to_ntt",
            "from_ntt",
            "relinearize",
            "rotate",
            "add",
            "subtract",
            "multiply",
            "add_plaintext",
            "multiply_plaintext",
            "rescale",
        )
    }
    # and what the peer lacks
    expected |= {
        f"ren.ckks.{n}"
        for n in (
            "mod_switch",
            "reinterpret_scale",
            "conjugate",
            "square",
            "rotate_group",
            "sum_slots",
            "encode",
            "bootstrap",
        )
    }
    assert expected <= names


def test_both_verifiers_refuse_the_same_operations() -> None:
    block = Block(arg_types=[X, W, argument_type(encrypted(level=1))])
    x, w, deep = block.args
    scale = {"value": build("ren.constant", [], {"value": 1.5}).properties["value"]}
    cases: list[tuple[str, list[Any], list[Any], dict[str, Any]]] = [
        ("ren.ckks.add", [x], [X], {}),
        ("ren.ckks.add", [x, w], [X], {}),
        ("ren.ckks.add", [x, deep], [types.encrypted(level=1)], {}),
        ("ren.ckks.add", [x, x], [types.encrypted(level=3)], {}),
        ("ren.ckks.add", [x, x], [W], {}),
        ("ren.ckks.add", [x, x], [X, X], {}),
        ("ren.ckks.rotate", [x], [X], {}),
        ("ren.ckks.rotate", [x], [X], {"shift": scale["value"]}),
        (
            "ren.ckks.rotate_group",
            [x],
            [X],
            {"shifts": build("ren.ckks.rotate_group", [x], {"shifts": [1, 2]}).properties["shifts"]},
        ),
        ("ren.constant", [], [W], {}),
        ("ren.constant", [], [W], {**scale, "more": scale["value"]}),
    ]
    classes = {cls.name: cls for cls in REN.operations}
    for name, operands, results, properties in cases:
        op = classes[name].create(operands=operands, result_types=results, properties=properties)
        with pytest.raises(VerifyException):
            op.verify()
        with pytest.raises(ProgramVerifyError, match=name):
            quick_verify(op)
    good = classes["ren.ckks.add"].create(operands=[x, x], result_types=[types.encrypted(level=0)])
    good.verify()
    quick_verify(good)
    # Operands that a pass has yet to bring together: readiness refuses them.
    owed = classes["ren.ckks.add"].create(operands=[x, deep], result_types=[types.encrypted()])
    owed.verify()
    quick_verify(owed)


def test_build_checks_names_and_attributes() -> None:
    block = Block(arg_types=[X])
    with pytest.raises(ProgramVerifyError, match="no operation is called"):
        build("ren.ckks.nothing", block.args)
    with pytest.raises(ProgramVerifyError, match="has no attribute 'steps'"):
        build("ren.ckks.rotate", block.args, {"steps": 3})
    with pytest.raises(ProgramVerifyError, match="give result_types"):
        build("ren.material.ref", [], {"symbol": "w"})
    with pytest.raises(ProgramVerifyError, match="needs a dotted name"):
        build("ren.ckks.negate", block.args, extra={"plain": 1})
    with pytest.raises(ProgramVerifyError, match="'levels' must be an integer >= 1"):
        build("ren.ckks.mod_switch", block.args, {"levels": 0}, verify=True)
    named = build("ren.ckks.negate", block.args, hint="y")
    assert named.results[0].name_hint == "y"
    assert result_types("ren.ckks.negate", [X]) == (X,)


def state(**fields: Any) -> Any:
    base: dict[str, Any] = {
        "level": 0,
        "scale": SymbolicScale.at_level(0),
        "layout": FULL,
        "parts": 2,
        "domain": "ntt",
        "batch": "none",
    }
    return types.encrypted(**{**base, **fields})


S1, S2 = SymbolicScale.at_level(1), SymbolicScale.at_level(2)
RESULTS = [
    ("ren.ckks.multiply", 2, {}, {}, {"scale": SymbolicScale.at_level(0) ** 2, "parts": 3}),
    ("ren.ckks.square", 1, {"level": 2, "scale": S2}, {}, {"level": 2, "scale": S2**2, "parts": 3}),
    ("ren.ckks.relinearize", 1, {"parts": 3}, {}, {"parts": 2}),
    ("ren.ckks.rescale", 1, {"level": 1, "scale": S1**2}, {}, {"level": 2, "scale": S2}),
    ("ren.ckks.rescale", 1, {"level": None}, {}, {"level": None, "scale": None}),
    ("ren.ckks.mod_switch", 1, {}, {"levels": 3}, {"level": 3}),
    ("ren.ckks.align", 1, {}, {"level": 2}, {"level": 2, "scale": S2}),
    ("ren.ckks.reinterpret_scale", 1, {"bound": 1.0}, {"scale": S1}, {"scale": S1}),
    ("ren.ckks.rotate", 1, {"layout": packed((3,))}, {"shift": 1}, {"layout": Layout((4,), 4)}),
    ("ren.ckks.rotate", 1, {"layout": packed((4,))}, {"shift": 1}, {"layout": packed((4,))}),
    ("ren.ckks.sum_slots", 1, {"layout": packed((3,)), "bound": 2.0}, {}, {"layout": SCALAR, "bound": 6.0}),
    ("ren.ckks.sum_slots", 1, {}, {"count": 4}, {}),
    ("ren.ckks.polynomial", 1, {"bound": 2.0}, {"coefficients": [1.0, 0.0, -3.0]}, {"level": 2, "scale": S2, "bound": 13.0}),
    ("ren.ckks.add_scalar", 1, {"layout": packed((3,)), "bound": 1.0}, {"value": -2}, {"layout": packed((3,)).with_padding(Padding.ANY), "bound": 3.0}),
    ("ren.ckks.multiply_scalar", 1, {}, {"value": 0.5}, {"scale": SymbolicScale.at_level(0) ** 2}),
    ("ren.ckks.multiply_integer", 1, {"bound": 2.0}, {"value": -3}, {"bound": 6.0}),
    ("ren.ckks.bootstrap", 1, {"level": 5, "scale": None}, {"level": 1}, {"level": 1, "scale": S1, "domain": None}),
    ("ren.ckks.to_ntt", 1, {"domain": "coeff"}, {}, {"domain": "ntt"}),
    ("ren.ckks.from_ntt", 1, {}, {}, {"domain": "coeff"}),
    ("ren.ckks.add", 2, {"batch": "any", "bound": 1.0}, {}, {"batch": "any", "bound": 2.0}),
    ("ren.ckks.assume_bound", 1, {"bound": 9.0}, {"bound": 1.0}, {"bound": 1.0}),
    ("ren.ckks.relayout", 1, {"layout": packed((8,))}, {"layout": Layout((2, 4), 8)}, {"layout": Layout((2, 4), 8)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "count", "given", "attributes", "expected"), RESULTS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_state_rules(name: str, count: int, given: Any, attributes: Any, expected: Any) -> None:
    operand = state(**given)
    (found,) = result_types(name, [operand] * count, attributes)
    assert found == state(**{**given, "bound": None, **expected} if "bound" not in expected else {**given, **expected})


REFUSED = [
    ("ren.ckks.multiply", ({"parts": 3}, {}), {}, "unrelinearized-operand"),
    ("ren.ckks.rotate", ({"parts": 3},), {"shift": 1}, "unrelinearized-operand"),
    ("ren.ckks.sum_slots", ({"parts": 3},), {}, "unrelinearized-operand"),
    ("ren.ckks.conjugate", ({"parts": 3},), {}, "unrelinearized-operand"),
    ("ren.ckks.relinearize", ({"parts": 2},), {}, "invalid-state"),
    ("ren.ckks.multiply", ({"domain": "coeff"}, {}), {}, "domain-mismatch"),
    ("ren.ckks.add", ({}, {"level": 1}), {}, "level-mismatch"),
    ("ren.ckks.add", ({}, {"scale": S1}), {}, "scale-mismatch"),
    ("ren.ckks.add", ({"layout": packed((4,))}, {"layout": packed((3,))}), {}, "invalid-layout"),
    ("ren.ckks.align", ({"level": 3},), {"level": 2}, "level-mismatch"),
    ("ren.ckks.align", ({"level": 2, "scale": S1},), {"level": 2}, "scale-mismatch"),
    ("ren.ckks.sum_slots", ({"layout": None},), {}, "invalid-layout"),
    ("ren.ckks.sum_slots", ({},), {"count": 3}, "invalid-layout"),
    ("ren.ckks.sum_slots", ({"layout": packed((3,)).with_padding(Padding.ANY)},), {}, "polluted-padding"),
    ("ren.ckks.polynomial", ({},), {"coefficients": [1.0]}, "invalid-state"),
    ("ren.ckks.polynomial", ({"scale": S1},), {"coefficients": [1.0, 1.0]}, "scale-mismatch"),
    ("ren.ckks.relayout", ({"layout": packed((8,))},), {"layout": packed((4,))}, "invalid-layout"),
    ("ren.semantic.slice", ({"layout": packed((4,))},), {"start": 2, "stop": 5}, "invalid-layout"),
    ("ren.semantic.reshape", ({"layout": packed((4,))},), {"shape": [3]}, "invalid-layout"),
    ("ren.semantic.matmul", ({"layout": packed((4,))}, (3, 3)), {"form": "linear"}, "invalid-layout"),
    ("ren.semantic.add", ({"layout": packed((4,))}, (3,)), {}, "invalid-layout"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "operands", "attributes", "code"), REFUSED, ids=lambda v: v if isinstance(v, str) else ""
)
def test_rules_refuse_with_a_code(name: str, operands: Any, attributes: Any, code: str) -> None:
    given = [state(**o) if isinstance(o, dict) else types.message(o) for o in operands]
    with pytest.raises(RuleError) as caught:
        result_types(name, given, attributes)
    assert caught.value.code == code
    assert str(caught.value)


LAYOUTS = [
    ("ren.semantic.add", packed((4,)), (4,), {}, packed((4,))),
    ("ren.semantic.multiply", packed((3,)).with_padding(Padding.ANY), (3,), {}, packed((3,))),
    ("ren.semantic.add", packed((3,)).with_padding(Padding.ANY), (3,), {}, packed((3,)).with_padding(Padding.ANY)),
    ("ren.semantic.multiply", packed((3,)), (2, 3), {}, packed((3,))),
    ("ren.semantic.multiply", SCALAR, (5,), {}, packed((5,))),
    ("ren.semantic.multiply", SCALAR, (), {}, SCALAR),
    ("ren.semantic.multiply", SCALAR, None, {}, None),
    ("ren.semantic.multiply", FULL, (8192,), {}, FULL),
    ("ren.semantic.matmul", packed((2,)), (3, 2), {"form": "linear"}, packed((3,))),
    ("ren.semantic.matmul", packed((5,)), (5, 2), {"form": "right"}, Layout((2,), 8, Padding.ZERO)),
    ("ren.semantic.matmul", packed((5,)), (5,), {"form": "right"}, SCALAR),
]


@pytest.mark.parametrize(("name", "layout", "shape", "attributes", "expected"), LAYOUTS)
def test_semantic_layouts_with_public_data(name: str, layout: Any, shape: Any, attributes: Any, expected: Any) -> None:
    (found,) = result_types(name, [types.encrypted(layout=layout), types.message(shape)], attributes)
    assert found.data.layout == expected  # type: ignore[attr-defined]


def test_semantic_layouts_of_one_value() -> None:
    def layout(name: str, given: Layout, **attributes: Any) -> Any:
        (found,) = result_types(name, [types.encrypted(layout=given, bound=1.0)], attributes)
        return found.data.layout, found.data.bound  # type: ignore[attr-defined]

    assert layout("ren.semantic.sum", packed((3,))) == (SCALAR, 3.0)
    assert layout("ren.semantic.sum", packed((3,)), dimension=-1, keepdim=1) == (Layout((1,), 1), 3.0)
    assert layout("ren.semantic.sum", FULL) == (SCALAR, None)
    assert layout("ren.semantic.mean", packed((3,))) == (SCALAR, 1.0)
    assert layout("ren.semantic.slice", packed((8,)), start=2, stop=5) == (Layout((3,), 8, Padding.ANY), 1.0)
    assert layout("ren.semantic.slice", packed((8,)), start=2, stop=3, drop=1) == (Layout((), 8, Padding.ANY), 1.0)
    assert layout("ren.semantic.reshape", packed((8,)), shape=[2, 4]) == (Layout((2, 4), 8), 1.0)
    assert layout("ren.semantic.roll", packed((3,)).with_padding(Padding.ANY), shift=1) == (packed((3,)), 1.0)
    assert layout("ren.semantic.power", packed((3,)), exponent=3)[0] == packed((3,))


def test_rules_do_not_hold_on_to_states_that_inference_changes() -> None:
    b = ProgramBuilder(x=encrypted())
    y = b("ren.ckks.negate", b["x"])
    program = b.program(y)
    op = program.entry_block().first_op
    assert op is not None
    assert not infer(op)
    set_type(program.entry_block().args[0], argument_type(encrypted(level=3)))
    assert infer(op)
    assert op.results[0].type.data.level == 3  # type: ignore[attr-defined]


def test_purity_and_death() -> None:
    b = ProgramBuilder(x=encrypted())
    used = b("ren.ckks.negate", b["x"])
    dead = b("ren.ckks.negate", used)
    call = b("torch.call", types=[types.message()], **{"ren.call.kind": "function", "ren.call.target": "t.f"})
    unused_resource = b("ren.resource.ref", types=[types.message()], symbol="r")
    assert is_dead(dead.owner)
    assert not is_dead(used.owner)
    assert not is_pure(call.owner)  # J21: what may have an effect stays
    assert not is_dead(unused_resource.owner)
    from ren.program import parse
    from ren.testing.program_kit import main_text

    (unknown, _) = parse(main_text("", '    %0 = "app.op"() : () -> i32')).entry_block().ops
    assert not is_pure(unknown)
    assert row_of(unknown) is None
    assert problem_of(unknown) is None


def test_a_dialect_of_somebody_else() -> None:
    row = Row(
        name="ours_test.twice",
        summary="x + x.",
        stage="ckks",
        operands=(Value("source", "encrypted"),),
        rule=rules.keep,
        cost="pointwise",
    )
    with pytest.raises(ProgramVerifyError, match="cannot define"):
        RenDialect("other", (row,))
    dialect = RenDialect("ours_test", (row,))
    add_dialect(dialect)
    add_dialect(dialect)
    with pytest.raises(ProgramVerifyError, match="defined already"):
        add_dialect(RenDialect("ours_test", (Row(name="ours_test.twice", summary="else.", stage="ckks"),)))
    block = Block(arg_types=[X])
    op = build("ours_test.twice", block.args)
    assert op.results[0].type == X
    op.verify()
    with pytest.raises(ProgramVerifyError):
        quick_verify(type(op).create(operands=(), result_types=(X,)))


def test_plaintexts_of_a_caller_are_at_the_deeper_level() -> None:
    given = types.plaintext(level=3, scale=S1)
    block = Block(arg_types=[state(), given, argument_type(plaintext())])
    attributes = {"operation": "multiply", "source_role": "plaintext", "scale_mode": "runtime_plaintext_scale"}
    for source, level, scale in ((1, 3, S1), (2, None, None)):
        p = build("ren.ckks.prepare.multiply.plaintext", [block.args[source], block.args[0]], attributes)
        data = p.results[0].type.data  # type: ignore[attr-defined]
        assert (data.level, data.scale, data.use) == (level, scale, "multiply")
        y = build("ren.ckks.multiply_plaintext", [block.args[0], p.results[0]])
        assert y.results[0].type.data.level == level  # type: ignore[attr-defined]

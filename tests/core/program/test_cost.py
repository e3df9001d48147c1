"""The cost of programs: exact counts, attribution to operations, keys, memory, and what has no cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.engine import plan_cache
from ren.engine.cost import transforms_of, work_of
from ren.errors import PassError, ProgramCostError, ProgramNotReadyError, UnsupportedOperandError
from ren.program import Program, encrypted, message, plaintext, types
from ren.schemes import ckks
from ren.testing.program_kit import ProgramBuilder, workspace_for

PARAMS = ckks.CKKSParams.python_test()
S = PARAMS.slot_count


def lower(program: Program) -> Program:
    return jit.default_pipeline().run(program).program


def build(make: Any, **inputs: Any) -> Program:
    b = ProgramBuilder(**(inputs or {"x": encrypted(), "y": encrypted()}))
    out = make(b)
    return lower(b.program(*(out if isinstance(out, tuple) else (out,))))


def matvec() -> Program:
    """The document's example: eight diagonals, a quadratic, a gain."""

    def make(b: Any) -> Any:
        x, total = b["x"], None
        for r in range(8):
            rolled = x if r == 0 else b("ren.semantic.roll", x, shift=r)
            term = b("ren.semantic.multiply", rolled, b["w"])
            total = term if total is None else b("ren.semantic.add", total, term)
        total = b("ren.semantic.add", total, b["v"])
        quadratic = b(
            "ren.semantic.multiply",
            b("ren.semantic.add", total, b.constant(0.25)),
            b("ren.semantic.subtract", total, b.constant(0.5)),
        )
        return b("ren.semantic.multiply", quadratic, b["gain"])

    return build(make, x=encrypted(), w=message(), v=message(), gain=plaintext())


CASES: dict[str, Any] = {
    "product": lambda b: b("ren.semantic.multiply", b["x"], b["y"]),
    "sum of products": lambda b: b(
        "ren.semantic.add",
        b("ren.semantic.multiply", b["x"], b["y"]),
        b("ren.semantic.multiply", b("ren.semantic.roll", b["x"], shift=3), b["y"]),
    ),
    "polynomial": lambda b: b("ren.semantic.polynomial", b["x"], coefficients=[0.5, -1.0, 0.25, 2.0]),
    "slot sum": lambda b: b("ren.semantic.sum", b("ren.semantic.multiply", b["x"], b["y"])),
    "scalar and two results": lambda b: (
        b("ren.semantic.multiply", b["x"], b.constant(0.3)),
        b("ren.semantic.add", b["x"], b["y"]),
    ),
}


def test_the_example_takes_one_relinearization_one_hoisted_group_of_seven_and_three_rescales() -> None:
    cost = matvec().cost(PARAMS, device="reference")
    by_name: dict[str, list[Any]] = {}
    for row in cost.rows:
        by_name.setdefault(row.name, []).append(row)
    (group,) = by_name["ren.ckks.rotate_group"]
    assert (group.key_switches, group.decompositions) == (7, 1)
    (relinearization,) = by_name["ren.ckks.relinearize"]
    assert (relinearization.key_switches, relinearization.decompositions, relinearization.rescales) == (1, 1, 0)
    assert [r.rescales for r in by_name["ren.ckks.rescale"]] == [1, 1, 1]
    total = cost.total
    assert (total.key_switches, total.decompositions, total.rescales) == (8, 2, 3)
    assert total.keys == ("relinearization", *(f"rotation by {i}" for i in range(1, 8)))
    assert total.key_bytes == 8 * PARAMS.evaluation_key_bytes()


@pytest.mark.parametrize("name", CASES)
def test_counts_are_those_of_the_plan_that_runs(name: str, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The units of the report are the units that a run with keys and data executes, in order, on slots of the same sizes."""
    program = build(CASES[name])
    cost = program.cost(engine)
    plans: list[Any] = []
    made = plan_cache.build_plan

    def remembered(key: Any, backend: Any) -> Any:
        plans.append(made(key, backend))
        return plans[-1]

    space = workspace_for(program, engine)
    given = [engine.encrypt(engine.encode(np.linspace(-1, 1, S) * f)) for f in (1.0, 0.5)]
    plan_cache.PLANS.clear()
    monkeypatch.setattr(plan_cache, "build_plan", remembered)
    program.run(*given, workspace=space)
    whole = plans[-1]  # those before encoded constants
    assert [(u.kernel, u.ring, u.params) for u in cost.units] == [(u.kernel, u.ring, u.params) for u in whole.units]
    assert cost.total.transforms == sum(transforms_of(work_of(u)) for u in whole.units)
    assert cost.total.temporary_bytes == 8 * whole.arena_words
    assert cost.total.key_bytes == sum(k.nbytes for k in space["evaluation_keys"].members()) if space["evaluation_keys"] else True  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_add_up_to_the_total(name: str) -> None:
    cost = build(CASES[name]).cost(PARAMS, device="cpu")
    assert cost.total.seconds is not None
    rows = sum(r.seconds or 0 for r in cost.rows)
    assert 0 < rows <= cost.total.seconds < rows + 1e-3, "all but what starting a replay takes"
    for field in ("key_switches", "decompositions", "transforms", "rescales"):
        assert getattr(cost.total, field) == sum(getattr(r, field) for r in cost.rows)


def test_work_that_another_operation_did_already_is_free() -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted())
    first, second = b.product(b["x"], b["y"]), b.product(b["x"], b["y"])
    program = b.program(b("ren.ckks.add", first, second))
    rows = [r for r in program.cost(PARAMS, device="reference").rows if r.name == "ren.ckks.relinearize"]
    assert [r.key_switches for r in rows] == [1, 0]


def test_a_product_rescaled_before_it_is_relinearized_is_rescaled_once() -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted())
    product = b("ren.ckks.multiply", b("ren.ckks.to_ntt", b["x"]), b("ren.ckks.to_ntt", b["y"]))
    cost = b.program(b("ren.ckks.relinearize", b("ren.ckks.rescale", product))).cost(PARAMS, device="reference")
    assert (cost.total.rescales, cost.total.key_switches) == (1, 1)


def test_the_table_in_text_and_html() -> None:
    cost = matvec().cost(PARAMS, device="cpu")
    text, html = str(cost), cost._repr_html_()
    for words in ("ckks.rotate_group", "total", "rotation by 7", "NTT rows", "2^-", "time: "):
        assert words in text and words in html
    group = next(r for r in cost.rows if r.key_switches == 7)
    assert cost.row(group.operation) is group
    assert text.splitlines()[1].split()[:3] == ["operation", "location", "level"]


def test_parameters_by_name_object_or_engine(engine: Any) -> None:
    program = build(CASES["product"])
    found = [program.cost(p, device="reference").total for p in ("python-test", PARAMS, engine)]
    assert found[0] == found[1] == found[2]
    assert program.cost(engine).device == "reference", "the engine's own device"
    with pytest.raises(UnsupportedOperandError, match="CKKSParams"):
        program.cost(3)


def test_a_program_that_computes_nothing_costs_nothing() -> None:
    b = ProgramBuilder(x=encrypted())
    total = b.program(b["x"]).cost(PARAMS, device="reference").total
    assert (total.units, total.transforms, total.key_bytes) == (0, 0, 0)


def test_what_is_not_ready_has_no_cost_and_says_why() -> None:
    b = ProgramBuilder(x=encrypted())
    semantic = b.program(b("ren.semantic.square", b["x"]))
    with pytest.raises(ProgramNotReadyError, match=r"(?s)cannot be predicted.*default_pipeline"):
        semantic.cost(PARAMS, device="reference")
    with pytest.raises(ProgramNotReadyError, match="level"):
        deep = ProgramBuilder(x=encrypted())
        x: Any = deep["x"]
        for _ in range(7):
            x = deep("ren.semantic.square", x)
        lower(deep.program(x)).cost(PARAMS, device="reference")


EXTENSION = """builtin.module {
  func.func @main(%x : !ren.encrypted<level=0>) -> !ren.encrypted<level=0> {
    %y = "other.op"(%x) : (!ren.encrypted<level=0>) -> !ren.encrypted<level=0>
    func.return %y : !ren.encrypted<level=0>
  }
}"""


def test_extension_handlers_build_their_part_of_the_graph() -> None:
    program = jit.parse(EXTENSION)
    with pytest.raises(ProgramNotReadyError, match=r"nothing executes other\.op"):
        program.cost(PARAMS, device="reference")

    def lazy(op: Any, operands: Any, workspace: Any) -> Any:
        (x,) = operands
        keys = workspace["evaluation_keys"]
        return workspace["engine"].rotate(x, 5, keys=keys) + x * 3

    cost = program.cost(PARAMS, workspace={"handlers": {"other.op": lazy}}, device="reference")
    assert cost.total.key_switches == 1 and cost.total.keys == ("rotation by 5",)

    def eager(op: Any, operands: Any, workspace: Any) -> Any:
        return operands[0].realize()

    def computing(op: Any, operands: Any, workspace: Any) -> Any:
        return (operands[0] + operands[0]).realize()

    assert program.cost(PARAMS, workspace={"handlers": {"other.op": eager}}, device="reference").total.units == 0
    with pytest.raises(ProgramCostError, match=r"other\.op.*failed on placeholders"):
        program.cost(PARAMS, workspace={"handlers": {"other.op": computing}}, device="reference")


def test_costs_before_and_after_each_pass() -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted())
    program = CASES["sum of products"](b)
    pipeline = jit.default_pipeline()
    result = pipeline.run(b.program(program), cost=PARAMS)
    assert len(result.costs) == len(pipeline) + 1
    assert result.costs[0] is None, "not lowered yet"
    after = dict(zip(pipeline.names, result.costs[1:], strict=True))
    late, before = after["late-rescale"], after["align-levels"]
    assert before is not None and late is not None
    assert (before.total.rescales, late.total.rescales) == (2, 1)
    relinearized = after["late-relinearization"]
    assert relinearized is not None and relinearized.total.key_switches == late.total.key_switches - 1
    table = result.cost_table().splitlines()
    assert len(table) == len(pipeline) + 2 and table[1].startswith("(before)") and "not lowered yet" in table[1]
    with pytest.raises(PassError, match="cost=params"):
        pipeline.run(result.program).cost_table()


def test_nothing_is_computed_and_no_key_is_made(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ren.backend.reference import ReferenceBackend

    program = build(CASES["polynomial"])
    held = engine.keys.nbytes

    def refuse(*args: Any) -> Any:
        raise AssertionError("computed")

    monkeypatch.setattr(ReferenceBackend, "compile", refuse)
    monkeypatch.setattr(ReferenceBackend, "alloc", refuse)
    assert program.cost(engine).total.key_switches == 2
    assert engine.keys.nbytes == held


def test_public_data_of_unknown_shape_and_plaintexts_of_unknown_level_are_placeholders() -> None:
    program = build(
        lambda b: b("ren.semantic.add", b("ren.semantic.multiply", b["x"], b["p"]), b["m"]),
        x=encrypted(),
        p=plaintext(),
        m=types.message(None, None),
    )
    cost = program.cost(PARAMS, device="reference")
    assert cost.total.encoded == 1 and cost.rows[-1].level == 1

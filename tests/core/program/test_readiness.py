"""Readiness: every code by a program that earns it, all of them in one report, and nothing touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren import errors
from ren.errors import PassError, ProgramNotReadyError
from ren.program import (
    Workspace,
    analyze_evaluation_key_requirements,
    analyze_value_states,
    build,
    check_readiness,
    encrypted,
    location,
    message,
    parse,
    plaintext,
    types,
    validate_executable_graph,
)
from ren.program.diagnostics import CODES
from ren.program.dialect import OBLIGATIONS_ATTRIBUTE
from ren.program.entry import INPUT_NAMES
from ren.program.layout import FULL, Layout, Padding
from ren.program.scales import SymbolicScale
from ren.schemes import ckks
from ren.testing.program_kit import ProgramBuilder, function_text, main_text, module_text, workspace_for

Case = Callable[[Any], tuple[Any, Any]]
CASES: dict[str, Case] = {}
S0 = SymbolicScale.at_level(0)


def case(code: str) -> Callable[[Case], Case]:
    """The decorated function gives a program and a workspace whose report contains `code`."""

    def add(function: Case) -> Case:
        CASES[code] = function
        return function

    return add


def negate() -> Any:
    b = ProgramBuilder(x=encrypted())
    return b.program(b("ren.ckks.negate", b["x"]))


def state(level: int = 0, **more: Any) -> Any:
    return types.encrypted(level=level, scale=SymbolicScale.at_level(level), layout=FULL, **more)


@case("malformed-workspace-binding")
def _(engine: Any) -> Any:
    return negate(), {"engine": engine, "materials": [1]}


@case("missing-material")
def _(engine: Any) -> Any:
    return parse(main_text("", '    %0 = "ren.material.ref"() <{symbol = "w"}> : () -> !ren.message')), {}


@case("missing-resource")
def _(engine: Any) -> Any:
    return parse(main_text("", '    %0 = "ren.resource.ref"() <{symbol = "w"}> : () -> !ren.resource')), {
        "resources": {"v": 1}
    }


@case("missing-engine")
def _(engine: Any) -> Any:
    return negate(), {"engine": "an engine"}


@case("missing-evaluation-keys")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted())
    return b.program(b("ren.ckks.conjugate", b["x"])), {"engine": engine, "evaluation_keys": {}}


@case("incomplete-evaluation-keys")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.rotate", b["x"], shift=3))
    keys = ckks.EvaluationKeySet(rotations=engine.rotation_keys([1, 2, 4]))
    return program, {"engine": engine, "evaluation_keys": keys}


@case("incompatible-evaluation-keys")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.rotate", b["x"], shift=3))
    other = ckks.Engine("python-test", device="reference")
    return program, {"engine": engine, "evaluation_keys": ckks.EvaluationKeySet(rotations=other.rotation_keys([3]))}


@case("incompatible-public-key")
def _(engine: Any) -> Any:
    return negate(), {"engine": engine, "public_key": ckks.Engine("python-test", device="reference").public_key}


@case("unversioned-program")
def _(engine: Any) -> Any:
    return parse(main_text("", "", attributes="")), {}


@case("unsupported-program-version")
def _(engine: Any) -> Any:
    return parse(main_text("", "", attributes='attributes {ren.schema_version = "2", ren.dialect_version = "0.1"}')), {}


@case("invalid-executable-graph")
def _(engine: Any) -> Any:
    program = negate()
    op = program.entry_block().first_op
    op.properties["shift"] = op.parent_op().properties["sym_name"]  # type: ignore[union-attr]
    return program, {"engine": engine}


@case("missing-entry")
def _(engine: Any) -> Any:
    return parse(module_text(function_text("", "", name="other"))), {}


@case("malformed-reference")
def _(engine: Any) -> Any:
    return parse(main_text("", '    %0 = "torch.call"() <{ren.call.kind = "function"}> : () -> !ren.message')), {}


@case("malformed-input")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=types.encrypted(parts=3))
    return b.program(b["x"], attributes={INPUT_NAMES: ["a", "b"]}), {"engine": engine}


@case("missing-handler")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted(), y=encrypted())
    return b.program(b("ren.semantic.multiply", b["x"], b["y"])), {"engine": engine}


@case("missing-torch-handler")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted())
    call = b("torch.call", b["x"], types=[state()], **{"ren.call.kind": "method", "ren.call.target": "clear"})
    return b.program(call), {"engine": engine}


@case("pending-obligation")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted())
    y = b("ren.ckks.square", b("ren.ckks.to_ntt", b["x"]), extra={OBLIGATIONS_ATTRIBUTE: ["relinearize", "rescale"]})
    return b.program(y), {"engine": engine}


@case("level-exhausted")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted())
    x = b["x"]
    for _ in range(7):
        x = b.product(x, x)
    return b.program(x), None


def unchecked(*values: Any, name: str = "ren.ckks.add", **attributes: Any) -> Any:
    """A program whose types are too vague for the verifier to see the fault: only inference does."""
    b = ProgramBuilder(**{f"a{i}": v for i, v in enumerate(values)})
    hidden = []
    for i in range(len(values)):
        kept = build("ren.ckks.negate", [b[f"a{i}"]], result_types=[types.encrypted()])
        b.block.add_op(kept)
        hidden.append(kept.results[0])
    op = build(name, hidden, attributes, result_types=[types.encrypted()], loc=location("user.py", 42))
    b.block.add_op(op)
    return b.program(op.results[0])


@case("level-mismatch")
def _(engine: Any) -> Any:
    return unchecked(encrypted(), encrypted(level=1)), {"engine": engine}


@case("scale-mismatch")
def _(engine: Any) -> Any:
    return unchecked(encrypted(), encrypted(scale=2.0**41)), {"engine": engine}


@case("invalid-layout")
def _(engine: Any) -> Any:
    return unchecked(encrypted(slots=4), encrypted(slots=3)), {"engine": engine}


@case("polluted-padding")
def _(engine: Any) -> Any:
    polluted = types.encrypted(level=0, scale=S0, layout=Layout((3,), 4, Padding.ANY), parts=2)
    return unchecked(polluted, name="ren.ckks.sum_slots", count=4), {"engine": engine}


@case("unrelinearized-operand")
def _(engine: Any) -> Any:
    """B22: rotate a product that nobody relinearized."""
    b = ProgramBuilder(x=encrypted())
    y = build("ren.ckks.square", [b("ren.ckks.to_ntt", b["x"])], result_types=[types.encrypted()])
    b.block.add_op(y)
    r = build("ren.ckks.rotate", y.results, {"shift": 1}, result_types=[types.encrypted()], loc=location("user.py", 9))
    b.block.add_op(r)
    return b.program(r.results[0]), None


@case("domain-mismatch")
def _(engine: Any) -> Any:
    return unchecked(encrypted(), encrypted(), name="ren.ckks.multiply"), {"engine": engine}


@case("invalid-state")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted())
    vague = build("ren.ckks.negate", [b["x"]], result_types=[types.encrypted()])
    b.block.add_op(vague)
    wrong = build("ren.ckks.rescale", vague.results, result_types=[types.encrypted(level=3)])
    b.block.add_op(wrong)
    return b.program(wrong.results[0]), {"engine": engine}


@case("invalid-operand")
def _(engine: Any) -> Any:
    # The verifier refuses it at once, so it is edited in behind its back.
    b = ProgramBuilder(x=encrypted(), w=message(), v=message())
    good = b("ren.semantic.add", b["x"], b["w"])
    program = b.program(good)
    good.owner.operands = [b["v"], b["w"]]
    return program, {"engine": engine}


@case("over-capacity")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted(level=6))
    y = b("ren.ckks.square", b("ren.ckks.to_ntt", b["x"]))
    return b.program(b("ren.ckks.relinearize", y)), None


@case("scale-too-small")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted())
    return b.program(b("ren.ckks.rescale", b["x"])), {"engine": engine}


@case("possible-overflow")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted(level=5, bound=2.0**46))
    y = b["x"]
    for _ in range(4):
        y = b("ren.ckks.add", y, y)
    return b.program(y), None


@case("unchecked-result")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted(level=6))
    return b.program(b("ren.ckks.add", b["x"], b["x"])), None


@case("undefined-state")
def _(engine: Any) -> Any:
    b = ProgramBuilder(x=encrypted(), g=plaintext())
    return b.program(b.times(b["x"], b["g"])), None


#: Found only when a program is called; tests/core/program/test_run.py.
AT_CALL = {"missing-public-key"}


@pytest.mark.parametrize("code", [c for c in CODES if c not in AT_CALL])
def test_code(engine: Any, code: str) -> None:
    program, space = CASES[code](engine)
    if space is None:
        space = workspace_for(program, engine)
    before, keys = program.to_text() if code not in ("invalid-executable-graph", "invalid-operand") else "", set(space)
    report = check_readiness(program, space)
    found = [d for d in report.diagnostics if d.code == code]
    assert found, str(report)
    severity, _ = CODES[code]
    assert {d.severity for d in found} == {severity}
    assert all(d.message and d.subject for d in found)
    assert report.runnable == (not report.errors)
    if severity == "error":
        assert code in report.codes
        with pytest.raises(ProgramNotReadyError) as caught:
            program.run(
                *[None] * len(program.entry_block().args)
                if program.functions and report.requirements.return_count is not None
                else [],
                workspace=space,
            )
        assert caught.value.report.codes >= {code}
    else:
        assert report.runnable
    assert set(space) == keys
    if before:
        assert program.to_text() == before


def test_every_code_has_a_case() -> None:
    assert set(CASES) | AT_CALL == set(CODES)


def test_all_problems_in_one_report_with_file_and_line(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted(level=1))
    m = b("ren.material.ref", types=[types.message()], symbol="w", loc=location("a.py", 1))
    first = build("ren.ckks.negate", [b["x"]], result_types=[types.encrypted()])
    second = build("ren.ckks.negate", [b["y"]], result_types=[types.encrypted()])
    for op in (first, second):
        b.block.add_op(op)
    total = build(
        "ren.ckks.add", [first.results[0], second.results[0]], result_types=[types.encrypted()], loc=location("a.py", 2)
    )
    b.block.add_op(total)
    rolled = b("ren.ckks.rotate", total.results[0], shift=5, types=[types.encrypted()], loc=location("a.py", 3))
    s = b("ren.semantic.square", rolled, types=[types.encrypted()], loc=location("a.py", 4))
    kept = b(
        "torch.call",
        m,
        types=[types.message()],
        loc=location("a.py", 5),
        **{"ren.call.kind": "function", "ren.call.target": "torch.nope"},
    )
    report = b.program(s, kept).readiness(Workspace(engine=engine))
    assert report.codes == {
        "missing-material",
        "level-mismatch",
        "missing-handler",
        "missing-torch-handler",
        "missing-evaluation-keys",
    }
    lines = {d.code: (d.file, d.line) for d in report.errors if d.line}
    assert lines == {
        "level-mismatch": ("a.py", 2),
        "missing-handler": ("a.py", 4),
        "missing-torch-handler": ("a.py", 5),
    }
    text = str(report)
    assert text.startswith("not runnable, 5 problems")
    assert "a.py:2: error [level-mismatch] ren.ckks.add: levels differ: 0 and 1" in text


def test_j28_rotation_needs() -> None:
    body = '    %0 = "ren.ckks.rotate"(%x) <{shift = 3 : i64}> : (!ren.encrypted) -> !ren.encrypted'
    program = parse(parse(main_text("%x: !ren.encrypted", body, "%0 : !ren.encrypted")).to_text())
    needed = program.requirements()
    assert needed.rotation_steps == {3}
    assert needed.requires_engine
    assert program.readiness().codes == {"missing-engine", "missing-evaluation-keys"}


def test_j20_the_validator_wants_a_handler() -> None:
    program = parse(main_text("", '    %0 = "app.x"() : () -> !ren.message'))
    with pytest.raises(PassError, match=r"app\.x"):
        validate_executable_graph(program)
    validate_executable_graph(program, handled_operations=("app.x",))
    call = parse(
        main_text(
            "", '    %0 = "torch.call"() <{ren.call.kind = "function", ren.call.target = "a.b"}> : () -> !ren.message'
        )
    )
    with pytest.raises(PassError, match=r"a\.b"):
        validate_executable_graph(call)
    validate_executable_graph(call, handled_torch_targets=("a.b",))


def test_j31_an_unreachable_function_does_not_matter() -> None:
    other = function_text("%x: !ren.encrypted", '    "app.unknown"() : () -> ()', name="other")
    program = parse(module_text(function_text("%n: !ren.message", "", "%n : !ren.message") + "\n" + other))
    assert program.readiness().runnable
    assert program.run(1) == 1
    assert program.readiness(entry="other").codes == {"missing-handler", "missing-engine"}


def test_j35_a_method_that_is_not_listed(engine: Any) -> None:
    program, space = CASES["missing-torch-handler"](engine)
    (finding,) = program.readiness(space).errors
    assert finding.subject == "clear"


def test_level_declared_beyond_the_chain(engine: Any) -> None:
    """`encrypted(level=9)` on a 6-level engine; the peer called it runnable."""
    b = ProgramBuilder(x=encrypted(level=9))
    report = b.program(b("ren.ckks.negate", b["x"])).readiness(Workspace(engine=engine))
    assert report.codes == {"level-exhausted"}
    assert report.errors[0].subject == "x"


def test_levels_run_out_where_it_happens(engine: Any) -> None:
    program, _ = CASES["level-exhausted"](engine)
    found = program.readiness(workspace_for(program, engine)).errors
    assert [d.code for d in found] == ["level-exhausted"]
    assert "level 7" in found[0].message


def test_six_levels_are_enough_for_six_products(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(bound=1.0))
    x = b["x"]
    for _ in range(6):
        x = b.product(x, x)
    program = b.program(x)
    space = workspace_for(program, engine)
    assert program.readiness(space).runnable
    values = np.linspace(0.9, 1, 64)
    found = engine.decode(engine.decrypt(program.run(values, workspace=space)))
    np.testing.assert_allclose(found, values**64, atol=1e-6)


def test_slots_beyond_the_engine(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(slots=100))
    report = b.program(b("ren.ckks.negate", b["x"])).readiness(Workspace(engine=engine))
    assert report.codes == {"invalid-layout"}


def test_keys_made_for_deeper_levels(engine: Any) -> None:
    key = engine.generate_rotation_key(3, level=2)
    keys = ckks.EvaluationKeySet(rotations=ckks.RotationKeySet({3: key}))
    for level, codes in ((0, {"incomplete-evaluation-keys"}), (2, set()), (4, set())):
        b = ProgramBuilder(x=encrypted(level=level))
        program = b.program(b("ren.ckks.rotate", b["x"], shift=3))
        assert program.readiness({"engine": engine, "evaluation_keys": keys}).codes == codes


def test_strict_bounds_turn_warnings_into_errors(engine: Any) -> None:
    program, _ = CASES["possible-overflow"](engine)
    space = workspace_for(program, engine)
    assert program.readiness(space).runnable
    space["strict_bounds"] = True
    assert program.readiness(space).codes == {"possible-overflow"}


def test_a_public_engine_is_an_engine(engine: Any) -> None:
    assert negate().readiness(Workspace(engine=engine.public())).runnable


def test_value_states(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(bound=2.0), w=message())
    y = b.product(b["x"], b["x"])
    program = b.program(y)
    states = analyze_value_states(program)
    found = states[y]
    assert (found.role, found.level, found.scale, found.layout, found.parts, found.domain, found.bound) == (
        "encrypted", 1, SymbolicScale.at_level(1), FULL, 2, "ntt", 4.0,
    )  # fmt: skip
    assert states[b["w"]].role == "message"
    concrete = analyze_value_states(program, workspace=Workspace(engine=engine))
    assert concrete[y].layout == Layout((64,), 64)
    with pytest.raises(LookupError):
        analyze_value_states(program, entry="absent")


def test_an_edit_is_seen_although_analyses_are_remembered(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.rotate", b["x"], shift=3))
    space = workspace_for(program, engine)
    assert program.readiness(space).runnable
    assert program.readiness(space).flow is program.readiness(space).flow
    op = program.entry_block().first_op
    assert op is not None
    op.properties["shift"] = build("ren.ckks.rotate", [b["x"]], {"shift": 5}).properties["shift"]
    assert program.readiness(space).codes == {"incomplete-evaluation-keys"}
    del op.properties["shift"]
    assert program.readiness(space).codes == {"invalid-executable-graph"}
    space["evaluation_keys"] = None
    assert "missing-evaluation-keys" not in program.readiness(space).codes


def test_another_engine_is_another_analysis(engine: Any) -> None:
    small = ckks.Engine(ckks.CKKSParams.build(n=128, levels=1, scale_bits=40, toy=True), device="reference")
    b = ProgramBuilder(x=encrypted())
    program = b.program(b.product(b.product(b["x"], b["x"]), b.product(b["x"], b["x"])))
    assert program.readiness(workspace_for(program, engine)).runnable
    assert program.readiness(workspace_for(program, small)).codes == {"level-exhausted"}
    assert program.readiness(workspace_for(program, engine)).runnable


def test_results_at_the_last_level_without_a_bound_are_told(engine: Any) -> None:
    """2 x^2 - 1 six times: nothing is left to notice an overflow by, so what is promised decides."""
    for bound, promise, codes in (
        (None, None, {"unchecked-result"}),
        (1.0, None, {"unchecked-result", "possible-overflow"}),
        (1.0, 1.0, set()),
        (None, 300.0, {"unchecked-result"}),
        (None, "one", {"unchecked-result", "malformed-workspace-binding"}),
    ):
        b = ProgramBuilder(x=encrypted(bound=bound))
        x = b["x"]
        for _ in range(6):
            square = b.product(x, x)
            x = b("ren.ckks.add_scalar", b("ren.ckks.multiply_integer", square, value=2), value=-1)
        program = b.program(x)
        space = workspace_for(program, engine)
        if promise is not None:
            space["result_bound"] = promise
        found_codes = {d.code for d in program.readiness(space).diagnostics}
        assert found_codes - {"possible-overflow"} == codes - {"possible-overflow"}
        if codes:
            continue
        values = want = np.linspace(-1, 1, 64)
        for _ in range(6):
            want = 2 * want * want - 1
        with pytest.warns(match="possible-overflow"):
            found = program.run(values, workspace=space)
        np.testing.assert_allclose(engine.decode(engine.decrypt(found)), want, atol=4**6 * 2.0**-25)


@pytest.mark.parametrize("level", range(7))
@pytest.mark.parametrize("name", ["add_scalar", "multiply_scalar", "multiply_integer", "polynomial", "material"])
def test_public_numbers_are_judged_as_the_engine_judges_them(engine: Any, level: int, name: str) -> None:
    """At each level, from small numbers to numbers that no level holds: runnable means that it runs."""
    for size in (3.0, 300.0, 1e7, 1e15, 1e30, 1e60, 1e90):
        for bound in (None, 1.0):
            b = ProgramBuilder(x=encrypted(level=level, bound=bound))
            x, space = b["x"], {}
            if name == "material":
                w = b("ren.material.ref", types=[types.message()], symbol="w")
                y, space = b.times(x, w) if level < 6 else b.plus(x, w), {"materials": {"w": np.full(64, size)}}
            elif name == "polynomial":
                y = b("ren.ckks.polynomial", x, coefficients=[0.5, size])
            else:
                y = b(f"ren.ckks.{name}", x, value=int(size) if name == "multiply_integer" else size)
                if name == "multiply_scalar" and level < 6:
                    y = b("ren.ckks.rescale", y)
            program = b.program(y)
            space = {**workspace_for(program, engine), **space}
            report = program.readiness(space)
            if not report.runnable:
                assert report.codes <= {"over-capacity", "unchecked-result", "level-exhausted"}
                continue
            found = program.run(np.full(64, 0.5), workspace=space)
            want = (
                0.5 + size
                if name == "add_scalar" or (name == "material" and level == 6)
                else 0.5 * size + 0.5 * (name == "polynomial")
            )
            if any(d.code == "unchecked-result" for d in report.diagnostics):
                continue  # said before the run: the number may be wrong
            try:
                got = engine.decode(engine.decrypt(found))
            except errors.DecryptionError:
                continue
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)


def test_keys_for_what_was_analysed_without_an_engine(engine: Any) -> None:
    """Sums over all slots and steps beyond the slot count, known only once there is an engine."""
    b = ProgramBuilder(x=encrypted())
    y = b("ren.ckks.sum_slots", b["x"])
    for shift in (64, 65, 1, -63, -3):
        y = b("ren.ckks.add", y, b("ren.ckks.rotate", b["x"], shift=shift))
    program = b.program(y)
    needs = analyze_evaluation_key_requirements(program)
    assert needs.all_slots_from == {1}
    keys = engine.evaluation_keys_for(needs)
    assert keys.rotations.steps == (1, 2, 4, 8, 16, 32, 61)
    assert (keys.relinearization, keys.conjugation) == (None, None)
    assert program.readiness({"engine": engine, "evaluation_keys": keys}).runnable
    one_by_one = ckks.EvaluationKeySet(
        ckks.RotationKeySet({step: engine.rotation_key(step) for step in needs.rotation_steps})
    )
    assert one_by_one.rotations is not None and one_by_one.rotations.steps == keys.rotations.steps
    assert program.readiness({"engine": engine, "evaluation_keys": one_by_one}).runnable
    assert {"missing-engine"} == program.readiness({"evaluation_keys": one_by_one}).codes
    exact = analyze_evaluation_key_requirements(program, engine=engine)
    assert exact.rotation_steps == {1, 2, 4, 8, 16, 32, 61}
    assert engine.evaluation_keys_for(exact).rotations.steps == keys.rotations.steps


def test_a_quotient_by_a_plaintext_says_what_to_do(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), g=plaintext())
    report = b.program(b("ren.semantic.divide", b["x"], b["g"])).readiness(Workspace(engine=engine))
    (found,) = (d for d in report.errors if d.code == "missing-handler")
    assert "reciprocal" in found.message
    assert "default_pipeline" not in found.message


@pytest.mark.parametrize("coefficients", [[0.5], [0.5, 0.0, 0.0]])
def test_a_constant_polynomial_is_refused_with_its_reason(coefficients: list[float]) -> None:
    b = ProgramBuilder(x=encrypted())
    out = b("ren.ckks.polynomial", b["x"], types=[types.encrypted()], coefficients=coefficients)
    with pytest.raises(
        errors.ProgramVerifyError,
        match=r"degree 0 is the public number 0\.5: its result would be a ciphertext that anybody can read",
    ):
        b.program(out)


@pytest.mark.parametrize(
    ("key", "value", "code", "said"),
    [
        ("public_key", lambda e: e.secret_key, "incompatible-public-key", "must be a ckks.PublicKey, got SecretKey"),
        ("public_key", lambda e: e.relinearization_key, "incompatible-public-key", "got RelinearizationKey"),
        ("public_key", lambda _: 3, "incompatible-public-key", "not a key: int"),
        ("handlers", lambda _: {"my.op": 3}, "malformed-workspace-binding", "['my.op'] must be callable, got int"),
        ("torch_handlers", lambda _: {"torch.sin": None}, "malformed-workspace-binding", "must be callable, got None"),
        ("handlers", lambda _: 3, "malformed-workspace-binding", "must be a mapping, got int"),
        ("material_resolver", lambda _: {}, "malformed-workspace-binding", "must be callable, got dict"),
        ("engine", lambda _: 3, "missing-engine", "must be a CKKS engine, got int"),
    ],
)
def test_entries_of_the_wrong_kind_are_named(key: str, value: Any, code: str, said: str, engine: Any) -> None:
    program = negate()
    report = program.readiness({"engine": engine, "public_key": engine.public_key, key: value(engine)})
    (found,) = report.errors
    assert (found.code, said in found.message) == (code, True), found
    with pytest.raises(ProgramNotReadyError):
        program.run([1.0], workspace={"engine": engine, "public_key": engine.public_key, key: value(engine)})


def test_an_entry_that_is_none_is_an_entry_that_is_not_there(engine: Any) -> None:
    program = negate()
    keys = {"engine": engine, "public_key": engine.public_key}
    x = np.linspace(-1, 1, 64)
    for space in (keys, {**keys, "resources": {"a": 1}}, {**keys, "materials": None, "handlers": None}):
        assert program.readiness(space).runnable
        # The program itself remembers what it was run with last.
        assert np.allclose(engine.decode(engine.decrypt(program.run(x, workspace=space))), -x)
    with pytest.raises(ProgramNotReadyError, match="must be a mapping, got int"):
        program.run(x, workspace={**keys, "resources": 3})

"""What a replay notices: everything that may change between two runs of a program, and nothing that did not."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from ren.errors import ProgramNotReadyError, ProgramRunError
from ren.plugin import manager as plugins
from ren.program import Workspace, compiled_entry, encrypted, message, parse, types
from ren.program.compiled_content import keep
from ren.program.compiled_watch import ProgramWatch
from ren.program.interpret import interpret as interpreted
from ren.program.layout import FULL
from ren.program.literals import encode
from ren.schemes import ckks
from ren.testing.program_kit import ProgramBuilder, decoded, function_text, module_text, workspace_for
from xdsl.dialects.builtin import UnregisteredOp

S = 64
X = np.cos(np.arange(S))
W = np.linspace(-1, 1, S)
CLOSE = {"rtol": 0, "atol": 1e-7}


def fresh(engine: Any, values: Any = X, **more: Any) -> Any:
    return engine.encrypt(engine.encode(values, msg_bound=2.0, **more))


def times_w() -> Any:
    """x * material w."""
    b = ProgramBuilder(x=encrypted())
    w = b("ren.material.ref", types=[types.message()], symbol="w", kind="tensor")
    return b.program(b.times(b["x"], w))


def rotated(shift: int = 1) -> Any:
    b = ProgramBuilder(x=encrypted())
    return b.program(b("ren.ckks.rotate", b["x"], shift=shift))


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Grows with every readiness check that a run makes."""
    made: list[Any] = []
    real = compiled_entry.check_readiness

    def counting(*args: Any, **kwargs: Any) -> Any:
        made.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(compiled_entry, "check_readiness", counting)
    monkeypatch.setattr("ren.program.interpret.check_readiness", counting)
    return made


# -- nothing changed -------------------------------------------------------------------------------------------------


def test_readiness_is_decided_once(engine: Any, checks: list[Any]) -> None:
    program, x = rotated(), fresh(engine)
    space = workspace_for(program, engine)
    for _ in range(3):
        program.run(x, workspace=space)
    assert len(checks) == 1
    program.run(x, workspace=dict(space))  # the same things in another dictionary
    assert len(checks) == 1


def test_arguments_of_open_state_are_checked_once_for_each_state(engine: Any, checks: list[Any]) -> None:
    b = ProgramBuilder(x=encrypted(), p=types.plaintext())
    program = b.program(b("ren.ckks.add_plaintext", b["x"], b.prepare("add", b["p"], b["x"])))
    space = workspace_for(program, engine)
    x, p, q = fresh(engine), engine.plaintext(W), engine.plaintext(-W)
    for plain in (p, q, p):
        program.run(x, plain, workspace=space)
    assert len(checks) == 2
    program.run(x, engine.plaintext(W, level=1, scale=engine.params.scale_at(0)), workspace=space)
    assert len(checks) == 3


def test_inputs_and_keys_are_not_kept_alive(engine: Any) -> None:
    own = ckks.Engine("python-test", device="reference")
    program = rotated()
    space = workspace_for(program, own)
    x = fresh(own)
    result = program.run(x, workspace=space)
    result = program.run(x, workspace=space)
    dead = [weakref.ref(v) for v in (x.a._node, result.a._node, space["evaluation_keys"].rotations[1].buffer, own)]
    del x, result, space, own
    gc.collect()
    assert [ref() for ref in dead] == [None] * 4


def test_a_program_that_dies_takes_its_plans_along(engine: Any) -> None:
    program = rotated()
    program.run(fresh(engine), workspace=workspace_for(program, engine))
    dead = weakref.ref(program)
    del program
    gc.collect()
    assert dead() is None


# -- public data -----------------------------------------------------------------------------------------------------


def test_only_what_changed_is_encoded_again(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), v=message(), w=message())
    program = b.program(b.plus(b.times(b["x"], b["v"]), b["w"]))
    compiled = program.compile(workspace_for(program, engine))
    v, w, x = W.copy(), W.copy(), fresh(engine)

    def encoded() -> str:
        result = compiled(x, v, w)
        np.testing.assert_allclose(decoded(engine, result), X * v + w, **CLOSE)
        return compiled.explain().rpartition("encoded at the last call: ")[2]

    assert encoded() == "%v, %w"
    assert encoded() == "nothing"
    v[3] = 0.5  # in place
    assert encoded() == "%v"
    w = w.copy()  # another object with the same content
    assert encoded() == "nothing"
    w = w[::-1].copy()[::-1]  # another layout
    assert encoded() == "nothing"
    w = w.astype(np.float32)
    assert encoded() == "%w"
    v = v * 2
    w = w + 1
    assert encoded() == "%v, %w"


def test_materials_replaced_or_changed_in_place_take_effect(engine: Any, checks: list[Any]) -> None:
    program, x = times_w(), fresh(engine)
    w = W.copy()
    space = workspace_for(program, engine, materials={"w": w})

    def run() -> None:
        got = decoded(engine, program.run(x, workspace=space))
        np.testing.assert_allclose(got, X * space["materials"]["w"], **CLOSE)

    run()
    w[7] = -0.25
    run()
    space["materials"]["w"] = -W
    run()
    space["materials"] = {"w": W / 2, "other": 1}
    run()
    space["materials"]["w"] = 0.5
    run()
    assert len(checks) <= 3
    del space["materials"]["w"]
    with pytest.raises(ProgramNotReadyError, match="missing-material"):
        program.run(x, workspace=space)


def test_resolvers_are_asked_at_every_run(engine: Any) -> None:
    program, x = times_w(), fresh(engine)
    asked: list[str] = []

    def resolver(symbol: str, kind: str, binding: Any, workspace: Any) -> Any:
        asked.append(symbol)
        return W * len(asked)

    space = workspace_for(program, engine, materials={"w": "a name"}, material_resolver=resolver)
    for k in (1, 2, 3):
        np.testing.assert_allclose(decoded(engine, program.run(x, workspace=space)), X * W * k, **CLOSE)
    assert asked == ["w"] * 3
    space["material_resolver"] = lambda *_: W / 8
    np.testing.assert_allclose(decoded(engine, program.run(x, workspace=space)), X * W / 8, **CLOSE)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (1, 2),
        (1, True),
        (0.0, -0.0),
        (1.0, 1),
        ("a", b"a"),
        (None, 0),
        ([1.0, 2.0], [1.0, 3.0]),
        ([1.0], (1.0,)),
        ({"a": 1}, {"b": 1}),
        (np.arange(4.0), np.arange(4)),
        (np.arange(4.0), np.arange(4.0).reshape(2, 2)),
        (np.zeros(20_000), np.zeros(20_001)),
        (np.zeros(20_000), np.full(20_000, -0.0)),
        (np.zeros(20_000, np.float16), np.ones(20_000, np.float16)),
        (np.float64(1), 1.0),
        (np.zeros((), complex), np.ones((), complex)),
        (np.array([object()]), None),
        (object(), None),
        (iter([1]), None),
    ],
)
def test_content(value: Any, other: Any) -> None:
    opaque = type(value) is object or hasattr(value, "__next__") or getattr(value, "dtype", None) == np.dtype(object)
    assert keep(value)(value) is not opaque
    assert not keep(value)(other)
    assert not keep(other)(value)


def test_a_nan_is_itself() -> None:
    nan = np.array([1.0, np.nan])
    assert keep(nan)(nan.copy())
    assert keep(float("nan"))(float("nan"))


# -- keys, engines, handlers -----------------------------------------------------------------------------------------


def test_replaced_keys_take_effect(engine: Any) -> None:
    program, x = rotated(), fresh(engine)
    space = workspace_for(program, engine)
    compiled = program.compile(space)
    first = compiled(x)
    other = engine.generate_rotation_key(1)
    space["evaluation_keys"] = ckks.EvaluationKeySet(rotations=ckks.RotationKeySet({1: other}))
    second = compiled(x)
    assert first.b.residues().tolist() != second.b.residues().tolist()
    assert second.b.residues().tolist() == interpreted(program, x, workspace=space).b.residues().tolist()
    assert compiled.cache_info()[:2] == (1, 1), "keys are inputs of the plan"
    np.testing.assert_allclose(decoded(engine, second), np.roll(X, 1), **CLOSE)
    del space["evaluation_keys"]
    with pytest.raises(ProgramNotReadyError, match="missing-evaluation-keys"):
        compiled(x)
    space["evaluation_keys"] = ckks.EvaluationKeySet(rotations=engine.rotation_keys([2]))
    with pytest.raises(ProgramNotReadyError, match="incomplete-evaluation-keys"):
        compiled(x)


def test_keys_for_deeper_levels_get_a_plan_of_their_own(engine: Any) -> None:
    b = ProgramBuilder(x=types.encrypted(level=2, layout=FULL))
    program = b.program(b("ren.ckks.rotate", b["x"], shift=1))
    space = workspace_for(program, engine)
    x = fresh(engine, level=2)
    program.run(x, workspace=space)
    key = engine.generate_rotation_key(1, level=2)
    space["evaluation_keys"] = ckks.EvaluationKeySet(rotations=ckks.RotationKeySet({1: key}))
    np.testing.assert_allclose(decoded(engine, program.run(x, workspace=space)), np.roll(X, 1), **CLOSE)


def test_another_engine_takes_effect(engine: Any) -> None:
    program = times_w()
    space = workspace_for(program, engine, materials={"w": W})
    np.testing.assert_allclose(decoded(engine, program.run(fresh(engine), workspace=space)), X * W, **CLOSE)
    other = ckks.Engine("python-test", device="reference")
    space["engine"] = other
    with pytest.raises(ProgramNotReadyError, match="incompatible"):
        program.run(fresh(other), workspace=space)
    space = workspace_for(program, other, materials={"w": W})
    for owner, its in ((other, space), (engine, workspace_for(program, engine, materials={"w": W})), (other, space)):
        np.testing.assert_allclose(decoded(owner, program.run(fresh(owner), workspace=its)), X * W, **CLOSE)


def test_engines_of_other_parameters_share_no_plan(engine: Any) -> None:
    small = ckks.Engine(ckks.CKKSParams.build(n=256, levels=3, scale_bits=40, toy=True), device="reference")
    program = times_w()
    for owner, slots in ((engine, 64), (small, 128), (engine, 64)):
        space = workspace_for(program, owner, materials={"w": np.full(slots, 0.5)})
        got = program.run(fresh(owner, np.ones(slots)), workspace=space)
        np.testing.assert_allclose(decoded(owner, got), np.full(slots, 0.5), **CLOSE)


def test_the_public_key_is_needed_for_arrays_only(engine: Any) -> None:
    program = rotated()
    space = workspace_for(program, engine)
    program.run(X, workspace=space)
    del space["public_key"]
    with pytest.raises(ProgramNotReadyError, match="missing-public-key"):
        program.run(X, workspace=space)
    program.run(fresh(engine), workspace=space)
    space["public_key"] = ckks.Engine("python-test", device="reference").public_key
    with pytest.raises(ProgramNotReadyError, match="incompatible-public-key"):
        program.run(fresh(engine), workspace=space)


def _with_handler(role: str) -> Any:
    """x times what app.op makes of w ("public"), or what app.op makes of x times w ("encrypted")."""
    b = ProgramBuilder(x=encrypted(), w=message())

    def app(value: Any) -> Any:
        op = UnregisteredOp.with_name("app.op").create(operands=[value], result_types=[value.type])
        b.block.add_op(op)
        return op.results[0]

    if role == "public":
        return b.program(b.times(b["x"], app(b["w"])))
    return b.program(b.times(app(b["x"]), b["w"]))


def test_handlers_on_public_data_run_at_every_call(engine: Any) -> None:
    program = _with_handler("public")
    calls: list[int] = []

    def handler(op: Any, operands: Any, workspace: Any) -> Any:
        calls.append(1)
        operands[0][0] = 0.0  # handlers may do anything
        return operands[0] * len(calls)

    space = workspace_for(program, engine, handlers={"app.op": handler})
    compiled = program.compile(space)
    x = fresh(engine)
    for k in (1, 2, 3):
        w = W.copy()
        np.testing.assert_allclose(decoded(engine, compiled(x, w)), X * np.where(np.arange(S) == 0, 0, W) * k, **CLOSE)
    assert len(calls) == 3
    assert compiled.cache_info()[:2] == (2, 1)
    assert "run at every call" in compiled.explain()
    space["handlers"]["app.op"] = lambda op, operands, workspace: W / 2
    np.testing.assert_allclose(decoded(engine, compiled(x, W)), X * W / 2, **CLOSE)
    del space["handlers"]["app.op"]
    with pytest.raises(ProgramNotReadyError, match="missing-handler"):
        compiled(x, W)


def test_handlers_on_encrypted_values_are_interpreted(engine: Any) -> None:
    program = _with_handler("encrypted")
    calls: list[Any] = []

    def handler(op: Any, operands: Any, workspace: Any) -> Any:
        calls.append(workspace)
        return engine.negate(operands[0]) if len(calls) > 1 else operands[0]

    space = workspace_for(program, engine, handlers={"app.op": handler})
    compiled = program.compile(space)
    x = fresh(engine)
    for sign in (1, -1, -1):
        np.testing.assert_allclose(decoded(engine, compiled(x, W)), sign * X * W, **CLOSE)
    assert calls == [space] * 3
    assert calls[0] is space
    assert compiled.explain() == "interpreted: app.op gives encrypted values to a handler from outside"
    assert compiled.cache_info()[:2] == (0, 0)


def test_a_handler_that_fails_leaves_nothing_behind(engine: Any) -> None:
    program = _with_handler("public")
    fail = [False]

    def handler(op: Any, operands: Any, workspace: Any) -> Any:
        if fail[0]:
            raise OSError("the sensor is gone")
        return operands[0]

    space = workspace_for(program, engine, handlers={"app.op": handler})
    x = fresh(engine)
    program.run(x, W, workspace=space)
    fail[0] = True
    with pytest.raises(ProgramRunError, match="app.op failed: OSError: the sensor is gone"):
        program.run(x, W, workspace=space)
    fail[0] = False
    np.testing.assert_allclose(decoded(engine, program.run(x, W * 2, workspace=space)), X * W * 2, **CLOSE)


def test_programs_without_encrypted_results_are_interpreted(engine: Any) -> None:
    b = ProgramBuilder(w=message())
    program = b.program(b("ren.public.negate", b["w"]))
    compiled = program.compile(Workspace())
    np.testing.assert_array_equal(compiled(W), -W)
    assert compiled.explain().startswith("interpreted: ")


# -- the module ------------------------------------------------------------------------------------------------------


def test_an_edited_module_takes_effect(engine: Any, checks: list[Any]) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.rotate", b["x"], shift=1))
    space = workspace_for(program, engine)
    space["evaluation_keys"] = ckks.EvaluationKeySet(rotations=engine.rotation_keys([1, 2]))
    x = fresh(engine)
    program.run(x, workspace=space)
    op = next(op for op in program.walk() if op.name == "ren.ckks.rotate")
    op.properties["shift"] = encode(2)
    np.testing.assert_allclose(decoded(engine, program.run(x, workspace=space)), np.roll(X, 2), **CLOSE)
    op.properties["shift"] = encode(3)
    with pytest.raises(ProgramNotReadyError, match="incomplete-evaluation-keys"):
        program.run(x, workspace=space)
    op.results[0].replace_all_uses_with(program.entry_block().args[0])
    op.detach()
    op.erase()
    np.testing.assert_allclose(decoded(engine, program.run(x, workspace=space)), X, **CLOSE)


@pytest.mark.parametrize("edit", ["name", "type", "function", "order", "location", "attribute", "module"])
def test_every_kind_of_edit_is_seen(edit: str) -> None:
    body = function_text("%x: !ren.message", '    %0 = "app.a"() : () -> i32\n    %1 = "app.b"() : () -> i32')
    program = parse(module_text(body))
    watch = ProgramWatch(program)
    assert watch.same(program)
    function = program.entry_function()
    first, second = list(program.entry_block().ops)[:2]
    if edit == "name":
        function.attributes["ren.input_names"] = encode(["y"])
    elif edit == "type":
        first.results[0]._type = types.message()
    elif edit == "function":
        program.module.body.block.add_op(function.clone())
    elif edit == "order":
        second.detach()
        program.entry_block().insert_op_before(second, first)
    elif edit == "location":
        first.location = parse('"app.a"() : () -> () loc("f":1:2)').module.body.block.first_op.location
    elif edit == "attribute":
        second.attributes["k"] = encode(1)
    else:
        program.module = program.module.clone()
    assert not watch.same(program)


def test_other_entries_have_plans_of_their_own(engine: Any) -> None:
    arguments = "%x: !ren.encrypted<level=0, scale=s0, shape=full, parts=2, domain=coeff, batch=none>"
    text = module_text(
        "\n".join(
            function_text(
                arguments,
                f'    %0 = "ren.ckks.rotate"(%x) <{{shift = {shift} : i64}}> : ({arguments[4:]}) -> {arguments[4:]}',
                f"%0 : {arguments[4:]}",
                name=name,
            )
            for name, shift in (("main", 1), ("back", -1))
        )
    )
    program = parse(text)
    space = Workspace(engine=engine, evaluation_keys=ckks.EvaluationKeySet(rotations=engine.rotation_keys([1, -1])))
    x = fresh(engine)
    for _ in range(2):
        np.testing.assert_allclose(decoded(engine, program.run(x, workspace=space)), np.roll(X, 1), **CLOSE)
        got = program.run(x, workspace=space, entry="back")
        np.testing.assert_allclose(decoded(engine, got), np.roll(X, -1), **CLOSE)


# -- plugins ---------------------------------------------------------------------------------------------------------


def test_reloaded_plugins_are_asked_again(engine: Any, checks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    program, x = rotated(), fresh(engine)
    space = workspace_for(program, engine)
    program.run(x, workspace=space)
    another = type("Another", (), {"__getattr__": lambda self, name: getattr(plugins.manager().registry, name)})()
    current = plugins.manager()
    monkeypatch.setattr(type(current), "registry", property(lambda self: another))
    program.run(x, workspace=space)
    assert len(checks) == 2

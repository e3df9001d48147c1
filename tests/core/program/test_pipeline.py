"""Pipelines: one clone, a shared workspace, verification after each pass, exact reports, order by declaration."""

from __future__ import annotations

import gc
import sys
import types as python_types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ren.errors import MissingPluginError, PassError
from ren.plugin import manager as managers
from ren.plugin.manager import PluginManager
from ren.plugin.registry import CORE, Entry, Kind
from ren.program import (
    Diagnostic,
    Edit,
    Pass,
    PassPipeline,
    PassResult,
    PassStats,
    Program,
    Workspace,
    build,
    default_pipeline,
    encrypted,
    infer_states,
    location,
    message,
    parse,
    types,
)
from ren.program import pipeline as pipelines
from ren.program.arguments import argument_type
from ren.program.dialect import set_type
from ren.program.edit import block_ops
from ren.testing.program_kit import ProgramBuilder, function_text, main_text, module_text


@dataclass(frozen=True)
class Count:
    """Changes nothing."""

    name: str = "count"

    def run(self, program: Program, workspace: Any) -> PassResult:
        workspace.setdefault("seen", []).append(self.name)
        found = sum(1 for f in program.functions for b in f.body.blocks for _ in block_ops(b))
        return PassResult.unchanged(
            program, matched=found, diagnostics=[Diagnostic("note", f"{found}", severity="note")]
        )


@dataclass(frozen=True)
class ShiftRolls:
    """Every roll is replaced by one that goes a step further."""

    name: str = "shift-rolls"

    def run(self, program: Program, workspace: Any) -> PassResult:
        edit, matched = Edit(), 0
        for function in program.functions:
            for block in function.body.blocks:
                for op in block_ops(block):
                    if op.name == "ren.semantic.roll":
                        matched += 1
                        shift = op.properties["shift"].value.data + 1  # type: ignore[attr-defined]
                        edit.replace(op, edit.build_before(op, op.name, op.operands, {"shift": shift}).results)
        stats = PassStats(matched=matched, transformed=matched, inserted=edit.inserted, removed=edit.removed)
        return PassResult(program, stats, touched=edit.touched)


@dataclass(frozen=True)
class Does:
    """Whatever it is told."""

    action: Any
    name: str = "does"

    def run(self, program: Program, workspace: Any) -> Any:
        return self.action(program)


def rolls(count: int = 2) -> Program:
    b = ProgramBuilder(x=encrypted(), w=message())
    y = b("ren.semantic.multiply", b["x"], b["w"], loc=location("u.py", 1))
    for i in range(count):
        y = b("ren.semantic.roll", y, shift=i, loc=location("u.py", 2 + i))
    return b.program(y)


def shifts(program: Program) -> list[int]:
    return [op.properties["shift"].value.data for op in program.walk() if op.name == "ren.semantic.roll"]  # type: ignore[attr-defined]


# -- running ---------------------------------------------------------------------------------------------------------


def test_j12_one_clone_one_workspace_reports_in_order() -> None:
    program = rolls()
    text = program.to_text(include_locations=True)
    key, value = object(), (lambda: None)
    space = Workspace({key: value})
    result = PassPipeline([Count("first"), ShiftRolls(), Count("last")]).run(program, space)
    assert program.to_text(include_locations=True) == text
    assert result.program is not program
    assert result.workspace is space
    assert space[key] is value
    assert space["seen"] == ["first", "last"]
    assert shifts(result.program) == [1, 2]
    assert [r.name for r in result.reports] == ["first", "shift-rolls", "last"]
    assert result.reports[1].stats == PassStats(matched=2, transformed=2, inserted=2, removed=2)
    assert [str(d) for d in result.reports[0].diagnostics] == ["note [note] 4"]
    assert all(r.seconds >= 0 for r in result.reports)
    assert 'loc("u.py":2:0)' in result.program.to_text(include_locations=True)


def test_j13_any_mapping_is_a_workspace() -> None:
    space: dict[Any, Any] = {}
    assert rolls().transform(Count(), ShiftRolls(), workspace=space).workspace is space
    assert isinstance(rolls().transform(Count()).workspace, Workspace)
    with pytest.raises(TypeError, match="workspace must be"):
        rolls().transform(Count(), workspace=[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="runs over a Program"):
        PassPipeline([Count()]).run("text")  # type: ignore[arg-type]


def test_j14_functions_with_other_names_are_visited() -> None:
    body = '    %0 = "ren.semantic.roll"(%x) <{shift = 1 : i64}> : (!ren.encrypted) -> !ren.encrypted'
    text = module_text(
        "\n".join(function_text("%x: !ren.encrypted", body, "%0 : !ren.encrypted", name=n) for n in ("one", "two"))
    )
    assert shifts(parse(text).transform(ShiftRolls()).program) == [2, 2]


def test_an_empty_pipeline_clones() -> None:
    program = rolls()
    result = PassPipeline().run(program)
    assert result.program is not program
    assert result.program.to_text() == program.to_text()
    assert result.reports == ()


def cycle(program: Program) -> PassResult:
    first, second = [op for op in program.walk() if op.name == "ren.semantic.roll"]
    first.operands = second.results
    return PassResult(program)


def late(program: Program) -> PassResult:
    first, second = [op for op in program.walk() if op.name == "ren.semantic.roll"]
    block = first.parent
    assert block is not None
    block.detach_op(first)
    block.insert_op_after(first, second)
    return PassResult(program)


def wrong_state(program: Program) -> PassResult:
    op = next(op for op in program.walk() if op.name == "ren.semantic.roll")
    set_type(op.results[0], types.encrypted(batch="any"))
    return PassResult(program)


def untyped_return(program: Program) -> PassResult:
    block = program.entry_block()
    back = block.last_op
    assert back is not None
    back.operands = [block.args[1]]
    return PassResult(program, touched=())


def no_return(program: Program) -> PassResult:
    back = program.entry_block().last_op
    assert back is not None
    back.detach()
    back.erase()
    return PassResult(program)


@pytest.mark.parametrize("break_it", [cycle, late, wrong_state, untyped_return, no_return], ids=lambda f: f.__name__)
@pytest.mark.parametrize("size", ["small", "large"])
def test_j19_a_pass_that_breaks_the_program_is_named(break_it: Any, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if size == "large":
        monkeypatch.setattr(pipelines, "CHECK_ALL_BELOW", 0)
    with pytest.raises(PassError, match="pass 'breaks' left a program that does not verify") as caught:
        PassPipeline([ShiftRolls(), Does(break_it, "breaks"), Count()]).run(rolls())
    assert caught.value.subject == "breaks"
    assert len(str(caught.value)) < 1000  # xDSL would print the module


def test_erasing_a_value_in_use_is_refused() -> None:
    def erase(program: Program) -> PassResult:
        edit = Edit()
        edit.erase(next(op for op in program.walk() if op.name == "ren.semantic.roll"))
        return PassResult(program)

    with pytest.raises(PassError, match=r"'does' failed.*ren\.semantic\.roll cannot be erased"):
        rolls().transform(Does(erase))


def test_what_a_pass_raises_is_wrapped() -> None:
    def fails(program: Program) -> PassResult:
        raise KeyError("inner")

    with pytest.raises(PassError, match="pass 'does' raised KeyError: 'inner'") as caught:
        rolls().transform(Does(fails))
    assert isinstance(caught.value.__cause__, KeyError)
    for value in (None, rolls(), PassResult("no program")):  # type: ignore[arg-type]
        with pytest.raises(PassError, match="must return a PassResult"):
            rolls().transform(Does(lambda p, v=value: v))


def test_the_collector_is_as_it_was() -> None:
    states = []

    def look(program: Program) -> PassResult:
        states.append(gc.isenabled())
        return PassResult.unchanged(program)

    was = gc.isenabled()
    try:
        for enabled in (True, False):
            (gc.enable if enabled else gc.disable)()
            rolls().transform(Does(look))
            assert gc.isenabled() is enabled
            with pytest.raises(PassError):
                rolls().transform(Does(cycle))
            assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()
    assert states == [False, False]


# -- composition -----------------------------------------------------------------------------------------------------


def test_then_before_after_replace() -> None:
    base = PassPipeline([Count("a"), Count("b"), Count("c")])
    x, y = Count("x"), Count("y")
    assert base.then(x, y).names == ("a", "b", "c", "x", "y")
    assert base.before("b", x, y).names == ("a", "x", "y", "b", "c")
    assert base.after("b", x).names == ("a", "b", "x", "c")
    assert base.replace("b", x, y).names == ("a", "x", "y", "c")
    assert base.replace("b").names == ("a", "c")
    assert base.then(PassPipeline([x]), y).names == ("a", "b", "c", "x", "y")
    assert base.names == ("a", "b", "c")
    assert len(base) == 3
    assert repr(base) == "PassPipeline(a, b, c)"
    for call in (base.before, base.after, base.replace):
        with pytest.raises(PassError, match="0 passes are called 'z'"):
            call("z", x)
    with pytest.raises(PassError, match="2 passes are called 'a'"):
        base.then(Count("a")).replace("a")


def test_what_is_a_pass() -> None:
    assert isinstance(Count(), Pass)
    for item in (
        object(),
        "count",
        python_types.SimpleNamespace(name="x"),
        python_types.SimpleNamespace(name="", run=print),
    ):
        with pytest.raises(PassError, match="a pass has a name"):
            PassPipeline([item])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "bad",
    [
        {"matched": -1},
        {"matched": 1.0},
        {"inserted": True},
        {"transformed": 1},
        {"matched": 3, "transformed": 2, "skipped": 2},
    ],
    ids=str,
)
def test_counters_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(PassError):
        PassStats(**bad)
    assert PassResult(rolls(), PassStats(1, 1)).changed
    assert PassResult(rolls(), PassStats(removed=1)).changed
    assert not PassResult.unchanged(rolls(), matched=2, skipped=2).changed


# -- plugins ---------------------------------------------------------------------------------------------------------


def entry(name: str, stage: str, **options: Any) -> Entry:
    whole = {"stage": stage, "after": (), "before": (), "default": True, **options}
    return Entry(kind=Kind.PASS, name=name, factory=lambda: Count(name), origin=CORE, options=whole)


@pytest.fixture
def with_passes() -> Iterator[Any]:
    stack = []

    def use(*entries: Entry) -> None:
        context = managers.use_manager(PluginManager(read_entry_points=lambda: (), core_entries=entries))
        context.__enter__()
        stack.append(context)

    yield use
    for context in reversed(stack):
        context.__exit__(None, None, None)


def test_the_default_pipeline_is_ordered_by_declaration(with_passes: Any) -> None:
    with_passes(
        entry("zz-clean", "clean"),
        entry("lower-b", "lower", after=("lower-z",)),
        entry("lower-z", "lower"),
        entry("tidy", "optimize", before=("improve",)),
        entry("improve", "optimize"),
        entry("third-party", "optimize", default=False, after=("improve",)),
    )
    assert default_pipeline().names == ("zz-clean", "lower-z", "lower-b", "tidy", "improve")
    assert default_pipeline(enable=("third-party",)).names[-1] == "third-party"
    with pytest.raises(MissingPluginError, match="absent"):
        default_pipeline(enable=("absent",))


def test_without_passes_the_plugin_is_named(with_passes: Any) -> None:
    with_passes()
    with pytest.raises(MissingPluginError, match="default passes"):
        default_pipeline()


def test_a_pass_under_another_name_is_refused(with_passes: Any) -> None:
    wrong = Entry(
        kind=Kind.PASS,
        name="a",
        factory=lambda: Count("b"),
        origin=CORE,
        options={"stage": "clean", "after": (), "before": (), "default": True},
    )
    with_passes(wrong)
    with pytest.raises(PassError, match="whose name differs"):
        default_pipeline()


# -- editing and inference -------------------------------------------------------------------------------------------


def test_edit_is_linear_in_uses_of_one_operation() -> None:
    """A value used 20,000 times by one operation: replacing it operand by operand would take 4 * 10^8 steps."""
    from xdsl.dialects.func import ReturnOp
    from xdsl.ir import Block

    block = Block(arg_types=[types.message()])
    call = build("torch.call", [block.args[0]] * 20_000, {"ren.call.kind": "function"}, result_types=[types.message()])
    block.add_op(call)
    block.add_op(ReturnOp(call.results[0]))
    edit = Edit()
    constant = edit.insert_first(block, build("ren.constant", [], {"value": 1}, result_types=[types.message()]))
    assert edit.replace_uses(block.args[0], constant.results[0]) == 1
    assert set(call.operands) == {constant.results[0]}
    assert edit.touched == (constant, call)


def test_edit_records_what_it_touches() -> None:
    program = rolls()
    first, second = [op for op in program.walk() if op.name == "ren.semantic.roll"]
    edit = Edit()
    edit.set_attribute(first, "shift", 9)
    edit.set_attribute(first, "app.note", [1, "two"])
    edit.set_attribute(first, "app.note", None)
    assert "app.note" not in first.attributes
    edit.set_operands(second, [first.operands[0]])
    edit.set_operand(second, 0, first.results[0])
    edit.set_type(first.results[0], types.encrypted())
    assert edit.touched == (first, second)
    assert (edit.inserted, edit.removed) == (0, 0)
    with pytest.raises(ValueError, match="dotted"):
        edit.set_attribute(first, "plain", 1)
    with pytest.raises(ValueError, match="cannot replace"):
        edit.replace(first, [])
    extra = edit.build_after(first, "ren.semantic.negate", first.results)
    assert extra.location == first.location
    edit.replace_uses(first.results[0], extra.results[0], keep=[extra])
    assert second.operands[0] is extra.results[0]
    program.verify()


def test_inference_after_an_input_changed() -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted())
    program = b.program(b.product(b["x"], b["y"]))
    for argument in program.entry_block().args:
        set_type(argument, argument_type(encrypted(level=2, slots=3)))
    changed = infer_states(program)
    assert changed
    program.verify()
    result = program.entry_function().function_type.outputs.data[0]
    assert result.data.level == 3  # type: ignore[attr-defined]
    assert infer_states(program) == ()


def test_importing_the_roles_imports_no_xdsl() -> None:
    import subprocess

    code = "import sys, ren; ren.jit; from ren.program import encrypted, Workspace; encrypted(); sys.exit('xdsl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_main_text_is_what_the_tests_think() -> None:
    assert parse(main_text("%n: !ren.message", "", "%n : !ren.message")).run(4) == 4

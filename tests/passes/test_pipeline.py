"""The default pipeline as a whole: order, sharing, idempotence, and what single lowering passes make of small programs."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Any

import pytest
from ren import jit
from ren.errors import PassError
from ren.program import Edit, PassPipeline, PassResult, PassStats, Program, Workspace, encrypted, message
from ren.testing.program_kit import ProgramBuilder, function_text, main_text, module_text, workspace_for

LOWERING = (
    "eliminate-dead-values",
    "lower-semantic-to-logical",
    "insert-plaintext-preparation",
    "insert-multiply-ntt-transitions",
    "lower-logical-to-ckks",
    "insert-relinearization",
    "insert-rescale",
)
DOCUMENTED = (*LOWERING, "late-rescale", "late-relinearization")


def lowering() -> PassPipeline:
    """The passes that lower, without those that optimise."""
    return PassPipeline([p for p in jit.default_pipeline().passes if p.name in LOWERING])


def names(program: Program) -> list[str]:
    return [op.name for op in program.walk() if op.name.startswith(("ren.", "torch."))]


def binary(name: str, **inputs: Any) -> Program:
    b = ProgramBuilder(**inputs)
    return b.program(b(f"ren.semantic.{name}", *(b[i] for i in inputs)))


def test_documented_passes_come_in_the_documented_order() -> None:
    assert tuple(n for n in jit.default_pipeline().names if n in DOCUMENTED) == DOCUMENTED


def test_whole_order() -> None:
    assert jit.default_pipeline().names == (
        "fold-public-work",
        *LOWERING[:2],
        "expand-logical",
        "fuse-scalar-products",
        "split-rotations",
        *LOWERING[2:],
        "align-levels",
        "place-domains",
        "merge-equal-values",
        "late-rescale",
        "late-relinearization",
        "encode-plaintexts-once",
        "hoist-rotations",
    )


def test_reports_in_order_and_the_same_workspace() -> None:
    """Object keys and callables in the workspace are nobody's business; the source is untouched."""
    key = object()
    space = Workspace({key: print, "mine": [1]})
    source = binary("multiply", x=encrypted(), y=encrypted())
    text = source.to_text()
    result = jit.default_pipeline().run(source, space)
    assert result.workspace is space
    assert space[key] is print
    assert source.to_text() == text
    assert tuple(r.name for r in result.reports) == jit.default_pipeline().names


def test_other_functions_are_visited_too() -> None:
    body = '    %a = "ren.semantic.add"(%x, %x) : (!ren.encrypted, !ren.encrypted) -> !ren.encrypted'
    text = module_text(
        "\n".join(
            function_text("%x: !ren.encrypted", body, "%a : !ren.encrypted", name=name) for name in ("first", "second")
        )
    )
    result = jit.default_pipeline().run(jit.parse(text)).program
    assert names(result) == ["ren.ckks.add"] * 2


def test_product_of_ciphertexts() -> None:
    """J15."""
    result = lowering().run(binary("multiply", x=encrypted(), y=encrypted()))
    assert names(result.program) == [
        "ren.ckks.to_ntt",
        "ren.ckks.to_ntt",
        "ren.ckks.multiply",
        "ren.ckks.relinearize",
        "ren.ckks.rescale",
    ]


def test_square_as_a_product_has_two_transitions() -> None:
    b = ProgramBuilder(x=encrypted())
    result = lowering().run(b.program(b("ren.semantic.multiply", b["x"], b["x"]))).program
    assert names(result).count("ren.ckks.to_ntt") == 2


def test_sum_with_a_message() -> None:
    """J16."""
    result = lowering().run(binary("add", x=encrypted(), w=message())).program
    assert names(result) == ["ren.ckks.prepare.add.message", "ren.ckks.add_plaintext"]


@pytest.mark.parametrize("swapped", [False, True])
def test_product_with_a_message(swapped: bool) -> None:
    """J17."""
    inputs: dict[str, Any] = {"x": encrypted(), "w": message()}
    source = binary("multiply", **(dict(reversed(inputs.items())) if swapped else inputs))
    assert names(lowering().run(source).program) == [
        "ren.ckks.prepare.multiply.message",
        "ren.ckks.to_ntt",
        "ren.ckks.multiply_plaintext",
        "ren.ckks.from_ntt",
        "ren.ckks.rescale",
    ]


def test_a_pass_that_breaks_the_module_is_named() -> None:
    """The fault is found right behind the pass."""

    @dataclass(frozen=True)
    class Breaks:
        name: str = "breaks"

        def run(self, program: Program, workspace: Any) -> PassResult:
            op = next(o for o in program.walk() if o.name == "ren.ckks.rotate")
            del op.properties["shift"]
            edit = Edit()
            edit.touch(op)
            return PassResult(program, PassStats(matched=1, transformed=1), touched=edit.touched)

    b = ProgramBuilder(x=encrypted())
    source = b.program(b("ren.semantic.roll", b["x"], shift=1))
    pipeline = jit.default_pipeline().after("lower-logical-to-ckks", Breaks())
    with pytest.raises(PassError, match="'breaks'.*'shift' is missing"):
        pipeline.run(source)


def test_a_foreign_type_is_never_taken_for_a_message() -> None:
    """Its operation stays, with everything around it lowered."""
    body = """    %t = "vendor.make"() : () -> !vendor.tensor
    %u = "vendor.scale"(%x, %t) : (!ren.encrypted, !vendor.tensor) -> !ren.encrypted
    %a = "ren.semantic.add"(%u, %x) : (!ren.encrypted, !ren.encrypted) -> !ren.encrypted"""
    source = jit.parse(main_text("%x: !ren.encrypted", body, "%a : !ren.encrypted"))
    text = jit.default_pipeline().run(source).program.to_text()
    assert '"vendor.scale"(%x, %t)' in text
    assert "prepare" not in text
    assert "ren.ckks.add" in text


def test_scalar_is_encoded_at_the_scale_of_its_level() -> None:
    """J23: `secret * 0.5`."""
    b = ProgramBuilder(x=encrypted())
    source = b.program(b("ren.semantic.multiply", b["x"], b.constant(0.5)))
    program = lowering().run(source).program
    (prepared,) = [op for op in program.walk() if op.name == "ren.ckks.prepare.multiply.static"]
    assert prepared.properties["scale_mode"].data == "default_scale"  # type: ignore[attr-defined]
    assert names(program).count("ren.ckks.rescale") == 1


def test_integer_factor_takes_no_level() -> None:
    b = ProgramBuilder(x=encrypted())
    source = b.program(b("ren.semantic.multiply", b.constant(2.0), b["x"]))
    assert names(jit.default_pipeline().run(source).program) == ["ren.ckks.multiply_integer"]


# -- what the late passes pay ----------------------------------------------------------------------------------------


def products(count: int) -> Program:
    b = ProgramBuilder(**{f"x{i}": encrypted() for i in range(count + 1)})
    total: Any = None
    for i in range(count):
        term = b("ren.semantic.multiply", b[f"x{i}"], b[f"x{i + 1}"])
        total = term if total is None else b("ren.semantic.add", total, term)
    return b.program(total)


@pytest.mark.parametrize("count", [2, 5, 16])
def test_a_sum_of_products_pays_once(count: int) -> None:
    result = jit.default_pipeline().run(products(count))
    found = names(result.program)
    assert found.count("ren.ckks.multiply") == count
    assert (found.count("ren.ckks.relinearize"), found.count("ren.ckks.rescale")) == (1, 1)
    late = {r.name: r.stats for r in result.reports if r.name.startswith("late")}
    for stats in late.values():
        assert (stats.matched, stats.transformed, stats.inserted, stats.removed) == (count, count, 0, count - 1)


def test_a_shared_product_keeps_its_own_maintenance() -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted())
    m = b("ren.semantic.multiply", b["x"], b["y"])
    source = b.program(b("ren.semantic.add", m, b("ren.semantic.square", b["y"])), m)
    assert names(jit.default_pipeline().run(source).program).count("ren.ckks.relinearize") == 2


def test_no_rescale_crosses_a_callers_plaintext() -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted(), g=jit.plaintext())
    first = b("ren.semantic.multiply", b["x"], b["y"])
    source = b.program(b("ren.semantic.add", b("ren.semantic.add", first, b["g"]), b("ren.semantic.square", b["y"])))
    found = names(jit.default_pipeline().run(source).program)
    assert found.index("ren.ckks.rescale") < found.index("ren.ckks.prepare.add.plaintext")
    assert found.count("ren.ckks.rescale") == 2


# -- refusals, located -----------------------------------------------------------------------------------------------


def test_seven_squarings_on_six_levels_are_refused(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    x: Any = b["x"]
    for line in range(7):
        x = b("ren.semantic.square", x, loc=jit.location("deep.py", line + 1))
    lowered = jit.default_pipeline().run(b.program(x)).program
    report = lowered.readiness(workspace_for(lowered, engine))
    assert report.codes == {"level-exhausted"}
    assert [(d.file, d.line) for d in report.errors] == [("deep.py", 7)]


@pytest.mark.parametrize(
    ("operation", "attributes", "says"),
    [
        ("matmul", {"form": "linear"}, "shape of the matrix"),
        ("divide", {}, "the divisor is encoded already"),
    ],
)
def test_what_cannot_be_expanded_stays_and_says_why(operation: str, attributes: dict[str, Any], says: str) -> None:
    public = message() if operation == "matmul" else jit.plaintext()
    b = ProgramBuilder(x=encrypted(slots=3), w=public)
    out = b(f"ren.semantic.{operation}", b["x"], b["w"], loc=jit.location("here.py", 4), **attributes)
    result = jit.default_pipeline().run(b.program(out))
    (report,) = [r for r in result.reports if r.name == "expand-logical"]
    (found,) = report.diagnostics
    assert says in found.message
    assert (found.file, found.line) == ("here.py", 4)
    assert (report.stats.matched, report.stats.skipped, report.stats.inserted) == (1, 1, 0)
    readiness = result.program.readiness()
    assert "missing-handler" in readiness.codes
    assert any((d.file, d.line) == ("here.py", 4) for d in readiness.errors)


def test_division_by_zero_is_refused() -> None:
    b = ProgramBuilder(x=encrypted())
    result = jit.default_pipeline().run(b.program(b("ren.semantic.divide", b["x"], b.constant(0))))
    assert any("division by zero" in d.message for r in result.reports for d in r.diagnostics)
    assert not result.program.readiness().runnable


def test_dead_code_keeps_effects() -> None:
    """What the counters say."""
    body = """    %a = "ren.semantic.negate"(%x) : (!ren.encrypted) -> !ren.encrypted
    %b = "ren.semantic.negate"(%a) : (!ren.encrypted) -> !ren.encrypted
    "vendor.log"(%x) : (!ren.encrypted) -> ()
    %c = "torch.call"(%x) <{ren.call.kind = "function", ren.call.target = "torch.sin"}> : (!ren.encrypted) -> !ren.encrypted"""
    source = jit.parse(main_text("%x: !ren.encrypted", body, "%x : !ren.encrypted"))
    result = jit.default_pipeline().run(source)
    assert [s for s in result.program.to_text().split() if s.startswith('"vendor.log"')]
    assert names(result.program) == ["torch.call"]
    (report,) = [r for r in result.reports if r.name == "eliminate-dead-values"]
    assert report.stats == PassStats(matched=2, transformed=2, removed=2)


# -- size ------------------------------------------------------------------------------------------------------------


def long_program(count: int) -> Program:
    b = ProgramBuilder(x=encrypted(), y=encrypted(), w=message())
    total: Any = b("ren.semantic.multiply", b["x"], b["y"])
    last: Any = b["x"]
    for i in range(count // 4):
        last = b("ren.semantic.roll", last, shift=1 + i % 5)
        term = b("ren.semantic.multiply", last, b["w"] if i % 2 else b["y"])
        total = b("ren.semantic.add", total, term)
        total = b("ren.semantic.subtract", total, b["w"])
    return b.program(total)


@pytest.mark.full
def test_time_is_nearly_linear_in_the_size() -> None:
    def seconds(count: int) -> float:
        source = long_program(count)
        pipeline = jit.default_pipeline()
        gc.collect()
        best = float("inf")
        for _ in range(2):
            start = time.process_time()
            pipeline.run(source)
            best = min(best, time.process_time() - start)
        return best

    seconds(500)
    small = seconds(5_000)
    assert seconds(50_000) <= 13 * small

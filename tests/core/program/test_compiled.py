"""Replayed runs give what interpreted ones give, to the bit and in every field; what cannot be replayed is interpreted and says so."""

from __future__ import annotations

import math
import threading
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from ren.errors import PossibleOverflowWarning, ProgramInputError, ProgramRunError
from ren.plugin.manager import manager
from ren.program import Program, encrypted, message, plaintext, types
from ren.program.entry import OUTPUT_STRUCTURE
from ren.program.interpret import interpret
from ren.program.layout import FULL
from ren.program.literals import OperandRef
from ren.program.scales import SymbolicScale
from ren.schemes import ckks
from ren.schemes.ckks.messages import encode_constant
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for
from ren.testing.program_kit import result_parts as parts

S = 64
X = np.cos(np.arange(S))
Y = np.sin(1 + np.arange(S)) / 2
W = np.linspace(-1, 1, S)


def same_as_interpreted(program: Program, space: Any, *args: Any, replayed: bool = True) -> Any:
    """Run three times compiled, compare every one with the interpreted run, and see that plans were (or were not) replayed."""
    compiled = program.compile(space)
    want = parts(interpret(program, *args, workspace=space))
    results = [compiled(*args) for _ in range(3)]
    for result in results:
        assert parts(result) == want
    assert compiled.cache_info()[:2] == ((2, 1) if replayed else (0, 0)), compiled.explain()
    assert parts(program.run(*args, workspace=space)) == want
    return results[-1]


def fresh(engine: Any, values: Any, **more: Any) -> Any:
    return engine.encrypt(engine.encode(values, msg_bound=2.0, **more))


# -- operations ------------------------------------------------------------------------------------------------------


def _rotations(b: ProgramBuilder) -> Any:
    r = b("ren.ckks.rotate_group", b["x"], shifts=[1, 0, -2])
    return b("ren.ckks.add", b("ren.ckks.add", r[0], r[1]), b("ren.ckks.rotate", r[2], shift=5))


def _aligned(b: ProgramBuilder) -> Any:
    square = b.product(b["x"], b["x"])
    total = b("ren.ckks.add", square, b("ren.ckks.align", b["x"], level=1))
    return b("ren.ckks.mod_switch", total, levels=2)


def _met(b: ProgramBuilder) -> Any:
    x, y = b("ren.ckks.meet", b.product(b["x"], b["x"]), b["y"])
    return b("ren.ckks.subtract", x, y)


UNARY = {
    "negate": lambda b: b("ren.ckks.from_ntt", b("ren.ckks.to_ntt", b("ren.ckks.negate", b["x"]))),
    "add": lambda b: b("ren.ckks.add", b["x"], b["y"]),
    "subtract": lambda b: b("ren.ckks.subtract", b["x"], b["y"]),
    "product": lambda b: b.product(b["x"], b["y"]),
    "square of three parts": lambda b: b("ren.ckks.square", b("ren.ckks.to_ntt", b["x"])),
    "rotations": _rotations,
    "conjugate": lambda b: b("ren.ckks.conjugate", b["x"]),
    "sum of all slots": lambda b: b("ren.ckks.sum_slots", b["x"]),
    "sum of some slots": lambda b: b("ren.ckks.sum_slots", b["x"], count=4, stride=2),
    "polynomial": lambda b: b("ren.ckks.polynomial", b["x"], coefficients=[0.25, -0.5, 0.0, 0.125]),
    "chebyshev": lambda b: b("ren.ckks.polynomial", b["x"], coefficients=[0.25, -0.5, 0.0, 0.125], basis="chebyshev"),
    "aligned": _aligned,
    "met": _met,
    "scalars": lambda b: b(
        "ren.ckks.multiply_integer",
        b("ren.ckks.add_scalar", b("ren.ckks.multiply_scalar", b["x"], value=0.5), value=2.0),
        value=-3,
    ),
    "complex scalar": lambda b: b("ren.ckks.add_scalar", b["x"], value=1j),
    "scale read anew": lambda b: b("ren.ckks.reinterpret_scale", b["x"], scale=SymbolicScale.at_level(1)),
    "assumed bound": lambda b: b("ren.ckks.assume_bound", b["x"], bound=0.5),
    "argument returned": lambda b: b["x"],
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("bound", [None, 2.0], ids=["unbounded", "bounded"])
def test_operation(engine: Any, name: str, bound: float | None) -> None:
    b = ProgramBuilder(x=encrypted(bound=bound), y=encrypted(bound=bound))
    program = b.program(UNARY[name](b))
    x, y = fresh(engine, X), fresh(engine, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleOverflowWarning)
        same_as_interpreted(program, workspace_for(program, engine), x, y)


@pytest.mark.parametrize(
    "public", [W, 0.5, W + 1j * Y, np.zeros(S), [[1.0], [2.0]]], ids=["array", "number", "complex", "zeros", "batch"]
)
def test_public_data(engine: Any, public: Any) -> None:
    """Products and sums with messages: bounds of the results follow the data (nothing times anything is nothing)."""
    b = ProgramBuilder(x=encrypted(batch_mode="any"), w=message())
    program = b.program(b.plus(b.times(b["x"], b["w"]), b["w"]))
    same_as_interpreted(program, workspace_for(program, engine), fresh(engine, X), np.asarray(public))


def test_public_data_of_all_kinds_meets_one_plan(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(bound=2.0), w=message())
    program = b.program(b.times(b["x"], b["w"]))
    compiled = program.compile(workspace_for(program, engine))
    x = fresh(engine, X)
    for w in (W, W * 2, W * 2, list(W), 3.0 * W):
        got = compiled(x, w)
        assert parts(got) == parts(interpret(program, x, w, workspace=compiled.workspace))
    assert compiled.cache_info()[:2] == (4, 1)


def test_plaintext_arguments(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), p=plaintext())
    square = b.product(b["x"], b["x"])
    program = b.program(b("ren.ckks.add_plaintext", square, b.prepare("add", b["p"], square)))
    p = engine.plaintext(W, level=0, scale=engine.params.scale_at(1))  # brought to the deeper level of the square
    same_as_interpreted(program, workspace_for(program, engine), fresh(engine, X), p)


@pytest.mark.parametrize("value", ["encoded", "constant", "of scale one"])
def test_gain_as_in_the_example(engine: Any, value: str) -> None:
    b = ProgramBuilder(x=encrypted(), g=plaintext())
    x = b("ren.ckks.to_ntt", b["x"])
    g = b.prepare("multiply", b["g"], x)
    y = b("ren.ckks.multiply_plaintext", x, g, rescale_condition="plaintext_scale_not_one")
    program = b.program(b("ren.ckks.rescale", y, g, condition="plaintext_scale_not_one"))
    g_value = {
        "encoded": engine.plaintext(0.75),
        "constant": ckks.Plaintext.const(0.75),
        "of scale one": encode_constant(engine, 2, 0, ckks.Scale()),
    }[value]
    same_as_interpreted(program, workspace_for(program, engine), fresh(engine, X), g_value)


def test_masks_diagonals_and_public_arithmetic(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    mask, share = b("ren.public.mask", start=2, stop=9), b("ren.public.slot_share")
    y = b.plus(b.times(b["x"], b("ren.public.reciprocal", b["w"])), mask)
    program = b.program(b.times(b.times(y, share), b("ren.public.negate", mask)))
    same_as_interpreted(program, workspace_for(program, engine), fresh(engine, X), W + 3)


# -- structure -------------------------------------------------------------------------------------------------------


def test_batches(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(batch_mode="any", bound=2.0), w=message())
    program = b.program(b.times(b.product(b["x"], b["x"]), b["w"]))
    space = workspace_for(program, engine)
    compiled = program.compile(space)
    rows = fresh(engine, np.stack([X, Y]))
    one = fresh(engine, X)
    for x, w in ((rows, W), (one, W), (rows, np.stack([W, -W])), (rows, W), (one, W)):
        assert parts(compiled(x, w)) == parts(interpret(program, x, w, workspace=space))
    assert compiled.cache_info()[:2] == (2, 3)


def test_several_results_in_a_structure(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    y = b.product(b["x"], b["x"])
    structure = {"square": OperandRef(0), "rest": [OperandRef(1), OperandRef(0), 3]}
    program = b.program(y, b["x"], attributes={OUTPUT_STRUCTURE: structure})
    result = same_as_interpreted(program, workspace_for(program, engine), fresh(engine, X), W)
    assert result["rest"][1] is not None
    assert result["rest"][2] == 3


def test_public_results_are_new_objects_that_nobody_else_holds(engine: Any) -> None:
    """What a caller does to an array that was returned changes no later run."""
    b = ProgramBuilder(x=encrypted(), w=message())
    negative = b("ren.public.negate", b["w"])
    program = b.program(b.times(b["x"], negative), negative)
    space = workspace_for(program, engine)
    compiled = program.compile(space)
    x = fresh(engine, X)
    first = compiled(x, W)
    first[1][:] = 77.0
    second = compiled(x, W)
    assert np.array_equal(second[1], -W)
    assert parts(second) == parts(interpret(program, x, W, workspace=space))
    assert "run at every call" in compiled.explain()


def test_results_are_never_overwritten(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.rotate", b["x"], shift=1))
    compiled = program.compile(workspace_for(program, engine))
    results = [compiled(fresh(engine, X * k)) for k in (1, 0.5, 0.25)]
    results.append(compiled(results[-1]))
    for result, k in zip(results, (1, 0.5, 0.25), strict=False):
        np.testing.assert_allclose(decoded(engine, result), np.roll(X * k, 1), atol=1e-7)
    np.testing.assert_allclose(decoded(engine, results[3]), np.roll(X * 0.25, 2), atol=1e-7)
    assert len({id(r) for r in results}) == 4


def test_the_same_ciphertext_twice(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted())
    program = b.program(b("ren.ckks.multiply", b("ren.ckks.to_ntt", b["x"]), b("ren.ckks.to_ntt", b["y"])))
    space = workspace_for(program, engine)
    compiled = program.compile(space)
    x, y = fresh(engine, X), fresh(engine, Y)
    for pair in ((x, x), (x, y), (y, y), (y, x)):
        assert parts(compiled(*pair)) == parts(interpret(program, *pair, workspace=space))


def test_lazy_arguments_and_chained_runs(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.rotate", b["x"], shift=1))
    space = workspace_for(program, engine)
    lazy = engine.add(fresh(engine, X), fresh(engine, Y))
    np.testing.assert_allclose(decoded(engine, program.run(lazy, workspace=space)), np.roll(X + Y, 1), atol=1e-7)


def test_other_levels_and_scales_get_plans_of_their_own(engine: Any) -> None:
    """An argument of open state: each level is checked and captured once."""
    b = ProgramBuilder(x=types.encrypted(layout=FULL))
    program = b.program(b.product(b["x"], b["x"]))
    space = workspace_for(program, engine)
    compiled = program.compile(space)
    for level in (0, 1, 0, 2, 1):
        x = fresh(engine, X, level=level)
        got = compiled(x)
        assert got.level == level + 1
        assert parts(got) == parts(interpret(program, x, workspace=space))
    assert compiled.cache_info()[:2] == (2, 3)


def test_plans_are_bounded(engine: Any) -> None:
    b = ProgramBuilder(x=types.encrypted(layout=FULL))
    program = b.program(b("ren.ckks.negate", b["x"]))
    compiled = program.compile(workspace_for(program, engine), maxsize=2)
    for level in (0, 1, 2, 3):
        compiled(fresh(engine, X, level=level))
    assert compiled.cache_info().currsize == 2
    compiled.clear()
    assert compiled.cache_info().currsize == 0


# -- randomness ------------------------------------------------------------------------------------------------------


def test_online_encryption_is_fresh_at_every_call(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.negate", b["x"]))
    compiled = program.compile(workspace_for(program, engine))
    first, second = compiled(X), compiled(X)
    assert first.a.residues().tolist() != second.a.residues().tolist()
    for result in (first, second, compiled(Y - X)):
        assert result.level == 0
    np.testing.assert_allclose(decoded(engine, second), -X, atol=1e-7)
    with pytest.raises(ProgramInputError, match="takes a Ciphertext, or an array"):
        compiled(X[:7])
    assert compiled.cache_info()[:2] == (2, 1)


# -- errors ----------------------------------------------------------------------------------------------------------


def test_arguments_are_checked_at_every_call(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=types.message((S,), "float64"))
    program = b.program(b.times(b["x"], b["w"]))
    compiled = program.compile(workspace_for(program, engine))
    x = fresh(engine, X)
    compiled(x, W)
    with pytest.raises(ProgramInputError, match="shape"):
        compiled(x, W[:5])
    with pytest.raises(ProgramInputError, match="level 1"):
        compiled(fresh(engine, X, level=1), W)
    with pytest.raises(ProgramInputError, match="belongs to key"):
        compiled(fresh(ckks.Engine("python-test", device="reference"), X), W)
    compiled(x, W)


def test_an_error_of_public_work_names_its_operation_at_replays_too(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    program = b.program(b.times(b["x"], b("ren.public.reciprocal", b["w"])))
    compiled = program.compile(workspace_for(program, engine))
    x = fresh(engine, X)
    compiled(x, W + 3)
    with pytest.raises(ProgramRunError, match="ren.public.reciprocal failed: ZeroDivisionError"):
        compiled(x, np.where(np.arange(S) == 5, 0.0, W))
    np.testing.assert_allclose(decoded(engine, compiled(x, W + 3)), X / (W + 3), atol=1e-7)


def _six_products() -> Program:
    """As deep as the parameters go: only values up to 2^8 fit the last level."""
    b = ProgramBuilder(x=encrypted(bound=2.0), w=message())
    y = b["x"]
    for _ in range(6):
        y = b.times(y, b["w"])
    return b.program(y)


def test_bounds_of_other_calls_are_checked_by_each(engine: Any) -> None:
    """A plan captured with harmless bounds says that a later call may overflow; a strict engine refuses that call with the operation's name."""
    program = _six_products()
    space = workspace_for(program, engine)
    compiled = program.compile(space)
    x = fresh(engine, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(x, W).bound <= 2.0
    for run in (compiled, partial(interpret, program, workspace=space)):
        with pytest.warns(PossibleOverflowWarning):
            result = run(x, W * 10)
        assert math.isinf(result.bound)  # decryption says that it may have overflowed
    space["result_bound"] = 1.0  # not kept: what is compared are words, nothing is decrypted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        large = compiled(x, W * 10)
        assert large.bound == 1.0
        assert parts(large) == parts(interpret(program, x, W * 10, workspace=space))


def test_a_strict_engine_refuses_what_may_overflow_at_a_replay() -> None:
    engine = ckks.Engine("python-test", device="reference", strict_bounds=True)
    program = _six_products()
    compiled = program.compile(workspace_for(program, engine))
    x = fresh(engine, X / 2)
    compiled(x, W)
    with pytest.raises(ProgramRunError, match="multiply_plaintext failed: CapacityError"):
        compiled(x, W * 10)


# -- observers -------------------------------------------------------------------------------------------------------


def test_observers(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(type(manager()), "notify", lambda self, hook, **arguments: seen.append((hook, arguments)))
    b = ProgramBuilder(x=encrypted(), w=message())
    program = b.program(b.times(b["x"], b["w"]))
    space = workspace_for(program, engine)
    x = fresh(engine, X)
    program.run(x, W, workspace=space)
    assert [hook for hook, _ in seen] == ["ren_before_run", "ren_after_plan_captured", "ren_after_run"]
    assert seen[0][1]["program"] is program
    assert seen[0][1]["workspace"] is space
    assert seen[2][1]["report"].operations == len(program.requirements().operations)
    del seen[:]
    program.run(x, W, workspace=space)
    assert [hook for hook, _ in seen] == ["ren_before_run", "ren_after_run"]
    del seen[:]
    with pytest.raises(ProgramInputError, match="nan"):
        program.run(x, np.full(S, np.nan), workspace=space)
    assert [hook for hook, _ in seen] == ["ren_before_run", "ren_on_run_error"]


# -- threads ---------------------------------------------------------------------------------------------------------


def test_threads_replay_one_program_with_their_own_data(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    program = b.program(b.times(b["x"], b["w"]))
    compiled = program.compile(workspace_for(program, engine))
    inputs = [(fresh(engine, X * k), W * k) for k in (0.25, 0.5, 0.75, 1.0)]
    want = [parts(interpret(program, *args, workspace=compiled.workspace)) for args in inputs]
    wrong: list[Any] = []

    def work(i: int) -> None:
        for _ in range(5):
            if parts(compiled(*inputs[i])) != want[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    hits, misses, _, size = compiled.cache_info()
    assert hits + misses >= 20
    assert size == 1


def test_inside_a_captured_function_it_is_interpreted(engine: Any) -> None:
    """As before: a program run realizes its results, which a captured function may not do."""
    from ren import jit

    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.negate", b["x"]))
    space = workspace_for(program, engine)
    f = jit(lambda x: program.run(x, workspace=space))
    with pytest.raises(RuntimeError, match="realize should not be called"):
        f(fresh(engine, X))

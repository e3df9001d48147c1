"""Programs run and decrypt to what they mean: every executable operation, binding, handlers, batches, references."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest
from ren.errors import ProgramArgumentError, ProgramInputError, ProgramNotReadyError, ProgramRunError
from ren.poly import Poly
from ren.program import Workspace, encrypted, location, message, parse, plaintext, types
from ren.program.dialect import row_named
from ren.program.entry import INPUT_DEFAULTS, INPUT_NAMES, INPUT_STRUCTURE, KEYWORD_ONLY, OUTPUT_STRUCTURE
from ren.program.layout import FULL, Layout, Padding, packed
from ren.program.literals import OperandRef
from ren.program.op_table import TABLE
from ren.program.scales import SymbolicScale
from ren.schemes import ckks
from ren.testing.program_kit import ProgramBuilder, decoded, main_text, workspace_for

S = 64
X = np.cos(np.arange(S))
Y = np.sin(1 + np.arange(S)) / 2
W = np.linspace(-1, 1, S)
#: The noise of a handful of operations at 40 bits stays far below; a wrong value does not.
CLOSE = {"rtol": 0, "atol": 1e-7}

EXECUTED: set[str] = set()


def check(engine: Any, program: Any, expected: Any, *args: Any, **materials: Any) -> Any:
    """Run on arrays (encrypted online) and compare the decrypted result. Nothing may warn."""
    EXECUTED.update(op.name for op in program.walk())
    space = workspace_for(program, engine, materials=materials)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = program.run(*args, workspace=space)
    found = decoded(engine, result)
    np.testing.assert_allclose(found[: np.size(expected)], np.ravel(expected), **CLOSE)
    return result


def two() -> ProgramBuilder:
    return ProgramBuilder(x=encrypted(), y=encrypted())


@pytest.mark.parametrize(
    ("name", "expected"), [("ren.ckks.add", X + Y), ("ren.ckks.subtract", X - Y)], ids=["add", "subtract"]
)
def test_sums(engine: Any, name: str, expected: Any) -> None:
    b = two()
    check(engine, b.program(b(name, b["x"], b["y"])), expected, X, Y)


def test_product_relinearized_and_rescaled(engine: Any) -> None:
    b = two()
    result = check(engine, b.program(b.product(b["x"], b["y"])), X * Y, X, Y)
    assert result.level == 1
    assert result.scale == engine.params.scale_at(1)


def test_product_that_is_relinearized_late(engine: Any) -> None:
    """A sum of three products pays for one relinearization; the rescale behind it is merged into it."""
    b = two()
    x, y = b("ren.ckks.to_ntt", b["x"]), b("ren.ckks.to_ntt", b["y"])
    total = b("ren.ckks.add", b("ren.ckks.multiply", x, y), b("ren.ckks.square", x))
    total = b("ren.ckks.subtract", total, b("ren.ckks.multiply", y, y))
    out = b("ren.ckks.rescale", b("ren.ckks.relinearize", total))
    check(engine, b.program(out), X * Y + X * X - Y * Y, X, Y)


def test_relinearization_that_is_used_twice_is_carried_out_once_by_itself(engine: Any) -> None:
    b = two()
    r = b("ren.ckks.relinearize", b("ren.ckks.square", b("ren.ckks.to_ntt", b["x"])))
    total = b("ren.ckks.add", b("ren.ckks.rescale", r), b("ren.ckks.rescale", b("ren.ckks.rotate", r, shift=3)))
    check(engine, b.program(total), X * X + np.roll(X * X, 3), X, Y)


def test_products_may_wait_for_their_rescale(engine: Any) -> None:
    """A fourth power formed before any rescale: the engine keeps the state that inference says."""
    b = ProgramBuilder(x=encrypted())
    square = b("ren.ckks.relinearize", b("ren.ckks.square", b("ren.ckks.to_ntt", b["x"])))
    out = b("ren.ckks.relinearize", b("ren.ckks.multiply", square, square))
    for _ in range(3):
        out = b("ren.ckks.rescale", out)
    result = check(engine, b.program(out), X**4, X)
    assert result.level == 3


def test_negate_and_domains(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    out = b("ren.ckks.from_ntt", b("ren.ckks.to_ntt", b("ren.ckks.negate", b["x"])))
    check(engine, b.program(out), -X, X)


@pytest.mark.parametrize("shift", [0, 1, -1, 63, 64, -64, 130])
def test_rotation_is_torch_roll(engine: Any, shift: int) -> None:
    b = ProgramBuilder(x=encrypted())
    check(engine, b.program(b("ren.ckks.rotate", b["x"], shift=shift)), np.roll(X, shift), X)


def test_hoisted_group(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    r = b("ren.ckks.rotate_group", b["x"], shifts=[1, 0, -2])
    out = b("ren.ckks.add", b("ren.ckks.add", r[0], r[1]), r[2])
    check(engine, b.program(out), np.roll(X, 1) + X + np.roll(X, -2), X)


def test_conjugate_of_complex_slots(engine: Any) -> None:
    z = X + 1j * Y
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.conjugate", b["x"]))
    check(engine, program, np.conj(z), z)
    assert program.requirements().requires_conjugation


def test_sum_of_all_slots(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    result = check(engine, b.program(b("ren.ckks.sum_slots", b["x"])), [X.sum()], X)
    assert result.slots == 1


def test_sum_of_some_slots(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    out = b("ren.ckks.sum_slots", b["x"], count=4, stride=2)
    check(engine, b.program(out), sum(np.roll(X, 2 * i) for i in range(4)), X)


@pytest.mark.parametrize("basis", ["power", "chebyshev"])
def test_polynomial(engine: Any, basis: str) -> None:
    coefficients = [0.25, -0.5, 0.0, 0.125, 0.0625]
    b = ProgramBuilder(x=encrypted(bound=1.0))
    out = b("ren.ckks.polynomial", b["x"], coefficients=coefficients, basis=basis)
    value = np.polynomial.polynomial.polyval if basis == "power" else np.polynomial.chebyshev.chebval
    result = check(engine, b.program(out), value(X, coefficients), X)
    assert result.level == 3


def test_levels_are_aligned_explicitly(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    square = b.product(b["x"], b["x"])
    fourth = b.product(square, square)
    total = b("ren.ckks.add", fourth, b("ren.ckks.align", b["x"], level=2))
    dropped = b("ren.ckks.mod_switch", total, levels=2)
    result = check(engine, b.program(dropped), X**4 + X, X)
    assert result.level == 4
    assert result.scale == engine.params.scale_at(2)


def test_values_meet_where_levels_depend_on_an_argument(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), g=plaintext())
    scaled = b.times(b["x"], b["g"])
    left, right = b("ren.ckks.meet", scaled, b["x"])
    program = b.program(b("ren.ckks.add", left, right))
    EXECUTED.update(op.name for op in program.walk())
    space = workspace_for(program, engine)
    assert program.readiness(space).runnable
    for level in (0, 2):
        gain = engine.plaintext(0.5, level=level)
        np.testing.assert_allclose(decoded(engine, program.run(X, gain, workspace=space)), 1.5 * X, **CLOSE)


def test_reinterpreted_scale_multiplies_the_message(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    out = b("ren.ckks.reinterpret_scale", b["x"], scale=SymbolicScale.at_level(0) / SymbolicScale.of(4))
    check(engine, b.program(out), 4 * X, X)


def test_scalars(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    out = b("ren.ckks.rescale", b("ren.ckks.multiply_scalar", b["x"], value=0.3))
    out = b("ren.ckks.add_scalar", b("ren.ckks.multiply_integer", out, value=-2), value=0.125)
    result = check(engine, b.program(out), -0.6 * X + 0.125, X)
    assert (result.level, result.scale) == (1, engine.params.scale_at(1))


def test_complex_scalars(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    out = b("ren.ckks.add_scalar", b["x"], value=0.5 - 0.25j)
    check(
        engine,
        b.program(b("ren.ckks.rescale", b("ren.ckks.multiply_scalar", out, value=1j))),
        (X + 0.5 - 0.25j) * 1j,
        X,
    )


def test_public_data_of_every_role(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    held = b("ren.material.ref", types=[types.message((S,), "float64")], symbol="held", kind="tensor")
    out = b.plus(b.times(b["x"], b["w"]), b.constant(0.5))
    out = b("ren.ckks.subtract_plaintext", out, b.prepare("add", held, out))
    out = b.times(out, b.constant(2))
    check(engine, b.program(out), 2 * (X * W + 0.5 - Y), X, W, held=Y)


def test_encode_at_a_level(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    square = b.product(b["x"], b["x"])
    p = b("ren.ckks.encode", b["w"], level=1, layout=FULL, use="add")
    check(engine, b.program(b("ren.ckks.add_plaintext", square, p)), X * X + W, X, W)


def test_a_callers_plaintext_at_the_deeper_level(engine: Any) -> None:
    """The ciphertext follows a plaintext that is deeper, a shallower plaintext loses primes; scales stay exact either way."""
    for level, at in ((0, 2), (1, 1), (3, 1)):
        b = ProgramBuilder(x=encrypted(level=at), g=plaintext())
        program = b.program(b.times(b["x"], b["g"]))
        space = workspace_for(program, engine)
        x = engine.encrypt(engine.encode(X, level=at))
        result = program.run(x, engine.plaintext(W, level=level), workspace=space)
        assert result.level == max(level, at) + 1
        np.testing.assert_allclose(decoded(engine, result), X * W, **CLOSE)


def test_a_plaintext_of_another_scale_is_refused_before_anything_runs(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), g=plaintext())
    program = b.program(b("ren.ckks.add_plaintext", b["x"], b.prepare("add", b["g"], b["x"])))
    space = workspace_for(program, engine)
    np.testing.assert_allclose(decoded(engine, program.run(X, engine.plaintext(W), workspace=space)), X + W, **CLOSE)
    with pytest.raises(ProgramNotReadyError) as caught:
        program.run(X, engine.plaintext(W, scale=2.0**41), workspace=space)
    assert caught.value.report.codes == {"scale-mismatch"}


def test_conditional_rescale(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), g=plaintext())
    p = b.prepare("multiply", b["g"], b["x"])
    product = b("ren.ckks.multiply_plaintext", b("ren.ckks.to_ntt", b["x"]), p)
    program = b.program(b("ren.ckks.rescale", product, p, condition="plaintext_scale_not_one"))
    space = workspace_for(program, engine)
    # An integer at scale 1: the engine encodes no values there, but a product with it is exact.
    three = Poly.const(3, engine.params.ring, engine.device).ntt()
    exact = dataclasses.replace(engine.plaintext(1.0), poly=three, scale=ckks.Scale(), bound=3.0)
    for value, gain, level in ((3.0, exact, 0), (0.5, engine.plaintext(0.5), 1)):
        result = program.run(X, gain, workspace=space)
        assert result.level == level
        np.testing.assert_allclose(decoded(engine, result), value * X, **CLOSE)


# -- layouts ---------------------------------------------------------------------------------------------------------


def test_a_declared_extent_rolls_within_itself(engine: Any) -> None:
    """B20, and the silent error of the peer: `roll` of 8 logical slots is not a rotation of 64."""
    x = X[:8]
    b = ProgramBuilder(x=encrypted(slots=8))
    program = b.program(b("ren.ckks.rotate", b["x"], shift=-1))
    assert program.requirements().rotation_steps == {7}
    check(engine, program, np.roll(x, -1), x)
    sparse = engine.encrypt(engine.encode(x, slots=8))
    space = workspace_for(program, engine)
    np.testing.assert_allclose(decoded(engine, program.run(sparse, workspace=space), 8), np.roll(x, -1), **CLOSE)


def test_a_ciphertext_packed_otherwise_is_refused(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(slots=8))
    program = b.program(b("ren.ckks.rotate", b["x"], shift=1))
    zero_padded = engine.encrypt_message(X[:8], engine.public_key)
    with pytest.raises(ProgramInputError, match=r"64 slots.*needs 8.*slots=8"):
        program.run(zero_padded, workspace=workspace_for(program, engine))


def test_padding_stays_zero_under_public_data_and_is_polluted_by_scalars(engine: Any) -> None:
    """B23: three elements in a frame of four."""
    x = np.array([0.1, 0.2, 0.3])
    b = ProgramBuilder(x=encrypted(slots=3), w=message())
    total = b("ren.ckks.sum_slots", b.times(b.plus(b["x"], b.constant(1.0)), b["w"]))
    check(engine, b.program(total), [(2 * (x + 1)).sum()], x, 2.0)

    b = ProgramBuilder(x=encrypted(slots=3))
    shifted = b("ren.ckks.add_scalar", b["x"], value=1.0)
    assert shifted.type.data.layout.padding is Padding.ANY
    with pytest.raises(ValueError, match="mask it before a sum"):
        b("ren.ckks.sum_slots", shifted)
    # A vector is packed with zeros in the padding, so a product with ones is a mask; it costs a level.
    ones = b("ren.material.ref", types=[types.message((3,), "float64")], symbol="ones")
    out = b("ren.ckks.sum_slots", b.times(shifted, ones))
    check(engine, b.program(out), [(x + 1).sum()], x, ones=np.ones(3))


def test_masked_sum(engine: Any) -> None:
    x = np.array([0.1, 0.2, 0.3])
    b = ProgramBuilder(x=encrypted(slots=3))
    shifted = b("ren.ckks.add_scalar", b["x"], value=1.0)
    whole = b("ren.ckks.relayout", shifted, layout=Layout((4,), 4))
    masked = b.times(whole, b("ren.public.mask", start=0, stop=3, frame=4))
    three = b("ren.ckks.relayout", masked, layout=packed((3,)))
    check(engine, b.program(b("ren.ckks.sum_slots", three)), [(x + 1).sum()], x)


def test_matrix_by_diagonals(engine: Any) -> None:
    """A 3 x 2 matrix on a frame of four: four rotated products."""
    rng = np.random.default_rng(5)
    matrix, x = rng.uniform(-1, 1, (3, 2)), rng.uniform(-1, 1, 2)
    for form, given in (("linear", matrix), ("right", matrix.T)):
        b = ProgramBuilder(x=encrypted(slots=2), w=message())
        value = b("ren.ckks.relayout", b["x"], layout=Layout((4,), 4))
        total = None
        for index in range(4):
            d = b("ren.public.diagonal", b["w"], index=index, rows=3, columns=2, frame=4, form=form)
            turned = b("ren.ckks.to_ntt", b("ren.ckks.rotate", value, shift=index))
            term = b("ren.ckks.multiply_plaintext", turned, b.prepare("multiply", d, turned))
            total = term if total is None else b("ren.ckks.add", total, term)
        out = b("ren.ckks.relayout", b("ren.ckks.rescale", total), layout=packed((3,)))
        check(engine, b.program(out), matrix @ x, x, given)


def test_public_arithmetic(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    r = b("ren.public.negate", b("ren.public.reciprocal", b["w"]))
    program = b.program(b.times(b["x"], r))
    check(engine, program, -X / (W + 3), X, W + 3)
    with pytest.raises(ProgramRunError, match=r"ren\.public\.reciprocal.*divisor is 0 at index \(5,\)") as caught:
        program.run(X, np.arange(S) - 5.0, workspace=workspace_for(program, engine))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_short_public_data_is_an_error_not_padded(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    program = b.program(b.times(b["x"], b["w"]))
    with pytest.raises(ProgramRunError, match=r"shape \(4,\) does not meet"):
        program.run(X, np.ones(4), workspace=workspace_for(program, engine))


def test_a_number_in_every_slot_meets_a_vector(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    total = b("ren.ckks.sum_slots", b["x"])
    w = b("ren.material.ref", types=[types.message((8,), "float64")], symbol="w")
    out = b.times(total, w)
    assert out.type.data.layout == packed((8,))
    check(engine, b.program(out), X.sum() * np.arange(8), X, 0, w=np.arange(8.0))


# -- batches ---------------------------------------------------------------------------------------------------------


def test_batches_broadcast(engine: Any) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.uniform(-1, 1, (2, 3, S)), rng.uniform(-1, 1, (3, S))
    b = ProgramBuilder(x=encrypted(batch_mode="any"), y=encrypted(), w=message())
    out = b("ren.ckks.rotate", b.plus(b.product(b["x"], b["y"]), b["w"]), shift=1)
    program = b.program(out)
    space = workspace_for(program, engine)
    result = program.run(x, Y, w, workspace=space)
    assert isinstance(result, ckks.CiphertextBatch)
    assert result.shape == (2, 3)
    np.testing.assert_allclose(decoded(engine, result), np.roll(x * Y + w, 1, axis=-1), **CLOSE)
    given = engine.encrypt(engine.encode(x))
    np.testing.assert_allclose(
        decoded(engine, program.run(given, Y, w, workspace=space)), np.roll(x * Y + w, 1, axis=-1), **CLOSE
    )


def test_batches_need_their_declaration(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.negate", b["x"]))
    space = workspace_for(program, engine)
    with pytest.raises(ProgramInputError, match=r"batch axes \(2,\)"):
        program.run(np.zeros((2, S)), workspace=space)
    with pytest.raises(ProgramInputError, match=r"batch axes \(2,\)"):
        program.run(engine.encrypt(engine.encode(np.zeros((2, S)))), workspace=space)
    b = ProgramBuilder(x=encrypted(batch_mode="any"))
    program = b.program(b("ren.ckks.negate", b["x"]))
    with pytest.raises(ProgramInputError, match="empty batch"):
        program.run(np.zeros((0, S)), workspace=space)


# -- binding ---------------------------------------------------------------------------------------------------------


def test_names_positions_defaults_and_keywords(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), gain=message(), bias=message())
    out = b.plus(b.times(b["x"], b["gain"]), b["bias"])
    program = b.program(
        out,
        attributes={
            INPUT_NAMES: ["x", "gain", "bias"],
            INPUT_DEFAULTS: {"gain": 0.5, "bias": 0.25},
            KEYWORD_ONLY: ["bias"],
        },
    )
    space = workspace_for(program, engine)

    def value(*args: Any, **kwargs: Any) -> Any:
        return decoded(engine, program.run(*args, workspace=space, **kwargs))

    np.testing.assert_allclose(value(X), 0.5 * X + 0.25, **CLOSE)
    np.testing.assert_allclose(value(X, 2.0), 2 * X + 0.25, **CLOSE)
    np.testing.assert_allclose(value(bias=1.0, x=X), 0.5 * X + 1, **CLOSE)
    for args, kwargs, text in (
        ((X, 1.0, 1.0), {}, "takes 2 positional arguments, 3 were given"),
        ((), {}, "misses: x"),
        ((X,), {"weight": 1}, "no argument 'weight'"),
        ((X,), {"x": X}, "'x' twice"),
    ):
        with pytest.raises(ProgramArgumentError, match=text) as caught:
            program.run(*args, workspace=space, **kwargs)
        assert isinstance(caught.value, TypeError)


def test_containers_in_and_out(engine: Any) -> None:
    b = ProgramBuilder(a=encrypted(), c=encrypted())
    total = b("ren.ckks.add", b["a"], b["c"])
    program = b.program(
        total,
        b["a"],
        attributes={
            INPUT_NAMES: ["pair"],
            INPUT_STRUCTURE: {"pair": [OperandRef(0), {"second": OperandRef(1)}]},
            OUTPUT_STRUCTURE: {"sum": OperandRef(0), "rest": (OperandRef(1), "text", [1])},
        },
    )
    space = workspace_for(program, engine)
    result = program.run([X, {"second": Y}], workspace=space)
    assert list(result) == ["sum", "rest"]
    assert result["rest"][1:] == ("text", [1])
    np.testing.assert_allclose(decoded(engine, result["sum"]), X + Y, **CLOSE)
    np.testing.assert_allclose(decoded(engine, result["rest"][0]), X, **CLOSE)
    again = program.run([X, {"second": Y}], workspace=space)
    assert again["rest"][2] is not result["rest"][2]
    with pytest.raises(ProgramInputError, match=r"pair\[1\] must be a mapping"):
        program.run([X, Y], workspace=space)
    with pytest.raises(ProgramInputError, match="pair must be a sequence of 2"):
        program.run([X], workspace=space)


def test_several_results_are_a_tuple(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    program = b.program(b("ren.ckks.negate", b["x"]), b["w"])
    result = program.run(X, "anything", workspace=workspace_for(program, engine))
    assert isinstance(result, tuple)
    assert result[1] == "anything"


def test_encrypted_inputs_meet_their_declaration(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.negate", b["x"]))
    space = workspace_for(program, engine)
    other = ckks.Engine("python-test", device="reference")
    fresh = engine.encrypt_message(X, engine.public_key)
    with engine:
        small = fresh.assume_bound(1.0)
        unrelinearized = ckks.multiply(small, small, relinearize=False, rescale=False)
    cases = [
        (other.encrypt_message(X, other.public_key), "belongs to key"),
        (engine.encrypt_message(X, engine.public_key, level=1), "has level 1, level 0 is declared"),
        (engine.encrypt_message(X, engine.public_key, scale=2.0**41), r"has scale 2.199023e\+12"),
        (unrelinearized, "not relinearized"),
        ("text", "takes a Ciphertext, or an array"),
        (X[:8], r"last axis has 64 elements"),
        (None, "takes a Ciphertext, or an array"),
    ]
    for value, text in cases:
        with pytest.raises(ProgramInputError, match=text) as caught:
            program.run(value, workspace=space)
        assert caught.value.subject == "x"
        assert isinstance(caught.value, ValueError)


def test_the_output_of_one_program_is_the_input_of_another(engine: Any) -> None:
    """The peer wanted the exact float of a drifted scale repeated in the declaration."""
    b = ProgramBuilder(x=encrypted())
    first = b.program(b.product(b["x"], b["x"]))
    value = first.run(X, workspace=workspace_for(first, engine))
    b = ProgramBuilder(x=encrypted(level=1))
    second = b.program(b("ren.ckks.negate", b["x"]))
    np.testing.assert_allclose(
        decoded(engine, second.run(value, workspace=workspace_for(second, engine))), -X * X, **CLOSE
    )
    b = ProgramBuilder(x=encrypted(level=1, scale=value.scale))
    third = b.program(b("ren.ckks.negate", b["x"]))
    np.testing.assert_allclose(
        decoded(engine, third.run(value, workspace=workspace_for(third, engine))), -X * X, **CLOSE
    )


def test_a_scale_given_as_a_number_is_compared_when_there_is_an_engine(engine: Any) -> None:
    def program(scale: float) -> Any:
        b = ProgramBuilder(x=encrypted(scale=scale), y=encrypted())
        return b.program(b.product(b("ren.ckks.add", b["x"], b["y"]), b["y"]))

    check(engine, program(2.0**40), (X + Y) * Y, X, Y)
    assert program(2.0**41).readiness().codes == {"missing-engine", "missing-evaluation-keys"}
    wrong = program(2.0**41)
    assert wrong.readiness(workspace_for(wrong, engine)).codes == {"scale-mismatch"}


def test_plaintext_inputs_must_be_plaintexts(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), g=plaintext())
    program = b.program(b.times(b["x"], b["g"]))
    space = workspace_for(program, engine)
    with pytest.raises(ProgramInputError, match=r"takes a ckks\.Plaintext, got float"):
        program.run(X, 0.5, workspace=space)
    other = ckks.Engine(ckks.CKKSParams.build(n=128, levels=3, scale_bits=40, toy=True), device="reference")
    with pytest.raises(ProgramInputError, match="encoded for parameters"):
        program.run(X, other.plaintext(0.5), workspace=space)
    constant = ckks.Plaintext.const(0.5)
    np.testing.assert_allclose(decoded(engine, program.run(X, constant, workspace=space)), 0.5 * X, **CLOSE)


def test_a_plaintext_that_does_not_repeat_is_refused_for_a_repeated_frame(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(slots=8), g=plaintext())
    program = b.program(b.times(b["x"], b["g"]))
    space = workspace_for(program, engine)
    for gain in (engine.plaintext(0.5), engine.plaintext(np.tile(W[:8], 8)), engine.encode(W[:8], slots=8)):
        value = decoded(engine, program.run(X[:8], gain, workspace=space), 8)
        expected = X[:8] * (0.5 if gain.bound == 0.5 else W[:8])
        np.testing.assert_allclose(value, expected, **CLOSE)
    with pytest.raises(ProgramRunError, match="does not repeat"):
        program.run(X[:8], engine.plaintext(W), workspace=space)


def test_online_encryption_needs_the_public_key(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.negate", b["x"]))
    space = workspace_for(program, engine)
    del space["public_key"]
    with pytest.raises(ProgramNotReadyError) as caught:
        program.run(X, workspace=space)
    assert caught.value.report.codes == {"missing-public-key"}
    assert not caught.value.report.runnable
    program.run(engine.encrypt_message(X, engine.public_key), workspace=space)


# -- references, handlers, calls -------------------------------------------------------------------------------------


def test_j3_unknown_operation_with_a_handler() -> None:
    program = parse(
        main_text("%n: !ren.message", '    %0 = "app.double"(%n) : (!ren.message) -> !ren.message', "%0 : !ren.message")
    )
    space = {"handlers": {"app.double": lambda operation, operands, workspace: 2 * operands[0]}}
    assert program.readiness(space).runnable
    assert program.run(7, workspace=space) == 14
    assert program.run(n=7, workspace=space) == 14


def test_j25_unknown_operation_without_a_handler() -> None:
    program = parse(main_text("", '    %0 = "app.make"() : () -> !ren.message', "%0 : !ren.message"))
    assert program.readiness().missing_operations == ("app.make",)
    with pytest.raises(ProgramNotReadyError, match=r"app\.make") as caught:
        program.run()
    assert caught.value.report.missing_operations == ("app.make",)


def test_j26_handlers_cannot_replace_built_in_operations() -> None:
    program = parse(
        main_text("", '    %0 = "ren.constant"() <{value = 3 : i64}> : () -> !ren.message', "%0 : !ren.message")
    )
    assert program.run(workspace={"handlers": {"ren.constant": lambda *a: 99}}) == 3


def test_j27_j33_references_by_identity() -> None:
    for kind in ("material", "resource"):
        program = parse(
            main_text("", f'    %0 = "ren.{kind}.ref"() <{{symbol = "w"}}> : () -> !ren.{kind}', f"%0 : !ren.{kind}")
        )
        assert program.readiness().codes == {f"missing-{kind}"}
        thing = object()
        assert program.run(workspace={kind + "s": {"w": thing}}) is thing
        assert "object" not in program.to_text()


def test_resolvers_are_asked_once_per_symbol_and_run() -> None:
    text = main_text(
        "",
        '    %0 = "ren.material.ref"() <{symbol = "w", kind = "k"}> : () -> !ren.material\n'
        '    %1 = "ren.material.ref"() <{symbol = "w", kind = "k"}> : () -> !ren.material',
        "%0 : !ren.material; %1 : !ren.material",
    )
    asked = []

    def resolver(symbol: str, kind: str, binding: Any, workspace: Any) -> Any:
        asked.append((symbol, kind, binding))
        return binding * 2

    assert parse(text).run(workspace={"materials": {"w": 21}, "material_resolver": resolver}) == (42, 42)
    assert asked == [("w", "k", 21)]


def test_handler_errors_name_operation_and_line() -> None:
    body = '    %0 = "app.fails"() : () -> !ren.message loc("model.py":12:3)'
    program = parse(main_text("", body, "%0 : !ren.message"))

    def fails(operation: Any, operands: Any, workspace: Any) -> Any:
        raise KeyError("inner")

    with pytest.raises(ProgramRunError, match=r"app\.fails at model\.py:12 failed: KeyError: 'inner'") as caught:
        program.run(workspace={"handlers": {"app.fails": fails}})
    assert isinstance(caught.value.__cause__, KeyError)


def test_handler_result_counts() -> None:
    def run(results: str, back: str, value: Any) -> Any:
        names = ", ".join(f"%{i}" for i in range(results.count("!")))
        body = f'    {names + " = " if names else ""}"app.x"() : () -> ({results})'
        return parse(main_text("", body, back)).run(workspace={"handlers": {"app.x": lambda *a: value}})

    assert run("!ren.message, !ren.message", "%0 : !ren.message; %1 : !ren.message", (1, 2)) == (1, 2)
    assert run("", "", None) is None
    for results, value in (("!ren.message, !ren.message", (1,)), ("!ren.message, !ren.message", 1), ("", 1)):
        with pytest.raises(ProgramRunError, match="handler of app.x"):
            run(results, "", value)


def test_torch_calls_go_to_their_handler() -> None:
    body = (
        '    %0 = "torch.call"(%a, %b) <{ren.call.kind = "function", ren.call.target = "app.join", '
        "ren.call.arguments = [#ren.tuple<[#ren.operand<1>, #ren.operand<0>]>, 3 : i64], ren.call.keywords = {dim = -1 : i64}}> "
        ": (!ren.message, !ren.message) -> !ren.message"
    )
    program = parse(main_text("%a: !ren.message, %b: !ren.message", body, "%0 : !ren.message"))
    assert program.readiness().codes == {"missing-torch-handler"}
    seen = program.run("A", "B", workspace={"torch_handlers": {"app.join": lambda *args, **kwargs: (args, kwargs)}})
    assert seen == ((("B", "A"), 3), {"dim": -1})


def test_a_handler_on_encrypted_values_gets_ciphertexts(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    out = b(
        "torch.call",
        b["x"],
        types=[types.encrypted(level=0, scale=SymbolicScale.at_level(0), layout=FULL, parts=2)],
        **{"ren.call.kind": "function", "ren.call.target": "torch.sin"},
    )
    program = b.program(b("ren.ckks.negate", out))
    space = workspace_for(program, engine)
    assert program.readiness(space).codes == {"missing-torch-handler"}  # J34

    def sine(x: Any) -> Any:
        assert isinstance(x, ckks.Ciphertext)
        with engine:
            return x + 0.0

    space["torch_handlers"] = {"torch.sin": sine}
    np.testing.assert_allclose(decoded(engine, program.run(X, workspace=space)), -X, **CLOSE)


def test_bootstrap_is_an_extension_point(engine: Any) -> None:
    """J32: known to the vocabulary, executed by whoever brings it."""
    b = ProgramBuilder(x=encrypted(level=3))
    program = b.program(b("ren.ckks.bootstrap", b["x"], level=0))
    space = workspace_for(program, engine)
    report = program.readiness(space)
    assert report.missing_operations == ("ren.ckks.bootstrap",)

    def refresh(operation: Any, operands: Any, workspace: Any) -> Any:
        owner = workspace["engine"]
        return owner.encrypt(owner.encode(owner.decode(owner.decrypt(operands[0])), 2.0))

    space["handlers"] = {"ren.ckks.bootstrap": refresh}
    result = program.run(engine.encrypt(engine.encode(X, level=3)), workspace=space)
    assert result.level == 0
    np.testing.assert_allclose(decoded(engine, result), X, **CLOSE)


def test_nothing_runs_before_run(engine: Any) -> None:
    """J24 on encrypted data: analysis and readiness call no handler and change nothing."""
    calls: list[str] = []
    body = '    %0 = "app.effect"(%n) : (!ren.message) -> !ren.message'
    program = parse(main_text("%n: !ren.message", body, "%0 : !ren.message"))
    space = Workspace(handlers={"app.effect": lambda *a: calls.append("ran")})
    before = program.to_text(), dict(space)
    program.requirements()
    program.readiness(space)
    assert (program.to_text(), dict(space)) == before
    assert calls == []


def test_level_and_scale_of_the_result_are_those_that_were_inferred(engine: Any) -> None:
    b = two()
    out = b("ren.ckks.rotate", b.product(b.product(b["x"], b["y"]), b("ren.ckks.align", b["x"], level=1)), shift=5)
    program = b.program(out)
    report = program.readiness(workspace_for(program, engine))
    assert report.flow is not None
    state = report.flow.types[out].data  # type: ignore[attr-defined]
    result = check(engine, program, np.roll(X * X * Y, 5), X, Y)
    assert (result.level, result.slots) == (state.level, state.layout.frame)
    assert math.isclose(float(result.scale), float(engine.params.scale_at(state.level)))


def test_locations_survive_to_the_error(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted(), w=message())
    p = b.prepare("multiply", b["w"], b["x"])
    p.owner.location = location("user.py", 7)
    program = b.program(b("ren.ckks.multiply_plaintext", b("ren.ckks.to_ntt", b["x"]), p))
    with pytest.raises(ProgramRunError, match=r"at user\.py:7"):
        program.run(X, "no numbers", workspace=workspace_for(program, engine))


def test_every_executable_operation_was_run_above() -> None:
    rows = {r.name for r in TABLE if r.handler is not None}
    elsewhere = {"ren.resource.ref", "ren.constant", "torch.call", "ren.ckks.assume_bound"}
    reached = {op for op in EXECUTED if row_named(op) is not None}
    if len(EXECUTED) > 40:  # the whole file ran
        assert rows - reached - elsewhere == set()

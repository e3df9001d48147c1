"""The small parts that programs are made of: scales, layouts, input declarations, workspaces, and the private names of xDSL."""

from __future__ import annotations

import dataclasses
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ren.errors import InputSpecError, ProgramVerifyError, SecretExportError
from ren.program import InputSpec, Workspace, _xdsl, encrypted, message, parse, plaintext, static
from ren.program.arguments import argument_type
from ren.program.chain import canonical, number_of, symbolic
from ren.program.layout import FULL, SCALAR, Layout, LayoutError, Padding, broadcast, packed
from ren.program.literals import LiteralError, decode, encode
from ren.program.packing import pack, to_array
from ren.program.scales import SymbolicScale
from ren.program.states import EncryptedState, disagreement, merged
from ren.program.types import encrypted as encrypted_type
from ren.schemes.ckks import CKKSParams, Scale
from ren.testing.program_kit import main_text

PARAMS = CKKSParams.python_test()
S0, S1, S2 = (SymbolicScale.at_level(i) for i in range(3))


# -- scales ----------------------------------------------------------------------------------------------------------


def test_the_ladder() -> None:
    """A square, rescaled, has the scale of the next level, at every level and exactly in the engine's arithmetic too."""
    for level in range(PARAMS.levels):
        s = SymbolicScale.at_level(level)
        assert (s * s).rescaled(level) == SymbolicScale.at_level(level + 1)
        assert number_of(s, PARAMS) == PARAMS.scale_at(level)
        assert number_of((s * s).rescaled(level), PARAMS) == PARAMS.scale_at(level) ** 2 / PARAMS.prime_dropped_at(
            level
        )
    assert number_of(SymbolicScale.at_level(PARAMS.levels + 1), PARAMS) is None


@pytest.mark.parametrize("text", ["1", "s0", "s0^2", "s1*s2^-1", "s0*2^40", "2^-55*3602879701896397"])
def test_scale_text(text: str) -> None:
    assert str(SymbolicScale.parse(text)) == text


@pytest.mark.parametrize("text", ["", "s", "s-1", "2^", "s0*s0", "1*s0", "0", "s0^1.5", "x", "s0 * s1", "s99999"])
def test_malformed_scale_text(text: str) -> None:
    with pytest.raises(ProgramVerifyError):
        SymbolicScale.parse(text)


terms = st.dictionaries(st.integers(0, 6), st.integers(-3, 3), max_size=4)


def scale_of(powers: dict[int, int], two: int, odd: int) -> SymbolicScale:
    s = SymbolicScale.of(2.0**two) * SymbolicScale.of(odd)
    for level, power in powers.items():
        s = s * SymbolicScale.at_level(level) ** power
    return s


@given(terms, st.integers(-90, 90), st.sampled_from([1, 3, 10**6 + 3]))
def test_canonical_form_is_exact_and_unique(powers: dict[int, int], two: int, odd: int) -> None:
    scale = scale_of(powers, two, odd)
    assert SymbolicScale.parse(str(scale)) == scale
    value = number_of(scale, PARAMS)
    assert value is not None
    form = canonical(scale, PARAMS)
    assert number_of(form, PARAMS) == value
    assert canonical(form, PARAMS) == form
    assert symbolic(value, PARAMS) == form


def test_scales_of_users() -> None:
    assert canonical(SymbolicScale.of(2.0**40), PARAMS) == S0
    assert canonical(SymbolicScale.of(2**80), PARAMS) == S0 * S0
    assert canonical(SymbolicScale.of(2.0**41), PARAMS) != S0
    assert canonical(SymbolicScale.of(PARAMS.scale_at(2)), PARAMS) == S2
    assert canonical(SymbolicScale.of(0.1), PARAMS) == canonical(SymbolicScale.of(Scale.of(0.1)), PARAMS)
    assert SymbolicScale.of(6) / SymbolicScale.of(3) == SymbolicScale.of(2)
    assert (S0 / S0).is_one
    for bad in (0, -1, 0.0, math.inf, math.nan):
        with pytest.raises(InputSpecError):
            SymbolicScale.of(bad)


# -- layouts ---------------------------------------------------------------------------------------------------------


def test_layout_facts() -> None:
    assert packed((3,)) == Layout((3,), 4, Padding.ZERO)
    assert packed((4,)) == Layout((4,), 4)
    assert packed(()) == SCALAR
    assert packed((2, 3)).frame == 8
    assert FULL.resolve(64) == Layout((64,), 64)
    assert packed((3,)).resolve(64) == packed((3,))
    assert Layout((3,), None, Padding.ZERO).resolve(64) == Layout((3,), 64, Padding.ZERO)
    assert packed((3,)).repetitions(64) == 16
    assert packed((4,)).is_dense
    assert not packed((3,)).is_dense
    for bad in ((100,), (65,)):
        with pytest.raises(LayoutError):
            packed(bad).resolve(64)
    for args in (((3,), 3), ((5,), 4), ((0,), 1), ((3,), 4), (None, 4), ((-1,), 4)):
        with pytest.raises(LayoutError):
            Layout(*args)


def contents(layout: Layout, slots: int, seed: int) -> list[str]:
    """What each slot holds, as names: logical element, zero, or garbage of its own."""
    layout = layout.resolve(slots)
    assert layout.frame is not None
    one = [f"e{i}" for i in range(layout.elements)]
    rest = layout.frame - layout.elements
    one += ["0"] * rest if layout.padding is Padding.ZERO else [f"g{seed}.{i}" for i in range(rest)]
    return one * (slots // layout.frame)


layouts = st.sampled_from(
    [FULL, SCALAR, packed((3,)), packed((4,)), packed((3,)).with_padding(Padding.ANY), Layout((3,), 8, Padding.ZERO), Layout((3,), None, Padding.ZERO),
     Layout((3,), None, Padding.ANY), packed((2, 4)), packed((8,)), Layout((4,), 8, Padding.ANY), packed((1,)), Layout((), 8, Padding.ANY)]
)  # fmt: skip


@given(layouts, layouts, st.booleans())
def test_broadcast_says_what_the_slots_hold(a: Layout, b: Layout, product: bool) -> None:
    """Whatever two layouts combine to, each slot holds the combination of equal elements where the result says so."""
    slots = 16
    a, b = a.resolve(slots), b.resolve(slots)
    try:
        found = broadcast(a, b, product=product)
    except LayoutError:
        assert a.shape != b.shape
        return
    assert found == broadcast(b, a, product=product)
    left, right = contents(a, slots, 1), contents(b, slots, 2)
    frame, shape = found.frame, found.shape
    assert frame is not None
    assert shape is not None
    for start in range(0, slots, frame):
        for i in range(frame):
            x, y = left[start + i], right[start + i]
            if i < found.elements:
                expected = (
                    [f"e{i}"]
                    if math.prod(a.shape or ()) == math.prod(b.shape or ())
                    else [f"e{i}", "e0", f"e{i % min(a.elements, b.elements)}"]
                )
                assert x in expected
                assert y in expected
            elif found.padding is Padding.ZERO:
                assert "0" in (x, y) if product else (x, y) == ("0", "0")


def test_packing() -> None:
    batch, rows, frame = pack([[1, 2, 3], [4, 5, 6]], packed((3,)), 64)
    assert (batch, frame, [r.tolist() for r in rows]) == ((2,), 4, [[1, 2, 3], [4, 5, 6]])
    assert [r.tolist() for r in pack(2.5, packed((3,)), 64)[1]] == [[2.5, 2.5, 2.5]]
    assert pack([[1, 2], [3, 4]], Layout((2, 2), 4), 64)[1][0].tolist() == [1, 2, 3, 4]
    assert pack([1, 2, 3], SCALAR, 64)[2] == 4
    assert pack([[7]], packed((3,)), 64)[1][0].tolist() == [7, 7, 7]
    for value in ([1, 2], [[1, 2, 3, 4]]):
        with pytest.raises(LayoutError):
            pack(value, packed((3,)), 64)
    for value in ("text", None, [object()]):
        with pytest.raises(TypeError):
            to_array(value)


# -- states ----------------------------------------------------------------------------------------------------------


def test_unknown_is_not_wrong() -> None:
    known = EncryptedState(level=1, scale=S1, layout=FULL, parts=2, domain="ntt", batch="none", bound=1.0)
    assert disagreement(EncryptedState(), known) is None
    assert disagreement(known, EncryptedState()) is None
    assert disagreement(dataclasses.replace(known, bound=9.0), known) is None
    for field, other in (
        ("level", 2),
        ("scale", S2),
        ("layout", SCALAR),
        ("parts", 3),
        ("domain", "coeff"),
        ("batch", "any"),
    ):
        assert field in str(disagreement(dataclasses.replace(known, **{field: other}), known))
    assert merged(EncryptedState(level=9, batch="any"), EncryptedState(level=1)) == EncryptedState(level=1, batch="any")


def test_types_are_interned() -> None:
    a, b = encrypted_type(level=1, layout=packed((3,))), encrypted_type(level=1, layout=packed((3,)))
    assert a is b
    assert a != encrypted_type(level=2, layout=packed((3,)))
    assert pickle.loads(pickle.dumps(a.data)) == a.data


# -- declarations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "subject"),
    [
        (lambda: InputSpec("secret"), ValueError, "role"),  # type: ignore[arg-type]
        (lambda: InputSpec("message", level=1), ValueError, "level"),
        (lambda: InputSpec("plaintext", scale=2.0), ValueError, "scale"),
        (lambda: InputSpec("static", slots=4, static_value=1), ValueError, "slots"),
        (lambda: InputSpec("message", batch_mode="any"), ValueError, "batch_mode"),
        (lambda: InputSpec("static", bound=1.0, static_value=1), ValueError, "bound"),
        (lambda: InputSpec("message", bound=-1.0), ValueError, "bound"),
        (lambda: InputSpec("encrypted", static_value=1), ValueError, "static_value"),
        (lambda: static([1]), TypeError, "static_value"),  # type: ignore[arg-type]
        (lambda: static(math.inf), ValueError, "static_value"),
        (lambda: static(complex(0, math.nan)), ValueError, "static_value"),
        (lambda: encrypted(level=True), TypeError, "level"),
        (lambda: encrypted(level=1.0), TypeError, "level"),  # type: ignore[arg-type]
        (lambda: encrypted(level=-1), ValueError, "level"),
        (lambda: encrypted(scale="big"), TypeError, "scale"),
        (lambda: encrypted(scale=0.0), ValueError, "scale"),
        (lambda: encrypted(scale=math.nan), ValueError, "scale"),
        (lambda: encrypted(scale=True), TypeError, "scale"),
        (lambda: encrypted(slots="all"), TypeError, "slots"),  # type: ignore[arg-type]
        (lambda: encrypted(slots=0), ValueError, "slots"),
        (lambda: encrypted(slots=True), TypeError, "slots"),
        (lambda: encrypted(slots=()), TypeError, "slots"),
        (lambda: encrypted(slots=1 << 20), ValueError, "slots"),
        (lambda: encrypted(batch_mode="some"), ValueError, "batch_mode"),  # type: ignore[arg-type]
        (lambda: encrypted(bound=-1.0), ValueError, "bound"),
    ],
)
def test_declarations_are_checked(make: Any, error: type[Exception], subject: str) -> None:
    with pytest.raises(InputSpecError) as caught:
        make()
    assert isinstance(caught.value, error)
    assert caught.value.subject == subject


def test_declarations() -> None:
    assert encrypted().layout == FULL
    assert encrypted(slots=3).layout == packed((3,))
    assert encrypted(slots=(2, 4)).layout == packed((2, 4))
    assert message().layout is None
    assert static(None).static_value is None
    assert encrypted(scale=PARAMS.scale_at(1)).scale == PARAMS.scale_at(1)
    state = argument_type(encrypted(level=2, slots=3, batch_mode="any", bound=1.5)).data
    assert state == EncryptedState(2, S2, packed((3,)), 2, "coeff", "any", 1.5)
    assert str(argument_type(plaintext())) == "!ren.plaintext"
    # The declaration survives text: it is the type.
    text = parse(main_text(f"%x: {argument_type(encrypted(level=2, slots=3, bound=1.5))}", "")).to_text()
    assert parse(text).entry_block().args[0].type.data.bound == 1.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, b"x", {1, 2}, "\ud800", 1 << 10_000], ids=lambda v: type(v).__name__
)
def test_values_without_a_literal_form(value: Any) -> None:
    with pytest.raises(LiteralError):
        encode(value)


def test_too_deep_literals() -> None:
    value: Any = 1
    for _ in range(40):
        value = [value]
    with pytest.raises(LiteralError, match="nested deeper"):
        encode(value)
    with pytest.raises(LiteralError, match="is no literal"):
        decode(encode(1).type)  # type: ignore[attr-defined]


# -- workspace -------------------------------------------------------------------------------------------------------


def test_a_workspace_shows_and_exports_no_secret(engine: Any) -> None:
    space = Workspace(engine=engine, materials={"w": [1.0, 2.0]}, note="hello", policy=object())
    text = repr(space)
    assert "1.0" not in text
    assert "Engine" in text
    assert "hello" in text
    again = pickle.loads(pickle.dumps(Workspace(engine=engine, materials={"w": [1.0]})))
    assert isinstance(again, Workspace)
    assert type(again["engine"]).__name__ == "PublicEngine"
    assert again["engine"].key_id == engine.key_id
    assert again["materials"] == {"w": [1.0]}
    with pytest.raises(SecretExportError):
        pickle.dumps(Workspace(key=engine.secret_key))
    assert space.copy() == space
    assert type(space.copy()) is Workspace


# -- xDSL ------------------------------------------------------------------------------------------------------------


def test_private_names_of_xdsl_mean_what_they_are_used_for() -> None:
    from xdsl.dialects.builtin import UnregisteredOp
    from xdsl.utils.mlir_lexer import MLIRLexer

    program = parse(
        main_text("%n: i32", '    %0 = "a.x"(%n) : (i32) -> i32\n    %1 = "a.y"(%0, %n) : (i32, i32) -> i32')
    )
    block = program.entry_block()
    first, second, last = _xdsl.block_ops(block)
    assert tuple(_xdsl.operands(second)) == tuple(second.operands)
    assert (_xdsl.next_op(first), _xdsl.prev_op(second), _xdsl.next_op(last), _xdsl.prev_op(first)) == (
        second,
        first,
        None,
        None,
    )
    assert tuple(_xdsl.successors(first)) == ()
    assert isinstance(first, UnregisteredOp)
    assert _xdsl.operation_name(first) == "a.x"
    _xdsl.set_value_type(second.results[0], program.entry_function().function_type)
    assert second.results[0].type == program.entry_function().function_type
    assert [op for op in _xdsl.block_ops(block) if not op.detach()] == [first, second, last]  # the current one may go
    # The safe string pattern accepts what xDSL's accepts.
    for text in ('"a"', '""', '"a\\22\\0A"', '"\\q"', '"a', '"a\nb"', '"\\', '"é"'):
        ours, theirs = _xdsl.STRING_PATTERN.match(text), MLIRLexer._unescaped_characters_regex.match(text)
        assert (ours and ours.end()) == (theirs and theirs.end()), text


def test_every_private_name_is_in_one_file() -> None:
    import re
    from pathlib import Path

    folder = Path(_xdsl.__file__).parent
    private = re.compile(
        r"\._(operands|next_op|prev_op|successors|type|parser_state|ssa_values|get_new_valid_name_id|loaded_\w+|current_token)\b"
    )
    found = {p.name: private.findall(p.read_text()) for p in folder.glob("*.py") if p.name != "_xdsl.py"}
    assert {n: f for n, f in found.items() if f} == {}

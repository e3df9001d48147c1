"""`Program.debug`: right programs are within their bounds; planted faults are found at the operation that has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren.errors import MissingKeyError, ProgramNotReadyError
from ren.program import encrypted, location, message, plaintext
from ren.program.debug_report import FINDINGS
from ren.program.layout import Layout, Padding
from ren.schemes import ckks
from ren.schemes.ckks.engine import PublicEngine
from ren.testing.program_kit import ProgramBuilder, workspace_for

S = 64
X = np.cos(np.arange(S))
Y = np.sin(1 + np.arange(S)) / 2
Z = X + 1j * Y
W = np.linspace(-1, 1, S)
CKKS = "ren.ckks."


class Lines(ProgramBuilder):
    """Operation number i of a program stands in line i of "model.py"."""

    def __call__(self, name: str, *operands: Any, **more: Any) -> Any:
        self.line = getattr(self, "line", 0) + 1
        more.setdefault("loc", location("model.py", self.line))
        return super().__call__(name, *operands, **more)

    def c(self, name: str, *operands: Any, **more: Any) -> Any:
        return self(CKKS + name, *operands, **more)


def everything() -> tuple[Any, tuple[Any, ...]]:
    """One program with all kinds of operations."""
    b = Lines(x=encrypted(bound=1.0), y=encrypted(), w=message(), g=plaintext())
    x, y = b["x"], b["y"]
    a = b.times(x, b["w"])
    r = b.c("rotate_group", x, shifts=[1, -2])
    s = b.c("subtract", b.c("subtract", r[0], b.c("negate", b.c("negate", r[1]))), b.c("rotate", y, shift=5))
    p = b.product(s, y)
    q = b.c("rescale", b.c("relinearize", b.c("square", b.c("to_ntt", p))))
    q = b.c("add_scalar", b.c("multiply_integer", q, value=3), value=0.25)
    q = b.c("rescale", b.c("multiply_scalar", q, value=0.5 + 0.25j))
    c = b.c("conjugate", q)
    t = b.c("add", c, b.c("align", b.c("mod_switch", a, levels=1), level=3))
    t = b.c("subtract_plaintext", t, b.prepare("add", b["w"], t))
    total = b.c("sum_slots", t, count=4, stride=2)
    poly = b.c("polynomial", b.c("assume_bound", y, bound=1.0), coefficients=[0.25, -0.5, 0, 0.125], basis="chebyshev")
    nx = b.c("to_ntt", x)
    u, v = b.c("meet", poly, b.c("rescale", b.c("multiply_plaintext", nx, b.prepare("multiply", b["g"], nx))))
    gained = b.c("add", u, v)
    return b.program(total, gained), (X, Y, W)


def run(engine: Any, program: Any, *args: Any, reference: Any = None, **more: Any) -> Any:
    space = workspace_for(program, engine, **more)
    return program.debug(*args, workspace=space, reference=reference)


def test_a_right_program_is_within_its_bounds(engine: Any) -> None:
    program, args = everything()
    gain = engine.plaintext(0.5, level=0)
    a = X * W
    s = np.roll(X, 1) - np.roll(X, -2) - np.roll(Y, 5)
    t = np.conj((3 * (s * Y) ** 2 + 0.25) * (0.5 + 0.25j)) + a - W
    total = sum(np.roll(t, 2 * i) for i in range(4))
    gained = np.polynomial.chebyshev.chebval(Y, [0.25, -0.5, 0, 0.125]) + X * 0.5
    report = run(engine, program, *args, gain, reference=(total, gained))
    assert report.ok, str(report)
    assert report.first is None
    assert all(r.error <= r.predicted for r in report.rows if r.predicted is not None)
    assert all(r.added <= r.allowed for r in report.rows if r.allowed is not None)
    assert {r.file for r in report.rows if not r.operation.startswith("argument")} == {"model.py"}
    found = engine.decode(engine.decrypt(report.outputs[0]), is_real=False)
    np.testing.assert_allclose(found, total, rtol=0, atol=1e-7)
    assert "every operation is within its predicted bound" in str(report)


def test_batches_frames_and_the_owners_engine(engine: Any) -> None:
    b = Lines(x=encrypted(slots=3, batch_mode="any"), w=message())
    out = b.times(b["x"], b["w"])
    data = np.arange(12.0).reshape(4, 3) / 12
    report = run(engine, b.program(out), data, np.array([1.0, -0.5, 0.25]), reference=data * [1.0, -0.5, 0.25])
    assert report.ok, str(report)


def test_the_secret_key_is_needed(engine: Any) -> None:
    program, args = everything()
    space = workspace_for(program, engine)
    space["engine"] = engine.public()
    with pytest.raises(MissingKeyError):
        program.debug(*args, engine.plaintext(0.5, level=0), workspace=space)
    assert program.debug(*args, engine.plaintext(0.5, level=0), workspace=space, secret_key=engine.secret_key).ok


def test_a_program_that_is_not_ready_is_refused_as_by_run(engine: Any) -> None:
    b = Lines(x=encrypted())
    with pytest.raises(ProgramNotReadyError):
        b.program(b.c("rotate", b["x"], shift=1)).debug(
            X, workspace={"engine": engine, "public_key": engine.public_key}
        )


# -- planted faults ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Fault:
    """name: what is wrong. build: the program. plant: makes it wrong, given the engine, the workspace and monkeypatch. where, code: what must be found."""

    name: str
    build: Callable[[Lines], Any]
    plant: Callable[[Any, Any, Any], None]
    where: str
    code: str = "added-error"
    inputs: dict[str, Any] = dataclasses.field(default_factory=lambda: {"x": encrypted(), "y": encrypted()})
    args: tuple[Any, ...] = (X, Y)
    reference: Any = None


def wrapped(method: str, wrong: Callable[..., Any]) -> Callable[[Any, Any, Any], None]:
    """Replace a method of engines by one that gets the right result, then the arguments."""

    def plant(engine: Any, space: Any, patch: Any) -> None:
        right = getattr(type(engine), method)
        patch.setattr(type(engine), method, lambda self, *a, **k: wrong(self, right(self, *a, **k), *a, **k))

    return plant


def shifted_by(amount: float) -> Callable[..., Any]:
    return lambda self, result, *a, **k: RIGHT["add"](self, result, amount)


RIGHT = {n: getattr(PublicEngine, n) for n in ("add", "rotate", "negate")}


def other_key(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], None]:
    """Replace the evaluation keys of the workspace, whatever their ids say."""

    def plant(engine: Any, space: Any, patch: Any) -> None:
        space["evaluation_keys"] = change(engine, space["evaluation_keys"])

    return plant


def forged_relinearization(engine: Any, keys: Any) -> Any:
    """The key of somebody else under the owner's name."""
    stranger = ckks.Engine("python-test", device="reference").relinearization_key
    stranger.key_id = keys.key_id
    return dataclasses.replace(keys, relinearization=stranger)


def forged_conjugation(engine: Any, keys: Any) -> Any:
    stranger = ckks.Engine("python-test", device="reference").conjugation_key
    stranger.key_id = keys.key_id
    return dataclasses.replace(keys, conjugation=stranger)


def out_of_range(self: Any, result: Any, *a: Any, **k: Any) -> Any:
    """A polynomial far outside of what a ciphertext of small values holds: twice itself, forty times over."""
    b = result.b
    for _ in range(40):
        b = b + b
    return dataclasses.replace(result, b=b)


def product(b: Lines) -> Any:
    return b.product(b["x"], b["y"])


def square(b: Lines, x: Any) -> Any:
    return b.c("rescale", b.c("relinearize", b.c("square", b.c("to_ntt", x))))


def swapped(self: Any, result: Any, *a: Any, **k: Any) -> Any:
    return (result[1], result[0], *result[2:])


def scale_label(self: Any, result: Any, *a: Any, **k: Any) -> Any:
    return dataclasses.replace(result, scale=result.scale * 3)


def level_label(self: Any, result: Any, *a: Any, **k: Any) -> Any:
    return dataclasses.replace(result, level=result.level + 1)


def fault(name: str, build: Callable[[Lines], Any], plant: Any, where: str, **more: Any) -> None:
    FAULTS.append(Fault(name, build, plant, where, **more))


def nothing(engine: Any, space: Any, patch: Any) -> None:
    """The program or its input is what is wrong."""


def late(build: Callable[[Lines, Any], Any]) -> Callable[[Lines], Any]:
    """The operation behind some right ones."""

    def whole(b: Lines) -> Any:
        x = b.c("negate", b.c("rotate", b.c("add", b["x"], b["y"]), shift=1))
        return b.c("to_ntt", build(b, x))

    return whole


FAULTS: list[Fault] = []
# Wrong keys.
fault(
    "relinearization key of somebody else", product, other_key(forged_relinearization), "relinearize", code="overflow"
)
fault(
    "conjugation key of somebody else",
    late(lambda b, x: b.c("conjugate", x)),
    other_key(forged_conjugation),
    "conjugate",
    code="overflow",
)


# Polynomials out of range.
fault("polynomial out of range after a sum", late(lambda b, x: b.c("subtract", x, b["y"])), wrapped("sub", out_of_range), "subtract",
      code="overflow")  # fmt: skip
fault(
    "polynomial out of range after a key switch",
    late(lambda b, x: b.c("conjugate", x)),
    wrapped("conjugate", out_of_range),
    "conjugate",
    code="overflow",
)


# Operations that are wrong by themselves: signs, offsets, steps, factors.
fault(
    "sum with an offset of 2^-20",
    late(lambda b, x: b.c("subtract", x, b["y"])),
    wrapped("sub", shifted_by(2.0**-20)),
    "subtract",
)
fault(
    "sum of two is of one",
    lambda b: b.c("negate", b.c("add", b["x"], b["y"])),
    wrapped("add", lambda s, r, x, y, *a, **k: x),
    "add",
)
fault(
    "difference with the wrong sign",
    late(lambda b, x: b.c("subtract", x, b["y"])),
    wrapped("sub", lambda s, r, *a, **k: RIGHT["negate"](s, r)),
    "subtract",
)
fault(
    "negation that does nothing",
    late(lambda b, x: b.c("conjugate", x)),
    wrapped("negate", lambda s, r, x, *a, **k: x),
    "negate",
)
fault(
    "rotation by one more",
    late(lambda b, x: b.c("rotate", x, shift=2)),
    wrapped("rotate", lambda s, r, x, k, **o: RIGHT["rotate"](s, x, 2, **o)),
    "rotate",
)
fault(
    "hoisted results swapped",
    late(lambda b, x: b.c("rotate_group", x, shifts=[1, 2])[0]),
    wrapped("rotate_many", swapped),
    "rotate_group",
)
fault(
    "conjugation that does nothing",
    late(lambda b, x: b.c("conjugate", x)),
    wrapped("conjugate", lambda s, r, x, *a, **k: x),
    "conjugate",
    args=(Z, Y),
)
fault(
    "product by a wrong constant",
    late(lambda b, x: b.c("rescale", b.c("multiply_scalar", x, value=0.5))),
    wrapped("multiply", lambda s, r, *a, **k: dataclasses.replace(r, a=r.a + r.a, b=r.b + r.b)),
    "multiply_scalar",
)
fault(
    "product without its cross terms",
    product,
    wrapped("multiply", lambda s, r, *a, **k: dataclasses.replace(r, a=r.a - r.a)),
    "multiply",
    code="overflow",
)
fault(
    "square without its last part",
    lambda b: square(b, b["x"]),
    wrapped("multiply", lambda s, r, *a, **k: dataclasses.replace(r, c=r.c - r.c)),
    "square",
    code="overflow",
)
fault(
    "integer factor off by one",
    late(lambda b, x: b.c("multiply_integer", x, value=3)),
    wrapped("mul", lambda s, r, x, v: RIGHT["add"](s, r, x)),
    "multiply_integer",
)
fault(
    "scalar added twice",
    late(lambda b, x: b.c("add_scalar", b.c("negate", x), value=0.125)),
    wrapped("add", lambda s, r, x, v: RIGHT["add"](s, r, v) if isinstance(v, float) else r),
    "add_scalar",
)
fault("relinearization with an offset", product, wrapped("relinearize", shifted_by(2.0**-22)), "relinearize")
fault("rescale with an offset of a few units", product, wrapped("rescale", shifted_by(2.0**-24)), "rescale")
fault(
    "alignment that is off by a millionth",
    late(lambda b, x: b.c("align", x, level=2)),
    wrapped("adjust", shifted_by(1e-6)),
    "align",
)
fault(
    "primes dropped from a wrong value",
    late(lambda b, x: b.c("mod_switch", x, levels=2)),
    wrapped("mod_drop", lambda s, r, *a, **k: RIGHT["negate"](s, r)),
    "mod_switch",
)
fault(
    "polynomial with a wrong constant term",
    late(lambda b, x: b.c("polynomial", x, coefficients=[0.5, 0.25, 0.125])),
    wrapped("polyval", shifted_by(1e-5)),
    "polynomial",
)
fault(
    "slot sum that misses a step",
    late(lambda b, x: b.c("sum_slots", b.c("negate", x), count=4)),
    wrapped("rotate", lambda s, r, x, k, **o: RIGHT["rotate"](s, x, 1, **o) if k == 2 else r),
    "sum_slots",
)
# Wrong labels.
fault("scale label after a product", product, wrapped("multiply", scale_label), "multiply", code="state")
fault("scale label after a rescale", product, wrapped("rescale", scale_label), "rescale", code="state")
fault("missing relinearization", product, wrapped("relinearize", lambda s, r, x, **k: x), "relinearize", code="state")
fault("rescale that was left out", product, wrapped("rescale", lambda s, r, x, **k: x), "rescale", code="state")


def scaled_encoding(change: Callable[[Any], Any]) -> Callable[[Any, Any, Any], None]:
    def plant(engine: Any, space: Any, patch: Any) -> None:
        from ren.program import handlers

        right = handlers.encode_operand
        patch.setattr(handlers, "encode_operand", lambda e, values, *a: right(e, change(np.asarray(values)), *a))

    return plant


def with_message(b: Lines) -> Any:
    return b.times(b.c("add", b["x"], b["x"]), b["y"])


MESSAGE = {"x": encrypted(), "y": message()}
fault(
    "encoding with a wrong scale",
    with_message,
    scaled_encoding(lambda v: v * 1.0001),
    "prepare.multiply.message",
    inputs=MESSAGE,
)
fault(
    "encoding in a wrong slot order",
    with_message,
    scaled_encoding(lambda v: v[::-1]),
    "prepare.multiply.message",
    inputs=MESSAGE,
)
fault(
    "encoding that loses the last slot",
    with_message,
    scaled_encoding(lambda v: np.append(v[:-1], 0)),
    "prepare.multiply.message",
    inputs=MESSAGE,
)

# Values outside of what is declared for them.
fault(
    "promised bound that does not hold",
    late(lambda b, x: b.c("assume_bound", x, bound=0.5)),
    nothing,
    "assume_bound",
    code="bound",
)
fault(
    "Chebyshev series outside of [-1, 1]",
    lambda b: b.c("polynomial", b.c("add", b["x"], b["x"]), coefficients=[0.0, 0.5, 0, 0.25], basis="chebyshev"),
    nothing,
    "polynomial",
    code="bound",
)


def outgrown(b: Lines) -> Any:
    x = b["x"]
    for _ in range(4):
        x = square(b, x)
    return b.c("negate", b.c("mod_switch", x, levels=2))


fault(
    "value that outgrows its level",
    outgrown,
    nothing,
    "mod_switch",
    code="overflow",
    args=(2.5 + 0 * X, Y),
    inputs={"x": encrypted(), "y": encrypted()},
)
fault(
    "padding that is not zero",
    lambda b: b.c("relayout", b.c("negate", b["x"]), layout=Layout((3,), 4, Padding.ZERO)),
    nothing,
    "relayout",
    code="padding",
    inputs={"x": encrypted(slots=4), "y": encrypted()},
    args=(np.array([1.0, 2, 3, 0.5]), Y),
)

# Programs that do what they say, which is not what the reference says.
fault(
    "shift in the wrong direction",
    lambda b: b.c("rotate", b["x"], shift=-1),
    nothing,
    "result 0",
    code="reference",
    reference=lambda x, y: np.roll(x, 1),
)
fault(
    "operands in the wrong order",
    lambda b: b.c("subtract", b["y"], b["x"]),
    nothing,
    "result 0",
    code="reference",
    reference=lambda x, y: x - y,
)
fault(
    "coefficient that lost a digit",
    lambda b: b.c("polynomial", b["x"], coefficients=[0.5, 0.123, 0.25]),
    nothing,
    "result 0",
    code="reference",
    reference=lambda x, y: 0.5 + 0.1234 * x + 0.25 * x * x,
)


@pytest.mark.parametrize("item", FAULTS, ids=lambda f: f.name.replace(" ", "-"))
def test_a_planted_fault_is_found_where_it_is(engine: Any, item: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    b = Lines(**item.inputs)
    program = b.program(item.build(b))
    space = workspace_for(program, engine)
    clean = None if item.plant is nothing else program.debug(*item.args, workspace=space)
    if clean is not None:
        assert clean.ok, str(clean)
    with monkeypatch.context() as patch:
        item.plant(engine, space, patch)
        report = program.debug(*item.args, workspace=space, reference=item.reference)
    assert report.first is not None, str(report)
    wanted = item.where if " " in item.where else CKKS + item.where
    assert (report.first.code, report.first.operation) == (item.code, wanted), str(report)
    if wanted.startswith(CKKS):
        lines = [op.location.line.data for op in program.walk() if op.name == wanted]
        assert report.first.file == "model.py"
        assert report.first.line in lines
        assert f"model.py:{report.first.line}" in str(report)


def test_there_are_thirty_faults_of_all_kinds() -> None:
    assert len({f.name for f in FAULTS}) >= 30
    assert len({f.name for f in FAULTS if f.code != "reference"}) >= 30, "found at an exact operation"
    assert {f.code for f in FAULTS} >= set(FINDINGS) - {"failed", "error"}


def test_arguments_that_do_not_decrypt_are_named_and_nothing_is_computed_from_them(engine: Any) -> None:
    b = Lines(x=encrypted(), y=encrypted())
    program = b.program(product(b))
    good, other = (engine.encrypt(engine.encode(v, msg_bound=1.0)) for v in (X, Y))
    stranger = ckks.Engine("python-test", device="reference")
    foreign = stranger.encrypt(stranger.encode(Y, msg_bound=1.0))
    broken = {
        "out of range": out_of_range(None, other),
        "of somebody else": dataclasses.replace(foreign, key_id=other.key_id),
        "halves exchanged": dataclasses.replace(other, a=other.b, b=other.a),
    }
    space = workspace_for(program, engine)
    assert program.debug(good, other, workspace=space).ok
    for what, bad in broken.items():
        report = program.debug(good, bad, workspace=space, reference=lambda x, y: x * y)
        assert [(f.code, f.operation) for f in report.findings] == [("overflow", "argument y")], what
        assert report.outputs is None
        both = program.debug(bad, bad, workspace=space)
        assert [f.operation for f in both.findings] == ["argument x", "argument y"], what


def test_what_fails_while_it_runs_is_a_finding(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    b = Lines(x=encrypted(), y=encrypted())
    program = b.program(product(b))
    space = workspace_for(program, engine)

    def failing(*a: Any, **k: Any) -> Any:
        raise ValueError("no")

    monkeypatch.setattr(PublicEngine, "multiply", failing)
    report = program.debug(X, Y, workspace=space)
    assert (report.first.code, report.first.operation, report.first.line) == ("failed", "ren.ckks.multiply", 3)
    assert report.outputs is None


def test_no_values_in_the_repr_of_a_report(engine: Any) -> None:
    b = Lines(x=encrypted(), y=encrypted())
    report = run(engine, b.program(b.c("add", b["x"], b["y"])), X, Y)
    assert repr(report) == "<DebugReport: 3 values, 0 findings, first: None>"

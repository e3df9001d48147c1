"""Errors of ren.jit: the documented texts as plain RuntimeErrors, help in notes, nothing left behind."""

import pytest
import ren
from ren.engine import capture
from ren.errors import DonatedError, OptionError, UnsupportedOperandError
from ren.poly import Poly, realize
from ren.ring import RingSpec

RING = RingSpec(n=8, moduli=(17, 97))


def P(*c):
    return Poly([*c, *[0] * (8 - len(c))], RING)


def first(p):
    return p.to_centered_list()[0]


REALIZE = "ren.jit: realize should not be called in a jitted function"


@pytest.mark.parametrize(
    "use",
    [
        lambda y: y.realize(),
        lambda y: realize(y, y),
        lambda y: y.tolist(),
        lambda y: y.to_centered_list(),
        lambda y: y.tobytes(),
        lambda y: y.residues(),
        lambda y: y.lift(),
        lambda y: y == y + 1,
        lambda y: Poly.const(3, RING).tolist(),
        lambda y: y.__reduce__(),
    ],
)
def test_reading_inside_raises(use):
    @ren.jit
    def f(x):
        y = x + 1
        use(y)
        return y

    with pytest.raises(RuntimeError) as info:
        f(P(1))
    assert type(info.value) is RuntimeError
    assert str(info.value) == REALIZE
    assert any("split the function" in note for note in info.value.__notes__)
    assert any("test_errors.py" in note for note in info.value.__notes__)
    assert capture.current() is None
    assert not f._plans
    assert first(P(1) + 1) == 2


def test_no_poly_in_or_out():
    @ren.jit
    def f(x=3):
        return 1

    for call in (f, lambda: f(1), lambda: f([1, {"a": (2,)}])):
        with pytest.raises(RuntimeError) as info:
            call()
        assert repr(info.value) == "RuntimeError('ren.jit: function must receive at least one Poly argument')"
    with pytest.raises(RuntimeError) as info:
        f(P(1))
    assert repr(info.value) == "RuntimeError('ren.jit: function must return at least one Poly')"


class Holder:
    def __init__(self, **parts):
        self.__dict__.update(parts)


class Slots:
    __slots__ = ("p",)

    def __init__(self, p):
        self.p = p


@pytest.mark.parametrize(
    "wrap",
    [
        lambda p: {p},
        lambda p: Holder(p=p),
        lambda p: Holder(a=[1, {"b": p}]),
        lambda p: Slots(p),
        lambda p: [Holder(inner=Slots(p))],
        lambda p: frozenset({(1, p)}),
    ],
)
def test_a_poly_in_an_object_that_cannot_be_rebuilt_is_refused(wrap):
    @ren.jit
    def computed(x):
        return x + 1, wrap(x * 2)

    @ren.jit
    def given(x):
        return x + 1, wrap(x)

    for f in (computed, given):
        with pytest.raises(RuntimeError, match="ren.jit: the result holds a Poly inside a"):
            f(P(1))
        assert not f._plans


def test_objects_without_a_poly_of_the_call_are_shared():
    shared = Holder(old=P(5), n=3)

    @ren.jit
    def f(x):
        return x + 1, shared, Holder(literal=P(2))

    a, b = f(P(1)), f(P(2))
    assert a[1] is b[1] is shared
    assert first(b[0]) == 3
    assert first(b[2].literal) == 2


def test_randomness_inside_raises_but_a_seeded_draw_is_a_constant():
    @ren.jit
    def f(x):
        return x + Poly.gaussian(RING)

    with pytest.raises(RuntimeError) as info:
        f(P(1))
    assert repr(info.value) == "RuntimeError('Random number generation during jit capture is not supported')"
    assert any('random="fresh"' in note for note in info.value.__notes__)

    @ren.jit
    def g(x):
        return x + Poly.sample("ternary", None, RING, bytes(32))

    assert g(P(1)) == g(P(1)) == g.fn(P(1))


def test_an_exception_inside_leaves_nothing_behind():
    fail = [True]

    @ren.jit
    def f(x):
        if fail[0]:
            raise KeyError("mine")
        return x + 1

    x = P(1)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            f(x)
        assert capture.current() is None
        assert Poly.ternary(RING).realize().is_realized
    fail[0] = False
    assert first(f(x)) == 2


def test_an_error_while_compiling_leaves_the_graph_usable(monkeypatch):
    from ren.backend.select import get_backend
    from ren.errors import KernelUnsupportedError

    backend = get_backend()
    x = P(1, 2)
    y = x.automorphism(7).automorphism(11) * 5
    real = type(backend).compile

    def refuse(self, unit):
        raise KernelUnsupportedError(f"no {unit.kernel}")

    monkeypatch.setattr(type(backend), "compile", refuse)
    monkeypatch.setattr(type(backend), "graph", lambda self, units, slots: None)
    with pytest.raises(KernelUnsupportedError):
        y.realize()
    f = ren.jit(lambda p: p.automorphism(7).automorphism(13) * 5)
    with pytest.raises(KernelUnsupportedError):
        f(x)
    monkeypatch.setattr(type(backend), "compile", real)
    assert y == x.automorphism(77 % 16) * 5
    assert f(x) == f.fn(x)
    assert x.tolist() == [1, 2] + [0] * 6


def test_options_are_checked_when_decorating():
    with pytest.raises(TypeError, match="no option 'static'"):
        ren.jit(static=("y",))
    for bad in ({"nested": "yes"}, {"scalars": "auto"}, {"maxsize": 0}, {"maxsize": 1.5}, {"random": "frozen"}):
        with pytest.raises(OptionError, match=next(iter(bad))):
            ren.jit(**bad)
    with pytest.raises(OptionError, match="no parameter"):
        ren.jit(lambda x: x, donate=("y",))
    with pytest.raises(UnsupportedOperandError, match="function"):
        ren.jit(3)


def test_a_donated_poly_raises_wherever_it_is_used():
    @ren.jit(donate="x")
    def f(x, y):
        return x + y

    for _ in range(2):
        _check_donated(f)


def _check_donated(f):
    x, y = P(1), P(2)
    out = f(x, y)
    uses = [
        lambda: x + 1,
        lambda: 1 - x,
        lambda: y * x,
        lambda: -x,
        lambda: x == out,
        lambda: x.tolist(),
        lambda: x.ring,
        lambda: f(x, y),
        lambda: f(y, x),
        lambda: bool(x),
    ]
    for use in uses:
        with pytest.raises(DonatedError, match="donated to a jitted function at .*test_errors.py"):
            use()
    assert repr(x) == "<Poly donated>"
    assert isinstance(x, Poly)
    assert first(out) == 3
    assert first(y) == 2

"""Calls that are recognised as like the one before take a short way; whatever makes a key another one must make them take the long one."""

from dataclasses import dataclass

import pytest
import ren
from ren.engine.jit import JitFunction
from ren.errors import DonatedError
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes import ckks
from ren.schemes.ckks import CKKSParams

RING = RingSpec(n=8, moduli=(17, 97))
WIDE = RingSpec(n=8, moduli=(17, 97, 113))
FACTOR = 2


def P(*c, ring=RING):
    return Poly([*c, *[0] * (ring.n - len(c))], ring)


def first(p):
    return p.to_centered_list()[0]


@pytest.fixture
def looked_up(monkeypatch):
    """How many calls were looked up by their key."""
    calls = []
    look_at = JitFunction._look_at

    def counted(self, args, kwargs, **options):
        calls.append(args)
        return look_at(self, args, kwargs, **options)

    monkeypatch.setattr(JitFunction, "_look_at", counted)
    return calls


def test_the_third_call_of_one_kind_is_not_looked_up_and_counts_as_a_hit(looked_up):
    f = ren.jit(lambda x, y: x * y)
    results = [first(f(P(k).realize(), P(3).realize())) for k in range(1, 6)]
    assert results == [3, 6, 9, 12, 15]
    # Captured, looked up, and then: a Poly made from coefficients has no description until it was looked at once.
    x, y = P(7).realize(), P(2).realize()
    f(x, y)
    before = len(looked_up)
    assert [first(f(x, y)), first(f(y, x))] == [14, 14]
    assert len(looked_up) == before
    assert f.cache_info()[:2] == (7, 1)


def settle(f, *args):
    """Call until the short way is taken."""
    for _ in range(3):
        result = f(*args)
    return result


def test_another_ring_domain_container_or_number_of_items_is_looked_up(looked_up):
    f = ren.jit(lambda values: [v + v for v in values])
    x, y = P(1).realize(), P(2).realize()
    assert [first(v) for v in settle(f, [x, y])] == [2, 4]
    for other, expected in (
        ([x], [2]),
        ((x, y), [2, 4]),
        ([x, P(5, ring=WIDE).realize()], [2, 10]),
        ([x, y.ntt().realize()], [2, 4]),
        ([y, x], [4, 2]),
    ):
        settle(f, [x, y])
        before = len(looked_up)
        assert [first(v) for v in f(other)] == expected
        assert len(looked_up) == before + (other != [y, x])


def test_one_poly_in_two_places_is_a_kind_of_its_own(looked_up):
    f = ren.jit(lambda x, y, z: (x - y, y - z))
    a, b, c = P(5).realize(), P(3).realize(), P(1).realize()
    assert [first(v) for v in settle(f, a, b, c)] == [2, 2]
    assert [first(v) for v in settle(f, a, a, c)] == [0, 4]
    before = len(looked_up)
    assert [first(v) for v in f(b, b, c)] == [0, 2]  # like the one before
    assert len(looked_up) == before
    assert [first(v) for v in f(a, b, b)] == [2, 0]  # also two different ones, elsewhere
    assert [first(v) for v in f(a, b, c)] == [2, 2]
    assert len(looked_up) == before + 2


def test_a_constant_and_an_unrealized_poly_are_looked_up():
    f = ren.jit(lambda x: x + 1)
    assert first(settle(f, P(1).realize())) == 2
    assert first(f(P(1) + P(2))) == 4
    assert first(f(Poly.const(9, RING))) == 10
    assert first(f(Poly.const(10, RING))) == 11
    assert first(f(P(1).realize())) == 2


def test_a_global_that_is_rebound_takes_effect_at_once(monkeypatch):
    f = ren.jit(lambda x: x * FACTOR)
    x = P(3).realize()
    assert first(settle(f, x)) == 6
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert first(f(x)) == 15
    monkeypatch.setitem(globals(), "FACTOR", P(4))
    assert first(settle(f, x)) == 12
    monkeypatch.setitem(globals(), "FACTOR", P(1) + P(1))
    assert first(f(x)) == 6


def test_clear_jit_captures_again_and_a_dropped_plan_is_not_used():
    f = ren.jit(maxsize=1)(lambda x: x + x)
    x = P(1).realize()
    settle(f, x)
    f.clear_jit()
    f(x)
    assert f.cache_info().misses == 2
    settle(f, P(1, ring=WIDE).realize())
    misses = f.cache_info().misses
    with pytest.warns(RuntimeWarning, match="captured again"):
        f(x)
    assert f.cache_info().misses == misses + 1


def test_a_donated_poly_is_refused_the_short_way_too():
    f = ren.jit(donate=("x",))(lambda x, y: x + y)
    y = P(2).realize()
    for k in range(4):
        x = (P(k) + P(1)).realize()
        assert first(f(x, y)) == k + 3
        with pytest.raises(DonatedError):
            f(x, y)


@dataclass(frozen=True)
class Tagged:
    value: Poly
    tag: object


def test_fields_of_equal_value_and_other_type_are_other_keys():
    f = ren.jit(lambda x: (x.value * 2, type(x.tag).__name__))
    x = P(1).realize()
    for tag in (1, True, 1.0, 0, False, None, "1"):
        for _ in range(3):
            assert f(Tagged(x, tag))[1] == type(tag).__name__


def test_ciphertexts_of_other_levels_scales_and_bounds():
    params = CKKSParams.build(n=16, levels=3, scale_bits=40, toy=True)
    f = ren.jit(lambda x: x * x + 1)
    with ckks.keygen(params):
        x = ckks.encrypt(ckks.encode([0.5, -0.25])).realize()
        deep = (x * 1.0).realize()
        for value in (x, x, x, deep, deep, x, x.assume_bound(3.0), x):
            y = f(value)
            assert y.level == value.level + 1
            assert y.bound == (value * value + 1).bound
            got = ckks.decode(ckks.decrypt(y), length=2)
            assert abs(got - [1.25, 1.0625]).max() < 1e-6
        assert f.cache_info().misses == 2


def test_each_call_whose_bound_does_not_fit_warns():
    params = CKKSParams.build(n=16, levels=2, scale_bits=40, toy=True)
    f = ren.jit(lambda x: x * x)
    with ckks.keygen(params):
        x = ckks.encrypt(ckks.encode([0.5])).realize().assume_bound(2.0**30)
        for _ in range(4):
            with pytest.warns(ren.errors.PossibleOverflowWarning):
                f(x)


@pytest.mark.parametrize("values", [(2, 2, True, 2.0, 3, 2), (0.0, -0.0, 0, 0.0), (float("nan"), 1.5, 1.5)])
def test_run_time_scalars_are_computed_for_each_value(values):
    seen = []

    def shown(v):
        seen.append(v)
        return 7

    from ren.engine.deferred import deferred_call

    f = ren.jit(scalars="dynamic")(lambda x, k: x * deferred_call(shown, k))
    x = P(1).realize()
    before = None
    for value in values:
        seen.clear()
        assert first(f(x, value)) == 7
        now = type(value), repr(value)
        if now != before:
            assert (type(seen[-1]), repr(seen[-1])) == now
        before = now

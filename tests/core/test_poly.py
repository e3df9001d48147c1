"""Poly against Python big integers."""

import copy
import pickle
import random

import numpy as np
import pytest
from ren.errors import (
    DeviceMismatchError,
    DomainError,
    InvalidCoefficientsError,
    InvalidRingError,
    InvalidSampleError,
    OptionError,
    RingMismatchError,
    UnsupportedOperandError,
)
from ren.ops import Domain
from ren.poly import Poly, realize
from ren.ring import RingSpec

N = 8
RING = RingSpec(n=N, moduli=(17, 97))
Q = RING.modulus


@pytest.fixture(autouse=True)
def _reference(monkeypatch):
    monkeypatch.setenv("REN_BACKEND", "reference")


def P(*c, ring=RING):
    return Poly([*c, *[0] * (ring.n - len(c))], ring)


def negacyclic(a, b, modulus):
    out = [0] * len(a)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            k = i + j
            out[k % len(a)] += x * y if k < len(a) else -x * y
    return [c % modulus for c in out]


def automorphism(a, g, modulus):
    n = len(a)
    out = [0] * n
    for i, x in enumerate(a):
        e = i * g % (2 * n)
        out[e % n] = (x if e < n else -x) % modulus
    return out


@pytest.fixture
def xy():
    rng = random.Random(5)
    a, b = ([rng.randrange(Q) for _ in range(N)] for _ in range(2))
    return a, b, Poly(a, RING), Poly(b, RING)


def test_ring_operations(xy):
    a, b, x, y = xy
    assert (x + y).tolist() == [(u + v) % Q for u, v in zip(a, b, strict=True)]
    assert (x - y).tolist() == [(u - v) % Q for u, v in zip(a, b, strict=True)]
    assert (-x).tolist() == [-u % Q for u in a]
    assert (+x).tolist() == a
    assert (x * y).tolist() == negacyclic(a, b, Q)


@pytest.mark.parametrize("c", [0, 1, -1, 5, -5, Q, 2**200 + 7, -(2**200), np.int64(-3), np.uint64(2**63), True])
def test_ints_on_either_side(xy, c):
    a, _, x, _ = xy
    k = int(c)
    one = [k] + [0] * (N - 1)
    assert (x + c).tolist() == (c + x).tolist() == [(u + v) % Q for u, v in zip(a, one, strict=True)]
    assert (x - c).tolist() == [(u - v) % Q for u, v in zip(a, one, strict=True)]
    assert (c - x).tolist() == [(v - u) % Q for u, v in zip(a, one, strict=True)]
    assert (x * c).tolist() == (c * x).tolist() == [u * k % Q for u in a]
    assert (x.ntt() + c).tolist() == (x + c).tolist()


def test_negative_times_negative():  # B09
    assert (P(-5) * P(-3)).to_centered_list()[0] == 15


def test_operands_are_never_changed(xy):
    a, b, x, y = xy
    z = x
    z += y
    z *= y
    z -= 1
    assert x.tolist() == a
    assert y.tolist() == b
    assert z.tolist() != a


@pytest.mark.parametrize(
    "coeffs",
    [
        range(-3, 5),
        tuple(range(8)),
        np.arange(8) - 4,
        np.arange(8, dtype=np.uint64) + np.uint64(2**63),
        np.array([True, False] * 4),
        np.arange(16)[::2],
        [2**70, -(2**70), 2**63, -(2**63) - 1, 0, -1, 1, 2**64],
        np.array([2**70, -(2**70), 3, 4, 5, 6, 7, 8], object),
        (i * i for i in range(8)),
        [np.int8(-1), np.uint64(2**64 - 1), 0, 0, 0, 0, 0, 0],
    ],
    ids=lambda c: type(c).__name__,
)
def test_coefficients_of_any_size_and_sign(coeffs):
    values = list(coeffs)
    expected = [int(c) % Q for c in values]
    assert Poly(coeffs if not hasattr(coeffs, "send") else values, RING).tolist() == expected


@pytest.mark.parametrize(
    ("coeffs", "error", "text"),
    [
        ([], InvalidCoefficientsError, "empty"),  # B05
        ([1] * 9, InvalidCoefficientsError, "n=8 coefficients, got 9"),  # B06
        ([1] * 7, InvalidCoefficientsError, "got 7"),
        ([1.0] * 8, UnsupportedOperandError, "coefficient 0 must be an int, got float"),
        ([1, 2, "3", 4, 5, 6, 7, 8], UnsupportedOperandError, "coefficient 2"),
        (np.ones(8), UnsupportedOperandError, "float64"),
        (np.ones((2, 4), int), InvalidCoefficientsError, "flat"),
        ("12345678", UnsupportedOperandError, "str"),
        (None, UnsupportedOperandError, "NoneType"),
        (3, UnsupportedOperandError, "int"),
    ],
)
def test_bad_coefficients(coeffs, error, text):
    with pytest.raises(error, match=text):
        Poly(coeffs, RING)


def test_automorphism_in_both_domains(xy):
    a, _, x, _ = xy
    for g in (1, 3, 5, 2 * N - 1, -1, 3 + 2 * N):
        expected = automorphism(a, g % (2 * N), Q)
        assert x.automorphism(g).tolist() == expected
        assert x.ntt().automorphism(g).tolist() == expected
    with pytest.raises(InvalidCoefficientsError, match="odd"):
        x.automorphism(2)
    with pytest.raises(UnsupportedOperandError):
        x.automorphism(1.5)


def test_rescale_rounds_ties_up(xy):
    a, _, x, _ = xy
    q = RING.moduli[-1]
    expected = [(2 * c + q) // (2 * q) % 17 for c in a]
    assert x.rescale().tolist() == x.ntt().rescale().tolist() == expected
    assert x.rescale().ring == RING.drop(1)


def test_views(xy):
    a, _, x, _ = xy
    assert x.mod_drop(1).tolist() == [c % 17 for c in a]
    assert x.limbs(1, 2).tolist() == [c % 97 for c in a]
    assert (x * 1).limbs(1, 2).tolist() == [c % 97 for c in a]
    x.realize()
    view = x.limbs(1, 2).realize()
    assert view._node.realized.memory is x._node.realized.memory
    assert view.contiguous().realize()._node.realized.memory is not x._node.realized.memory
    for start, stop in ((0, 0), (0, 3), (-1, 1), (1, 1)):
        with pytest.raises(InvalidCoefficientsError):
            x.limbs(start, stop)
    with pytest.raises(InvalidCoefficientsError):
        x.mod_drop(2)
    with pytest.raises(InvalidCoefficientsError):
        x.mod_down(2)


def test_modulus_raise():
    small = Poly([-8, 7, 0, 1, -1, 2, 3, 4], RINGS := RING.drop(1))
    assert small.mod_raise((97, 113)).to_centered_list() == [-8, 7, 0, 1, -1, 2, 3, 4]
    up = small.ntt().mod_raise((97,), "approximate")
    assert [c % 17 for c in up.tolist()] == small.tolist()
    assert up.domain is Domain.COEFF
    assert all(0 <= c < 17 for c in up.tolist())  # one limb: no multiple of Q is possible
    assert small.mod_raise((97,), "centred").to_centered_list() == small.to_centered_list()
    assert small.mod_raise(()).ring == RINGS
    with pytest.raises(InvalidRingError):
        small.mod_raise((17,))
    with pytest.raises(OptionError):
        small.mod_raise((97,), "rounded")


def test_mod_down_with_addend(xy):
    a, b, x, y = xy
    wide = RING.extend((113,))
    z = Poly(b, RING)
    w = Poly(a, wide)
    p = 113
    total = [(u + p * v) % wide.modulus for u, v in zip(a, b, strict=True)]
    expected = [(c - ((c % p + p // 2) % p - p // 2)) // p % Q for c in total]
    assert w.mod_down(1, add=z).tolist() == expected
    assert w.ntt().mod_down(1, add=z).tolist() == expected
    with pytest.raises(RingMismatchError, match="moduli"):
        w.mod_down(1, add=w.limbs(1, 3))
    with pytest.raises(UnsupportedOperandError):
        w.mod_down(1, add=3)


def test_constants_fold_and_stay_constant():
    c = Poly.const(3, RING) * Poly.const(-4, RING) + 1 - Poly.const(2, RING)
    assert "constant" in repr(c)
    assert c.to_centered_list() == [-13] + [0] * 7
    assert (-c).to_centered_list()[0] == 13
    assert c.ntt().residues().tolist() == [[-13 % 17] * 8, [-13 % 97] * 8]
    assert c.realize() is c
    assert "constant" in repr(c)
    assert c.automorphism(3) is c
    assert c.limbs(1, 2).tolist() == [84, 0, 0, 0, 0, 0, 0, 0]
    assert c.contiguous().tolist() == c.tolist()
    assert c.rescale().tolist() == c.contiguous().rescale().tolist()
    assert Poly.zeros(RING).tolist() == [0] * 8


def test_another_ring_device_or_type_names_both(xy):
    *_, x, y = xy
    other = P(1, ring=RingSpec(n=8, moduli=(17, 113)))
    with pytest.raises(RingMismatchError, match=r"\(17, 97\).*\(17, 113\)"):
        x + other
    with pytest.raises(UnsupportedOperandError, match="float 1.5"):
        x * 1.5
    with pytest.raises(UnsupportedOperandError):
        1j + x
    with pytest.raises(UnsupportedOperandError):
        x - "1"
    with pytest.raises(TypeError):
        x + None
    with pytest.raises(TypeError):
        np.ones(3) * x
    with pytest.raises(TypeError):
        _ = x < y
    with pytest.raises(TypeError):
        bool(x)
    x._node.device = "elsewhere"
    with pytest.raises(DeviceMismatchError, match="elsewhere.*reference"):
        x + y


def test_foreign_types_get_their_turn(xy):
    *_, x, _ = xy

    class Foreign:
        def __radd__(self, other):
            return "radd"

        def __rmul__(self, other):
            return "rmul"

        def __rsub__(self, other):
            return "rsub"

    assert (x + Foreign(), x * Foreign(), x - Foreign()) == ("radd", "rmul", "rsub")


def test_equality_is_by_value_and_hash_by_identity(xy):
    a, b, x, y = xy
    same = Poly(a, RING)
    assert x == same
    assert x == same.ntt()
    assert x != y
    assert x != P(1, ring=RingSpec(n=8, moduli=(17, 113)))
    assert x != 3
    assert len({x, same, x}) == 2
    assert x.tobytes() == same.ntt().tobytes()
    assert x.tobytes() != y.tobytes()


def test_a_random_poly_is_drawn_once():
    for r in (Poly.ternary(RING), Poly.uniform(RING), Poly.gaussian(RING), Poly.ternary(RING, weight=3)):
        assert (r - r).tolist() == [0] * 8
        before = (r + 1).tolist()
        assert r.realize() is r
        assert (r + 1).tolist() == before
    assert sum(map(abs, Poly.ternary(RING, weight=3).to_centered_list())) == 3
    assert Poly.uniform(RingSpec(64, (257, 641))) != Poly.uniform(RingSpec(64, (257, 641)))
    seed = bytes(range(32))
    one = Poly.sample("uniform", None, RING, seed, 3, domain="ntt")
    assert one == Poly.sample("uniform", None, RING, seed, 3, domain="ntt")
    assert one != Poly.sample("uniform", None, RING, seed, 4, domain="ntt")
    with pytest.raises(DomainError):
        Poly.sample("ternary", None, RING, domain="ntt")
    with pytest.raises(InvalidSampleError):
        Poly.sample("normal", None, RING)
    with pytest.raises(InvalidSampleError):
        Poly.sample("uniform", None, RING, b"short")


def test_residues_and_floats(xy):
    a, _, x, _ = xy
    rows = x.residues()
    assert rows.tolist() == [[c % q for c in a] for q in RING.moduli]
    assert Poly.from_residues(rows, RING, "coeff") == x
    assert Poly.from_residues(x.ntt().residues(), RING, Domain.NTT) == x
    rows[0, 0] = 17
    for bad in (rows, rows.astype(np.int64), rows[:1]):
        with pytest.raises(InvalidCoefficientsError):
            Poly.from_residues(bad, RING, "coeff")
    values = np.array([0.0, -1.0, 5.0, -800.0, 2.0**70, -(2.0**70), 3.0, 4.0])
    assert Poly.from_float(values, RING).tolist() == [int(v) % Q for v in values]
    for bad in (values + 0.5, values * np.nan, values[:4]):
        with pytest.raises(InvalidCoefficientsError):
            Poly.from_float(bad, RING)
    floats, misfits = P(5, -7).ntt().lift()
    assert floats.tolist()[:3] == [5.0, -7.0, 0.0]
    assert misfits == 0


def test_pickle_and_copy(xy):
    *_, x, y = xy
    lazy = x * y + 3
    for p in (x, lazy, lazy.ntt(), Poly.const(5, RING), Poly.ternary(RING)):
        back = pickle.loads(pickle.dumps(p))
        assert back == p
        assert back.domain is p.domain
        assert copy.copy(p) == copy.deepcopy(p) == p
    assert "constant" in repr(pickle.loads(pickle.dumps(Poly.const(5, RING))))


def test_long_chains_realize():  # B37
    x = P(1)
    for _ in range(20_000):
        x = x + P(1)
    assert len(repr(x)) < 100
    assert pickle.loads(pickle.dumps(x)).tolist() == [20_001 % Q] + [0] * 7
    assert sum((P(i) for i in range(6000)), P(0)).tolist()[0] == sum(range(6000)) % Q


def test_realize_several_as_one_schedule(xy):
    a, b, x, y = xy
    p = x * y
    u, v = p + 1, p - 1
    realize(u, v, u, Poly.const(1, RING))
    assert u.is_realized
    assert v.is_realized
    assert not p.is_realized
    assert (u - v).tolist() == [2] + [0] * 7


@pytest.mark.parametrize(
    "read",
    [Poly.tolist, Poly.to_centered_list, Poly.tobytes, Poly.lift, Poly.residues, lambda p: p == P(1), pickle.dumps],
)
def test_reading_keeps_the_value(xy, read):
    *_, x, y = xy
    product = x * y
    read(product)
    assert product.is_realized


def test_to_device(xy):
    *_, x, _ = xy
    assert x.to("reference") is x
    with pytest.raises(RuntimeError, match="nowhere"):
        x.to("nowhere")
    with pytest.raises(RuntimeError, match="nowhere"):
        Poly.const(1, RING).to("nowhere")


def test_bad_arguments(xy):
    *_, x, _ = xy
    with pytest.raises(UnsupportedOperandError, match="RingSpec"):
        Poly([1], (17, 97))
    with pytest.raises(UnsupportedOperandError, match="float"):
        Poly.const(1.5, RING)
    assert x.tolist()  # nothing is lost


@pytest.mark.parametrize("number", [np.longdouble(0.5), np.clongdouble(1), np.float32(1)])
def test_inexact_numpy_numbers_are_refused_on_either_side(number):
    x = Poly([1] * 8, RingSpec(n=8, moduli=(17, 97)))
    for use in (lambda: x + number, lambda: number + x, lambda: number * x, lambda: x - number):
        with pytest.raises(TypeError, match="Polys combine with Polys"):
            use()


def test_mod_raise_names_its_modes():
    with pytest.raises(OptionError, match="exact, .*, got 'typo'"):
        Poly([1] * 8, RingSpec(n=8, moduli=(17,))).mod_raise((97,), mode="typo")

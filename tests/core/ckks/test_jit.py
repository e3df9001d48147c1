"""CKKS under ren.jit: the same results as eager code, one plan where one is enough, keys and constants where they belong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import ren
from ren.errors import KeyMismatchError, PossibleOverflowWarning
from ren.schemes import ckks

Make = Callable[..., ckks.Engine]


def same(x: Any, y: Any) -> bool:
    return (
        x.a == y.a
        and x.b == y.b
        and (x.level, x.scale, x.slots, x.bound, x.is_real) == (y.level, y.scale, y.slots, y.bound, y.is_real)
    )


def chebyshev(x: Any) -> Any:
    for _ in range(6):
        x = 2 * x * x - 1
    return x


def everything(x: Any, y: Any, p: Any) -> list[Any]:
    low = x * y * x
    return [
        low + x,
        x * p - y,
        (x * 0.5 + 2).rotate(3) * (0.5 + 1j),
        y.conjugate() + np.linspace(0, 1, 64),
        ckks.polyval(x, [0.5, 1.0, -0.25, 0.125]),
        x.sum_slots(),
        *y.rotate_many([1, 2]),
        (
            ckks.multiply(x, y, relinearize=False, rescale=False)
            + ckks.multiply(x, x, relinearize=False, rescale=False)
        ).relinearize(),
    ]


def test_replay_gives_the_bits_of_eager_code(lab: Any) -> None:
    jitted = ren.jit(everything)
    for _ in range(3):
        x, y = lab.encrypt().ct, lab.encrypt(complex_=True).ct
        p = ckks.encode(lab.values())
        for found, eager in zip(jitted(x, y, p), everything(x, y, p), strict=True):
            assert same(found, eager)
    assert jitted.cache_info().currsize == 1


@pytest.mark.filterwarnings("ignore::ren.errors.PossibleOverflowWarning")
def test_the_first_document_s_circuit(lab: Any) -> None:
    jitted = ren.jit(chebyshev)
    for _ in range(3):
        x = lab.encrypt()
        found = jitted(x.ct)
        assert same(found, chebyshev(x.ct))
    assert len(jitted._plans) == 1


@pytest.mark.filterwarnings("ignore::ren.errors.TransparentCiphertextWarning")  # one of the constants is 0
@pytest.mark.parametrize(
    "values", [[0.5, -0.25, 1e-3, 700.0], [3, -2, 0, 10**6], [0.5j, 1 - 1j, 0.25 + 0j]], ids=["float", "int", "complex"]
)
def test_constants_change_without_a_new_plan(lab: Any, values: list[Any]) -> None:
    @ren.jit
    def affine(x: Any, scale: ckks.Plaintext, shift: ckks.Plaintext) -> Any:
        return x * scale + shift - scale

    x = lab.encrypt()
    for value in values:
        for shift in values:
            found = affine(x.ct, ckks.Plaintext.const(value), ckks.Plaintext.const(shift))
            exact = x.exact * value + shift - value
            np.testing.assert_allclose(lab.open(found), exact, atol=1e-6 * (1 + abs(value)))
            assert found.bound == pytest.approx(2 * abs(value) + abs(shift))
    assert len(affine._plans) == 1


def test_a_constant_meets_a_bare_poly_without_a_context() -> None:
    ring = ren.RingSpec(n=8, moduli=(17, 97))
    x = ren.Poly([1, 2, 3, 4, 0, 0, 0, 0], ring, device="reference")

    @ren.jit
    def scalar(x: Any, y: Any) -> Any:
        return x * y

    for value in (2, 3, -5):
        assert scalar(x, ckks.Plaintext.const(value)).to_centered_list()[:4] == [value * c for c in (1, 2, 3, 4)]
    assert len(scalar._plans) == 1
    assert (ckks.Plaintext.const(3) * x + ckks.Plaintext.const(1) - x).to_centered_list()[:2] == [3, 4]
    assert (ckks.Plaintext.const(1) - x).to_centered_list()[:2] == [0, -2]
    with pytest.raises(TypeError, match="integer constants"):
        x * ckks.Plaintext.const(0.5)


def test_bounds_are_tracked_by_each_replay(lab: Any) -> None:
    @ren.jit
    def add(total: Any, x: Any) -> Any:
        return total + x

    x = lab.encrypt()
    total = x.ct
    for i in range(20):
        total = add(total, x.ct)
        assert total.bound == i + 2
    assert len(add._plans) <= 2  # the first call gets one ciphertext twice
    np.testing.assert_allclose(lab.open(total), 21 * x.exact, atol=1e-6)


def test_an_overflow_is_told_by_the_replay_in_which_it_may_happen(lab: Any) -> None:
    square = ren.jit(lambda x: x * x)
    x = lab.encrypt(level=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        square(x.ct)
    with pytest.warns(PossibleOverflowWarning, match="multiply"):
        assert square(x.ct.assume_bound(2.0**40)).bound == float("inf")
    assert len(square._plans) == 1


def test_strict_bounds_hold_in_replays() -> None:
    engine = ckks.keygen(ckks.CKKSParams.python_test(), "reference", strict_bounds=True)
    square = ren.jit(lambda x: x * x)
    with engine:
        x = ckks.encrypt(ckks.encode([0.5], level=4))
        square(x)
        with pytest.raises(ValueError, match="possible-overflow"):
            square(x.assume_bound(2.0**40))
        assert ckks.decode(ckks.decrypt(square(x)), 1)[0] == pytest.approx(0.25, abs=1e-6)


def test_keys_made_during_a_capture_are_constants_of_its_plan(new_engine: Make) -> None:
    engine = new_engine()
    f = ren.jit(lambda x: (x * x).rotate(5).conjugate() + 1j)
    with engine:
        for values in ([0.5, 0.25], [0.1, -0.3]):
            x = ckks.encrypt(ckks.encode(values))
            exact = np.roll(np.pad(np.square(values), (0, 62)), 5) + 1j
            np.testing.assert_allclose(ckks.decode(ckks.decrypt(f(x))), exact, atol=1e-6)
    assert engine.evaluation_keys.rotations is not None and engine.evaluation_keys.rotations.steps == (5,)
    assert len(f._plans) == 1


def test_plans_belong_to_a_key(new_engine: Make) -> None:
    first, second = new_engine(), new_engine()
    f = ren.jit(lambda x: x * x)
    for engine in (first, second, first):
        with engine:
            x = ckks.encrypt(ckks.encode([0.5]))
            assert ckks.decode(ckks.decrypt(f(x)), 1)[0] == pytest.approx(0.25, abs=1e-6)
    assert len(f._plans) == 2
    with second, pytest.raises(KeyMismatchError):
        f(x)


def test_other_states_get_other_plans(lab: Any) -> None:
    f = ren.jit(lambda x, y: x + y)
    for x, y in ((0, 0), (0, 2), (2, 0), (1, 3), (0, 0)):
        u, v = lab.encrypt(level=x), lab.encrypt(level=y)
        total = u + v
        total._made(f(u.ct, v.ct), total.exact, total.noise).check()
    assert len(f._plans) == 4


def test_containers_keywords_and_batches(lab: Any) -> None:
    @ren.jit
    def f(values: dict[str, Any], *, shift: Any) -> dict[str, Any]:
        return {"sum": values["x"] + values["y"][0], "batch": values["batch"] * shift}

    x, y, s = lab.encrypt(), lab.encrypt(), lab.encrypt()
    batch = ckks.encrypt(ckks.encode(np.eye(2)))
    for _ in range(2):
        found = f({"x": x.ct, "y": [y.ct], "batch": batch}, shift=s.ct)
        np.testing.assert_allclose(lab.open(found["sum"]), x.exact + y.exact, atol=1e-6)
        assert found["batch"].shape == (2,)
        np.testing.assert_allclose(lab.open(found["batch"])[1, :2], [0, s.exact[1]], atol=1e-6)


def test_randomness_inside_is_refused_or_fresh(lab: Any) -> None:
    p = ckks.encode(np.zeros(64))
    x = lab.encrypt()

    @ren.jit
    def frozen(c: Any) -> Any:
        return c + ckks.encrypt(p)

    with pytest.raises(RuntimeError, match="Random number generation during jit capture is not supported"):
        frozen(x.ct)

    def anew(c: Any) -> Any:
        return c + ckks.encrypt(p)

    fresh = ren.jit(anew, random="fresh")
    results = [fresh(x.ct) for _ in range(3)]
    for result in results:
        np.testing.assert_allclose(lab.open(result), x.exact, atol=1e-6)
    assert len({r.a.tobytes() for r in results}) == 3


def test_encoding_inside_is_a_constant(lab: Any) -> None:
    values = lab.values()
    f = ren.jit(lambda x: x * ckks.encode(values) + ckks.encode(values, level=1))
    for _ in range(2):
        x = lab.encrypt()
        np.testing.assert_allclose(lab.open(f(x.ct)), x.exact * values + values, atol=1e-6)


def test_a_plaintext_reached_in_a_hidden_way_is_refused(lab: Any) -> None:
    class Model:
        weights = ckks.encode(lab.values())

    def look_up() -> Any:
        return getattr(Model, "weigh" + "ts")

    f = ren.jit(lambda x: x * look_up())
    with pytest.raises(RuntimeError, match="ren.jit"):
        f(lab.encrypt().ct)


def test_decrypting_inside_is_refused_and_leaves_nothing_behind(lab: Any) -> None:
    f = ren.jit(lambda x: ckks.decrypt(x + 1))
    x = lab.encrypt()
    with pytest.raises(RuntimeError, match="realize should not be called"):
        f(x.ct)
    (x + x).check()

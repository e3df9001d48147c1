"""Encoding, encryption, decryption and decoding: what is accepted, what is refused, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren.errors import CapacityError, DecryptionError, EncodingError, ImaginaryPartWarning, UnsupportedOperandError
from ren.poly import Poly
from ren.schemes import ckks
from ren.schemes.ckks.scale import Scale

Make = Callable[..., ckks.Engine]


def test_plaintexts_carry_their_state(lab: Any) -> None:
    params = lab.engine.params
    p = ckks.encode([0.5, -0.25], msg_bound=2.0, level=3)
    assert (p.level, p.scale, p.slots, p.bound, p.is_real) == (3, params.scale_at(3), 64, 2.0, True)
    assert p.poly.is_realized and p.poly.ring == params.ring_at(3)
    np.testing.assert_allclose(ckks.decode(p, 3), [0.5, -0.25, 0], atol=1e-9)
    assert ckks.encode([1j]).is_real is False
    assert ckks.encode([0.5], scale=2**30).scale == Scale.power_of_two(30)


def test_encryption_keeps_the_state_and_is_fresh_each_time(lab: Any) -> None:
    p = ckks.encode([0.5], level=2, msg_bound=3.0)
    for key in (None, lab.engine.public_key, lab.engine.secret_key):
        x, y = ckks.encrypt(p, key), ckks.encrypt(p, key)
        assert (x.level, x.scale, x.bound, x.key_id) == (2, p.scale, 3.0, lab.engine.key_id)
        assert x.a.is_realized and x.b.is_realized
        assert x.a != y.a and x.b != y.b


@pytest.mark.parametrize(
    "values",
    [
        [0.1, float("nan"), 0.2],
        [0.1, float("inf"), 0.2],
        [0.1, -float("inf"), 0.2],
        [0.1, 1e306, 0.2],
        [0.1, 1.5, 0.2],
        [0.1, -1.5],
        [0.1, 1 + 1j],
    ],
)
def test_bad_values_name_their_index(lab: Any, values: Any) -> None:
    with pytest.raises(EncodingError, match=r"values\[1\]"):
        ckks.encode(values, msg_bound=1.0)


@pytest.mark.parametrize("values", [[], np.zeros(0), [0.0] * 65])
def test_lengths(lab: Any, values: Any) -> None:
    with pytest.raises(EncodingError, match="empty|65 values for 64"):
        ckks.encode(values)


def test_a_message_must_fit_its_level(lab: Any) -> None:
    with pytest.raises(CapacityError, match=r"values\[0\]"):
        ckks.encode([1e4], msg_bound=1e4, level=6)
    assert ckks.encode([1e4], msg_bound=1e4, level=5).level == 5


def test_what_decryption_lifted_is_not_lifted_again(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ckks.decrypt(ckks.encrypt(ckks.encode([0.5, 0.25])))
    again = ckks.Plaintext(plain.poly, plain.level, plain.scale, plain.slots, plain.bound, True, plain.params_id)
    expected = ckks.decode(again)  # lifts
    monkeypatch.setattr(Poly, "lift", None)
    np.testing.assert_array_equal(ckks.decode(plain), expected)
    np.testing.assert_array_equal(ckks.decode(plain), expected)  # decoding leaves it as it was
    with pytest.raises(TypeError):
        ckks.decode(again)


def test_decoding(lab: Any) -> None:
    values = lab.values(complex_=True)
    x = ckks.encrypt(ckks.encode(values))
    found = ckks.decode(ckks.decrypt(x))
    assert found.dtype == np.complex128 and found.shape == (64,)
    assert ckks.decode(ckks.decrypt(x), length=5).shape == (5,)
    with pytest.warns(ImaginaryPartWarning, match="imaginary"):
        real = ckks.decode(ckks.decrypt(x), is_real=True)
    np.testing.assert_allclose(real, values.real, atol=1e-6)
    y = ckks.encrypt(ckks.encode(values.real))
    assert ckks.decode(ckks.decrypt(y)).dtype == np.float64
    assert ckks.decode(ckks.decrypt(y), is_real=False).dtype == np.complex128
    for length in (0, 65, -1, 2.0, True):
        with pytest.raises(EncodingError, match="length"):
            ckks.decode(ckks.decrypt(y), length)


def test_rounding_before_publication(lab: Any) -> None:
    x = ckks.encrypt(ckks.encode([0.1, 0.30001, -0.7]))
    found = ckks.decode(ckks.decrypt(x), 3, round_bits=4)
    assert found.tolist() == [0.125, 0.3125, -0.6875]
    z = ckks.decode(ckks.decrypt(ckks.encrypt(ckks.encode([0.1 - 0.7j]))), 1, round_bits=4)
    assert z.tolist() == [0.125 - 0.6875j]
    with pytest.raises(EncodingError, match="round_bits"):
        ckks.decode(ckks.decrypt(x), round_bits=0.5)  # type: ignore[arg-type]


def test_what_is_no_plaintext_or_ciphertext(lab: Any) -> None:
    x = lab.encrypt().ct
    for operation in (
        lambda: ckks.encrypt([0.5]),
        lambda: ckks.encrypt(ckks.Plaintext.const(0.5)),
        lambda: ckks.decrypt(ckks.encode([0.5])),
        lambda: ckks.decode(x),
        lambda: ckks.rotate(ckks.encode([0.5]), 1),
    ):
        with pytest.raises(UnsupportedOperandError):
            operation()


def test_an_overflow_is_caught_at_decryption(lab: Any) -> None:
    x = lab.encrypt(level=5)
    with pytest.warns(match="possible-overflow"):
        big = x.ct * (1 << 60)
    with pytest.raises(DecryptionError, match="quarter"):
        ckks.decrypt(big)


def test_large_values_above_two_limbs_are_exact(lab: Any) -> None:
    """A coefficient may need more than the two limbs that decryption reads first."""
    x = lab.encrypt()
    big = x.ct * (1 << 80)
    np.testing.assert_allclose(lab.open(big) / 2.0**80, x.exact, atol=1e-8)
    total = ckks.encrypt(ckks.encode([0.5] * 64, msg_bound=2.0**41)) + 2.0**40
    np.testing.assert_allclose(lab.open(total), 2.0**40 + 0.5, atol=1e-6)


def test_the_message_calls_of_the_second_document(lab: Any) -> None:
    engine, values = lab.engine, lab.values()
    x = engine.encrypt_message(values, engine.public_key, level=1)
    assert x.level == 1 and x.bound == engine.bounds.limit(1, engine.params.scale_at(1))
    found = np.asarray(engine.decrypt_message(x, engine.secret_key, is_real=True))
    np.testing.assert_allclose(found, values, atol=1e-6)
    with pytest.raises(ValueError, match=r"values\[2\]"):
        engine.encrypt_message([0.0, 0.0, float("nan")], engine.public_key)
    gain = engine.plaintext(0.75, level=2, scale=engine.config.default_scale)
    assert (gain.level, gain.scale, gain.bound) == (2, engine.params.default_scale, 0.75)
    np.testing.assert_allclose(engine.decode(gain, 4), 0.75, atol=1e-9)
    np.testing.assert_allclose(engine.decode(engine.plaintext(0.5 - 0.25j), 2), 0.5 - 0.25j, atol=1e-9)
    np.testing.assert_allclose(engine.decode(engine.plaintext(values[:3], level=1), 3), values[:3], atol=1e-9)
    with pytest.warns(match="possible-overflow: multiply"):  # its bound is the capacity: anything may be inside
        product = x * gain
    assert f"{product.scale:.6e}".startswith("1.09")
    assert (x.assume_bound(1.0) * gain).bound == 0.75
    assert engine.encrypt_message(np.zeros((0, 64)), engine.public_key).shape == (0,)


def test_products_decrypt_before_relinearization(lab: Any) -> None:
    x, y = lab.encrypt(), lab.encrypt()
    product = ckks.multiply(x.ct, y.ct, relinearize=False)
    tracked = x * y
    tracked._made(product, tracked.exact, tracked.noise + lab.three_part_rescale(1)).check()


def test_precision_report(lab: Any) -> None:
    x = lab.encrypt()
    report = ckks.precision_report(lab.open(x.ct), x.exact)
    assert report.slots == 64 and -60 < report.min_log2 <= report.mean_log2 <= report.max_log2 < -25


def test_moving_between_devices_keeps_the_value(lab: Any) -> None:
    x = lab.encrypt()
    assert x.ct.to("reference") is x.ct
    assert x.ct.device == "reference"

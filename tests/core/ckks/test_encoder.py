"""The encoder against the definition of the canonical embedding, and everything users hand to it."""

from __future__ import annotations

import cmath
import math
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ren.errors import CapacityError, DecryptionError, EncodingError
from ren.schemes.ckks.encoder import capacity, decode_from_floats, decode_lifted, encode_to_integers
from ren.schemes.ckks.message import as_message
from ren.schemes.ckks.noise import encoding
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.precision import precision_report
from ren.schemes.ckks.scale import Scale

S40 = Scale.of(2.0**40)
N = 64
RNG = np.random.default_rng(7)


def message(slots: int, *, real: bool = False) -> Any:
    v = RNG.uniform(-1, 1, slots)
    return v if real else (v + 1j * RNG.uniform(-1, 1, slots)) / math.sqrt(2)


def evaluate(coefficients: Any, j: int) -> complex:
    """m(zeta^(5^j)) by the definition."""
    n = len(coefficients)
    return sum(c * cmath.exp(1j * math.pi * (pow(5, j, 2 * n) * k % (2 * n)) / n) for k, c in enumerate(coefficients))


@pytest.mark.parametrize("n", [8, 16, 128])
def test_encoding_is_the_canonical_embedding(n: int) -> None:
    v = message(n // 2)
    coefficients = encode_to_integers(v, S40, n=n)
    assert coefficients.dtype == np.float64 and np.array_equal(coefficients, np.rint(coefficients))
    allowed = encoding(n, S40).bound(n // 2)
    assert max(abs(evaluate(coefficients, j) / 2.0**40 - v[j]) for j in range(n // 2)) < allowed


@pytest.mark.parametrize("n", [8, 128, 1 << 14])
def test_decoding_inverts_encoding_within_the_rounding(n: int) -> None:
    v = message(n // 2)
    back = decode_from_floats(encode_to_integers(v, S40, n=n, msg_bound=1.0), S40)
    assert np.abs(back - v).max() < encoding(n, S40).bound(n // 2)


@pytest.mark.parametrize("slots", [1, 2, 4, 32])
@pytest.mark.parametrize("missing", [0, 1])
def test_real_messages_give_the_coefficients_of_the_complex_path(slots: int, missing: int) -> None:
    v = message(max(1, slots - missing), real=True)
    real, general = (encode_to_integers(x, S40, n=N, slots=slots) for x in (v, v.astype(complex)))
    assert np.abs(real - general).max() <= 1, "at most a rounding apart"
    assert np.array_equal(real[1:], -real[:0:-1]), "a polynomial with real slots is its own conjugate"


def test_rotation_of_slots_is_the_automorphism_by_powers_of_five() -> None:
    v = message(N // 2)
    c = encode_to_integers(v, S40, n=N)
    rotated = np.zeros(N)
    for k in range(N):  # X -> X^5
        e = 5 * k % (2 * N)
        rotated[e % N] = c[k] if e < N else -c[k]
    assert np.abs(decode_from_floats(rotated, S40) - np.roll(v, -1)).max() < encoding(N, S40).bound(N // 2)


def test_short_messages_are_padded_with_zeros() -> None:
    v = message(5)
    back = decode_from_floats(encode_to_integers(v, S40, n=N), S40)
    assert np.abs(back[:5] - v).max() < 1e-9 and np.abs(back[5:]).max() < 1e-9


@pytest.mark.parametrize("slots", [1, 2, 8, 32])
def test_sparse_packing_repeats_the_message(slots: int) -> None:
    v = message(slots)
    c = encode_to_integers(v, S40, n=N, slots=slots)
    assert set(np.nonzero(c)[0] % (N // 2 // slots)) == {0}
    assert np.abs(decode_from_floats(c, S40) - np.tile(v, N // 2 // slots)).max() < encoding(N, S40).bound(N // 2)
    assert np.abs(decode_from_floats(c, S40, slots=slots) - v).max() < encoding(N, S40).bound(N // 2)


@pytest.mark.parametrize("slots", [0, 3, 64, -1, 2.0, True])
def test_the_extent_is_a_power_of_two_that_fits(slots: Any) -> None:
    with pytest.raises(EncodingError, match="power of two from 1 to 32"):
        encode_to_integers([0.5], S40, n=N, slots=slots)


# -- B01-B07 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, 1e306, complex(0, math.nan), complex(math.inf, 0), 10**400, -(10**400)]
)
def test_b01_non_finite_and_huge_values_are_named(bad: Any) -> None:
    with pytest.raises(EncodingError, match=r"values\[1\] is") as caught:
        encode_to_integers([0.1, bad, 0.2], S40, n=N, msg_bound=1.0)
    assert isinstance(caught.value, ValueError)
    with pytest.raises((EncodingError, CapacityError), match=r"values\[1\]"):
        encode_to_integers([0.1, bad, 0.2], S40, n=N)


@pytest.mark.parametrize("sign", [1, -1, 1j, -1j])
def test_b02_b03_the_bound_holds_for_every_direction(sign: complex) -> None:
    values = np.full(N // 2, sign * 2.0**70)
    for v in (values, list(values)):
        with pytest.raises(EncodingError, match=r"values\[0\] is .*exceeds msg_bound=1.0"):
            encode_to_integers(v, S40, n=N, msg_bound=1.0)


def test_b02_a_value_over_capacity_is_refused() -> None:
    modulus = CKKSParams.python_test().chain[0]
    limit = capacity(modulus, S40)
    assert limit == pytest.approx(modulus / 4 / 2**40)
    encode_to_integers([0.99 * limit], S40, n=N, modulus=modulus)
    with pytest.raises(CapacityError, match=r"values\[2\] has modulus .*holds at most"):
        encode_to_integers([0, 0, -1.01 * limit], S40, n=N, modulus=modulus)
    with pytest.raises(CapacityError):
        encode_to_integers([1e9] * 4, S40, n=N, modulus=modulus, msg_bound=1e9)


def test_coefficients_stay_below_capacity() -> None:
    """The worst message for one coefficient: slots aligned with the phases of the embedding."""
    modulus = 2**50
    limit = capacity(modulus, S40)
    for k in (0, 1, N // 2 - 1):
        v = [limit * cmath.exp(1j * math.pi * pow(5, j, 2 * N) * k / N) for j in range(N // 2)]
        c = encode_to_integers(v, S40, n=N, msg_bound=limit)
        assert np.abs(c).max() <= modulus / 4 * (1 + 1e-12)


@pytest.mark.parametrize("bound", [0, -1.0, math.nan, math.inf, "1"])
def test_msg_bound_is_positive_and_finite(bound: Any) -> None:
    with pytest.raises(EncodingError, match="msg_bound must be finite and positive"):
        as_message([0.5], slots=4, msg_bound=bound)


def test_values_at_the_bound_are_accepted() -> None:
    as_message([1.0, -1.0], slots=4, msg_bound=1.0)
    as_message([cmath.exp(1j * t) for t in range(100)], slots=100, msg_bound=1.0)
    with pytest.raises(EncodingError, match=r"values\[1\]"):
        as_message([1.0, math.nextafter(1.0, 2)], slots=4, msg_bound=1.0)
    with pytest.raises(EncodingError, match=r"values\[1\]"):
        as_message([1.0, 0.8 + 0.8j], slots=4, msg_bound=1.0)


@pytest.mark.parametrize("empty", [[], (), range(0), np.zeros(0), np.zeros((0,), complex)])
def test_b05_empty_input(empty: Any) -> None:
    with pytest.raises(EncodingError, match="must not be empty"):
        encode_to_integers(empty, S40, n=N)


def test_b06_too_long_input_names_both_lengths() -> None:
    with pytest.raises(EncodingError, match="33 values for 32 slots"):
        encode_to_integers([0.0] * 33, S40, n=N)
    with pytest.raises(EncodingError, match="9 values for 8 slots"):
        encode_to_integers(np.zeros(9), S40, n=N, slots=8)
    with pytest.raises(EncodingError, match=r"one dimension, got shape \(2, 3\)"):
        encode_to_integers(np.zeros((2, 3)), S40, n=N)
    with pytest.raises(EncodingError, match="one dimension"):
        encode_to_integers([[1.0, 2.0], [3.0]], S40, n=N)


class Tensor:
    """What the duck typing needs of a tensor that records gradients and lives elsewhere."""

    def __init__(self, data: Any, *, tracked: bool = True) -> None:
        self.data, self.tracked = data, tracked

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        assert not self.tracked, "must be detached first"
        return np.asarray(self.data, dtype=dtype)

    def detach(self) -> Tensor:
        return Tensor(self.data, tracked=False)

    def cpu(self) -> Tensor:
        return self


READ_ONLY = np.arange(8.0) / 8
READ_ONLY.flags.writeable = False
FORMS: dict[str, tuple[Any, list[complex]]] = {
    "float32": (np.arange(8, dtype=np.float32) / 8, [i / 8 for i in range(8)]),
    "int64": (np.arange(8), list(range(8))),
    "uint8": (np.arange(8, dtype=np.uint8), list(range(8))),
    "bool": (np.array([True, False, True]), [1, 0, 1]),
    "complex64": (np.array([0.5 + 0.25j], np.complex64), [0.5 + 0.25j]),
    "longdouble": (np.arange(3, dtype=np.longdouble), [0, 1, 2]),
    "big-endian": (np.arange(4, dtype=">f8"), [0, 1, 2, 3]),
    "read-only": (READ_ONLY, [i / 8 for i in range(8)]),
    "strided": (np.arange(16.0)[::2], [0, 2, 4, 6, 8, 10, 12, 14]),
    "reversed": (np.arange(4.0)[::-1], [3, 2, 1, 0]),
    "column": (np.arange(6.0).reshape(3, 2)[:, 0], [0, 2, 4]),
    "range": (range(3, 9, 2), [3, 5, 7]),
    "tuple": ((1, 2.5, 1j), [1, 2.5, 1j]),
    "mixed ints": ([2**70, -1], [2.0**70, -1]),
    "fractions": ([Fraction(1, 4), Decimal("0.5"), 2], [0.25, 0.5, 2]),
    "numpy scalars": ([np.float32(0.5), np.int8(-3)], [0.5, -3]),
    "tensor": (Tensor([0.5, -0.25]), [0.5, -0.25]),
}


@pytest.mark.parametrize("form", FORMS)
def test_b07_every_numeric_form_gives_the_same_numbers(form: str) -> None:
    values, expected = FORMS[form]
    before = np.array(values).copy() if isinstance(values, np.ndarray) else None
    got = encode_to_integers(values, S40, n=N)
    assert np.array_equal(got, encode_to_integers(np.array(expected), S40, n=N))
    if before is not None:
        assert np.array_equal(values, before), "the input was modified"


@pytest.mark.parametrize(
    "bad",
    [
        "0.5",
        b"12",
        bytearray(b"1"),
        (x for x in [1.0]),
        iter([1.0]),
        {1.0, 2.0},
        {0: 1.0},
        3.0,
        None,
        object(),
        ["a", "b"],
        [None],
        [1.0, "x"],
        np.array(["1"]),
        np.array([object()]),
        np.array(["2020-01-01"], "M8[D]"),
    ],
)
def test_b07_other_types_are_type_errors(bad: Any) -> None:
    with pytest.raises(TypeError):
        encode_to_integers(bad, S40, n=N)


def test_results_are_fresh_and_threads_do_not_share_scratch() -> None:
    a = encode_to_integers([1.0] * 32, S40, n=N)
    kept = a.copy()
    encode_to_integers([0.5] * 32, S40, n=N)
    assert np.array_equal(a, kept)
    messages = [message(1 << 11) for _ in range(8)]
    expected = [encode_to_integers(m, S40, n=1 << 12) for m in messages]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(encode_to_integers(messages[i], S40, n=1 << 12), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


# -- decoding of decrypted polynomials -------------------------------------------------------------------------------


def lift(integers: list[int], moduli: tuple[int, ...]) -> tuple[Any, int]:
    """The LIFT of ren.ops on centred coefficients, with Python integers."""
    pair = math.prod(moduli[:2])
    values = [(c % pair + pair // 2) % pair - pair // 2 for c in integers]
    misfit = sum((v - c) % moduli[2] != 0 for v, c in zip(values, integers, strict=True)) if len(moduli) > 2 else 0
    return np.array([float(v) for v in values]), misfit


def never() -> list[int]:
    raise AssertionError("the exact path was taken without need")


def test_two_limbs_are_enough_for_a_sound_message() -> None:
    moduli = CKKSParams.python_test().chain
    v = message(32)
    c = [int(x) for x in encode_to_integers(v, S40, n=N)]
    back = decode_lifted(*lift(c, moduli), moduli, S40, exact=never)
    assert np.abs(back - v).max() < encoding(N, S40).bound(32)


def test_wide_coefficients_take_the_exact_path() -> None:
    moduli = CKKSParams.python_test().chain
    scale = Scale.of(2.0**200)
    v = message(32)
    c = [int(x) for x in encode_to_integers(v, scale, n=N)]
    floats, misfit = lift(c, moduli)
    assert misfit > 0
    back = decode_lifted(floats, misfit, moduli, scale, exact=lambda: c)
    assert np.abs(back - v).max() < 1e-13


def test_integers_beyond_doubles_decode() -> None:
    moduli = tuple(range(2**60 - 40, 2**60))  # a modulus of 2400 bits; the decoder only multiplies them
    scale = Scale.of(2) ** 2000
    c = [0] * N
    c[0] = 3 << 1998
    back = decode_lifted(np.zeros(N), 1, moduli, scale, exact=lambda: c)
    assert np.allclose(back, 0.75, atol=1e-15)


@pytest.mark.parametrize("limbs", [1, 2])
def test_a_coefficient_over_a_quarter_of_the_modulus_is_an_error(limbs: int) -> None:
    moduli = CKKSParams.python_test().chain[:limbs]
    modulus = math.prod(moduli)
    c = [0] * N
    c[3] = -(modulus // 4 - 2**48)
    decode_lifted(*lift(c, moduli), moduli, S40, exact=never)
    c[3] = -(modulus // 4 + 2**48)
    with pytest.raises(DecryptionError, match="above a quarter of the"):
        decode_lifted(*lift(c, moduli), moduli, S40, exact=never)


def test_noise_over_the_message_is_an_error_with_many_limbs() -> None:
    moduli = CKKSParams.python_test().chain[:4]
    modulus = math.prod(moduli)
    c = [int(x * modulus) for x in RNG.uniform(-0.5, 0.5, N)]
    floats, misfit = lift(c, moduli)
    with pytest.raises(DecryptionError):
        decode_lifted(floats, misfit, moduli, S40, exact=lambda: c)


def test_precision_report() -> None:
    r = precision_report([1.0, 2.0, 3.0], [1.0, 2.0 + 2.0**-10, 3.0 - 2.0**-8])
    assert (r.min_log2, r.max_log2, r.worst_slot, r.slots) == (-math.inf, -8.0, 2, 3)
    assert r.max_error == 2.0**-8 and -9.7 < r.mean_log2 < -9 and r.mean_log2 < r.rms_log2 < r.max_log2
    assert "max -8.00 (slot 2)" in str(r)
    with pytest.raises(ValueError, match="got 1 and 2"):
        precision_report([1.0], [1.0, 2.0])


@pytest.mark.torch
def test_b07_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    forms = {
        "column": (torch.ones(4, 2)[:, 0], [1, 1, 1, 1]),
        "transposed row": (torch.arange(6.0).reshape(3, 2).t()[1], [1, 3, 5]),
        "requires grad": (torch.tensor([0.5, -0.5], requires_grad=True), [0.5, -0.5]),
        "bfloat16": (torch.tensor([0.5, 2.0], dtype=torch.bfloat16), [0.5, 2.0]),
        "lazy conjugate": (torch.tensor([0.5 + 1j]).conj(), [0.5 - 1j]),
        "bool": (torch.tensor([True, False]), [1, 0]),
        "list of scalars": ([torch.tensor(0.5), torch.tensor(2.0)], [0.5, 2.0]),
    }
    for name, (values, expected) in forms.items():
        got = encode_to_integers(values, S40, n=N)
        assert np.array_equal(got, encode_to_integers(np.array(expected), S40, n=N)), name
    with pytest.raises(EncodingError, match=r"values\[1\] is nan"):
        encode_to_integers(torch.tensor([0.0, math.nan]), S40, n=N)

"""Distributions: exact definitions, statistics on fixed seeds, refusals."""

import hashlib
import math

import numpy as np
import pytest
from ren.errors import InvalidSampleError
from ren.numtheory import sampling
from ren.testing import definitions_sampling as definition

SEED = bytes(range(32))
MODULI = (17, 97, 1152921504606584833)


def chi_square(observed, expected):
    return float(((np.asarray(observed) - expected) ** 2 / expected).sum())


# -- uniform ---------------------------------------------------------------------------------------------------------


def test_uniform_redraws_refused_words_from_the_next_attempt():
    """A modulus just above 2^64 / 9 refuses one word in nine; several attempts are needed somewhere."""
    q = (1 << 64) // 9 + 2
    row = sampling.sample_uniform(SEED, q, 512, 7)
    first = sampling.stream_words(SEED, 512, "uniform", 7)
    refused = first >= np.uint64((1 << 64) // q * q)
    assert 20 < refused.sum() < 120
    assert row.tolist() == definition.uniform_row(SEED, q, 512, 7)
    assert np.array_equal(row[~refused], first[~refused] % np.uint64(q))


def test_uniform_is_flat():
    counts = np.bincount(sampling.sample_uniform(SEED, 17, 1 << 16, 0).astype(np.int64), minlength=17)
    assert chi_square(counts, (1 << 16) / 17) < 45  # 16 degrees of freedom: one in 7000


def test_limbs_use_streams_of_their_own():
    rows = sampling.sample_rows(SEED, "uniform", None, 5, 64, MODULI)
    for j, q in enumerate(MODULI):
        assert np.array_equal(rows[j], sampling.sample_uniform(SEED, q, 64, 5 + j))


def test_a_shorter_draw_is_a_prefix():
    """Truncating a ring in n or in limbs keeps what is left: seed-compressed keys rely on the second."""
    full = sampling.sample_rows(SEED, "uniform", None, 0, 64, MODULI)
    assert np.array_equal(sampling.sample_rows(SEED, "uniform", None, 0, 16, MODULI), full[:, :16])
    assert np.array_equal(sampling.sample_rows(SEED, "uniform", None, 0, 64, MODULI[:2]), full[:2])


# -- small distributions ---------------------------------------------------------------------------------------------


def test_ternary_thirds():
    counts = np.bincount(sampling.sample_ternary(SEED, 1 << 16, 0) + 1, minlength=3)
    assert chi_square(counts, (1 << 16) / 3) < 18  # 2 degrees of freedom


def test_gaussian_statistics():
    x = sampling.sample_gaussian(SEED, "3.19", 1 << 16, 0)
    assert abs(x.mean()) < 4 * 3.19 / 256
    assert abs(x.std() - 3.19) < 0.05
    weights = np.array([math.exp(-k * k / (2 * 3.19**2)) for k in range(-9, 10)])
    expected = weights / sum(math.exp(-k * k / (2 * 3.19**2)) for k in range(-60, 61)) * x.size
    observed = [np.count_nonzero(x == k) for k in range(-9, 10)]
    assert chi_square(observed, expected) < 50  # 19 cells


def test_gaussian_table():
    """29 thresholds for 3.19, equal to those computed with 120 digits."""
    table = sampling.gaussian_thresholds("3.19")
    assert len(table) == 29
    for sigma in ("3.19", "3.2", "0.5", "8", "20.25"):
        assert sampling.gaussian_thresholds(sigma) == definition.cumulative(sigma)
        assert list(sampling.gaussian_thresholds(sigma)) == sorted(sampling.gaussian_thresholds(sigma))


def test_gaussian_equals_its_own_text_only():
    """ "3.19" and "3.190" are the same number, so the same table."""
    assert sampling.gaussian_thresholds("3.190") == sampling.gaussian_thresholds("3.19")


@pytest.mark.parametrize("weight", [0, 1, 5, 63, 64])
def test_sparse_ternary_weight(weight):
    for stream in range(20):
        x = sampling.sample_sparse_ternary(SEED, weight, 64, stream)
        assert np.count_nonzero(x) == weight
        assert set(x.tolist()) <= {-1, 0, 1}


def test_sparse_ternary_positions_and_signs_are_even():
    draws = np.stack([sampling.sample_sparse_ternary(SEED, 16, 64, s) for s in range(600)])
    counts = np.count_nonzero(draws, axis=0)
    mean = 600 * 16 / 64
    assert ((counts - mean) ** 2 / (mean * 0.75)).sum() < 130  # 63 degrees of freedom
    assert abs(int((draws == 1).sum()) - 4800) < 250


@pytest.mark.parametrize(("distribution", "argument"), [("ternary", None), ("gaussian", "3.19"), ("sparse_ternary", 7)])
def test_small_draws_are_one_integer_in_all_limbs(distribution, argument):
    rows = sampling.sample_rows(SEED, distribution, argument, 2, 32, MODULI)
    values = sampling.sample_small(SEED, distribution, argument, 2, 32)
    assert rows.tolist() == [[int(v) % q for v in values] for q in MODULI]
    assert values.tolist() == definition.small_integers(SEED, distribution, argument, 2, 32)


# -- frozen ----------------------------------------------------------------------------------------------------------

#: Key files hold seeds, so these bytes may never change: SHA-256 of the words, little-endian, for n = 256 and MODULI.
GOLDEN = {
    ("uniform", None, 0): "67af8d0eb688ee0af03531a9d6a6bf12480e6bc7684a3c2b9c7c3dcf34ca8535",
    ("uniform", None, 77): "288820d9c66729462335e4f01574767972cb9a9ec4dd44c44993cae7896bf463",
    ("ternary", None, 1): "59156d73fd05be82d0528be221f1b53fc6c3345c968fbae7929a10ce69bd5b2d",
    ("gaussian", "3.19", 2): "d864c1562a0425973970b40eab8f34585fd87657970cd27577890fc8e591e9cd",
    ("sparse_ternary", 64, 3): "357c387fd6ba787fa4d155508f270a91a2f6f8f6ea9a57895000c5806d4b7eeb",
}


@pytest.mark.parametrize(("draw", "digest"), GOLDEN.items(), ids=lambda v: str(v)[:40])
def test_streams_never_change(draw, digest):
    rows = sampling.sample_rows(SEED, *draw, 256, MODULI)
    assert hashlib.sha256(rows.astype("<u8").tobytes()).hexdigest() == digest


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distribution", "argument", "stream"),
    [
        ("normal", None, 0),
        ("uniform", 3, 0),
        ("ternary", "x", 0),
        ("gaussian", 3.19, 0),
        ("gaussian", "wide", 0),
        ("gaussian", "0", 0),
        ("gaussian", "-1", 0),
        ("gaussian", "65", 0),
        ("gaussian", "NaN", 0),
        ("gaussian", "Infinity", 0),
        ("gaussian", None, 0),
        ("sparse_ternary", -1, 0),
        ("sparse_ternary", 33, 0),
        ("sparse_ternary", True, 0),
        ("sparse_ternary", None, 0),
        ("uniform", None, -1),
        ("uniform", None, (1 << 32) - 2),
    ],
)
def test_undefined_draws_are_refused(distribution, argument, stream):
    with pytest.raises(InvalidSampleError):
        sampling.sample_rows(SEED, distribution, argument, stream, 32, MODULI)


def test_seed_length():
    with pytest.raises(ValueError, match="32 bytes, got 16"):
        sampling.sample_rows(bytes(16), "uniform", None, 0, 8, MODULI)

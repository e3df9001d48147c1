"""Residues of integers and integers of residues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ren.numtheory import crt

MODULI = (17, 97, (1 << 45) - 229, (1 << 61) - 1)
Q = 17 * 97 * ((1 << 45) - 229) * ((1 << 61) - 1)


@given(st.lists(st.integers(-(1 << 300), 1 << 300), min_size=1, max_size=8))
def test_residues_of_integers_of_any_size(values):
    rows = crt.residues(values, MODULI)
    assert rows.dtype == np.uint64
    assert rows.tolist() == [[v % q for v in values] for q in MODULI]


@given(st.lists(st.integers(0, Q - 1), min_size=1, max_size=8))
def test_recombine_undoes_residues(values):
    assert crt.recombine(crt.residues(values, MODULI), MODULI).tolist() == values


@pytest.mark.parametrize("value", [0, 1, -1, Q // 2, -(Q // 2), 123456789])
def test_centred(value):
    assert crt.recombine_centred(crt.residues([value], MODULI), MODULI).tolist() == [value]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64, np.bool_])
def test_integer_arrays(dtype):
    top = 1 if dtype is np.bool_ else int(np.iinfo(dtype).max)
    bottom = 0 if dtype is np.bool_ else int(np.iinfo(dtype).min)
    array = np.array([top, bottom, 1, 0], dtype)
    assert crt.residues(array, MODULI).tolist() == [[v % q for v in (top, bottom, 1, 0)] for q in MODULI]
    assert crt.residues(array[::2], MODULI).tolist() == [[v % q for v in (top, 1)] for q in MODULI]


def test_mixed_sizes_do_not_become_doubles():
    """A list with a value above 2^63 and a negative one has no common machine integer type."""
    values = [(1 << 63) + 1, -1]
    assert crt.residues(values, MODULI).tolist() == [[v % q for v in values] for q in MODULI]


def test_doubles_are_refused():
    with pytest.raises(TypeError, match="float64"):
        crt.residues(np.array([1.5, 2.0]), MODULI)


def test_terms_sum_to_the_value():
    """x = sum y_i Q/q_i mod Q with y_i in [0, q_i)."""
    values = [0, 1, Q - 1, Q // 2, 10**20]
    terms = crt.crt_terms(crt.residues(values, MODULI), MODULI)
    assert all(0 <= y < q for (ys, _), q in zip(terms, MODULI, strict=True) for y in ys)
    assert (sum(y * c for y, c in terms) % Q).tolist() == values

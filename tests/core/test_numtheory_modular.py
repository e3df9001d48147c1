"""Residue arithmetic against Python integers, at every width and at the edges of each route."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ren.numtheory import modular

WIDTHS = range(2, 62)


def largest_odd(bits):
    return (1 << bits) - 1


def edge_values(q):
    return sorted(
        {0, 1, q - 1, q // 2, q // 2 + 1, q // 3} & set(range(q))
        if q < 9
        else {0, 1, 2, q - 2, q - 1, q // 2, q // 2 + 1, q // 3}
    )


@pytest.mark.parametrize("bits", WIDTHS)
def test_operations_at_the_edges(bits):
    """Both ends of each width: 2^bits - 1 and 2^(bits-1) + 1."""
    for q in (largest_odd(bits), (1 << (bits - 1)) + 1):
        values = edge_values(q)
        pairs = [(a, b) for a in values for b in values]
        x, y = (np.array(v, np.uint64) for v in zip(*pairs, strict=True))
        assert modular.add(x, y, q).tolist() == [(a + b) % q for a, b in pairs]
        assert modular.subtract(x, y, q).tolist() == [(a - b) % q for a, b in pairs]
        assert modular.multiply(x, y, q).tolist() == [a * b % q for a, b in pairs]
        assert modular.negate(x, q).tolist() == [-a % q for a, _ in pairs]


@given(st.integers(2, (1 << 61) - 1), st.data())
def test_multiply(q, data):
    a, b = (data.draw(st.lists(st.integers(0, q - 1), min_size=3, max_size=3)) for _ in range(2))
    product = modular.multiply(np.array(a, np.uint64), np.array(b, np.uint64), q)
    assert product.dtype == np.uint64
    assert product.tolist() == [x * y % q for x, y in zip(a, b, strict=True)]


def test_one_modulus_per_row():
    """Rows of different widths take the route of the widest."""
    moduli = (17, (1 << 31) - 1, (1 << 45) - 229, (1 << 61) - 1)
    for top in range(1, 5):
        q = moduli[:top]
        x = np.array([[m - 1, m // 2, 1] for m in q], np.uint64)
        product = modular.multiply(x, x, modular.column(q))
        assert product.tolist() == [[(m - 1) ** 2 % m, (m // 2) ** 2 % m, 1] for m in q]


def test_results_are_words():
    """Unsigned words never meet signed ones, which would make doubles of them."""
    x = np.array([(1 << 61) - 2], np.uint64)
    for result in (
        modular.add(x, x, (1 << 61) - 1),
        modular.subtract(x, x, (1 << 61) - 1),
        modular.negate(x, (1 << 61) - 1),
    ):
        assert result.dtype == np.uint64


def test_inverse_and_powers():
    q = (1 << 61) - 1
    assert modular.inverse(12345, q) * 12345 % q == 1
    assert modular.powers(3, 5, 17).tolist() == [1, 3, 9, 10, 13]
    with pytest.raises(ValueError):
        modular.inverse(6, 9)

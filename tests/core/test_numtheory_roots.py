"""Primes, roots of unity, and the order of NTT values."""

import numpy as np
import pytest
from ren.numtheory import primes, roots

SIZES = [1 << k for k in range(1, 18)]


def test_is_prime_agrees_with_a_sieve():
    limit = 5000
    sieve = [True] * limit
    sieve[0] = sieve[1] = False
    for i in range(2, limit):
        if sieve[i]:
            sieve[i * i :: i] = [False] * len(sieve[i * i :: i])
    assert [primes.is_prime(i) for i in range(limit)] == sieve


@pytest.mark.parametrize("q", [(1 << 61) - 1, (1 << 45) - 229, 1152921504606584833])
def test_known_primes(q):
    assert primes.is_prime(q)


@pytest.mark.parametrize("q", [2047, 3215031751, 3825123056546413051, ((1 << 31) - 1) ** 2, (1 << 61) - 3])
def test_strong_pseudoprimes_and_squares(q):
    assert not primes.is_prime(q)


@pytest.mark.parametrize("n", [2, 8, 1024])
def test_searches_are_ordered_and_complete(n):
    below = list(primes.ntt_primes_below(200 * n, n))
    assert below == [q for q in range(200 * n - 1, 1, -1) if q % (2 * n) == 1 and primes.is_prime(q)]
    above = primes.ntt_primes_above(2, n)
    assert [next(above) for _ in below] == below[::-1]


def test_nearest_prime_prefers_the_smaller_on_a_tie():
    # modulo 4: 13 and 5 are both 4 away from 9
    assert primes.nearest_ntt_prime(9, 2) == 5
    assert primes.nearest_ntt_prime(9, 2, exclude={5}) == 13


@pytest.mark.parametrize("n", SIZES)
def test_root_has_order_2n(n):
    for q in (next(primes.ntt_primes_above(2, n)), next(primes.ntt_primes_below(1 << 61, n))):
        psi = roots.primitive_root_2n(q, n)
        assert pow(psi, n, q) == q - 1


def test_root_is_that_of_the_smallest_generator():
    assert roots.primitive_root_2n(17, 8) == 3
    assert roots.primitive_root_2n(97, 8) == pow(5, 6, 97)


@pytest.mark.parametrize("n", SIZES)
def test_exponents_are_the_odd_numbers(n):
    e = roots.ntt_exponents(n)
    assert sorted(e.tolist()) == list(range(1, 2 * n, 2))
    assert not e.flags.writeable


def test_order_of_small_and_transposed_blocks():
    assert roots.ntt_exponents(8).tolist() == [1, 9, 5, 13, 3, 11, 7, 15]
    plain = 2 * roots.bit_reversal(128) + 1
    assert roots.ntt_exponents(128)[:10].tolist() == [int(plain[i]) for i in (0, 8, 16, 24, 32, 40, 48, 56, 1, 9)]
    assert [roots.bit_reverse(i, 7) for i in range(128)] == roots.bit_reversal(128).tolist()


@pytest.mark.parametrize("n", [2, 16, 64, 256])
def test_automorphism_index_composes(n):
    """Applying g, then h, is applying g h; and 2n - 1 is its own inverse."""
    x = np.arange(n)
    g, h = 5 % (2 * n), 3
    both = x[roots.ntt_automorphism_index(n, g)][roots.ntt_automorphism_index(n, h)]
    assert np.array_equal(both, x[roots.ntt_automorphism_index(n, g * h % (2 * n))])
    back = roots.ntt_automorphism_index(n, 2 * n - 1)
    assert np.array_equal(x[back][back], x)

"""Factorisation of integers up to about 2^70, for exact scales."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

from ren.numtheory.primes import is_prime


@lru_cache(maxsize=4096)
def factor(m: int) -> tuple[tuple[int, int], ...]:
    """The prime factorisation of m >= 1 as ((prime, exponent), ...), primes ascending.

    Trial division by small primes, then Pollard's rho (Pollard 1975, "A Monte Carlo method for factorization", in Brent's
    1980 form): about m^(1/4) steps, a fraction of a second at 2^64 at worst, at once for a prime or a power of two.
    """
    if m < 1:
        raise ValueError(f"factor needs a positive integer, got {m}")
    powers: dict[int, int] = {}
    twos = (m & -m).bit_length() - 1
    if twos:
        powers[2] = twos
        m >>= twos
    for p in range(3, 1000, 2):
        if p * p > m:
            break
        while m % p == 0:
            powers[p] = powers.get(p, 0) + 1
            m //= p
    pending = [m] if m > 1 else []
    while pending:
        x = pending.pop()
        if is_prime(x):
            powers[x] = powers.get(x, 0) + 1
        else:
            d = _divisor(x)
            pending += [d, x // d]
    return tuple(sorted(powers.items()))


def _divisor(m: int) -> int:
    """A proper divisor of the odd composite m."""
    c = 0
    while True:
        c += 1
        y, r, product, d = 2, 1, 1, 1
        x = saved = y
        while d == 1:
            x = y
            for _ in range(r):
                y = (y * y + c) % m
            done = 0
            while done < r and d == 1:
                saved = y
                for _ in range(min(64, r - done)):
                    y = (y * y + c) % m
                    product = product * (x - y) % m
                d = gcd(product, m)
                done += 64
            r *= 2
        if d == m:  # several factors met within one batch: repeat it one step at a time
            d = 1
            while d == 1:
                saved = (saved * saved + c) % m
                d = gcd(x - saved, m)
        if d != m:
            return d

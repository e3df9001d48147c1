"""Primality and the search for NTT primes q = 1 (mod 2n)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

# Deterministic Miller-Rabin bases for every n < 3.3e24 (Sorenson and Webster, "Strong pseudoprimes to twelve prime bases").
_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


@lru_cache(maxsize=65536)
def is_prime(q: int) -> bool:
    """Deterministic for every q below 2^81."""
    if q < 2:
        return False
    for p in _BASES:
        if q % p == 0:
            return q == p
    d = q - 1
    s = (d & -d).bit_length() - 1
    d >>= s
    for a in _BASES:
        x = pow(a, d, q)
        if x in (1, q - 1):
            continue
        for _ in range(s - 1):
            x = x * x % q
            if x == q - 1:
                break
        else:
            return False
    return True


def ntt_primes_below(bound: int, n: int) -> Iterator[int]:
    """Primes q < bound with q = 1 (mod 2n), descending."""
    q = bound - 1 - (bound - 2) % (2 * n)
    while q > 1:
        if is_prime(q):
            yield q
        q -= 2 * n


def ntt_primes_above(bound: int, n: int) -> Iterator[int]:
    """Primes q >= bound with q = 1 (mod 2n), ascending, below 2^61."""
    q = bound + (1 - bound) % (2 * n)
    while q < 1 << 61:
        if q > 1 and is_prime(q):
            yield q
        q += 2 * n


def nearest_ntt_prime(target: int, n: int, exclude: set[int] | frozenset[int] = frozenset()) -> int:
    """The prime q = 1 (mod 2n), q < 2^61, not in `exclude`, with |q - target| least (the smaller one on a tie).

    Raises ValueError when there is none.
    """
    target = min(max(target, 2), (1 << 61) - 1)
    below = next((q for q in ntt_primes_below(target + 1, n) if q not in exclude), None)
    above = next((q for q in ntt_primes_above(target + 1, n) if q not in exclude), None)
    if below is None and above is None:
        raise ValueError(f"no NTT prime for n={n} below 2^61")
    if below is None or above is None:
        return above if below is None else below  # type: ignore[return-value]
    return below if target - below <= above - target else above

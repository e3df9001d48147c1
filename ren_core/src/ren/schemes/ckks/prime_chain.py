"""The search for primes: a chain whose scales do not drift, and special primes that are wide and cheap enough.

Chain (first published as "reduced error" scaling: Kim, Papadimitriou, Polyakov, "Approximate Homomorphic Encryption with Reduced Approximation Error",
ia.cr/2020/1118, section 3.3): scale_(l+1) = scale_l^2 / p_l for the prime p_l dropped at level l. With primes in numeric order the relative distance from the base
scale doubles at each level. Taking for p_l the unused prime nearest to scale_l^2 / 2^scale_bits leaves only the distance of that one prime.

Special primes: the key-switching noise is the digit's size times the key's noise over P, so P must exceed the largest digit (the first one: it holds
the wide first prime) by a margin; how many digits is a matter of cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import prod

from ren.errors import ParameterError
from ren.numtheory.primes import nearest_ntt_prime, ntt_primes_above, ntt_primes_below
from ren.ring import MAX_MODULUS_BITS as MAX_PRIME_BITS
from ren.schemes.ckks.security import MAX_MODULUS_BITS

#: How far the first prime is wider than the scale: the room for the integer part of messages (bits).
HEADROOM_BITS = 10
MAX_FIRST_PRIME_BITS = 60
#: P must exceed the largest digit by this factor (bits): key-switching noise then stays below the rounding noise of dividing by P.
SPECIAL_MARGIN_BITS = 4
#: Below these bounds vector kernels get faster (lazy IFMA: 2^45.9, strict IFMA: 2^50).
FAST_PRIME = int(2**45.9)
STRICT_PRIME = 1 << 50

# Guard bits of the fixed-point scale. Squaring doubles a relative error, so L levels lose L bits of them.
_GUARD_BITS = 320


def first_prime(n: int, scale_bits: int) -> int:
    """The largest NTT prime below 2^(scale_bits + 10), at most 60 bits: q_0, the modulus of the last level."""
    bits = min(scale_bits + HEADROOM_BITS, MAX_FIRST_PRIME_BITS)
    prime = next(ntt_primes_below(1 << bits, n), None)
    if prime is None:
        raise ParameterError(
            f"there is no NTT prime of {bits} bits for n={n}", subject="scale_bits", hint="Use a larger scale"
        )
    return prime


@lru_cache(maxsize=64)
def chain_primes(n: int, scale_bits: int, levels: int) -> tuple[int, ...]:
    """q_0, ..., q_levels: the first prime, then the primes dropped at levels `levels`-1, ..., 1, 0.

    Chains of the same n and scale_bits share the primes dropped first, whatever their length.
    """
    q0 = first_prime(n, scale_bits)
    used = {q0}
    dropped: list[int] = []
    one = 1 << _GUARD_BITS
    scale = one << scale_bits
    for _ in range(levels):
        square = scale * scale >> _GUARD_BITS
        target = ((square >> (scale_bits + _GUARD_BITS - 1)) + 1) >> 1
        prime = nearest_ntt_prime(target, n, used)
        used.add(prime)
        dropped.append(prime)
        scale = square // prime
    return (q0, *reversed(dropped))


def largest_digit(chain: tuple[int, ...], alpha: int) -> int:
    """The largest product of `alpha` consecutive chain primes that key switching takes as one digit."""
    return max(prod(chain[i : i + alpha]) for i in range(0, len(chain), alpha))


def special_primes(n: int, chain: tuple[int, ...], alpha: int, count: int) -> tuple[int, ...] | None:
    """The `count` smallest NTT primes, not in the chain, whose product is at least 2^4 times the largest digit; None if wider than 61 bits."""
    needed = largest_digit(chain, alpha) << SPECIAL_MARGIN_BITS
    start = _root_ceiling(needed, count)
    if start.bit_length() > MAX_PRIME_BITS:
        return None
    found = tuple(islice(_unused(ntt_primes_above(max(start, 3), n), set(chain)), count))
    return found if len(found) == count and prod(found) >= needed else None


def _unused(primes: Iterator[int], used: set[int]) -> Iterator[int]:
    return (q for q in primes if q not in used)


def _root_ceiling(x: int, k: int) -> int:
    """The least r with r^k >= x."""
    low, high = 0, 1 << (x.bit_length() // k + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**k < x:
            low = middle + 1
        else:
            high = middle
    return low


@dataclass(frozen=True, slots=True)
class DigitChoice:
    """alpha: chain primes per digit. special: the special primes. cost: predicted microseconds of a key switch (mean over levels)."""

    alpha: int
    special: tuple[int, ...]
    cost: float


# Microseconds per limb of 2^14 coefficients on one core with AVX-512 IFMA (docs/contributing/decisions/ckks-parameters.md);
# only their ratios matter here. Kernels on primes that miss the lazy path take the second factor.
_NTT, _INTT, _MAC, _CONVERT = 9.0, 10.0, 5.7, 1.2
_WIDTH_FACTORS = ((FAST_PRIME, 1.0), (STRICT_PRIME, 1.5), (1 << MAX_PRIME_BITS, 2.4))
# A key larger than this is read from memory, not from a cache, at each use: the multiply-accumulate then costs about three times as much.
_CACHED_KEY_BYTES = 32 << 20
_MAC_FROM_MEMORY = 17.0


def _width(q: int) -> float:
    return next(factor for bound, factor in _WIDTH_FACTORS if q < bound)


def key_switch_cost(n: int, chain: tuple[int, ...], special: tuple[int, ...], alpha: int) -> float:
    """Predicted time (microseconds, one core) of a key switch over these primes: transforms, base conversions, reading the key."""
    return _cost(n, list(map(_width, chain)), list(map(_width, special)), alpha)


def _cost(n: int, widths: list[float], special_widths: list[float], alpha: int) -> float:
    own, extra = sum(widths), sum(special_widths)
    limbs, specials = len(widths), len(special_widths)
    digits = -(-limbs // alpha)
    mac = _MAC if 16 * digits * (limbs + specials) * n <= _CACHED_KEY_BYTES else _MAC_FROM_MEMORY
    cost = _INTT * own
    for at in range(0, limbs, alpha):
        digit = widths[at : at + alpha]
        cost += (own + extra - sum(digit)) * (_NTT + _CONVERT * len(digit))
    cost += mac * digits * (own + extra)
    cost += 2 * (_INTT * extra + own * (_NTT + _CONVERT * specials))
    return cost * n / (1 << 14)


def choose_digits(
    n: int, chain: tuple[int, ...], *, modulus_bits: int | None, alpha: int | None = None
) -> DigitChoice | None:
    """The cheapest digit size and special primes with Q*P <= 2^modulus_bits (None: no limit); None when nothing fits.

    Cost is the mean over all levels of `key_switch_cost`, since circuits switch keys at all of them.
    """
    limit = None if modulus_bits is None else (1 << modulus_bits) // prod(chain)
    widths = list(map(_width, chain))
    candidates = []
    for a in range(1, len(chain) + 1) if alpha is None else (alpha,):
        for count, width in _special_choices(chain, a, limit):
            extra = [_width(width)] * count
            cost = sum(_cost(n, widths[:m], extra, a) for m in range(1, len(chain) + 1)) / len(chain)
            candidates.append((cost, a, count))
    # Cheapest first: primes are searched only until one candidate fits.
    for cost, a, count in sorted(candidates):
        special = special_primes(n, chain, a, count)
        if special is not None and (limit is None or prod(special) <= limit):
            return DigitChoice(a, special, cost)
    return None


def _special_choices(chain: tuple[int, ...], alpha: int, limit: int | None) -> Iterator[tuple[int, int]]:
    """(count, size) of special primes for this digit size whose product can stay within `limit`: the fewest of each width class."""
    needed = largest_digit(chain, alpha) << SPECIAL_MARGIN_BITS
    if limit is not None and needed > limit:
        return
    bits = math.log2(needed)
    for count in sorted({math.ceil(bits / math.log2(bound)) for bound, _ in _WIDTH_FACTORS}):
        size = _root_ceiling(needed, count)
        if size < 1 << MAX_PRIME_BITS:
            yield count, size


@lru_cache(maxsize=256)
def largest_depth(n: int, scale_bits: int) -> int:
    """The largest number of levels that the security table admits for this ring and scale; -1 when not even 0 levels fit."""
    if n not in MAX_MODULUS_BITS:
        return -1
    bits = MAX_MODULUS_BITS[n]
    longest = chain_primes(n, scale_bits, bits // scale_bits)
    for levels in range(len(longest) - 1, -1, -1):
        chain = longest[:1] + longest[len(longest) - levels :]
        # Digits of one prime need the narrowest special primes: if those do not fit, nothing does.
        if choose_digits(n, chain, modulus_bits=bits, alpha=1) is not None:
            return levels
    return -1

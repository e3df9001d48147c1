"""Test vectors: rings of every width and operands at the edges, all deterministic."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ren.numtheory.primes import ntt_primes_above, ntt_primes_below
from ren.ring import MAX_MODULUS_BITS, RingSpec

#: Degrees that the kit tests in full.
SIZES = tuple(1 << k for k in range(1, 14))
#: The degree of the spot checks.
LARGE = 1 << 16

#: Around these widths kernels change their representation: 32-bit words, doubles, 52-bit multipliers, the limit.
EDGE_WIDTHS = (20, 30, 31, 32, 33, 40, 45, 46, 49, 50, 51, 52, 53, 58, 59, 60, 61)

#: What operands are made of; see `operand`.
PATTERNS = ("zero", "one", "minus_one", "half", "random", "mixed")


def generator(*label: object) -> np.random.Generator:
    """A random generator that depends only on the label."""
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


@lru_cache(maxsize=1024)
def widths(n: int, every: bool = True) -> tuple[int, ...]:
    """Bit lengths of the legal moduli for n, narrowest first; with every=False the narrowest and those of EDGE_WIDTHS."""
    legal = tuple(w for w in range(2, MAX_MODULUS_BITS + 1) if next(_primes_of_width(n, w), None) is not None)
    return legal if every else tuple(w for w in legal if w == legal[0] or w in EDGE_WIDTHS)


def _primes_of_width(n: int, width: int) -> Iterator[int]:
    """NTT primes of exactly `width` bits: the largest, the smallest, the second largest, ... Each once."""
    low, high = 1 << (width - 1), 1 << width
    down = ntt_primes_below(high, n)
    up = ntt_primes_above(low, n)
    seen: set[int] = set()
    while True:
        for source in (down, up):
            q = next(source, None)
            if q is None or q < low or q >= high or q in seen:
                return
            seen.add(q)
            yield q


@lru_cache(maxsize=4096)
def primes_of_width(n: int, width: int, count: int) -> tuple[int, ...]:
    """`count` moduli for n of `width` bits, from both ends of the range; filled up with wider (at last narrower) ones where too few exist."""
    found: list[int] = []
    for w in (*range(width, MAX_MODULUS_BITS + 1), *range(width - 1, 1, -1)):
        found += islice(_primes_of_width(n, w), count - len(found))
        if len(found) == count:
            break
    return tuple(found)


def ring_of_width(n: int, width: int, limbs: int) -> RingSpec:
    """A ring whose moduli have `width` bits, as far as there are enough."""
    return RingSpec(n, primes_of_width(n, width, limbs))


def ring_of_many_widths(n: int, limbs: int) -> RingSpec:
    """A ring whose moduli run from the narrowest legal to the widest."""
    legal = widths(n)
    picked = [legal[round(i * (len(legal) - 1) / max(limbs - 1, 1))] for i in range(limbs)]
    moduli: list[int] = []
    for width in picked:
        moduli.append(next(q for q in primes_of_width(n, width, limbs + 1) if q not in moduli))
    return RingSpec(n, tuple(moduli))


def operand(ring: RingSpec, pattern: str, rng: np.random.Generator) -> NDArray[np.uint64]:
    """One polynomial as words: residues all 0, 1, q-1 or q//2, uniform, or a mixture of all of these."""
    return np.concatenate([_row(q, ring.n, pattern, rng) for q in ring.moduli])


def _row(q: int, n: int, pattern: str, rng: np.random.Generator) -> NDArray[np.uint64]:
    edges = {"zero": 0, "one": 1, "minus_one": q - 1, "half": q // 2}
    if pattern in edges:
        return np.full(n, edges[pattern], np.uint64)
    row = rng.integers(0, q, n, np.uint64)
    if pattern == "mixed":
        values = np.array([*edges.values(), q // 2 + 1, q - 2], np.uint64)
        row = np.where(rng.random(n) < 0.5, values[rng.integers(0, len(values), n)], row)
    return row


def integers_near_edges(modulus: int, n: int, rng: np.random.Generator) -> list[int]:
    """n integers modulo `modulus`: 0, 1, -1, the two around modulus/2 and neighbours, small ones of both signs, and uniform ones."""
    half = modulus // 2
    edges = [0, 1, -1, half, half + 1, half - 1, half + 2, modulus // 3, 5, -7, 1 << 20, -(1 << 20)]
    nbytes = modulus.bit_length() // 8 + 9
    values = [v % modulus for v in edges]
    values += [int.from_bytes(rng.bytes(nbytes), "little") % modulus for _ in range(max(n - len(values), n // 2))]
    order = rng.permutation(len(values))[:n]
    return [values[i] for i in order]

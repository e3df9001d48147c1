"""The sample streams once more, one word at a time in Python integers; see `ren.testing.definitions`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import islice
from typing import Any

Ints = list[int]


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> Ints:
    """RFC 8439 section 2.3, on one state."""
    state = [
        *struct.unpack("<4I", b"expand 32-byte k"),
        *struct.unpack("<8I", key),
        counter,
        *struct.unpack("<3I", nonce),
    ]
    x = list(state)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for i, j, k, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[i] = (x[i] + x[j]) % 2**32
            mixed = x[k] ^ x[i]
            x[k] = (mixed << turn | mixed >> (32 - turn)) % 2**32

    for _ in range(10):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return [(a + b) % 2**32 for a, b in zip(x, state, strict=True)]


def stream(seed: bytes, number: int, attempt: int, tag: int) -> Iterator[int]:
    """The 64-bit words of one key stream, in sliced order, without end."""
    group = 0
    while True:
        blocks = [
            chacha20_block(seed, 16 * group + lane, struct.pack("<3I", number, attempt, tag)) for lane in range(16)
        ]
        for w in range(16):
            for lane in range(0, 16, 2):
                yield blocks[lane][w] + (blocks[lane + 1][w] << 32)
        group += 1


def uniform_row(seed: bytes, q: int, n: int, number: int) -> Ints:
    """n residues by rejection: coefficient i looks at word i of attempt after attempt."""
    attempts = [list(islice(stream(seed, number, 0, 0), n))]
    row = []
    for i in range(n):
        attempt = 0
        while attempts[attempt][i] >= 2**64 // q * q:
            attempt += 1
            if attempt == len(attempts):
                attempts.append(list(islice(stream(seed, number, attempt, 0), n)))
        row.append(attempts[attempt][i] % q)
    return row


@lru_cache(maxsize=16)
def cumulative(sigma: str) -> tuple[int, ...]:
    """The Gaussian table: Pr(|x| <= k) 2^63 for k = 0, 1, .., rounded, below 2^63; 120 digits instead of the 80 of the definition."""
    with localcontext() as context:
        context.prec = 120
        variance = 2 * Decimal(sigma) * Decimal(sigma)
        mass = [(Decimal(-k * k) / variance).exp() * (2 if k else 1) for k in range(int(20 * Decimal(sigma)) + 20)]
        total = sum(mass, Decimal(0))
        table = [int((sum(mass[: k + 1], Decimal(0)) / total * 2**63).to_integral_value()) for k in range(len(mass))]
    return tuple(t for t in table if t < 2**63)


def small_integers(seed: bytes, distribution: str, argument: Any, number: int, n: int) -> Ints:
    """n ternary, gaussian or sparse_ternary integers."""
    if distribution == "ternary":
        return [-1 if 3 * w < 2**64 else 0 if 3 * w < 2**65 else 1 for w in islice(stream(seed, number, 0, 1), n)]
    if distribution == "gaussian":
        draws = list(islice(stream(seed, number, 0, 2), n))
        return [sum(1 for c in cumulative(argument) if w // 2 >= c) * (-1) ** (w % 2) for w in draws]
    words = stream(seed, number, 0, 3)
    chosen: dict[int, int] = {}
    for j in range(n - argument, n):
        w = next(words)
        while w * (j + 1) % 2**64 < 2**64 % (j + 1):
            w = next(words)
        position = w * (j + 1) // 2**64
        chosen[j if position in chosen else position] = (-1) ** (next(words) % 2)
    return [chosen.get(i, 0) for i in range(n)]

"""Random polynomials, defined to the last bit: every backend produces exactly these residues from the same seed.

A draw is a pure function of (32-byte seed, distribution, argument, stream, ring). The seed is the key of ChaCha20 (RFC 8439, section
2.3); the rest of the block's state says what is drawn, so that no two draws share key stream:

    word 12: block counter    word 13: stream    word 14: attempt    word 15: distribution (0 uniform, 1 ternary, 2 gaussian, 3 sparse ternary)

The key stream is read as unsigned 64-bit words in *sliced* order: the 32-bit word with index (group*16 + w)*16 + lane is word w of block
16*group + lane, and two consecutive 32-bit words make a 64-bit one, low half first. Vector kernels then store registers as they
are. A draw of fewer than 128 words uses the first ones of the first group.

    uniform         limb j uses stream + j; coefficient i takes word number i of attempt 0; w is accepted when w < floor(2^64/q) q and gives w mod q, else the
                    coefficient takes word i of attempt 1, 2, ...: exactly uniform, and every coefficient can be computed alone. A uniform row is its own
                    NTT-domain row: the domain only says how it is read
    ternary         one word per coefficient: -1, 0, 1 each with probability 1/3 (thresholds ceil(2^64/3), ceil(2^65/3))
    gaussian        argument: sigma as text, such as "3.19". One word per coefficient: bit 0 is the sign, the upper 63 bits are compared with the cumulative table
                    of `gaussian_thresholds`
    sparse_ternary  argument: the weight h. Floyd's subset algorithm: for i = 0..h-1, j = n-h+i, a position r is drawn in [0, j] by Lemire's method (r = high half of
                    w (j+1); w is skipped when the low half is below 2^64 mod (j+1)); if r is taken, j is used. The word after the accepted one gives the sign, -1 if odd

The last three are small integers: the same integer in every limb, coefficient domain.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.errors import InvalidSampleError
from ren.numtheory.crt import residues

Words = NDArray[np.uint64]
U32 = NDArray[np.uint32]
SmallInts = NDArray[np.int64]

UNIFORM = "uniform"
TERNARY = "ternary"
GAUSSIAN = "gaussian"
SPARSE_TERNARY = "sparse_ternary"

#: Word 15 of the ChaCha20 state.
DISTRIBUTION_TAGS = {UNIFORM: 0, TERNARY: 1, GAUSSIAN: 2, SPARSE_TERNARY: 3}

SEED_BYTES = 32
#: Words of one group of 16 blocks; draws are padded to whole groups.
GROUP_WORDS = 128
#: Widest table: kernels compare every sample with every threshold.
MAX_SIGMA = 64

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"
#: _TURNS[k] moves row entry i + k to i.
_TURNS = [[(i + k) % 4 for i in range(4)] for k in range(4)]
_TWO_64 = 1 << 64


# -- key stream ------------------------------------------------------------------------------------------------------


def chacha20_blocks(seed: bytes, counter: int, blocks: int, word13: int, word14: int, word15: int) -> U32:
    """The ChaCha20 block function for `blocks` consecutive counters: [16, blocks], word w of block b at [w, b]."""
    start = np.empty((16, blocks), np.uint32)
    start[0:4] = np.array(_CONSTANTS, np.uint32)[:, None]
    start[4:12] = np.frombuffer(seed, "<u4")[:, None]
    start[12] = np.arange(counter, counter + blocks).astype(np.uint32)
    start[13], start[14], start[15] = np.uint32(word13), np.uint32(word14), np.uint32(word15)
    a, b, c, d = start.reshape(4, 4, blocks)
    for _ in range(10):
        a, b, c, d = _quarter_rounds(a, b, c, d)  # on the columns of the 4 x 4 state
        a, b, c, d = _quarter_rounds(a, b[_TURNS[1]], c[_TURNS[2]], d[_TURNS[3]])  # on its diagonals
        b, c, d = b[_TURNS[3]], c[_TURNS[2]], d[_TURNS[1]]
    return np.concatenate([a, b, c, d]) + start


def _quarter_rounds(a: U32, b: U32, c: U32, d: U32) -> tuple[U32, U32, U32, U32]:
    """Four quarter rounds side by side: each argument is a row [4, blocks] of the state."""
    a = a + b
    d = _rotate_left(d ^ a, 16)
    c = c + d
    b = _rotate_left(b ^ c, 12)
    a = a + b
    d = _rotate_left(d ^ a, 8)
    c = c + d
    b = _rotate_left(b ^ c, 7)
    return a, b, c, d


def _rotate_left(x: U32, bits: int) -> U32:
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def stream_words(seed: bytes, count: int, distribution: str, stream: int, attempt: int = 0, start: int = 0) -> Words:
    """Words start .. start+count-1 of one key stream (module docstring)."""
    first = start // GROUP_WORDS
    groups = -(-(start + count) // GROUP_WORDS) - first
    blocks = chacha20_blocks(seed, 16 * first, 16 * groups, stream, attempt, DISTRIBUTION_TAGS[distribution])
    sliced = np.ascontiguousarray(blocks.reshape(16, groups, 16).transpose(1, 0, 2)).astype("<u4")
    offset = start - first * GROUP_WORDS
    return sliced.reshape(-1).view("<u8")[offset : offset + count].astype(np.uint64)


# -- distributions ---------------------------------------------------------------------------------------------------


def sample_uniform(seed: bytes, q: int, n: int, stream: int) -> Words:
    """n residues, exactly uniform modulo q."""
    limit = np.uint64(_TWO_64 // q * q)
    words = stream_words(seed, n, UNIFORM, stream)
    refused = words >= limit
    attempt = 0
    while refused.any():
        attempt += 1
        words[refused] = stream_words(seed, n, UNIFORM, stream, attempt)[refused]
        refused = words >= limit
    return words % np.uint64(q)


def sample_ternary(seed: bytes, n: int, stream: int) -> SmallInts:
    """n values in {-1, 0, 1}, each with probability 1/3 up to 2^-64."""
    words = stream_words(seed, n, TERNARY, stream)
    low, high = (np.uint64(-(-k * _TWO_64 // 3)) for k in (1, 2))
    return (words >= low).astype(np.int64) + (words >= high).astype(np.int64) - 1


def sample_gaussian(seed: bytes, sigma: str, n: int, stream: int) -> SmallInts:
    """n values of the discrete Gaussian with standard deviation parameter sigma."""
    words = stream_words(seed, n, GAUSSIAN, stream)
    table = np.array(gaussian_thresholds(sigma), np.uint64)
    size = np.searchsorted(table, words >> np.uint64(1), side="right").astype(np.int64)  # how many thresholds are <= u
    return np.where(words & np.uint64(1), -size, size)


def sample_sparse_ternary(seed: bytes, weight: int, n: int, stream: int) -> SmallInts:
    """n values in {-1, 0, 1}, exactly `weight` of them not 0, uniform among those vectors."""
    words = _endless_words(seed, SPARSE_TERNARY, stream)
    out = np.zeros(n, np.int64)
    for i in range(weight):
        j = n - weight + i
        bound = j + 1
        product = next(words) * bound
        while product % _TWO_64 < _TWO_64 % bound:
            product = next(words) * bound
        position = product // _TWO_64
        if out[position]:
            position = j
        out[position] = -1 if next(words) & 1 else 1
    return out


def _endless_words(seed: bytes, distribution: str, stream: int) -> Iterator[int]:
    start = 0
    while True:
        yield from stream_words(seed, GROUP_WORDS, distribution, stream, start=start).tolist()
        start += GROUP_WORDS


@lru_cache(maxsize=64)
def gaussian_thresholds(sigma: str) -> tuple[int, ...]:
    """Cumulative table of the discrete Gaussian: c_1 <= c_2 <= .. below 2^63 with |x| = #{k : u >= c_k} for a uniform 63-bit u.

    c_(k+1) is Pr(|x| <= k) 2^63 rounded to the nearest integer, Pr(x) proportional to exp(-x^2 / (2 sigma^2)), computed with 80 digits. For
    sigma = 3.19 that makes 29 thresholds and a statistical distance of 2^-60.9 per sample.
    """
    with localcontext() as context:
        context.prec = 80
        two_variance = 2 * Decimal(sigma) ** 2
        negligible = Decimal(10) ** -70
        weights = [Decimal(1)]
        while (w := (-Decimal(len(weights) ** 2) / two_variance).exp()) > negligible:
            weights.append(2 * w)
        total = sum(weights)
        table = []
        mass = Decimal(0)
        for weight in weights:
            mass += weight / total
            threshold = int((mass * (1 << 63)).to_integral_value())
            if threshold >= 1 << 63:
                break
            table.append(threshold)
    return tuple(table)


# -- the SAMPLE operation --------------------------------------------------------------------------------------------


def sample_small(seed: bytes, distribution: str, argument: Any, stream: int, n: int) -> SmallInts:
    """The n small integers of a ternary, gaussian or sparse_ternary draw."""
    check_sample(distribution, argument, stream, n, 1)
    if distribution == TERNARY:
        return sample_ternary(seed, n, stream)
    if distribution == GAUSSIAN:
        return sample_gaussian(seed, argument, n, stream)
    if distribution == SPARSE_TERNARY:
        return sample_sparse_ternary(seed, argument, n, stream)
    raise InvalidSampleError(f"{distribution!r} does not draw small integers", subject="distribution")


def sample_rows(seed: bytes, distribution: str, argument: Any, stream: int, n: int, moduli: Sequence[int]) -> Words:
    """The residue rows [limbs, n] of one random polynomial: what the `sample` kernel computes.

    seed: 32 bytes. distribution, argument, stream: module docstring. Raises InvalidSampleError (a ValueError).
    """
    if len(seed) != SEED_BYTES:
        raise InvalidSampleError(f"a seed has {SEED_BYTES} bytes, got {len(seed)}", subject="seed")
    check_sample(distribution, argument, stream, n, len(moduli))
    if distribution == UNIFORM:
        return np.stack([sample_uniform(seed, q, n, stream + j) for j, q in enumerate(moduli)])
    return residues(sample_small(seed, distribution, argument, stream, n), moduli)


def check_sample(distribution: str, argument: Any, stream: int, n: int, limbs: int) -> None:
    """Raise InvalidSampleError unless the parameters of a SAMPLE are defined for n coefficients and `limbs` limbs."""
    if distribution not in DISTRIBUTION_TAGS:
        raise InvalidSampleError(
            f"unknown distribution {distribution!r}",
            subject="distribution",
            hint=f"Known: {', '.join(DISTRIBUTION_TAGS)}",
        )
    if not 0 <= stream <= (1 << 32) - limbs:
        raise InvalidSampleError(f"stream {stream} does not leave {limbs} stream numbers below 2^32", subject="stream")
    if distribution in (UNIFORM, TERNARY):
        if argument is not None:
            raise InvalidSampleError(f"{distribution} takes no argument, got {argument!r}", subject="argument")
    elif distribution == GAUSSIAN:
        if not isinstance(argument, str) or not 0 < _decimal(argument) <= MAX_SIGMA:
            raise InvalidSampleError(
                f"gaussian takes sigma as text in (0, {MAX_SIGMA}], got {argument!r}",
                subject="sigma",
                hint='Write it like "3.19"',
            )
    elif isinstance(argument, bool) or not isinstance(argument, int) or not 0 <= argument <= n:
        raise InvalidSampleError(f"sparse_ternary takes a weight in [0, {n}], got {argument!r}", subject="weight")


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return Decimal(-1)
    return value if value.is_finite() else Decimal(-1)


# -- seeds -----------------------------------------------------------------------------------------------------------

_SEED_SOURCE: ContextVar[Callable[[], bytes] | None] = ContextVar("ren_seed_source", default=None)


def fresh_seed() -> bytes:
    """32 bytes from the operating system: the key of one draw. Safe across threads and fork, since nothing is kept.

    Reproducible only inside `deterministic_seeds`.
    """
    source = _SEED_SOURCE.get()
    return os.urandom(SEED_BYTES) if source is None else source()


@contextmanager
def deterministic_seeds(master: bytes) -> Iterator[None]:
    """Within this context, in this thread, `fresh_seed` returns SHAKE-256(tag, master, counter): for tests and toy parameter sets ONLY.

    Two callers may use it: `ren.testing.fixed_randomness`, and key generation of a parameter set marked `toy=True`. Anything drawn
    inside has no security at all: who knows the master seed knows every secret and every noise.
    """
    counter = 0

    def next_seed() -> bytes:
        nonlocal counter
        counter += 1
        return hashlib.shake_256(b"ren deterministic seeds\0" + master + counter.to_bytes(8, "little")).digest(
            SEED_BYTES
        )

    token = _SEED_SOURCE.set(next_seed)
    try:
        yield
    finally:
        _SEED_SOURCE.reset(token)

"""The automorphism X -> X^g on residue rows, in both domains.

NTT domain: values only change places. A block of 64 positions maps to a block of 64 (`ren.numtheory.roots.ntt_exponents`): with the
exponent's top six bits h, position and source are related by h -> g h + c modulo 64 for a c of the block, and since the three low
bits of h do not depend on the three high ones, that is one lane permutation per row, a transpose, another lane
permutation, a transpose. So a block moves through eight registers, without an index per element.

Coefficient domain: X^j goes to X^(g j mod 2n) and X^n = -1, a gather with signs.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from ren.numtheory.roots import bit_reversal, ntt_automorphism_index, ntt_exponents

from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.emit import I64, Em, Value, kernel, load, uload, ustore
from ren_backend_cpu.kernels.jit import compiled, entry, entry_with

BLOCK = 64
#: Words of `block_patterns`: eight row patterns, eight lane patterns, the multiples of g.
PATTERN_WORDS = 136


def _emit_blocks(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """blocks: per block of 64 the first word of its source | c << 40. patterns: `block_patterns`."""
    src, out, blocks, patterns = pointers
    (count,) = integers
    b = em.b
    with em.loop(count) as lp:
        block = em.word(blocks, lp.index)
        first = b.and_(block, em.i((1 << 40) - 1))
        c = b.lshr(block, em.i(40))
        by_row = em.vload(patterns, b.mul(b.and_(c, em.i(7)), em.i(8)), I64, 8)
        rows = [em.permute(em.vload(src, b.add(first, em.i(8 * r)), I64, 8), by_row) for r in range(8)]
        rows = em.transpose(rows)
        for r in range(8):
            h = b.add(em.word(patterns, 128 + r), c)
            lanes = b.add(em.i(64), b.mul(b.and_(b.lshr(h, em.i(3)), em.i(7)), em.i(8)))
            rows[r] = em.permute(rows[r], em.vload(patterns, lanes, I64, 8))
        base = b.mul(lp.index, em.i(BLOCK))
        for r, row in enumerate(em.transpose(rows)):
            em.vstore(row, out, b.add(base, em.i(8 * r)), I64)


_blocks = kernel(4, 1, _emit_blocks)


@compiled
def permute_blocks(src, out, blocks, patterns, n):
    """One NTT-domain row by blocks of 64; AVX-512."""
    _blocks(src, out, blocks, patterns, n // BLOCK)


@entry_with("avx512f")
def automorphism_ntt_blocks(row):
    """x, out, blocks, patterns, n, and first and last limb"""
    x, out, n = row[0], row[1], row[4]
    for j in range(row[5], row[6]):
        permute_blocks(x + 8 * j * n, out + 8 * j * n, row[2], row[3], n)


@entry
def automorphism_ntt(row):
    """x, out, index (int64 per position), n, and first and last limb"""
    x, out, index, n = row[0], row[1], row[2], row[3]
    for j in range(row[4], row[5]):
        src, dst = x + 8 * j * n, out + 8 * j * n
        for i in range(n):
            ustore(dst, i, uload(src, load(index, i)))


@entry
def automorphism_coeff(row):
    """x, out, index (source position, or -1 - position where the sign changes), ring, n, and first and last limb"""
    x, out, index, ring, n = row[0], row[1], row[2], row[3], row[4]
    for j in range(row[5], row[6]):
        q = uload(load(ring, j), limb.Q)
        src, dst = x + 8 * j * n, out + 8 * j * n
        for i in range(n):
            k = load(index, i)
            flip = k >> 63  # 0, or -1: the source is ~k and its negative is wanted
            v = uload(src, k ^ flip)
            negative = min(q - v, (q - v) - q)  # q for v = 0 becomes 0
            ustore(dst, i, negative if flip != 0 else v)


def block_table(n: int, g: int) -> NDArray[np.int64]:
    """Per block of 64: first position of its source block | c << 40."""
    step = 2 * n // BLOCK
    first = ntt_exponents(n)[::BLOCK].astype(np.int64)  # exponent at the first position of each block
    source = ntt_automorphism_index(n, g)[::BLOCK].astype(np.int64) // BLOCK * BLOCK
    c = (first * g % (2 * n) // step - g * (first // step)) % 64
    return source | c << 40


def block_patterns(g: int) -> NDArray[np.int64]:
    """Permutations shared by all blocks: by c mod 8 for the rows, by carry for the lanes, then g times each row's low bits."""
    low = bit_reversal(8)
    table = np.zeros(PATTERN_WORDS, np.int64)
    for c in range(8):
        pattern = low[(g * low + c) % 8]
        table[8 * c : 8 * c + 8] = pattern
        table[64 + 8 * c : 72 + 8 * c] = pattern
    table[128:] = g % BLOCK * low
    return table


def ntt_index(n: int, g: int) -> NDArray[np.int64]:
    """Source position of each NTT-domain position."""
    return ntt_automorphism_index(n, g).astype(np.int64)


def coefficient_index(n: int, g: int) -> NDArray[np.int64]:
    """Source position of each coefficient, as -1 - position where the sign changes."""
    exponent = np.arange(n, dtype=np.int64) * g % (2 * n)
    index = np.empty(n, np.int64)
    source = np.arange(n, dtype=np.int64)
    index[exponent % n] = np.where(exponent < n, source, ~source)
    return index

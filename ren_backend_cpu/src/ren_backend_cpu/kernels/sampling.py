"""Samplers of `ren.numtheory.sampling`, fused with the ChaCha20 key stream that feeds them.

Ternary and Gaussian coefficients are secret: their kernels have no branch and no address that depends on the key stream (thresholds
sit in registers or at fixed addresses), which a test checks in the compiled code. A uniform draw is public in every use Ren
makes of it; it branches on refused words only. A sparse ternary draw skips refused words (they say nothing about the accepted
ones) and scans all chosen positions for each membership test and all positions for each coefficient.

Rows of arguments: see the lowering functions.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from ren_backend_cpu.features import target
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.arith import FloatOps, IfmaOps
from ren_backend_cpu.kernels.chacha import GROUP_WORDS, LANES, key_stream, stream_words
from ren_backend_cpu.kernels.emit import I64, Em, Value, caller, const, kernel, load, mulhi, uload, ustore, vt
from ren_backend_cpu.kernels.jit import compiled, entry, entry_with, limb_function
from ren_backend_cpu.kernels.ntt_call import ntt_forward

UNIFORM_TAG, TERNARY_TAG, GAUSSIAN_TAG, SPARSE_TERNARY_TAG = 0, 1, 2, 3

#: Thresholds that `sample_gaussian_tree` can search.
TREE_THRESHOLDS = 31


# -- emitted samplers: whole groups of 128 words -------------------------------------------------------------------------


def _emit_uniform(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """Words modulo q; the word at `refused` is set to 1 if some word lies above the largest multiple of q.

    Range note: 2^12 < q < 2^50. 52-bit path: the quotient from the word's upper bits is at most 2 too small, so the remainder is below 3q.
    Float path: the halves of a word are below 2^32, the upper one times 2^32 mod q has a quotient below 2^32.
    """
    out, seed, record, refused = pointers
    stream, groups = integers
    b = em.b
    words = vt(I64, LANES // 2)
    inverse, q = em.word(record, limb.INV64), em.word(record, limb.Q)
    # Words with the upper bit flipped are ordered as signed ones, which every target compares and some have no other maximum for.
    flip = const(words, 1 << 63)
    limit = b.xor(em.splat(b.mul(inverse, q), LANES // 2), flip)
    largest = cgutils.alloca_once_value(b, flip)
    seen: list[Value] = [None]
    reduce_word = _word_reducer(em, record)

    def consume(w: int, x: Value, i: Value) -> None:
        seen[0] = em.smax(b.load(largest, typ=words) if w == 0 else seen[0], b.xor(x, flip))
        if w == 15:
            b.store(seen[0], largest)
        em.vstore(reduce_word(x), out, i, I64)

    key_stream(em, seed, [stream, em.i(0), em.i(UNIFORM_TAG)], em.i(0), groups, consume)
    lanes = b.icmp_signed(">=", b.load(largest, typ=words), limit)
    bits = b.bitcast(lanes, ir.IntType(LANES // 2))
    em.vstore(b.zext(b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)), I64), refused, em.i(0), I64)


def _word_reducer(em: Em, record: Value) -> Callable[[Value], Value]:
    """What takes words (of 64 bits) to residues, in the vector arithmetic that the target has."""
    b = em.b
    if limb.IFMA_STRICT in target().paths:
        ifma = IfmaOps(em, record)

        def by_words(x: Value) -> Value:
            e = ifma.hi(ifma.zero(), b.lshr(x, ifma.right), ifma.mu)
            r = b.and_(ifma.lo(x, e, ifma.nq), ifma.mask)
            return ifma.csub(ifma.csub(r, ifma.q2), ifma.q)

        return by_words
    ops = FloatOps(em, record)
    half, low = const(ops.ity, 32), const(ops.ity, (1 << 32) - 1)
    upper = ops.constant(ops.near(const(ops.ty, 2.0**32)))

    def by_doubles(x: Value) -> Value:
        high = ops.scale(ops.from_words(b.lshr(x, half)), upper)
        return ops.to_words(ops.add(high, ops.from_words(b.and_(x, low))))

    return by_doubles


def _emit_ternary(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    out, seed = pointers
    stream, groups = integers
    b = em.b
    words = vt(I64, LANES // 2)
    thresholds = [const(words, -(-(k << 64) // 3)) for k in (1, 2)]

    def consume(w: int, x: Value, i: Value) -> None:
        r = const(words, -1)
        for t in thresholds:
            r = b.add(r, b.zext(b.icmp_unsigned(">=", x, t), words))
        em.vstore(r, out, i, I64)

    key_stream(em, seed, [stream, em.i(0), em.i(TERNARY_TAG)], em.i(0), groups, consume)


def _signed(em: Em, size: Value, x: Value) -> Value:
    """-size where bit 0 of x is set, else size."""
    b = em.b
    s = b.sub(const(x.type, 0), b.and_(x, const(x.type, 1)))
    return b.sub(b.xor(size, s), s)


def _emit_gaussian_tree(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """Binary search among 31 thresholds held in registers: one permute and one compare per level.

    table: 6 vectors, the levels of the search tree (`gaussian_tree`).
    """
    out, seed, table = pointers
    stream, groups = integers
    b = em.b
    words = vt(I64, LANES // 2)
    levels = [em.vload(table, em.i(8 * k), I64, 8) for k in range(6)]

    def consume(w: int, x: Value, i: Value) -> None:
        u = b.lshr(x, const(words, 1))
        k = b.zext(b.icmp_unsigned(">=", u, levels[0]), words)
        for level in levels[1:4]:
            t = em.permute(level, k)
            k = b.add(b.add(k, k), b.zext(b.icmp_unsigned(">=", u, t), words))
        t = em.permute2(levels[4], k, levels[5])
        k = b.add(b.add(k, k), b.zext(b.icmp_unsigned(">=", u, t), words))
        em.vstore(_signed(em, k, x), out, i, I64)

    key_stream(em, seed, [stream, em.i(0), em.i(GAUSSIAN_TAG)], em.i(0), groups, consume)


def _emit_gaussian_scan(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """Key stream words to Gaussian integers, in place, by comparing with every threshold."""
    row, table = pointers
    count, n = integers
    b = em.b
    words = vt(I64, 8)
    with em.vectors(n, 8, 4) as indices:
        xs = [em.vload(row, i, I64, 8) for i in indices]
        us = [b.lshr(x, const(words, 1)) for x in xs]
        sizes = [cgutils.alloca_once(b, words) for _ in xs]
        for s in sizes:
            b.store(const(words, 0), s)
        with em.loop(count) as lp:
            t = em.splat_word(table, lp.index, 8)
            for u, s in zip(us, sizes, strict=True):  # both below 2^63: the signed compare is the cheap one on AVX2
                b.store(b.sub(b.load(s, typ=words), b.sext(b.icmp_signed(">=", u, t), words)), s)
        for i, x, s in zip(indices, xs, sizes, strict=True):
            em.vstore(_signed(em, b.load(s, typ=words), x), row, i, I64)


def _emit_place(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """row[i] = sum over k of sign[k] (position[k] == i). Positions and signs fit the low halves of their words."""
    row, positions, signs = pointers
    count, n = integers
    b = em.b
    unroll, lanes = 8, 16
    vector = vt(ir.IntType(32), lanes)
    lane = ir.Constant(vector, [ir.Constant(vector.element, i) for i in range(lanes)])
    with em.vectors(n, lanes, unroll) as indices:
        where = [b.add(em.splat(b.trunc(i, vector.element), lanes), lane) for i in indices]
        sums = [cgutils.alloca_once(b, vector) for _ in indices]
        for s in sums:
            b.store(const(vector, 0), s)
        with em.loop(count) as lp:
            low = b.mul(lp.index, em.i(2))
            position = em.splat_word(positions, low, lanes, vector.element)
            sign = em.splat_word(signs, low, lanes, vector.element)
            for i, s in zip(where, sums, strict=True):
                hit = b.sext(b.icmp_signed("==", i, position), vector)
                b.store(b.add(b.load(s, typ=vector), b.and_(hit, sign)), s)
        for i, s in zip(indices, sums, strict=True):
            em.vstore(b.sext(b.load(s, typ=vector), vt(I64, lanes)), row, i, I64)


def _emit_spread(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """Small signed integers to residues: v + q where v is negative. Range note: |v| < q."""
    row, out = pointers
    q, n = integers
    b = em.b
    modulus = em.splat(q, 8)
    with em.vectors(n, 8, 2) as indices:
        for i in indices:
            v = em.vload(row, i, I64, 8)
            em.vstore(b.add(v, b.and_(modulus, b.ashr(v, const(v.type, 63)))), out, i, I64)


#: Whether uniform words are reduced in vectors; decided here so that nothing is emitted that the target lacks.
VECTOR_UNIFORM = bool({limb.IFMA_STRICT, limb.FLOAT_STRICT} & target().paths)


def _emit_nothing(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """Stands where a kernel is never chosen."""


_uniform_vector = kernel(4, 2, _emit_uniform if VECTOR_UNIFORM else _emit_nothing)
_ternary = kernel(2, 2, _emit_ternary)
_gaussian_tree = kernel(3, 2, _emit_gaussian_tree)
_gaussian_scan = kernel(2, 2, _emit_gaussian_scan)
_place = kernel(3, 2, _emit_place)
_spread = kernel(2, 2, _emit_spread)


# -- rows --------------------------------------------------------------------------------------------------------------


@limb_function(7)
def key_words(out, seed, stream, attempt, tag, first, groups):
    """The key stream itself, compiled once for all samplers: it is most of their machine code."""
    stream_words(out, seed, stream, attempt, tag, first, groups)


_call7 = caller(7)


@compiled
def _remainder(w, inverse, q):
    """w mod q for any word: the quotient is at most 1 too small."""
    r = w - mulhi(w, inverse) * q
    return min(r, r - q)


@compiled
def _redraw(keys, out, seed, record, stream, n, scratch):
    """One uniform row with every refused word replaced by the same word of the next attempt, a group at a time."""
    q, inverse = uload(record, limb.Q), uload(record, limb.INV64)
    limit = inverse * q
    retry = scratch + 8 * GROUP_WORDS
    for group in range((n + GROUP_WORDS - 1) // GROUP_WORDS):
        _call7(keys, scratch, seed, stream, 0, UNIFORM_TAG, group, 1)
        count = min(n, GROUP_WORDS)
        attempt = 0
        while True:
            refused = 0
            for i in range(count):
                if uload(scratch, i) >= limit:
                    refused += 1
            if refused == 0:
                break
            attempt += 1
            _call7(keys, retry, seed, stream, attempt, UNIFORM_TAG, group, 1)
            for i in range(count):
                if uload(scratch, i) >= limit:
                    ustore(scratch, i, uload(retry, i))
        for i in range(count):
            ustore(out, group * GROUP_WORDS + i, _remainder(uload(scratch, i), inverse, q))


@compiled
def _uniform_words(keys, out, seed, record, stream, n, scratch):
    """A uniform row from stored key stream, for any q; n >= 128."""
    q, inverse = uload(record, limb.Q), uload(record, limb.INV64)
    limit = inverse * q
    _call7(keys, out, seed, stream, 0, UNIFORM_TAG, 0, n // GROUP_WORDS)
    largest = np.uint64(0)
    for i in range(n):
        w = uload(out, i)
        largest = max(largest, w)
        ustore(out, i, _remainder(w, inverse, q))
    if largest >= limit:
        _redraw(keys, out, seed, record, stream, n, scratch)


@entry
def sample_uniform(row):
    """seed, out, ring, n, stream, key stream, and first and last limb, scratch"""
    seed, out, ring, n, stream, keys, scratch = row[0], row[1], row[2], row[3], row[4], row[5], row[8]
    for j in range(row[6], row[7]):
        record = load(ring, j)
        if n < GROUP_WORDS:
            _redraw(keys, out + 8 * j * n, seed, record, stream + j, n, scratch)
        else:
            _uniform_words(keys, out + 8 * j * n, seed, record, stream + j, n, scratch)


@entry
def sample_uniform_vector(row):
    """seed, out, ring, n, stream, key stream, and first and last limb, scratch; n >= 128"""
    seed, out, ring, n, stream, keys, scratch = row[0], row[1], row[2], row[3], row[4], row[5], row[8]
    for j in range(row[6], row[7]):
        record, target = load(ring, j), out + 8 * j * n
        if np.int64(1 << 12) < load(record, limb.Q) < np.int64(1 << 50):
            _uniform_vector(target, seed, record, scratch, stream + j, n // GROUP_WORDS)
            if load(scratch, 0) != 0:
                _redraw(keys, target, seed, record, stream + j, n, scratch)
        else:
            _uniform_words(keys, target, seed, record, stream + j, n, scratch)


@entry
def small_rows(row):
    """Small integers to residues in every limb, transformed or not.

    All kernels of small integers have one row: seed, out, small, words, limits, ring, whether to transform, n, stream, key stream, table, count, and first and last limb.
    They draw into `small`, in whole groups; `words` is more scratch. limits: per limb (q, shift, reciprocal). A shift of 0 means |v| < q; else v + shift is in
    [0, 2^16) and floor((v + shift) reciprocal / 2^32) is its quotient by q < 2^10, exactly.
    """
    out, small, limits, ring, ntt, n = row[1], row[2], row[4], row[5], row[6], row[7]
    for j in range(row[12], row[13]):
        q, shift, reciprocal = load(limits, 3 * j), load(limits, 3 * j + 1), load(limits, 3 * j + 2)
        target = out + 8 * j * n
        if shift == 0 and n >= GROUP_WORDS:
            _spread(small, target, q, n)
        else:
            for i in range(n):
                v = load(small, i)
                if shift == 0:
                    r = v + (q & (v >> 63))
                else:
                    x = v + shift
                    r = x - q * ((x * reciprocal) >> 32)
                ustore(target, i, np.uint64(r))
        if ntt != 0:
            ntt_forward(load(ring, j), target, target)


@compiled
def _groups(n):
    return (n + GROUP_WORDS - 1) // GROUP_WORDS


@entry
def draw_ternary(row):
    """The row of `small_rows`."""
    _ternary(row[2], row[0], row[8], _groups(row[7]))


@entry_with("avx512f")
def draw_gaussian_tree(row):
    """The row of `small_rows`; table: `gaussian_tree`."""
    _gaussian_tree(row[2], row[0], row[10], row[8], _groups(row[7]))


@entry
def draw_gaussian_scan(row):
    """The row of `small_rows`; table, count: the thresholds."""
    small, groups = row[2], _groups(row[7])
    _call7(row[9], small, row[0], row[8], 0, GAUSSIAN_TAG, 0, groups)
    _gaussian_scan(small, row[10], row[11], groups * GROUP_WORDS)


@entry
def draw_sparse_ternary(row):
    """The row of `small_rows`; words: a group, positions, signs. count: the weight."""
    seed, small, words, n, stream, keys, weight = row[0], row[2], row[3], row[7], row[8], row[9], row[11]
    positions = words + 8 * GROUP_WORDS
    signs = positions + 8 * weight
    group, used = -1, GROUP_WORDS
    for i in range(weight):
        last = np.uint64(n - weight + i)
        bound = last + np.uint64(1)
        skip = (np.uint64(0) - bound) % bound  # 2^64 mod bound
        position = sign = np.uint64(0)
        part = 0
        while part < 2:
            if used == GROUP_WORDS:
                group, used = group + 1, 0
                _call7(keys, words, seed, stream, 0, SPARSE_TERNARY_TAG, group, 1)
            w = uload(words, used)
            used += 1
            if part == 1:
                sign = w & np.uint64(1)
                part = 2
            elif w * bound >= skip:
                position = mulhi(w, bound)
                part = 1
        taken = np.uint64(0)
        for k in range(i):
            taken |= np.uint64(uload(positions, k) == position)
        ustore(positions, i, position + taken * (last - position))
        ustore(signs, i, np.uint64(1) - sign - sign)
    if n < GROUP_WORDS:
        for i in range(n):
            v = np.uint64(0)
            for k in range(weight):
                v += uload(signs, k) * np.uint64(uload(positions, k) == np.uint64(i))
            ustore(small, i, v)
    else:
        _place(small, positions, signs, weight, n)


def gaussian_tree(thresholds: tuple[int, ...]) -> list[int]:
    """The 48 words of `sample_gaussian_tree`: at most 31 thresholds as the levels of a search tree, one vector per 8 nodes."""
    # The padding is never reached: words have 63 bits.
    padded = list(thresholds) + [1 << 63] * (TREE_THRESHOLDS - len(thresholds))
    levels = [[padded[(2 * i + 1) * (1 << (4 - s)) - 1] for i in range(1 << s)] for s in range(5)]
    words = levels[0] * 8
    for level in levels[1:4]:
        words += level + [0] * (8 - len(level))
    return words + levels[4]

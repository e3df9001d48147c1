"""The inner product of gadget digits with a key, and key switching as one kernel.

Keys are plain canonical residues, [digit][component b, a][key limb][n]. Key switching goes limb by limb: the digits of a target limb
are converted into a few rows that stay in the cache, transformed, and multiplied with the key rows of that limb at once.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ren_backend_cpu.kernels.arith import FloatOps, Pointwise, limb_kernel
from ren_backend_cpu.kernels.basis_conversion import AFTER, Sum, convert_row, convert_rows, to_digits
from ren_backend_cpu.kernels.emit import Value, load
from ren_backend_cpu.kernels.jit import compiled, entry
from ren_backend_cpu.kernels.ntt_call import ntt_forward

#: Words between a key word and the one that is asked for with it. Keys stream from the last-level cache or from memory in two rows per
#: digit, more streams than the hardware follows well: asking saves 15 % of the time at n = 2^14 and a third at 2^16.
AHEAD = 160


#: Results larger than this leave the caches before they are read again: they are stored past them, which saves reading the lines first.
CACHED_BYTES = 16 << 20


def _emit_product(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    """Digit d lies at digits + d digit_stride, digit `own` at `row`; its key rows at key_b, key_a + d key_stride (all in words)."""
    digits, row, key_b, key_a, out_b, out_a = pointers
    own, count, digit_stride, key_stride, past_cache, n = integers
    em, b = ops.em, ops.b
    unroll = 4 if ops.lanes > 1 else 1
    room = em.i(ops.max_terms)

    def add_terms(sums: list[tuple[Sum, Sum]], indices: list[Value], first: Value, terms: Value) -> None:
        with em.loop(terms) as lp:
            d = b.add(first, lp.index)
            x = b.select(b.icmp_signed("==", d, own), row, em.at(digits, b.mul(d, digit_stride)))
            kb, ka = (em.at(k, b.mul(d, key_stride)) for k in (key_b, key_a))
            for (sum_b, sum_a), i in zip(sums, indices, strict=True):
                for key in (kb, ka):
                    em.prefetch(key, b.add(i, em.i(AHEAD)), ops.lanes)
                v = ops.load(x, i)
                sum_b.set(ops.mac(sum_b.get(), v, ops.load(kb, i)))
                sum_a.set(ops.mac(sum_a.get(), v, ops.load(ka, i)))

    with em.vectors(n, ops.lanes, unroll) as indices:
        sums = [(Sum(ops), Sum(ops)) for _ in indices]
        add_terms(sums, indices, em.i(0), em.umin(count, room))
        with em.loop(b.udiv(b.sub(count, em.i(1)), room)) as more:
            first = b.mul(b.add(more.index, em.i(1)), room)
            for pair in sums:
                for s in pair:
                    s.set(ops.restart(s.get()))
            add_terms(sums, indices, first, em.umin(b.sub(count, first), room))
        results = [
            (i, out, ops.reduce(s.get()))
            for pair, i in zip(sums, indices, strict=True)
            for s, out in zip(pair, (out_b, out_a), strict=True)
        ]
        with b.if_else(b.icmp_signed("!=", past_cache, em.i(0))) as (then, otherwise):
            with then:
                for i, out, r in results:
                    em.vstream(ops.to_words(r) if isinstance(ops, FloatOps) else r, out, i)
            with otherwise:
                for i, out, r in results:
                    ops.store(r, out, i)


_product = limb_kernel(6, 6, _emit_product)


@compiled
def product_rows(record, digits, row, key_b, key_a, out_b, out_a, own, count, digit_stride, key_stride, past_cache, n):
    """out_b, out_a = the sums over d of digit d times its key rows (`_emit_product`)."""
    _product(record, digits, row, key_b, key_a, out_b, out_a, own, count, digit_stride, key_stride, past_cache, n)


@compiled
def _past_cache(out_b, out_a, limbs, n):
    """Whether the two results are better stored past the caches (1 or 0)."""
    return np.int64(16 * limbs * n > CACHED_BYTES and (out_b | out_a) & 63 == 0)


@entry
def gadget_product(row):
    """digits, key, b, a, ring, index, limbs, digit count, key limbs, n, and first and last limb"""
    digits, key, out_b, out_a, ring, index = row[0], row[1], row[2], row[3], row[4], row[5]
    limbs, count, key_limbs, n = row[6], row[7], row[8], row[9]
    past_cache = _past_cache(out_b, out_a, limbs, n)
    for j in range(row[10], row[11]):
        offset = 8 * j * n
        key_b = key + 8 * load(index, j) * n
        key_a = key_b + 8 * key_limbs * n
        x = digits + offset
        product_rows(
            load(ring, j),
            x,
            x,
            key_b,
            key_a,
            out_b + offset,
            out_a + offset,
            -1,
            count,
            limbs * n,
            2 * key_limbs * n,
            past_cache,
            n,
        )


@compiled
def _converted(ring, targets, matrix, y, rows, d, j, count, digits, limbs, wide, alpha, n):
    """Digit d for the target limbs j .. j+count-1 (1 or 2, none its own), NTT domain, in rows[0][d] and rows[1][d]."""
    first = d * alpha
    terms, sources = min(alpha, limbs - first), y + 8 * first * n
    records, width = targets + 8 * (d * wide + j), alpha + AFTER
    constants = matrix + 8 * (d * wide + j) * width
    out0, out1 = rows + 8 * d * n, rows + 8 * (digits + d) * n
    if count == 1:
        convert_row(load(records, 0), sources, out0, constants, terms, n)
    else:
        convert_rows(
            load(records, 0), load(records, 1), sources, out0, out1, constants, constants + 8 * width, terms, n
        )
        ntt_forward(load(ring, j + 1), out1, out1)
    ntt_forward(load(ring, j), out0, out0)


@entry
def key_switch_digits(row):
    """The row of `key_switch`, for its first phase: limbs of x to digits."""
    x, y, ring, scales, ntt, n = row[0], row[4], row[5], row[7], row[13], row[15]
    first, stop = row[16], row[17]
    to_digits(ring, x + 8 * first * n, y + 8 * first * n, scales + 32 * first, first, stop - first, 1, ntt, n)


@entry
def key_switch(row):
    """x, key, b, a, digits, ring, targets, scales, matrix, index, limbs, all limbs, alpha, ntt, key limbs, n, and first and last target limb,
    scratch

    As `decompose` and `gadget_product`. digits: a row per limb of x, made by `key_switch_digits`. scratch: two rows per digit, and one for the
    limb of x itself.
    """
    x, key, out_b, out_a, y, ring, targets = row[0], row[1], row[2], row[3], row[4], row[5], row[6]
    matrix, index, limbs, wide, alpha = row[8], row[9], row[10], row[11], row[12]
    ntt, key_limbs, n = row[13], row[14], row[15]
    start, stop, rows = row[16], row[17], row[18]
    digits = (limbs + alpha - 1) // alpha
    past_cache = _past_cache(out_b, out_a, wide, n)
    for j0 in range(start, stop, 2):  # two target limbs per reading of the coefficient rows
        count = min(2, stop - j0)
        for d in range(digits):
            first = d * alpha
            last = min(first + alpha, limbs)
            own0, own1 = first <= j0 < last, first <= j0 + 1 < last
            if not own0:
                both = 2 if count == 2 and not own1 else 1
                _converted(ring, targets, matrix, y, rows, d, j0, both, digits, limbs, wide, alpha, n)
            elif count == 2 and not own1:
                second = rows + 8 * digits * n
                _converted(ring, targets, matrix, y, second, d, j0 + 1, 1, digits, limbs, wide, alpha, n)
        for k in range(count):
            j = j0 + k
            record, offset = load(ring, j), 8 * j * n
            own, own_row = -1, rows
            if j < limbs:
                own, own_row = j // alpha, x + offset
                if ntt == 0:
                    own_row = rows + 16 * digits * n
                    ntt_forward(record, x + offset, own_row)
            key_b = key + 8 * load(index, j) * n
            key_a = key_b + 8 * key_limbs * n
            product_rows(
                record,
                rows + 8 * k * digits * n,
                own_row,
                key_b,
                key_a,
                out_b + offset,
                out_a + offset,
                own,
                digits,
                n,
                2 * key_limbs * n,
                past_cache,
                n,
            )

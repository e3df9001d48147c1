"""Base conversion of residue rows, one target limb at a time, and the steps around it.

A conversion is a sum of products per coefficient, out = sum_i y_i m_i + m_last mod p, with y_i in [0, q_i) and constants of the target
limb: m_i = Q/q_i and, for the centred form, inputs y_i + floor(q_i/2) mod q_i with m_last = -sum floor(q_i/2) Q/q_i. Centring costs nothing
here that way; what it is for is in `ren.backend.reference.basis_conversion`.

Constants are stored times the radix of the target's path (`radix`), because the sum leaves its Montgomery reduction divided by it. After
the m_i and m_last comes the number of terms that fit one sum (`room`): all of them, unless the moduli are wide.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numba.core import cgutils

from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.arith import Accumulator, FloatOps, Pointwise, limb_kernel
from ren_backend_cpu.kernels.emit import Value, load, mulhi, uload, ustore
from ren_backend_cpu.kernels.jit import compiled, entry
from ren_backend_cpu.kernels.ntt_call import ntt_forward, ntt_inverse_scaled

#: Words that follow the factors of a target: m_last and the room.
AFTER = 2


def radix(path: int) -> int:
    """What the constants of a conversion to a limb on `path` are multiplied by."""
    if path in (limb.IFMA_STRICT, limb.IFMA_LAZY):
        return 1 << 52
    return 1 if path in (limb.FLOAT_STRICT, limb.FLOAT_LAZY) else 1 << 64


def room(path: int, q: int, sources: Sequence[int]) -> int:
    """How many terms y_i m_i, y_i < sources[i], a sum modulo q may hold between two reductions, m_last included in the bound.

    Integer paths: the Montgomery reduction of a sum is below (1 + sum y_i / radix) q + terms, which may reach 4q. Float path: see `FloatOps`.
    """
    if path in (limb.FLOAT_STRICT, limb.FLOAT_LAZY):
        return FloatOps.max_terms
    return len(sources) if sum(sources) <= 2 * radix(path) else Pointwise.max_terms


class Sum:
    """A sum of products in memory cells that LLVM turns into registers, so that it can grow in a run-time loop."""

    def __init__(self, ops: Pointwise, start: Value | None = None) -> None:
        self.ops = ops
        self.cells = [cgutils.alloca_once(ops.b, ops.ty) for _ in range(2)]
        self.set(ops.accumulator(start))

    def get(self) -> Accumulator:
        high, low = (self.ops.b.load(c, typ=self.ops.ty) for c in self.cells)
        return high, low

    def set(self, acc: Accumulator) -> None:
        for value, cell in zip(acc, self.cells, strict=True):
            self.ops.b.store(value, cell)


def _unroll(ops: Pointwise, count: int) -> int:
    return count if ops.lanes > 1 else 1


@dataclass(frozen=True, slots=True)
class _Target:
    ops: Pointwise
    out: Value
    constants: Value


def _emit_targets(targets: list[_Target], sources: Value, terms: Value, n: Value) -> None:
    """Targets of one path from one reading of the sources.

    Range note: y_i in [0, q_i) with q_i in the range of the targets' path; then each partial sum reduces below 4p.
    """
    ops = targets[0].ops
    em, b = ops.em, ops.b
    starts = [t.ops.word(t.constants, terms) for t in targets]
    after = b.add(terms, em.i(1))
    fits = reduce(em.umin, (em.word(t.constants, after) for t in targets))

    def add_terms(sums: list[list[Sum]], indices: list[Value], first: Value, count: Value) -> None:
        with em.loop(count) as lp:
            k = b.add(first, lp.index)
            factors = [t.ops.word(t.constants, k) for t in targets]
            row = b.mul(k, n)
            for per_target, i in zip(sums, indices, strict=True):
                y = ops.load(sources, b.add(row, i))
                for s, m in zip(per_target, factors, strict=True):
                    s.set(s.ops.mac(s.get(), y, m))

    with em.vectors(n, ops.lanes, _unroll(ops, 4)) as indices:
        sums = [[Sum(t.ops, start) for t, start in zip(targets, starts, strict=True)] for _ in indices]
        add_terms(sums, indices, em.i(0), em.umin(terms, fits))
        with em.loop(b.udiv(b.sub(terms, em.i(1)), fits)) as more:
            first = b.mul(b.add(more.index, em.i(1)), fits)
            for per_target in sums:
                for s in per_target:
                    s.set(s.ops.restart(s.get()))
            add_terms(sums, indices, first, em.umin(b.sub(terms, first), fits))
        for per_target, i in zip(sums, indices, strict=True):
            for s, t in zip(per_target, targets, strict=True):
                t.ops.store(_divided(t.ops, s.get()), t.out, i)


def _emit_convert(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    sources, out, constants = pointers
    _emit_targets([_Target(ops, out, constants)], sources, *integers)


def _emit_convert_pair(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    sources, record, out0, out1, constants0, constants1 = pointers
    other = type(ops)(ops.em, record)
    _emit_targets([_Target(ops, out0, constants0), _Target(other, out1, constants1)], sources, *integers)


def _divided(ops: Pointwise, acc: Accumulator) -> Value:
    """The sum over the path's radix, as a residue."""
    if isinstance(ops, FloatOps):
        return ops.reduce(acc)
    return ops.csub(ops.csub(ops.montgomery(acc), ops.q2), ops.q)  # type: ignore[attr-defined]


_convert = limb_kernel(3, 2, _emit_convert)


@compiled
def convert_row(record, sources, out, constants, terms, n):
    """One target limb from `terms` adjacent rows of n words."""
    _convert(record, sources, out, constants, terms, n)


_convert_pair = limb_kernel(6, 2, _emit_convert_pair)


@compiled
def _family(record):
    """Equal for limb records whose kernels are the same code."""
    path = load(record, limb.PATH)
    return path >> 1 if path >= limb.FLOAT_STRICT else path - 2


@compiled
def convert_rows(record0, record1, sources, out0, out1, constants0, constants1, terms, n):
    """Two target limbs; the sources are read once where both are on the same path."""
    if _family(record0) == _family(record1):
        _convert_pair(record0, sources, record1, out0, out1, constants0, constants1, terms, n)
    else:
        convert_row(record0, sources, out0, constants0, terms, n)
        convert_row(record1, sources, out1, constants1, terms, n)


def _emit_scale(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    src, out, factor = pointers
    centred, n = integers
    em, b = ops.em, ops.b
    w = ops.constant(ops.word(factor, 0))
    half = b.select(b.icmp_unsigned("!=", centred, em.i(0)), ops.word(ops.record, limb.HALF), ops.zero())
    with em.vectors(n, ops.lanes, _unroll(ops, 2)) as indices:
        for i in indices:
            ops.store(ops.add(ops.scale(ops.load(src, i), w), half), out, i)


_scale = limb_kernel(3, 2, _emit_scale)


@compiled
def scale_row(record, src, out, factor, centred, n):
    """out = w src (+ floor(q/2) if centred) mod q, w the residue at `factor`."""
    _scale(record, src, out, factor, centred, n)


@compiled
def to_digits(ring, x, y, scales, first, limbs, centred, ntt, n):
    """Rows y_i = x_i (Q/q_i)^-1 mod q_i for limbs first .. first+limbs-1 of a ring, plus floor(q_i/2) if centred.

    scales: 4 words per limb, those of `LimbTable.scale_pair` when x is in the NTT domain, else the residue itself first.
    """
    for i in range(limbs):
        record = load(ring, first + i)
        src, dst, scale = x + 8 * i * n, y + 8 * i * n, scales + 32 * i
        if ntt != 0:
            ntt_inverse_scaled(record, src, dst, scale, centred)
        else:
            scale_row(record, src, dst, scale, centred, n)


@compiled
def copy_row(src, dst, n):
    for i in range(n):
        ustore(dst, i, uload(src, i))


@compiled
def _overflow(y, reciprocals, out, limbs, n):
    """out = (2^55 + sum f_i) >> 56, f_i = (y_i R_i) >> (b_i + 7): how often Q fits the sum of the y_i Q/q_i.

    reciprocals: R_i and b_i + 7 per limb. At most 255 limbs, so that the sum stays below 2^64.
    """
    for c in range(n):
        ustore(out, c, np.uint64(1 << 55))
    for i in range(limbs):
        reciprocal, shift = uload(reciprocals, 2 * i), uload(reciprocals, 2 * i + 1)
        row = y + 8 * i * n
        for c in range(n):
            v = uload(row, c)
            high = mulhi(v, reciprocal)
            if shift >= np.uint64(64):
                f = high >> (shift - np.uint64(64))
            else:
                f = (high << (np.uint64(64) - shift)) | (v * reciprocal >> shift)
            ustore(out, c, uload(out, c) + f)
    for c in range(n):
        ustore(out, c, uload(out, c) >> np.uint64(56))


@entry
def basis_extend_digits(row):
    """The row of `basis_extend`, for its first phase: the limbs of x as they are, and as inputs of the conversion."""
    x, out, y, ring, scales, centred, n = row[0], row[1], row[2], row[3], row[5], row[10], row[11]
    first, stop = row[12], row[13]
    offset = 8 * first * n
    copy_row(x + offset, out + offset, (stop - first) * n)
    to_digits(ring, x + offset, y + offset, scales + 32 * first, first, stop - first, centred, 0, n)


@entry
def basis_extend_overflow(row):
    """The row of `basis_extend`, for the phase that an exact conversion has: the overflow row."""
    y, limbs, n = row[2], row[8], row[11]
    _overflow(y, row[7], y + 8 * limbs * n, limbs, n)


@entry
def basis_extend(row):
    """x, out, rows, ring, targets, scales, matrix, reciprocals (0: no overflow row), limbs, new limbs, centred, n, and first and last new limb

    rows: one per limb, and one for the overflow, made by the other phases. matrix: per new limb a constant for each of them, and AFTER.
    """
    out, y, targets, matrix = row[1], row[2], row[4], row[6]
    reciprocals, limbs, n = row[7], row[8], row[11]
    stop = row[13]
    terms = limbs if reciprocals == 0 else limbs + 1
    width = 8 * (terms + AFTER)
    for j in range(row[12], stop, 2):  # two new limbs per reading of the old ones
        row0, constants = out + 8 * (limbs + j) * n, matrix + j * width
        if j + 1 < stop:
            record0, record1 = load(targets, j), load(targets, j + 1)
            convert_rows(record0, record1, y, row0, row0 + 8 * n, constants, constants + width, terms, n)
        else:
            convert_row(load(targets, j), y, row0, constants, terms, n)


@entry
def decompose_rows(row):
    """The row of `decompose`, for its first phase: limbs of x to inputs of the conversions."""
    x, y, ring, scales, ntt, n = row[0], row[2], row[3], row[5], row[10], row[11]
    first, stop = row[12], row[13]
    to_digits(ring, x + 8 * first * n, y + 8 * first * n, scales + 32 * first, first, stop - first, 1, ntt, n)


@entry
def decompose(row):
    """x, digits, rows, ring, targets, scales, matrix, limbs, all limbs, alpha, ntt, n, and first and last target limb

    ring: the limbs of x, then the special ones. targets: the records that conversions use, [digit][limb]. matrix: [digit][limb][alpha + AFTER].
    """
    x, out, y, ring, targets, matrix = row[0], row[1], row[2], row[3], row[4], row[6]
    limbs, wide, alpha, ntt, n = row[7], row[8], row[9], row[10], row[11]
    stop = row[13]
    digits = (limbs + alpha - 1) // alpha
    for j in range(row[12], stop, 2):  # two target limbs per reading of the coefficient rows
        for d in range(digits):
            first = d * alpha
            terms = min(alpha, limbs - first)
            outside = j + 1 < first or j >= first + terms
            if outside and j + 1 < stop:
                place = d * wide + j
                row0, row1 = out + 8 * place * n, out + 8 * (place + 1) * n
                constants = matrix + 8 * place * (alpha + AFTER)
                convert_rows(
                    load(targets, place),
                    load(targets, place + 1),
                    y + 8 * first * n,
                    row0,
                    row1,
                    constants,
                    constants + 8 * (alpha + AFTER),
                    terms,
                    n,
                )
                ntt_forward(load(ring, j), row0, row0)
                ntt_forward(load(ring, j + 1), row1, row1)
            else:
                for i in range(j, min(j + 2, stop)):
                    row0 = out + 8 * (d * wide + i) * n
                    digit_row(ring, targets, matrix, x, y, row0, d, i, limbs, wide, alpha, ntt, n)


@compiled
def digit_row(ring, targets, matrix, x, y, out, d, j, limbs, wide, alpha, ntt, n):
    """Limb j of digit d in the NTT domain."""
    record = load(ring, j)
    first = d * alpha
    terms = min(alpha, limbs - first)
    if first <= j < first + terms:  # the digit's own limb: x itself
        if ntt != 0:
            copy_row(x + 8 * j * n, out, n)
        else:
            ntt_forward(record, x + 8 * j * n, out)
    else:
        constants = matrix + 8 * (d * wide + j) * (alpha + AFTER)
        convert_row(load(targets, d * wide + j), y + 8 * first * n, out, constants, terms, n)
        ntt_forward(record, out, out)

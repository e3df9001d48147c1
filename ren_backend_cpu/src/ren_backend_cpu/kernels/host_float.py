"""Between residues and doubles, at the border of encoding and decoding. Exact in both directions.

from_float: an integer-valued double of any size is |v| = sum h_k 2^(62 k), h_k below 2^63; the number of pieces follows from the largest
coefficient alone, so all coefficients take the same steps. Ordinary messages (below 2^63) are one piece.

lift: V = c_0 + q_0 t with t = (c_1 - c_0) q_0^-1 mod q_1 is the value modulo Q = q_0 q_1. It is above Q/2 when (t, c_0) is above ((q_1 - 1)/2, (q_0 - 1)/2) in
lexicographic order. For moduli below 2^50 one fused multiply-add rounds it correctly; wider ones go through 128-bit integers.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from ren_backend_cpu.features import target
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.arith import FloatOps, IfmaOps, Pointwise, limb_kernel
from ren_backend_cpu.kernels.emit import (
    F64,
    I64,
    Em,
    Value,
    const,
    kernel,
    load,
    load_double,
    mulhi,
    store,
    store_double,
    uload,
    ustore,
    vt,
)
from ren_backend_cpu.kernels.jit import compiled, entry
from ren_backend_cpu.kernels.ntt_call import ntt_forward

#: Bits of a piece of `from_float`.
PIECE = 62
_UNIT = float(1 << PIECE)
#: Words per limb of `from_float`'s constants: 2^62 mod q and its quotient floor(. 2^64 / q).
PIECE_WORDS = 2

#: Exponent fields of 2^52 and 2^63.
_TWO52, _TWO63 = 1023 + 52, 1023 + 63


# -- from_float --------------------------------------------------------------------------------------------------------


def _emit_small(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    """Residues of integer-valued doubles below 2^63 in absolute value (float path: below 2^52)."""
    values, out = pointers
    em, b = ops.em, ops.b
    with em.vectors(integers[0], ops.lanes, 2 if ops.lanes > 1 else 1) as indices:
        for i in indices:
            v = em.vload(values, i, F64, ops.lanes)
            if isinstance(ops, FloatOps):
                ops.store(ops.near(ops.near(v)), out, i)  # once leaves up to 1.2q for the narrowest moduli
                continue
            negative = b.fcmp_ordered("<", v, const(v.type, 0.0))
            size = em.call("llvm.fabs." + ("v8f64" if ops.lanes > 1 else "f64"), v.type, [v])
            r = word_residue(ops, b.fptosi(size, ops.ity))
            ops.store(b.select(negative, ops.neg(r), r), out, i)


def word_residue(ops: Pointwise, w: Value) -> Value:
    """A word below 2^63 modulo q."""
    b = ops.b
    if isinstance(ops, IfmaOps):  # upper 12 bits times 2^52, plus the lower ones: each below 2q
        high = ops.lazy_scale(b.lshr(w, const(ops.ty, 52)), (ops.r, ops.r_shoup))
        low = ops.lazy_scale(b.and_(w, ops.mask), (const(ops.ty, 1), ops.inv))
        return ops.csub(ops.csub(b.add(high, low), ops.q2), ops.q)
    return ops.scale(w, (const(ops.ty, 1), ops.inv))


_small = limb_kernel(2, 1, _emit_small)


@compiled
def _small_row(record, values, out, n):
    _small(record, values, out, n)


@compiled
def _large_row(record, constants, values, out, pieces, n):
    """Any finite integer-valued doubles, from the highest piece down."""
    q, inverse = uload(record, limb.Q), uload(record, limb.INV64)
    step, quotient = uload(constants, 0), uload(constants, 1)
    top = 1.0
    for _ in range(pieces - 1):
        top *= _UNIT
    for i in range(n):
        v = load_double(values, i)
        rest, r, unit = abs(v), np.uint64(0), top
        for _ in range(pieces):
            piece = np.floor(rest / unit)
            rest -= piece * unit
            unit /= _UNIT
            h = np.uint64(piece)
            h -= mulhi(h, inverse) * q
            r = r * step - mulhi(r, quotient) * q
            r = min(r, r - q) + min(h, h - q)
            r = min(r, r - q)
        if v < 0.0:
            r = min(q - r, np.uint64(0) - r)
        ustore(out, i, r)


@entry
def float_exponent(row):
    """The row of `from_float`: the exponent field of the largest coefficient goes to `largest`."""
    values, largest, n = row[0], row[1], row[6]
    bits = np.uint64(0)
    for i in range(n):  # doubles of one sign are ordered as their bits are
        bits = max(bits, uload(values, i) & np.uint64((1 << 63) - 1))
    store(largest, 0, np.int64(bits >> np.uint64(52)))


@entry
def from_float(row):
    """values, largest (one word), out, ring, constants, whether to transform, n, and first and last limb"""
    values, out, ring, constants, ntt, n = row[0], row[2], row[3], row[4], row[5], row[6]
    exponent = load(row[1], 0)
    pieces = np.int64(1)
    if exponent >= _TWO63:
        pieces += (exponent - _TWO63) // PIECE + 1
    for j in range(row[7], row[8]):
        record, target = load(ring, j), out + 8 * j * n
        path = load(record, limb.PATH)
        narrow = path == limb.FLOAT_STRICT or path == limb.FLOAT_LAZY
        if exponent < (_TWO52 if narrow else _TWO63):
            _small_row(record, values, target, n)
        else:
            _large_row(record, constants + 8 * PIECE_WORDS * j, values, target, pieces, n)
        if ntt != 0:
            ntt_forward(record, target, target)


# -- lift --------------------------------------------------------------------------------------------------------------


def _emit_lift(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """All of q_0, q_1, q_2 below 2^50. constants: those of `lower_lift`, the ones modulo q_2 times 2^52. Counts misfits if `check`."""
    x, out, record0, record1, record2, constants = pointers
    check, n = integers
    b = em.b
    words, doubles = vt(I64, 8), vt(F64, 8)
    q1, q2 = IfmaOps(em, record1), IfmaOps(em, record2)
    over, inverse, one, q0_r, minus_r = (em.splat_word(constants, k) for k in range(5))
    half0, half1 = em.splat_word(record0, limb.HALF), em.splat_word(record1, limb.HALF)
    q0_double, q1_double = em.splat_word(record0, limb.QF, 8, F64), em.splat_word(record1, limb.QF, 8, F64)
    w = q1.constant(inverse)
    misfits = cgutils.alloca_once_value(b, const(words, 0))
    row1, row2 = em.at(x, n), em.at(x, b.mul(n, em.i(2)))
    with em.vectors(n) as (i,):
        c0 = em.vload(x, i, I64, 8)
        t = q1.scale(b.sub(b.add(em.vload(row1, i, I64, 8), over), c0), w)
        at_half = b.and_(b.icmp_unsigned("==", t, half1), b.icmp_unsigned(">", c0, half0))
        negative = b.or_(b.icmp_unsigned(">", t, half1), at_half)
        # Both below 2^53: the multiply-add is the only rounding.
        signed = b.fsub(b.uitofp(t, doubles), b.select(negative, q1_double, const(doubles, 0.0)))
        em.vstore(em.fma(q0_double, signed, b.uitofp(c0, doubles)), out, i, F64)
        with b.if_then(b.icmp_signed("!=", check, em.i(0))):
            acc = q2.mac(q2.mac((b.select(negative, minus_r, const(words, 0)), q2.zero()), c0, one), t, q0_r)
            r = q2.csub(q2.csub(q2.montgomery(acc), q2.q2), q2.q)
            differs = b.zext(b.icmp_unsigned("!=", r, em.vload(row2, i, I64, 8)), words)
            b.store(b.add(b.load(misfits, typ=words), differs), misfits)
    total = b.load(misfits, typ=words)
    for step in (4, 2, 1):
        total = b.add(total, em.shuffle(total, total, [(lane + step) % 8 for lane in range(8)]))
    em.vstore(b.extract_element(total, ir.Constant(ir.IntType(32), 0)), out, n, I64)


def _emit_lift_float(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """As `_emit_lift` in doubles; constants as they are.

    Range note: differences of residues stay below 2^50 in absolute value, t below q_1 < 2^50; a check is a sum of three such terms.
    """
    x, out, record0, record1, record2, constants = pointers
    check, n = integers
    b = em.b
    q0, q1, q2 = (FloatOps(em, r) for r in (record0, record1, record2))
    zero = q0.zero()
    half0, half1 = (q.from_words(q.slot(limb.HALF)) for q in (q0, q1))
    w, q0_r = q1.constant(q1.word(constants, 1)), q2.constant(q2.word(constants, 3))
    misfits = cgutils.alloca_once_value(b, zero)
    row1, row2 = em.at(x, n), em.at(x, b.mul(n, em.i(2)))
    with em.vectors(n, q0.lanes) as (i,):
        c0 = q0.load(x, i)
        t = q1.scale(b.fsub(q1.load(row1, i), c0), w)
        t = b.select(b.fcmp_ordered("<", t, zero), b.fadd(t, q1.q), t)
        at_half = b.and_(b.fcmp_ordered("==", t, half1), b.fcmp_ordered(">", c0, half0))
        negative = b.or_(b.fcmp_ordered(">", t, half1), at_half)
        signed = b.select(negative, b.fsub(t, q1.q), t)
        em.vstore(em.fma(q0.q, signed, c0), out, i, F64)
        with b.if_then(b.icmp_signed("!=", check, em.i(0))):
            difference = b.fadd(q2.scale(signed, q0_r), b.fsub(c0, q2.load(row2, i)))
            fits = b.fcmp_ordered("==", q2.near(difference), zero)
            b.store(b.fadd(b.load(misfits, typ=q0.ty), b.select(fits, zero, const(q0.ty, 1.0))), misfits)
    total = b.load(misfits, typ=q0.ty)
    count = b.extract_element(total, ir.Constant(ir.IntType(32), 0))
    for lane in range(1, q0.lanes):
        count = b.fadd(count, b.extract_element(total, ir.Constant(ir.IntType(32), lane)))
    em.vstore(b.fptoui(count, I64), out, n, I64)


#: The vector kernel of moduli below 2^50, or None where the target has neither arithmetic for it.
_emit_narrow = (
    _emit_lift
    if limb.IFMA_STRICT in target().paths
    else _emit_lift_float
    if limb.FLOAT_STRICT in target().paths
    else None
)
VECTOR_LIFT = _emit_narrow is not None
#: What the constants of `lift_vector` modulo q_2 are multiplied by.
LIFT_RADIX = 1 << 52 if _emit_narrow is _emit_lift else 1


def _emit_nothing(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """Stands where a kernel is never chosen."""


_lift_narrow = kernel(6, 2, _emit_narrow or _emit_nothing)


@entry
def lift_vector(row):
    """x, out, records of q_0, q_1, q_2, constants, check, n"""
    _lift_narrow(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7])


@compiled
def _to_double(high, low):
    """high 2^64 + low (high below 2^63) rounded to nearest, ties to even."""
    if high == np.uint64(0):
        return np.float64(low)
    bits = 0
    h = high
    while h != np.uint64(0):
        h >>= np.uint64(1)
        bits += 1
    s = np.uint64(bits)
    top = (high << (np.uint64(64) - s)) | (low >> s)
    if (low & ((np.uint64(1) << s) - np.uint64(1))) != np.uint64(0):
        top |= np.uint64(1)  # below the last of the 53 bits that stay: only says "more than a tie"
    scale = 1.0
    for _ in range(bits):
        scale *= 2.0
    return np.float64(top) * scale


@entry
def lift_one(row):
    """x, out, record of q_0, n"""
    x, out, n = row[0], row[1], row[3]
    q, half = load(row[2], limb.Q), load(row[2], limb.HALF)
    for i in range(n):
        v = load(x, i)
        store_double(out, i, np.float64(v - q if v > half else v))
    ustore(out, n, np.uint64(0))


@entry
def lift(row):
    """x, out, records of q_0, q_1, q_2, constants (those of `lower_lift`, the ones modulo q_2 as they are), check, n"""
    x, out, constants, check, n = row[0], row[1], row[5], row[6], row[7]
    q0, q1, q2 = uload(row[2], limb.Q), uload(row[3], limb.Q), uload(row[4], limb.Q)
    half0, half1 = uload(row[2], limb.HALF), uload(row[3], limb.HALF)
    inverse1, inverse2 = uload(row[3], limb.INV64), uload(row[4], limb.INV64)
    w, w_quotient = uload(constants, 1), uload(constants, 5)
    q0_2, q0_2_quotient, minus_2 = uload(constants, 3), uload(constants, 6), uload(constants, 4)
    misfits = 0
    for i in range(n):
        c0, c1 = uload(x, i), uload(x, n + i)
        r = c0 - mulhi(c0, inverse1) * q1
        d = c1 + q1 - min(r, r - q1)
        t = d * w - mulhi(d, w_quotient) * q1
        t = min(t, t - q1)
        negative = t > half1 or (t == half1 and c0 > half0)
        # V, or Q - V = (q_0 - c_0) + q_0 (q_1 - 1 - t) where V stands for V - Q
        u, low = (q1 - np.uint64(1) - t, q0 - c0) if negative else (t, c0)
        product = u * q0
        total = product + low
        high = mulhi(u, q0) + np.uint64(total < product)
        size = _to_double(high, total)
        store_double(out, i, -size if negative else size)
        if check != 0:
            v = c0 - mulhi(c0, inverse2) * q2
            v = min(v, v - q2)
            p = t * q0_2 - mulhi(t, q0_2_quotient) * q2
            v += min(p, p - q2)
            v = min(v, v - q2)
            if negative:
                v += minus_2
                v = min(v, v - q2)
            if v != uload(x, 2 * n + i):
                misfits += 1
    ustore(out, n, np.uint64(misfits))

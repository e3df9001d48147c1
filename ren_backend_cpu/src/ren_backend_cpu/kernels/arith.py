"""Element-wise modular arithmetic, one class per arithmetic path, and the maker of kernels that dispatch between them.

A kernel body is written once against `Pointwise` and emitted for each path that the target has; at run time the limb record's
path word selects. Inputs and outputs of every operation are in [0, q) (float path: |x| < q in registers, [0, q) in memory).

Products follow P. Barrett (CRYPTO '86) with a shifted quotient, multiplication by a constant V. Shoup's quotient (see
D. Harvey, "Faster arithmetic for number-theoretic transforms", 2014), sums of products P. Montgomery (1985).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ren_backend_cpu.features import target
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.emit import F64, FLOAT_LANES, I32, I64, I128, LANES, Em, Value, const, kernel, vt

#: 2^52 and 1.5 * 2^52: adding them moves an integer into the low mantissa bits.
_TWO52 = 4503599627370496.0
_MAGIC = 6755399441055744.0
_TWO52_BITS = 0x4330000000000000
_MAGIC_BITS = 0x4338000000000000

#: (sum of low parts, sum of high parts) of integer paths, (sum of high parts, sum of low parts) on the float path.
Accumulator = tuple[Value, Value]
#: A multiplier prepared by `constant`: (w, approximate quotient).
Multiplier = tuple[Value, Value]


class Pointwise:
    """Arithmetic modulo the q of one limb record, `lanes` elements at a time.

    Range note: q < 2^61 (narrower per subclass); every operand and result is reduced.
    """

    lanes = LANES
    ety: ir.Type = I64
    #: Products that one accumulator may take before `reduce` or `restart`, besides what it started with.
    max_terms = 7
    #: The modulus, and what the subclass keeps of it for reducing a product; set by `setup`.
    q: Value
    inv: Value

    def __init__(self, em: Em, record: Value) -> None:
        self.em, self.b, self.record = em, em.b, record
        self.ty = vt(self.ety, self.lanes)
        self.ity = vt(I64, self.lanes)
        self.setup()

    def setup(self) -> None:
        """Load the constants of q into registers."""
        raise NotImplementedError

    def slot(self, index: int, ety: ir.Type = I64) -> Value:
        """A word of the limb record in every lane."""
        return self.em.splat_word(self.record, index, self.lanes, ety)

    # -- memory ------------------------------------------------------------------------------------------------------

    def load(self, p: Value, i: Value) -> Value:
        """Residues i.. of a row."""
        return self.em.vload(p, i, I64, self.lanes)

    def store(self, v: Value, p: Value, i: Value) -> None:
        self.em.vstore(v, p, i, I64)

    def word(self, p: Value, i: int | Value) -> Value:
        """One residue in every lane."""
        return self.em.splat_word(p, i, self.lanes)

    def zero(self) -> Value:
        return const(self.ty, 0)

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def csub(self, x: Value, m: Value) -> Value:
        """x - m if x >= m, else x (unsigned: the difference wraps when it is negative)."""
        return self.em.csub(x, m)

    def add(self, x: Value, y: Value) -> Value:
        return self.csub(self.b.add(x, y), self.q)

    def sub(self, x: Value, y: Value) -> Value:
        return self.em.plus_if_negative(self.b.sub(x, y), self.q)

    def neg(self, x: Value) -> Value:
        return self.sub(self.zero(), x)

    def mul(self, x: Value, y: Value) -> Value:
        raise NotImplementedError

    def constant(self, w: Value) -> Multiplier:
        """Prepare the residue w (in every lane, as from `word`) as a multiplier for `scale`."""
        raise NotImplementedError

    def scale(self, x: Value, w: Multiplier) -> Value:
        """x times a prepared multiplier."""
        raise NotImplementedError

    def mul_add(self, x: Value, y: Value, z: Value) -> Value:
        """x y + z."""
        return self.add(self.mul(x, y), z)

    def sub_mul(self, x: Value, y: Value, z: Value) -> Value:
        """z - x y."""
        return self.sub(z, self.mul(x, y))

    def scale_add(self, x: Value, w: Multiplier, z: Value) -> Value:
        """x times a prepared multiplier, plus z."""
        return self.add(self.scale(x, w), z)

    # -- sums of products --------------------------------------------------------------------------------------------

    def accumulator(self, start: Value | None = None) -> Accumulator:
        """A sum of no products, on top of a residue if one is given."""
        return self.zero() if start is None else start, self.zero()

    def mac(self, acc: Accumulator, x: Value, y: Value) -> Accumulator:
        """acc + x y, unreduced. At most `max_terms` of them."""
        raise NotImplementedError

    def reduce(self, acc: Accumulator) -> Value:
        """The sum as a residue."""
        raise NotImplementedError

    def restart(self, acc: Accumulator) -> Accumulator:
        """The same sum with room for `max_terms` more products."""
        return self.accumulator(self.reduce(acc))


class IfmaOps(Pointwise):
    """52-bit multiply-add instructions. Range note: q < 2^50, so 4q < 2^52."""

    def setup(self) -> None:
        s = self.slot
        self.q, self.q2, self.nq = s(limb.Q), s(limb.Q2), s(limb.NEG52)
        self.right, self.left, self.mu = s(limb.BARRETT52_RIGHT), s(limb.BARRETT52_LEFT), s(limb.BARRETT52)
        self.inv, self.frac, self.qinv = s(limb.INV52), s(limb.FRAC52), s(limb.QINV52)
        self.r, self.r_shoup = s(limb.R52), s(limb.R52_SHOUP)
        self.mask, self.shift52 = const(self.ty, (1 << 52) - 1), const(self.ty, 52)

    def lo(self, acc: Value, a: Value, b: Value) -> Value:
        """acc + low 52 bits of the product of the low 52 bits of a and b."""
        return self.em.madd52_low(acc, a, b)

    def hi(self, acc: Value, a: Value, b: Value) -> Value:
        """acc + bits 52..103 of that product."""
        return self.em.madd52_high(acc, a, b)

    def barrett(self, hi: Value, lo: Value) -> Value:
        """hi 2^52 + lo (lo < 2^52, value < 2^(51 + k), k bits in q: two products fit) to [0, q)."""
        b = self.b
        c = b.or_(b.shl(hi, self.left), b.lshr(lo, self.right))
        e = self.hi(self.zero(), c, self.mu)  # at most 2 below the quotient
        r = b.and_(self.lo(lo, e, self.nq), self.mask)  # < 3q
        return self.csub(self.csub(r, self.q2), self.q)

    def mul(self, x: Value, y: Value) -> Value:
        return self.barrett(self.hi(self.zero(), x, y), self.lo(self.zero(), x, y))

    def constant(self, w: Value) -> Multiplier:
        # w floor(2^52/q) + floor(w frac / 2^52) is floor(w 2^52 / q) or one less: no division needed.
        return w, self.lo(self.hi(self.zero(), w, self.frac), w, self.inv)

    def scale(self, x: Value, w: Multiplier) -> Value:
        return self.csub(self.csub(self.lazy_scale(x, w), self.q2), self.q)

    def lazy_scale(self, x: Value, w: Multiplier) -> Value:
        """x w in [0, 3q) ([0, 2q) for an exact Shoup quotient), any x < 2^52."""
        e = self.hi(self.zero(), w[1], x)
        return self.b.and_(self.lo(self.lo(self.zero(), w[0], x), e, self.nq), self.mask)

    def mac(self, acc: Accumulator, x: Value, y: Value) -> Accumulator:
        return self.lo(acc[0], x, y), self.hi(acc[1], x, y)

    def montgomery(self, acc: Accumulator) -> Value:
        """The sum times 2^-52, in [0, (terms / 4 + 1) q + terms]."""
        b = self.b
        hi = b.add(acc[1], b.lshr(acc[0], self.shift52))
        m = self.lo(self.zero(), acc[0], self.qinv)
        return b.sub(b.add(hi, self.q), self.hi(self.zero(), m, self.q))

    def reduce(self, acc: Accumulator) -> Value:
        return self.csub(self.lazy_scale(self.montgomery(acc), (self.r, self.r_shoup)), self.q)


class Vector64Ops(Pointwise):
    """64-bit vectors, high products from 32-bit halves. Range note: q < 2^61, so 8q < 2^64."""

    def setup(self) -> None:
        s = self.slot
        self.q, self.q2, self.q4 = s(limb.Q), s(limb.Q2), s(limb.Q4)
        self.right, self.left, self.mu = s(limb.BARRETT64_RIGHT), s(limb.BARRETT64_LEFT), s(limb.BARRETT64)
        self.inv, self.frac, self.qinv = s(limb.INV64), s(limb.FRAC64), s(limb.QINV64)
        self.r, self.r_shoup = s(limb.R64), s(limb.R64_SHOUP)
        self.m32, self.s32 = const(self.ty, 0xFFFFFFFF), const(self.ty, 32)

    def _partial(self, x: Value, y: Value) -> tuple[Value, Value, Value, Value, Value]:
        b = self.b
        x0, x1 = b.and_(x, self.m32), b.lshr(x, self.s32)
        y0, y1 = b.and_(y, self.m32), b.lshr(y, self.s32)
        return b.mul(x1, y0), b.mul(x0, y1), b.mul(x1, y1), x0, y0

    def mulhi_low(self, x: Value, y: Value) -> Value:
        """High word of x y or up to 2 less (the low partial product and the carries are left out)."""
        b = self.b
        m, n, h, _, _ = self._partial(x, y)
        return b.add(b.add(h, b.lshr(m, self.s32)), b.lshr(n, self.s32))

    def mulhi(self, x: Value, y: Value) -> Value:
        """High word of x y."""
        b = self.b
        m, n, h, x0, y0 = self._partial(x, y)
        t = b.add(b.add(b.lshr(b.mul(x0, y0), self.s32), b.and_(m, self.m32)), b.and_(n, self.m32))
        return b.add(b.add(b.add(h, b.lshr(m, self.s32)), b.lshr(n, self.s32)), b.lshr(t, self.s32))

    def _under(self, x: Value) -> Value:
        """x < 8q to [0, q)."""
        return self.csub(self.csub(self.csub(x, self.q4), self.q2), self.q)

    def mul(self, x: Value, y: Value) -> Value:
        b = self.b
        lo = b.mul(x, y)
        c = b.or_(b.shl(self.mulhi(x, y), self.left), b.lshr(lo, self.right))
        return self._under(b.sub(lo, b.mul(self.mulhi_low(c, self.mu), self.q)))  # < 5q

    def constant(self, w: Value) -> Multiplier:
        return w, self.b.add(self.b.mul(w, self.inv), self.mulhi_low(w, self.frac))

    def scale(self, x: Value, w: Multiplier) -> Value:
        # Shoup's remainder is below 2q; the quotient is up to 2 (high word) + 3 (`constant`) too small: below 7q.
        return self._under(self._shoup(x, w))

    def _shoup(self, x: Value, w: Multiplier) -> Value:
        b = self.b
        return b.sub(b.mul(w[0], x), b.mul(self.mulhi_low(w[1], x), self.q))

    def mac(self, acc: Accumulator, x: Value, y: Value) -> Accumulator:
        b = self.b
        p = b.mul(x, y)
        lo = b.add(acc[0], p)
        carry = b.zext(b.icmp_unsigned("<", lo, p), self.ty)
        return lo, b.add(b.add(acc[1], self.mulhi(x, y)), carry)

    def montgomery(self, acc: Accumulator) -> Value:
        """The sum times 2^-64, in [0, (terms / 8 + 1) q]."""
        m = self.b.mul(acc[0], self.qinv)
        return self.b.sub(self.b.add(acc[1], self.q), self.mulhi(m, self.q))

    def reduce(self, acc: Accumulator) -> Value:
        return self._under(self._shoup(self.montgomery(acc), (self.r, self.r_shoup)))


class ScalarOps(Vector64Ops):
    """One word at a time; the 128-bit product is one instruction. Range note: q < 2^61."""

    lanes = 1

    def mulhi(self, x: Value, y: Value) -> Value:
        b = self.b
        p = b.mul(b.zext(x, I128), b.zext(y, I128))
        return b.trunc(b.lshr(p, ir.Constant(I128, 64)), I64)

    def mulhi_low(self, x: Value, y: Value) -> Value:
        return self.mulhi(x, y)

    def _under(self, x: Value) -> Value:
        return self.csub(self.csub(x, self.q2), self.q)  # exact high words: < 3q


class WordOps(Pointwise):
    """Sums and differences of words on the float path, without the way through doubles."""

    lanes = FLOAT_LANES

    def setup(self) -> None:
        self.q = self.slot(limb.Q)


class FloatOps(Pointwise):
    """float64 with fused multiply-add.

    Range note: q < 2^50. In registers |x| < q. A quotient x y / q below 2^50 is off by at most 3 * 2^-53 * 2^50 = 0.375 before it
    is rounded, so a product's remainder is below 0.875 q; the remainder itself is exact (an integer below 2^53).

    Sums of products are reduced once. With k bits in q and factors in [0, 2^50) and [0, q), the high parts are added up to U = 2^(52 + k): four
    products stay below U, so the sum is always in [U, 2U) and every addition rounds to the same multiple of 2^k. What it rounds away
    is below 2^(k-1) and exact, and four such and a residue are below 3 * 2^k. The quotient of the high sum, up to 2^53, is off by 2.5 at most:
    its remainder and the low sum stay below 5.5 * 2^k < 2^53.
    """

    lanes = FLOAT_LANES
    ety = F64
    max_terms = 4

    def setup(self) -> None:
        self.q, self.qi = self.slot(limb.QF, F64), self.slot(limb.QF_INV, F64)
        self.unit = self.slot(limb.QF_UNIT, F64)
        self.qu = self.slot(limb.Q)

    def load(self, p: Value, i: Value) -> Value:
        return self.from_words(self.em.vload(p, i, I64, self.lanes))

    def word(self, p: Value, i: int | Value) -> Value:
        return self.from_words(self.em.splat_word(p, i, self.lanes))

    def from_words(self, u: Value) -> Value:
        """Words below 2^52 to doubles."""
        u = self.b.or_(u, const(self.ity, _TWO52_BITS))
        return self.b.fsub(self.b.bitcast(u, self.ty), const(self.ty, _TWO52))

    def store(self, v: Value, p: Value, i: Value) -> None:
        self.em.vstore(self.to_words(v), p, i, I64)

    def to_words(self, v: Value) -> Value:
        """|v| < q to unsigned words in [0, q)."""
        b = self.b
        u = b.sub(b.bitcast(b.fadd(v, const(self.ty, _MAGIC)), self.ity), const(self.ity, _MAGIC_BITS))
        return self.em.plus_if_negative(u, self.qu)

    def zero(self) -> Value:
        return const(self.ty, 0.0)

    def near(self, x: Value) -> Value:
        """An integer |x| < 2^53 to about [-q/2, q/2]."""
        k = self.em.rint(self.b.fmul(x, self.qi))
        return self.em.fma(self.b.fneg(k), self.q, x)

    def add(self, x: Value, y: Value) -> Value:
        return self.near(self.b.fadd(x, y))

    def sub(self, x: Value, y: Value) -> Value:
        return self.near(self.b.fsub(x, y))

    def neg(self, x: Value) -> Value:
        return self.b.fneg(x)

    def mul(self, x: Value, y: Value) -> Value:
        return self._remainder(x, y, lambda h: self.b.fmul(h, self.qi))

    def _remainder(self, x: Value, y: Value, quotient: Callable[[Value], Value]) -> Value:
        em, b = self.em, self.b
        h = b.fmul(x, y)
        k = em.rint(quotient(h))
        low = em.fma(x, y, b.fneg(h))
        return b.fadd(em.fma(b.fneg(k), self.q, h), low)

    def constant(self, w: Value) -> Multiplier:
        return w, self.b.fdiv(w, self.q)

    def scale(self, x: Value, w: Multiplier) -> Value:
        return self._remainder(x, w[0], lambda h: self.b.fmul(x, w[1]))

    def mul_add(self, x: Value, y: Value, z: Value) -> Value:
        return self._remainder_plus(x, y, z, lambda h: self.b.fmul(h, self.qi))

    def sub_mul(self, x: Value, y: Value, z: Value) -> Value:
        return self.mul_add(self.b.fneg(x), y, z)

    def scale_add(self, x: Value, w: Multiplier, z: Value) -> Value:
        return self._remainder_plus(x, w[0], z, lambda h: self.b.fmul(x, w[1]))

    def _remainder_plus(self, x: Value, y: Value, z: Value, quotient: Callable[[Value], Value]) -> Value:
        """x y + z with z's share in the quotient, |z| < q. The addition rounds a number below 2^50 once more, by 1/16: the result stays below q."""
        em, b = self.em, self.b
        h = b.fmul(x, y)
        k = em.rint(em.fma(z, self.qi, quotient(h)))
        low = em.fma(x, y, b.fneg(h))
        return b.fadd(em.fma(b.fneg(k), self.q, h), b.fadd(low, z))

    def accumulator(self, start: Value | None = None) -> Accumulator:
        return self.unit, self.zero() if start is None else start

    def mac(self, acc: Accumulator, x: Value, y: Value) -> Accumulator:
        em, b = self.em, self.b
        high = em.fma(x, y, acc[0])
        return high, b.fadd(acc[1], em.fma(x, y, b.fsub(acc[0], high)))

    def reduce(self, acc: Accumulator) -> Value:
        em, b = self.em, self.b
        high = b.fsub(acc[0], self.unit)
        k = em.rint(b.fmul(high, self.qi))
        return self.near(b.fadd(em.fma(b.fneg(k), self.q, high), acc[1]))


#: Arithmetic of each path. Paths that the target lacks are absent, so that their instructions are never emitted.
POINTWISE: dict[int, type[Pointwise]] = {
    path: cls
    for path, cls in (
        (limb.SCALAR, ScalarOps),
        (limb.VECTOR64, Vector64Ops),
        (limb.FLOAT_STRICT, FloatOps),
        (limb.FLOAT_LAZY, FloatOps),
        (limb.IFMA_STRICT, IfmaOps),
        (limb.IFMA_LAZY, IfmaOps),
    )
    if path in target().paths
}

Body = Callable[[Any, list[Value], list[Value]], None]


def by_path(em: Em, record: Value, cases: dict[int, Any], body: Callable[[Any], None]) -> None:
    """Emit `body(case)` once per distinct case, selected at run time by the path word of a limb record."""
    b = em.b
    distinct = list(dict.fromkeys(cases.values()))
    if len(distinct) == 1:
        body(distinct[0])
        return
    path = b.trunc(em.word(record, limb.PATH), I32)
    blocks = {case: b.append_basic_block(f"path.{k}") for k, case in enumerate(distinct)}
    done = b.append_basic_block("path.done")
    switch = b.switch(path, done)
    for code, case in cases.items():
        switch.add_case(ir.Constant(I32, code), blocks[case])
    for case, block in blocks.items():
        b.position_at_end(block)
        body(case)
        b.branch(done)
    b.position_at_end(done)


def limb_kernel(arrays: int, integers: int, body: Body, *, additive: bool = False) -> Any:
    """An intrinsic f(limb record, address..., integer...) whose body is emitted for every available path.

    body(ops, pointers, integers): `ops` is a `Pointwise` on the limb record; `arrays` counts the addresses after the record. additive: it only
    adds, subtracts and negates.
    """

    def emit(em: Em, pointers: list[Value], values: list[Value]) -> None:
        record, rest = pointers[0], pointers[1:]
        cases = {path: WordOps if additive and cls is FloatOps else cls for path, cls in POINTWISE.items()}
        by_path(em, record, cases, lambda cls: body(cls(em, record), rest, values))

    emit.__name__ = getattr(body, "__name__", "limb_kernel")
    return kernel(arrays + 1, integers, emit)

"""Transform arithmetic: one class per path, with the range that its values stay in.

The forward butterfly is Cooley-Tukey, (x, y) -> (x + w y, x - w y); the inverse is Gentleman-Sande, (x, y) -> (x + y, (x - y) w).
A twiddle is a pair (w, w') with w' the path's precomputed quotient; products follow V. Shoup and D. Harvey ("Faster arithmetic for
number-theoretic transforms", 2014), lazily reduced. Bounds are in units of q. In the inverse they are tracked per value while the
code is generated, and a value is reduced where its bound would leave the path's range: nothing is checked at run time.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.emit import F64, FLOAT_LANES, I64, I128, LANES, Em, Value, const, vt

#: (w, w', bound of a product with it in units of q).
Twiddle = tuple[Value, Value, int]
#: (value, bound in units of q).
Tracked = tuple[Value, float]


class Butterfly:
    """Arithmetic of one path on one limb record."""

    lanes = LANES
    ety: ir.Type = I64
    #: Bound of values that an inverse pass leaves in memory.
    kept: float = 2
    #: Words per 64-element block of a tail table: 8 scalar twiddles, then 7 vectors, each as pairs.
    tail_words = 128

    def __init__(self, em: Em, record: Value) -> None:
        self.em, self.b, self.record = em, em.b, record
        self.ty = vt(self.ety, self.lanes)
        self.setup()

    def setup(self) -> None:
        """Load the constants of q into registers."""
        raise NotImplementedError

    def slot(self, index: int, ety: ir.Type = I64) -> Value:
        return self.em.splat_word(self.record, index, self.lanes, ety)

    # -- memory ------------------------------------------------------------------------------------------------------

    def load(self, p: Value, i: Value) -> Value:
        """A value that an earlier pass left."""
        return self.em.vload(p, i, self.ety, self.lanes)

    def store(self, v: Value, p: Value, i: Value) -> None:
        self.em.vstore(v, p, i, self.ety)

    def enter(self, words: Value) -> Value:
        """Canonical residues to the path's representation."""
        return words

    def offset(self, x: Value) -> Value:
        """Applied to the upper operand of the first forward stage."""
        return x

    def leave(self, v: Value) -> Value:
        """Any value of the forward transform to canonical residues."""
        raise NotImplementedError

    def plus_half(self, words: Value) -> Value:
        """Canonical residues plus floor(q/2), canonical."""
        s = self.b.add(words, self.em.splat_word(self.record, limb.HALF, self.lanes))
        return self.em.csub(s, self.em.splat_word(self.record, limb.Q, self.lanes))

    # -- twiddles ----------------------------------------------------------------------------------------------------

    def twiddle(self, table: Value, index: Value) -> Twiddle:
        """Entry `index` of an interleaved table, in every lane."""
        at = self.b.mul(index, self.em.i(2))
        w, quotient = (self.em.splat_word(table, self.b.add(at, self.em.i(c)), self.lanes, self.ety) for c in range(2))
        return w, quotient, 2

    def level(self, table: Value, base: Value, stage: int, inverse: bool, part: int = 0) -> list[Twiddle]:
        """The 2^stage per-lane twiddles of stage 0, 1 or 2 after the transposition; the block's table starts at `base`.

        part: which `lanes` of the 8 rows, where a vector does not hold them all.
        """

        def at(k: int) -> Value:
            return self.em.vload(table, self.b.add(base, self.em.i(k)), self.ety, self.lanes)

        first = 16 + 16 * ((1 << stage) - 1) + self.lanes * part
        return [(at(first + 16 * j), at(first + 16 * j + 8), 2) for j in range(1 << stage)]

    # -- butterflies -------------------------------------------------------------------------------------------------

    def forward(self, x: Value, y: Value, t: Twiddle) -> tuple[Value, Value]:
        raise NotImplementedError

    def inverse(self, x: Tracked, y: Tracked, t: Twiddle) -> tuple[Tracked, Tracked]:
        raise NotImplementedError

    def settle(self, v: Tracked) -> Value:
        """The value reduced to `kept` if its bound exceeds it."""
        raise NotImplementedError

    def inverse_last(
        self, x: Tracked, y: Tracked, sum_factor: Twiddle, difference_factor: Twiddle
    ) -> tuple[Value, Value]:
        """Last stage: both outputs scaled, canonical."""
        raise NotImplementedError


class IfmaStrict(Butterfly):
    """52-bit multiply-add. Range note: q < 2^50; values below 4q < 2^52, products masked to 52 bits and below 2q."""

    def setup(self) -> None:
        self.q, self.q2, self.nq = self.slot(limb.Q), self.slot(limb.Q2), self.slot(limb.NEG52)
        self.mask, self.zero = const(self.ty, (1 << 52) - 1), const(self.ty, 0)

    def lo(self, acc: Value, a: Value, b: Value) -> Value:
        return self.em.madd52_low(acc, a, b)

    def hi(self, acc: Value, a: Value, b: Value) -> Value:
        return self.em.madd52_high(acc, a, b)

    def csub(self, x: Value, m: Value) -> Value:
        return self.em.umin(x, self.b.sub(x, m))

    def onto(self, x: Value, y: Value, t: Twiddle) -> Value:
        """x + w y, congruent modulo q, right modulo 2^52. Instructions ignore bits above 52, so y may carry garbage there."""
        e = self.hi(self.zero, t[1], y)
        return self.lo(self.lo(x, t[0], y), e, self.nq)

    def product(self, y: Value, t: Twiddle) -> Value:
        return self.b.and_(self.onto(self.zero, y, t), self.mask)

    def forward(self, x: Value, y: Value, t: Twiddle) -> tuple[Value, Value]:
        b = self.b
        x = self.csub(x, self.q2)
        s = b.and_(self.onto(x, y, t), self.mask)
        return s, b.sub(b.add(b.add(x, x), self.q2), s)

    def leave(self, v: Value) -> Value:
        return self.csub(self.csub(v, self.q2), self.q)

    def inverse(self, x: Tracked, y: Tracked, t: Twiddle) -> tuple[Tracked, Tracked]:
        b = self.b
        s = self.csub(b.add(x[0], y[0]), self.q2)
        d = self.product(b.sub(b.add(x[0], self.q2), y[0]), t)
        return (s, 2), (d, 2)

    def settle(self, v: Tracked) -> Value:
        return v[0]

    def inverse_last(
        self, x: Tracked, y: Tracked, sum_factor: Twiddle, difference_factor: Twiddle
    ) -> tuple[Value, Value]:
        b = self.b
        s = self.product(b.add(x[0], y[0]), sum_factor)
        d = self.product(b.sub(b.add(x[0], self.q2), y[0]), difference_factor)
        return self.csub(s, self.q), self.csub(d, self.q)


class IfmaLazy(IfmaStrict):
    """52-bit multiply-add without reductions.

    Range note, forward: the upper half enters with C = 2 log2(n) q added; each stage moves a value by less than 2q, so all stay in
    [0, (4 log2 n + 1) q), below 2^52 for q < 2^45.9. Only the lowest 52 bits are meaningful until `leave`.
    Inverse: sums double their bound; a pass starts at 8q and spans three stages: below 64 q < 2^52.
    """

    kept = 8
    most = 64

    def setup(self) -> None:
        super().setup()
        self.inv = self.slot(limb.INV52)

    def offset(self, x: Value) -> Value:
        return self.b.add(x, self.slot(limb.LAZY_OFFSET))

    def forward(self, x: Value, y: Value, t: Twiddle) -> tuple[Value, Value]:
        s = self.onto(x, y, t)
        return s, self.b.sub(self.b.add(x, x), s)

    def barrett(self, v: Value) -> Value:
        """Any 52-bit value to [0, 2q)."""
        e = self.hi(self.zero, v, self.inv)
        return self.b.and_(self.lo(v, e, self.nq), self.mask)

    def leave(self, v: Value) -> Value:
        return self.csub(self.barrett(v), self.q)

    def times_q(self, bound: float) -> Value:
        return self.q2 if bound == 2 else self.b.mul(self.q, const(self.ty, int(bound)))

    def _difference(self, x: Tracked, y: Tracked) -> Value:
        if x[1] + y[1] > self.most:
            raise AssertionError(f"inverse butterfly of bounds {x[1]} and {y[1]} leaves {self.most} q")
        return self.b.sub(self.b.add(x[0], self.times_q(y[1])), y[0])

    def inverse(self, x: Tracked, y: Tracked, t: Twiddle) -> tuple[Tracked, Tracked]:
        return (self.b.add(x[0], y[0]), x[1] + y[1]), (self.onto(self.zero, self._difference(x, y), t), t[2])

    def settle(self, v: Tracked) -> Value:
        return v[0] if v[1] <= self.kept else self.barrett(v[0])

    def inverse_last(
        self, x: Tracked, y: Tracked, sum_factor: Twiddle, difference_factor: Twiddle
    ) -> tuple[Value, Value]:
        s = self.product(self.b.add(x[0], y[0]), sum_factor)
        d = self.product(self._difference(x, y), difference_factor)
        return self.csub(s, self.q), self.csub(d, self.q)


class IfmaCompressed(IfmaLazy):
    """As IfmaLazy, with one stored vector per tail level: a third of the table traffic, a few more instructions.

    The other vectors of a level are it times w_1, w_2, w_3; quotients are w floor(2^52/q) + floor(w frac / 2^52), at most 1 too
    small, so products reach 3q in three stages: C = (2 log2 n + 3) q and (4 log2 n + 7) q < 2^52.
    """

    tail_words = 40

    def setup(self) -> None:
        super().setup()
        self.frac = self.slot(limb.FRAC52)
        self.factors = {
            inverse: [(self.slot(first + 2 * k), self.slot(first + 2 * k + 1), 2) for k in range(3)]
            for inverse, first in ((False, limb.LEVEL_PAIRS), (True, limb.LEVEL_PAIRS_INVERSE))
        }

    def level(self, table: Value, base: Value, stage: int, inverse: bool, part: int = 0) -> list[Twiddle]:
        em, b = self.em, self.b
        w = em.vload(table, b.add(base, em.i(16 + 8 * stage)), I64, self.lanes)
        factors = self.factors[inverse][: (1 << stage) - 1]
        ws = [w] + [self.csub(self.product(w, t), self.q) for t in factors]
        return [(x, self.lo(self.hi(self.zero, x, self.frac), x, self.inv), 3) for x in ws]


class Vector64(Butterfly):
    """64-bit vectors. Range note: q < 2^61; values below 8q < 2^64, products below 4q (high words are up to 2 too small)."""

    kept = 4

    def setup(self) -> None:
        self.q, self.q2, self.q4 = self.slot(limb.Q), self.slot(limb.Q2), self.slot(limb.Q4)
        self.m32, self.s32 = const(self.ty, 0xFFFFFFFF), const(self.ty, 32)

    def csub(self, x: Value, m: Value) -> Value:
        return self.em.umin(x, self.b.sub(x, m))

    def mulhi(self, x: Value, y: Value) -> Value:
        b = self.b
        x0, x1 = b.and_(x, self.m32), b.lshr(x, self.s32)
        y0, y1 = b.and_(y, self.m32), b.lshr(y, self.s32)
        h = b.add(b.mul(x1, y1), b.lshr(b.mul(x1, y0), self.s32))
        return b.add(h, b.lshr(b.mul(x0, y1), self.s32))

    def product(self, y: Value, t: Twiddle) -> Value:
        return self.b.sub(self.b.mul(t[0], y), self.b.mul(self.mulhi(t[1], y), self.q))

    def forward(self, x: Value, y: Value, t: Twiddle) -> tuple[Value, Value]:
        b = self.b
        x = self.csub(x, self.q4)
        p = self.product(y, t)
        return b.add(x, p), b.sub(b.add(x, self.q4), p)

    def leave(self, v: Value) -> Value:
        return self.csub(self.csub(self.csub(v, self.q4), self.q2), self.q)

    def inverse(self, x: Tracked, y: Tracked, t: Twiddle) -> tuple[Tracked, Tracked]:
        b = self.b
        s = self.csub(b.add(x[0], y[0]), self.q4)
        return (s, 4), (self.product(b.sub(b.add(x[0], self.q4), y[0]), t), 4)

    def settle(self, v: Tracked) -> Value:
        return v[0]

    def inverse_last(
        self, x: Tracked, y: Tracked, sum_factor: Twiddle, difference_factor: Twiddle
    ) -> tuple[Value, Value]:
        b = self.b
        s = self.product(b.add(x[0], y[0]), sum_factor)
        d = self.product(b.sub(b.add(x[0], self.q4), y[0]), difference_factor)
        return self.csub(self.csub(s, self.q2), self.q), self.csub(self.csub(d, self.q2), self.q)


class Scalar(Vector64):
    """One word at a time with exact high products: products below 2q, values below 8q. Range note: q < 2^61."""

    lanes = 1

    def mulhi(self, x: Value, y: Value) -> Value:
        b = self.b
        return b.trunc(b.lshr(b.mul(b.zext(x, I128), b.zext(y, I128)), ir.Constant(I128, 64)), I64)


class FloatLazy(Butterfly):
    """float64 with fused multiply-add; twiddles are (w, w / q) with |w| <= q/2.

    Range note: q < 2^47. With |y| <= B q the quotient y (w/q) is below B q / 2 and off by at most B q 2^-53 before it is rounded; the
    remainder is exact. Forward: |values| <= (1 + 0.75 log2 n) q < 2^51, so B <= 14 and a product is below 0.72 q.
    Inverse: pairs stay below 32 q < 2^52; w/q and the product with it each round by less than 1/4, so products are below q, strictly.
    """

    lanes = FLOAT_LANES
    ety = F64
    kept = 4
    #: Bound of x - y before a product, and of the product that follows.
    most = 32.0
    after = 1.0

    def setup(self) -> None:
        self.q, self.qi = self.slot(limb.QF, F64), self.slot(limb.QF_INV, F64)
        self.ity = vt(I64, self.lanes)

    def enter(self, words: Value) -> Value:
        bits = self.b.or_(words, const(self.ity, 0x4330000000000000))
        return self.b.fsub(self.b.bitcast(bits, self.ty), const(self.ty, 4503599627370496.0))

    def leave(self, v: Value) -> Value:
        return self.canonical(self.near(v))

    def canonical(self, v: Value) -> Value:
        """|v| < q to canonical residues."""
        b = self.b
        shifted = b.fadd(v, const(self.ty, 6755399441055744.0))
        u = b.sub(b.bitcast(shifted, self.ity), const(self.ity, 0x4338000000000000))
        return self.em.plus_if_negative(u, self.em.splat_word(self.record, limb.Q, self.lanes))

    def near(self, x: Value) -> Value:
        """An integer below 2^53 in absolute value to about [-q/2, q/2]."""
        k = self.em.rint(self.b.fmul(x, self.qi))
        return self.em.fma(self.b.fneg(k), self.q, x)

    def product(self, y: Value, t: Twiddle) -> Value:
        em, b = self.em, self.b
        h = b.fmul(y, t[0])
        k = em.rint(b.fmul(y, t[1]))
        low = em.fma(y, t[0], b.fneg(h))
        return b.fadd(em.fma(b.fneg(k), self.q, h), low)

    def forward(self, x: Value, y: Value, t: Twiddle) -> tuple[Value, Value]:
        p = self.product(y, t)
        return self.b.fadd(x, p), self.b.fsub(x, p)

    def _pair(self, x: Tracked, y: Tracked) -> tuple[Tracked, Tracked]:
        """Reduce what must be for |x| + |y| to fit `most`."""
        if x[1] + y[1] > self.most:
            x = (self.near(x[0]), 0.51)
        if x[1] + y[1] > self.most:
            y = (self.near(y[0]), 0.51)
        return x, y

    def inverse(self, x: Tracked, y: Tracked, t: Twiddle) -> tuple[Tracked, Tracked]:
        x, y = self._pair(x, y)
        d = self.product(self.b.fsub(x[0], y[0]), t)
        return (self.b.fadd(x[0], y[0]), x[1] + y[1]), (d, self.after)

    def settle(self, v: Tracked) -> Value:
        return v[0] if v[1] <= self.kept else self.near(v[0])

    def inverse_last(
        self, x: Tracked, y: Tracked, sum_factor: Twiddle, difference_factor: Twiddle
    ) -> tuple[Value, Value]:
        x, y = self._pair(x, y)
        s = self.product(self.b.fadd(x[0], y[0]), sum_factor)
        d = self.product(self.b.fsub(x[0], y[0]), difference_factor)
        return self.canonical(s), self.canonical(d)


class FloatStrict(FloatLazy):
    """As FloatLazy with x reduced in every stage. Range note: q < 2^50; forward |values| <= 1.3 q, inverse pairs below 2q: a quotient
    is off by at most 0.25 before it is rounded, a product below 0.76 q."""

    kept = 1
    most = 2.0
    after = 0.76

    def forward(self, x: Value, y: Value, t: Twiddle) -> tuple[Value, Value]:
        return super().forward(self.near(x), y, t)


#: Transform arithmetic of each path; IFMA_LAZY has a second form for large n.
BUTTERFLIES: dict[str, Any] = {
    "scalar": Scalar,
    "vector64": Vector64,
    "float-strict": FloatStrict,
    "float-lazy": FloatLazy,
    "ifma-strict": IfmaStrict,
    "ifma-lazy": IfmaLazy,
    "ifma-compressed": IfmaCompressed,
}

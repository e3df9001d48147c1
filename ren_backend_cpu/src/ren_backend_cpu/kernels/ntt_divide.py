"""Division of a kept limb by dropped ones as one transform: out = (x - NTT(c - h)) w, or that plus z v.

The correction c enters the first pass as words below 2^50 and is centred and reduced there, and the last pass ends in the product, so no row
is written between them. Only the float path has this form: there a transform is bound by arithmetic, of which canonical residues at both ends are
a tenth, and its values may be negative, so that centring is one subtraction.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

from ren_backend_cpu.features import target
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels import ntt_passes as passes
from ren_backend_cpu.kernels.butterflies import FloatLazy, FloatStrict
from ren_backend_cpu.kernels.emit import I64, Em, Value, caller, kernel
from ren_backend_cpu.kernels.jit import Entry, compiled, limb_function
from ren_backend_cpu.kernels.ntt_transform import Plan, emit_middle, table_of

#: Smallest n: below, the first pass has radix 2.
SMALLEST = 256
#: Corrections are words below this.
LIMIT = 1 << 50
#: Words of constants: the pairs (w, w / q) and (v, v / q), and h as a double.
CONSTANTS = 5


class _Divided:
    """The two ends of the transform.

    Range note: c - h is an integer below 2^50 in absolute value, exact, and `near` of it below q. At the tail |v| <= 14.75 q (FloatLazy, n <= 2^17) or
    1.3 q (FloatStrict), so x - v is exact, and the quotient of the product is off by less than 0.25 or 0.29: |t| < 0.8 q. A product of a residue with v stays
    below 0.8 q as well, and the sum of both is reduced once more.
    """

    def __init__(self, ar: FloatLazy, pointers: list[Value]) -> None:
        self.ar = ar
        self.x, self.z, constants = pointers
        self.w, self.v = ar.twiddle(constants, ar.em.i(0)), ar.twiddle(constants, ar.em.i(1))
        self.half = ar.em.splat_word(constants, 4, ar.lanes, ar.ety)

    def enter(self, words: Value) -> Value:
        return self.ar.near(self.ar.b.fsub(self.ar.enter(words), self.half))

    def _quotient(self, c: Value, i: Value) -> Value:
        return self.ar.product(self.ar.b.fsub(self._residues(self.x, i), c), self.w)

    def _residues(self, p: Value, i: Value) -> Value:
        return self.ar.enter(self.ar.em.vload(p, i, I64, self.ar.lanes))

    def leave(self, c: Value, i: Value) -> Value:
        return self.ar.canonical(self._quotient(c, i))

    def leave_added(self, c: Value, i: Value) -> Value:
        added = self.ar.product(self._residues(self.z, i), self.v)
        return self.ar.leave(self.ar.b.fadd(self._quotient(c, i), added))


def divide_transform(butterfly: type[FloatLazy]) -> Any:
    """An intrinsic f(limb record, c, scratch row, x, z or 0, out, constants)."""

    def emit(em: Em, pointers: list[Value], _: list[Value]) -> None:
        record, src, scratch, x, z, out, constants = pointers
        ar, plan = butterfly(em, record), Plan(em, record)
        ends = _Divided(ar, [x, z, constants])
        table, tail_table = table_of(em, record, limb.FORWARD), table_of(em, record, limb.FORWARD_TAIL)
        alone = em.b.icmp_signed("==", em.b.ptrtoint(z, I64), em.i(0))

        def tail(base: Value, blocks: Value) -> None:
            first = em.b.lshr(base, em.i(6))
            with em.b.if_else(alone) as (then, otherwise):
                for branch, leave in ((then, ends.leave), (otherwise, ends.leave_added)):
                    with branch:
                        passes.forward_tail(ar, tail_table, scratch, out, first, blocks, leave)

        plan.by_stages(0, (3, 2), lambda r: passes.forward_first(ar, r, table, src, scratch, plan.n, ends.enter))
        emit_middle(ar, plan, table, scratch, False, tail)

    emit.__name__ = f"divide_{butterfly.__name__}"
    return kernel(7, 0, emit)


if limb.FLOAT_LAZY in target().paths:
    _lazy, _strict = divide_transform(FloatLazy), divide_transform(FloatStrict)

    @limb_function(7)
    def float_lazy_divide(record, c, scratch, x, z, out, constants):
        _lazy(record, c, scratch, x, z, out, constants)

    @limb_function(7)
    def float_strict_divide(record, c, scratch, x, z, out, constants):
        _strict(record, c, scratch, x, z, out, constants)

    #: The function of each path that has this form.
    DIVIDE: dict[int, Entry] = {limb.FLOAT_LAZY: float_lazy_divide, limb.FLOAT_STRICT: float_strict_divide}
else:
    DIVIDE = {}

_call7 = caller(7)


@compiled
def ntt_divide(function, record, c, scratch, x, z, out, constants):
    """out = (x - NTT(c - h)) w (+ z v where z is not 0). function: address, of `DIVIDE`; constants: CONSTANTS words of the kept limb."""
    _call7(function, record, c, scratch, x, z, out, constants)

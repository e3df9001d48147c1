"""Whole transforms, emitted for one `Butterfly`: the pass plan is data in the limb record, so one function serves every n.

Vector paths: the first pass runs over the whole row, then each of its blocks goes through all remaining passes and the tail while
it is in the first- or second-level cache. The scalar path (any n, no tail) runs pass by pass and permutes at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels import ntt_passes as passes
from ren_backend_cpu.kernels.butterflies import Butterfly
from ren_backend_cpu.kernels.emit import I64, Em, Value, kernel

#: log2 of the radices that follow the first pass; a plan has a radix-2 pass only as its first (`tables.radices`).
_MIDDLE = (3, 2)
_FIRST = (3, 2, 1)


class Plan:
    """The pass plan of a limb record in registers."""

    def __init__(self, em: Em, record: Value) -> None:
        self.em, self.b = em, em.b
        self.n = em.word(record, limb.N)
        self.code = em.word(record, limb.PASSES)
        self.count = self.b.and_(self.code, em.i(15))

    def stages(self, index: Value | int) -> Value:
        """log2 of the radix of pass `index`."""
        i = self.em.i(index) if isinstance(index, int) else index
        shift = self.b.add(self.em.i(4), self.b.shl(i, self.em.i(2)))
        return self.b.and_(self.b.lshr(self.code, shift), self.em.i(15))

    def by_stages(self, index: Value | int, choices: tuple[int, ...], body: Callable[[int], None]) -> None:
        """Emit body(radix) for each choice of log2 radix, selected at run time by pass `index`."""
        b = self.b
        here = self.stages(index)
        blocks = {s: b.append_basic_block(f"radix{1 << s}") for s in choices}
        done = b.append_basic_block("radix.done")
        switch = b.switch(here, done)
        for s, block in blocks.items():
            switch.add_case(ir.Constant(I64, s), block)
            b.position_at_end(block)
            body(1 << s)
            b.branch(done)
        b.position_at_end(done)


def _select(em: Em, condition: Value, yes: Value, no: Value) -> Value:
    return em.b.select(condition, yes, no)


def emit_middle(
    ar: Butterfly, plan: Plan, table: Value, dst: Value, inverse: bool, tail: Callable[[Value, Value], None]
) -> None:
    """All passes after the first, and the tail, block by block of the first pass; in reverse order for the inverse.

    tail(element base, 64-element blocks).
    """
    em, b = ar.em, ar.b
    first = plan.stages(0)
    radix = b.shl(em.i(1), first)
    # With no middle pass (n <= 512) the tail runs over the whole row: a block of its own could be a single 64-element one.
    alone = b.icmp_signed("<=", plan.count, em.i(1))
    outer = em.i(1) if ar.lanes == 1 else _select(em, alone, em.i(1), radix)
    per_block = b.udiv(radix, outer)
    length = b.udiv(plan.n, outer)
    middle = b.sub(plan.count, em.i(1))
    # An empty plan does not occur; count is at least 1.
    nodes = cgutils.alloca_once(b, I64)
    span = cgutils.alloca_once(b, I64)
    last_span = em.i(1) if ar.lanes == 1 else em.i(64)
    with em.loop(outer) as lp:
        base = b.mul(lp.index, length)
        start = b.add(radix, b.mul(lp.index, per_block))
        if inverse:
            tail(base, b.lshr(length, em.i(6)))
            b.store(last_span, span)
        else:
            b.store(em.i(1), nodes)
            b.store(b.lshr(plan.n, first), span)
        with em.loop(middle) as pp:
            index = b.sub(middle, pp.index) if inverse else b.add(pp.index, em.i(1))
            stages = plan.stages(index)
            if inverse:
                here = b.shl(b.load(span), stages)
                b.store(here, span)
                count = b.udiv(b.udiv(length, per_block), here)
                h = b.lshr(here, stages)
            else:
                here = b.load(span)
                count = b.load(nodes)
                h = b.lshr(here, stages)
            one = passes.inverse_middle if inverse else passes.forward_middle
            node, blocks = b.mul(start, count), b.mul(per_block, count)
            plan.by_stages(index, _MIDDLE, lambda r: one(ar, r, table, dst, base, node, blocks, h))
            if not inverse:
                b.store(b.shl(count, stages), nodes)
                b.store(h, span)
        if not inverse:
            tail(base, b.lshr(length, em.i(6)))


def table_of(em: Em, record: Value, index: int) -> Value:
    return em.ptr(em.word(record, index))


def forward_transform(butterfly: type[Butterfly]) -> Any:
    """An intrinsic f(limb record, src, dst)."""

    def emit(em: Em, pointers: list[Value], _: list[Value]) -> None:
        record, src, dst = pointers
        ar, plan = butterfly(em, record), Plan(em, record)
        table = table_of(em, record, limb.FORWARD)
        tail_table = table_of(em, record, limb.FORWARD_TAIL)

        def tail(base: Value, blocks: Value) -> None:
            if ar.lanes > 1:
                passes.forward_tail(ar, tail_table, dst, dst, em.b.lshr(base, em.i(6)), blocks)

        plan.by_stages(0, _FIRST, lambda r: passes.forward_first(ar, r, table, src, dst, plan.n))
        emit_middle(ar, plan, table, dst, False, tail)
        if ar.lanes == 1:
            passes.permute(ar, dst, dst, plan.n, ar.leave)

    emit.__name__ = f"forward_{butterfly.__name__}"
    return kernel(3, 0, emit)


def inverse_transform(butterfly: type[Butterfly]) -> Any:
    """An intrinsic f(limb record, src, dst, scale, centred)."""

    def emit(em: Em, pointers: list[Value], integers: list[Value]) -> None:
        record, src, dst, scale = pointers
        (centred,) = integers
        ar, plan = butterfly(em, record), Plan(em, record)
        table = table_of(em, record, limb.INVERSE)
        tail_table = table_of(em, record, limb.INVERSE_TAIL)

        def tail(base: Value, blocks: Value) -> None:
            if ar.lanes > 1:
                passes.inverse_tail(ar, tail_table, src, dst, em.b.lshr(base, em.i(6)), blocks)

        if ar.lanes == 1:
            passes.permute(ar, src, dst, plan.n, lambda v: v)
        emit_middle(ar, plan, table, dst, True, tail)
        with em.b.if_else(em.b.icmp_signed("!=", centred, em.i(0))) as (then, otherwise):
            for branch, half in ((then, True), (otherwise, False)):

                def last(radix: int, half: bool = half) -> None:
                    passes.inverse_last(ar, radix, table, dst, plan.n, scale, half)

                with branch:
                    plan.by_stages(0, _FIRST, last)

    emit.__name__ = f"inverse_{butterfly.__name__}"
    return kernel(4, 1, emit)

"""Straight-line vector code inside numba: a thin layer over llvmlite's IRBuilder, and the intrinsics made with it.

numba compiles the loops and the calls; whatever must be a vector instruction is emitted here. All kernels work on plain
addresses (int64): an address costs nothing to pass, add to, or store in a table, and no array descriptor is ever built.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ren_backend_cpu.features import target

I8 = ir.IntType(8)
I16 = ir.IntType(16)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
I128 = ir.IntType(128)
F64 = ir.DoubleType()

#: Lanes of a vector kernel. One source serves all CPUs: LLVM splits 512-bit vectors where registers are narrower.
LANES = 8
#: Lanes of the kernels of the float path, which hold a radix-8 pass in registers. Targets without AVX-512 have too few for 8 vectors of 8:
#: split ones go to the stack and back, which doubles the time of a transform.
FLOAT_LANES = 8 if target().has("avx512f") else 4

Value = Any  # an llvmlite value


def vt(elem: ir.Type, lanes: int) -> ir.Type:
    """The type of `lanes` elements; the element itself for one lane."""
    return ir.VectorType(elem, lanes) if lanes > 1 else elem


def const(ty: ir.Type, value: float) -> ir.Constant:
    """A constant, in every lane of a vector type."""
    if isinstance(ty, ir.VectorType):
        return ir.Constant(ty, [ir.Constant(ty.element, value)] * ty.count)
    return ir.Constant(ty, value)


class Em:
    """An IRBuilder with the few compound operations that the kernels use. `b` is the builder itself."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.b = builder
        self.m = builder.module
        self._unsigned_minimum = target().has("avx512f")
        self._emulated = target().emulated

    # -- scalars and addresses ---------------------------------------------------------------------------------------

    def i(self, value: int) -> ir.Constant:
        """An int64 constant."""
        return ir.Constant(I64, value)

    def ptr(self, address: Value) -> Value:
        """int64 address -> pointer to 64-bit words."""
        return self.b.inttoptr(address, I64.as_pointer())

    def at(self, ptr: Value, index: Value, ety: ir.Type = I64) -> Value:
        """Pointer to element `index` (in units of `ety`)."""
        return self.b.gep(self.b.bitcast(ptr, ety.as_pointer()), [index])

    def word(self, ptr: Value, index: int | Value, ety: ir.Type = I64) -> Value:
        """Load one element."""
        return self.vload(ptr, self.i(index) if isinstance(index, int) else index, ety, 1)

    # -- vectors -----------------------------------------------------------------------------------------------------

    def vload(self, ptr: Value, index: Value, ety: ir.Type, lanes: int, align: int = 8) -> Value:
        """Load `lanes` elements from element `index` on."""
        p = self.b.bitcast(self.at(ptr, index, ety), vt(ety, lanes).as_pointer())
        return self.b.load(p, align=align, typ=vt(ety, lanes))

    def vstore(self, value: Value, ptr: Value, index: Value, ety: ir.Type, align: int = 8) -> None:
        """Store a vector from element `index` on."""
        p = self.b.bitcast(self.at(ptr, index, ety), value.type.as_pointer())
        self.b.store(value, p, align=align)

    def vstream(self, value: Value, ptr: Value, index: Value) -> None:
        """Store words past the caches; the address must be aligned to the size of the vector."""
        p = self.b.bitcast(self.at(ptr, index), value.type.as_pointer())
        lanes = value.type.count if isinstance(value.type, ir.VectorType) else 1
        store = self.b.store(value, p, align=8 * lanes)
        store.set_metadata("nontemporal", self.m.add_metadata([ir.Constant(I32, 1)]))

    def splat(self, scalar: Value, lanes: int = LANES) -> Value:
        """The scalar in every lane."""
        if lanes == 1:
            return scalar
        ty = vt(scalar.type, lanes)
        one = self.b.insert_element(ir.Constant(ty, ir.Undefined), scalar, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
        return self.b.shuffle_vector(one, ir.Constant(ty, ir.Undefined), zeros)

    def splat_word(self, ptr: Value, index: int | Value, lanes: int = LANES, ety: ir.Type = I64) -> Value:
        """Load one element into every lane."""
        return self.splat(self.word(ptr, index, ety), lanes)

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Lanes picked from a (0..) and b (count..)."""
        return self.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))

    def transpose(self, rows: Sequence[Value]) -> list[Value]:
        """Transpose a square matrix held as one vector per row (log2 steps of pairwise shuffles)."""
        v = len(rows)
        cur = list(rows)
        s = 1
        while s < v:
            out: list[Value] = [None] * v
            for i in range(v):
                if i & s:
                    continue
                a, b = cur[i], cur[i + s]
                out[i] = self.shuffle(a, b, [x if not x & s else v + x - s for x in range(v)])
                out[i + s] = self.shuffle(a, b, [x + s if not x & s else v + x for x in range(v)])
            cur = out
            s *= 2
        return cur

    def prefetch(self, ptr: Value, index: Value, words: int) -> None:
        """Ask for the cache lines of `words` words from word `index` on. Any address will do: a prefetch never faults."""
        ty = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
        hint = cgutils.get_or_insert_function(self.m, ty, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(I32, v) for v in (0, 3, 1))
        for line in range(0, words, 8):
            at = self.at(ptr, self.b.add(index, self.i(line)))
            self.b.call(hint, [self.b.bitcast(at, I8.as_pointer()), read, keep, data])

    # -- calls -------------------------------------------------------------------------------------------------------

    def call(self, name: str, ret: ir.Type, args: Sequence[Value]) -> Value:
        """Call an LLVM intrinsic or a C symbol, declared on first use."""
        fnty = ir.FunctionType(ret, [a.type for a in args])
        return self.b.call(cgutils.get_or_insert_function(self.m, fnty, name), args)

    def _tag(self, v: Value) -> str:
        ty = v.type
        lanes, elem = (f"v{ty.count}", ty.element) if isinstance(ty, ir.VectorType) else ("", ty)
        return lanes + ("f64" if isinstance(elem, ir.DoubleType) else f"i{elem.width}")

    def umin(self, a: Value, b: Value) -> Value:
        return self.call("llvm.umin." + self._tag(a), a.type, [a, b])

    def wrapped(self, a: Value, other: Value) -> Value:
        """`other` where a, read as a signed integer, is negative, else a; `other` must be the smaller one of both as unsigned words exactly then.

        An unsigned minimum where that is one instruction; else by the sign bit, so that |a| must be below 2^63 (vectors on targets without AVX-512
        hold residues of moduli below 2^50 only).
        """
        if self._unsigned_minimum or not isinstance(a.type, ir.VectorType):
            return self.umin(a, other)
        return self.b.select(self.b.icmp_signed("<", a, const(a.type, 0)), other, a)

    def csub(self, x: Value, m: Value) -> Value:
        """x - m if x >= m, else x (see `wrapped`)."""
        return self.wrapped(self.b.sub(x, m), x)

    def plus_if_negative(self, a: Value, m: Value) -> Value:
        """a + m where a, read as a signed integer of at most m, is negative, else a."""
        return self.wrapped(a, self.b.add(a, m))

    def smax(self, a: Value, b: Value) -> Value:
        return self.call("llvm.smax." + self._tag(a), a.type, [a, b])

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, rounded once."""
        return self.call("llvm.fma." + self._tag(a), a.type, [a, b, c])

    def rint(self, a: Value) -> Value:
        """Nearest integer, ties to even."""
        return self.call("llvm.rint." + self._tag(a), a.type, [a])

    # -- AVX-512: one instruction each, or what it computes where the target emulates it (`features`) ------------------

    def madd52_low(self, acc: Value, a: Value, b: Value) -> Value:
        """acc + the low 52 bits of the product of the low 52 bits of a and b, in 8 lanes."""
        if not self._emulated:
            return self.call("llvm.x86.avx512.vpmadd52l.uq.512", acc.type, [acc, a, b])
        mask = const(acc.type, (1 << 52) - 1)
        return self.b.add(acc, self.b.and_(self.b.mul(a, b), mask))

    def madd52_high(self, acc: Value, a: Value, b: Value) -> Value:
        """acc + bits 52..103 of that product."""
        if not self._emulated:
            return self.call("llvm.x86.avx512.vpmadd52h.uq.512", acc.type, [acc, a, b])
        bd, half, mask = self.b, const(acc.type, 26), const(acc.type, (1 << 26) - 1)
        (a0, a1), (b0, b1) = ((bd.and_(v, mask), bd.and_(bd.lshr(v, half), mask)) for v in (a, b))
        middle = bd.add(bd.add(bd.mul(a1, b0), bd.mul(a0, b1)), bd.lshr(bd.mul(a0, b0), half))
        return bd.add(acc, bd.add(bd.mul(a1, b1), bd.lshr(middle, half)))

    def permute(self, table: Value, index: Value) -> Value:
        """Lane i is lane index[i] modulo 8 of the 8 words of `table`."""
        if not self._emulated:
            return self.call("llvm.x86.avx512.permvar.di.512", table.type, [table, index])
        return self._pick([table], index)

    def permute2(self, low: Value, index: Value, high: Value) -> Value:
        """Lane i is word index[i] modulo 16 of the 8 words of `low` and the 8 of `high`."""
        if not self._emulated:
            return self.call("llvm.x86.avx512.vpermi2var.q.512", low.type, [low, index, high])
        return self._pick([low, high], index)

    def _pick(self, tables: Sequence[Value], index: Value) -> Value:
        b, ty = self.b, index.type
        whole = tables[0] if len(tables) == 1 else self.shuffle(tables[0], tables[1], range(2 * ty.count))
        index = b.and_(index, const(ty, len(tables) * ty.count - 1))
        out = ir.Constant(ty, ir.Undefined)
        for lane in range(ty.count):
            at = ir.Constant(I32, lane)
            out = b.insert_element(out, b.extract_element(whole, b.extract_element(index, at)), at)
        return out

    # -- control -----------------------------------------------------------------------------------------------------

    def loop(self, count: Value) -> AbstractContextManager[Any]:
        """`with em.loop(n) as lp:` runs the body for lp.index = 0..n-1."""
        return cgutils.for_range(self.b, count)

    @contextmanager
    def vectors(self, count: Value, lanes: int = LANES, unroll: int = 1) -> Iterator[list[Value]]:
        """Walk `count` elements in steps of lanes * unroll; yields the `unroll` element indices of a step.

        `count` must be a multiple of lanes * unroll.
        """
        step = lanes * unroll
        with self.loop(self.b.udiv(count, self.i(step))) as lp:
            base = self.b.mul(lp.index, self.i(step))
            yield [self.b.add(base, self.i(lanes * u)) for u in range(unroll)]


Emit = Callable[[Em, list[Value], list[Value]], None]


def kernel(arrays: int, integers: int, emit: Emit, *, apart: bool = False) -> Any:
    """A numba intrinsic f(address..., integer...) -> None whose body is `emit(em, pointers, integers)`.

    All arguments are int64; the first `arrays` of them are addresses and reach `emit` as pointers to 64-bit words. Bind the
    result to a module global: closures are never found again in numba's on-disk cache. apart: the body is a function of its own, once in
    each piece of machine code however often it is called there: for large bodies, which take long to compile.
    """
    count = arrays + integers

    def implementation(typingctx: Any, *args: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: Sequence[Value]) -> Value:
            inside, given = builder, list(values)
            if apart:
                inside, given = _function(builder, implementation.__name__, values)
            if inside is not None:
                em = Em(inside)
                emit(em, [em.ptr(v) for v in given[:arrays]], given[arrays:])
                if apart:
                    inside.ret_void()
            return context.get_dummy_value()

        return types.void(*[types.int64] * count), codegen

    _set_arity(implementation, count)
    implementation.__name__ = getattr(emit, "__name__", "kernel")
    return intrinsic(implementation)


def _function(builder: ir.IRBuilder, name: str, values: Sequence[Value]) -> tuple[ir.IRBuilder | None, list[Value]]:
    """Call the function `name` of the module; a builder for its body and its arguments, if it is not there yet."""
    module = builder.module
    name = f"ren.{name}"
    known = module.globals.get(name)
    if known is not None:
        builder.call(known, values)
        return None, []
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * len(values)), name)
    function.linkage = "linkonce_odr"  # modules that are linked into one have it once
    function.attributes.add("noinline")
    builder.call(function, values)
    return ir.IRBuilder(function.append_basic_block("entry")), list(function.args)


@intrinsic
def load(typingctx: Any, address: Any, index: Any) -> Any:
    """The int64 word at address + 8 * index."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        em = Em(builder)
        return em.vload(em.ptr(args[0]), args[1], I64, 1)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def uload(typingctx: Any, address: Any, index: Any) -> Any:
    """The uint64 word at address + 8 * index (unsigned words only ever meet unsigned words)."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        em = Em(builder)
        return em.vload(em.ptr(args[0]), args[1], I64, 1)

    return types.uint64(types.int64, types.int64), codegen


@intrinsic
def store(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Store an int64 word at address + 8 * index."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        em = Em(builder)
        em.vstore(args[2], em.ptr(args[0]), args[1], I64)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def stack_words(typingctx: Any, count: Any) -> Any:
    """Address of `count` words that live until the calling function returns. Not in a loop."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        return builder.ptrtoint(builder.alloca(I64, size=args[0]), I64)

    return types.int64(types.int64), codegen


@intrinsic
def ustore(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Store a uint64 word at address + 8 * index."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        em = Em(builder)
        em.vstore(args[2], em.ptr(args[0]), args[1], I64)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.uint64), codegen


@intrinsic
def load_double(typingctx: Any, address: Any, index: Any) -> Any:
    """The double at address + 8 * index."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        em = Em(builder)
        return em.vload(em.ptr(args[0]), args[1], F64, 1)

    return types.float64(types.int64, types.int64), codegen


@intrinsic
def store_double(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Store a double at address + 8 * index."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        em = Em(builder)
        em.vstore(args[2], em.ptr(args[0]), args[1], F64)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64), codegen


@intrinsic
def address_of(typingctx: Any, row: Any) -> Any:
    """The address in a pointer argument of an entry."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        return builder.ptrtoint(args[0], I64)

    return types.int64(row), codegen


@intrinsic
def copy_words(typingctx: Any, src: Any, dst: Any, count: Any) -> Any:
    """Copy `count` 64-bit words between addresses (memmove)."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        em = Em(builder)
        src, dst = (builder.inttoptr(a, I8.as_pointer()) for a in args[:2])
        cgutils.raw_memmove(builder, dst, src, args[2], em.i(8))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def mulhi(typingctx: Any, a: Any, b: Any) -> Any:
    """High word of the 128-bit product of two uint64."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        p = builder.mul(builder.zext(args[0], I128), builder.zext(args[1], I128))
        return builder.trunc(builder.lshr(p, ir.Constant(I128, 64)), I64)

    return types.uint64(types.uint64, types.uint64), codegen


def caller(arguments: int) -> Any:
    """An intrinsic call(address, int64...) that calls `void f(int64...)` at an address. Bind it to a module global."""

    def implementation(typingctx: Any, *args: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, values: Sequence[Value]) -> Value:
            fnty = ir.FunctionType(ir.VoidType(), [I64] * arguments)
            builder.call(builder.inttoptr(values[0], fnty.as_pointer()), list(values[1:]))
            return context.get_dummy_value()

        return types.void(*[types.int64] * (arguments + 1)), codegen

    _set_arity(implementation, arguments + 1)
    implementation.__name__ = f"call{arguments}"
    return intrinsic(implementation)


def _set_arity(implementation: Any, count: int) -> None:
    """numba reads the arity from the signature; an explicit one avoids generating source text per arity."""
    names = ["typingctx"] + [f"a{k}" for k in range(count)]
    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    implementation.__signature__ = inspect.Signature(parameters)

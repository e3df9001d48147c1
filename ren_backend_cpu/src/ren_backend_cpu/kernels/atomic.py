"""Words that several threads share: loads and stores with an order, and the few read-modify-writes the team needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ren_backend_cpu.features import target
from ren_backend_cpu.kernels.emit import I32, I64, Em, Value


def _word(em: Em, address: Value, index: Value) -> Value:
    return em.at(em.ptr(address), index)


@intrinsic
def load_acquire(typingctx: Any, address: Any, index: Any) -> Any:
    """The word at address + 8 * index; nothing after it is read or written before it."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        return builder.load_atomic(_word(Em(builder), *args), "acquire", 8, typ=I64)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def load_relaxed(typingctx: Any, address: Any, index: Any) -> Any:
    """The word at address + 8 * index, which another thread may be writing: an old value or a new one, no mixture."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        return builder.load_atomic(_word(Em(builder), *args), "monotonic", 8, typ=I64)

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def store_release(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Store a word; whoever acquires it sees everything that was written before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        builder.store_atomic(args[2], _word(Em(builder), *args[:2]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def store_relaxed(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Store a word that another thread may be reading."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        builder.store_atomic(args[2], _word(Em(builder), *args[:2]), "monotonic", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def fence(typingctx: Any) -> Any:
    """Nothing passes here in either direction, not even a later store before an earlier one."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def exchange_if(typingctx: Any, address: Any, index: Any, expected: Any, value: Any) -> Any:
    """Store `value` if the word still is `expected`; whether it was."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        pair = builder.cmpxchg(_word(Em(builder), *args[:2]), args[2], args[3], "acq_rel", "monotonic")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64, types.int64, types.int64, types.int64), codegen


@intrinsic
def add_release(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Add to a word; whoever acquires the sum sees everything that was written before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        builder.atomic_rmw("add", _word(Em(builder), *args[:2]), args[2], "acq_rel")
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def pause(typingctx: Any) -> Any:
    """Tell the core that it is in a waiting loop."""
    x86 = target().has("sse2")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        if x86:
            Em(builder).call("llvm.x86.sse2.pause", ir.VoidType(), [])
        else:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def give_way(typingctx: Any) -> Any:
    """Let another thread have this core, if one waits for it."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Value:
        Em(builder).call("sched_yield", I32, [])
        return context.get_dummy_value()

    return types.void(), codegen

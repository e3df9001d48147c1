"""Element-wise programs: one blocked interpreter, so that nothing is compiled per graph.

A program is data (`lower_elementwise` makes it). It runs limb by limb and block by block; a block is small enough for all
registers to stay in the first-level cache, and long enough for the dispatch to vanish. A register is a place: an operand of the
unit (its rows in memory, read and written without copies) or an interval of the scratch memory.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.arith import IfmaOps, Pointwise, limb_kernel
from ren_backend_cpu.kernels.emit import Value, address_of, copy_words, load, uload, ustore
from ren_backend_cpu.kernels.jit import compiled, entry

# -- opcodes; registers a, b, c, ... are places, s is an operand index of a scalar ----------------------------------------------
ADD, SUB, NEG, MUL, MAC = 0, 1, 2, 3, 4
SCALE = 5
ADD_ALL, SUB_ALL, SUB_FROM_ALL, FILL = 6, 7, 8, 9  # a scalar at every position
ADD_FIRST, SUB_FIRST = 10, 11  # in place, a scalar at coefficient 0
COPY, CLEAR = 12, 13
DOT2 = 14  # a b + c d
SUB_MUL = 16  # c - a b
SCALE_ADD = 17  # a scalar + b
TENSOR = 15  # three results from (a0, a1), (b0, b1): a0 b0, a0 b1 + a1 b0, a1 b1

#: Words per instruction: opcode, then places and scalars, results first.
INSTRUCTION_WORDS = 8
#: Words before the first instruction: count, block length.
HEADER_WORDS = 2


def _rowwise(reads: int, step: Callable[..., Value], *, additive: bool = False) -> Any:
    """f(limb record, sources..., out, count): out = step(ops, *sources) element by element. additive: see `limb_kernel`."""

    def body(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
        with ops.em.vectors(integers[0], ops.lanes, _unroll(ops)) as indices:
            for i in indices:
                ops.store(step(ops, *[ops.load(p, i) for p in pointers[:reads]]), pointers[reads], i)

    body.__name__ = getattr(step, "__name__", "rowwise")
    return limb_kernel(reads + 1, 1, body, additive=additive)


def _with_scalar(
    reads: int, step: Callable[..., Value], prepare: Callable[[Pointwise, Value], Any], *, additive: bool = False
) -> Any:
    """f(limb record, sources..., scalar, out, count): as `_rowwise` with one prepared residue."""

    def body(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
        scalar = prepare(ops, ops.word(pointers[reads], 0))
        with ops.em.vectors(integers[0], ops.lanes, _unroll(ops)) as indices:
            for i in indices:
                ops.store(step(ops, *[ops.load(p, i) for p in pointers[:reads]], scalar), pointers[reads + 1], i)

    body.__name__ = getattr(step, "__name__", "with_scalar")
    return limb_kernel(reads + 2, 1, body, additive=additive)


def _unroll(ops: Pointwise) -> int:
    return 16 // ops.lanes if ops.lanes > 1 else 1


def dot2(ops: Pointwise, a: Value, b: Value, c: Value, d: Value) -> Value:
    """a b + c d. With 52-bit words two products fit one reduction."""
    if not isinstance(ops, IfmaOps):
        return ops.mul_add(a, b, ops.mul(c, d))
    lo, hi = ops.mac(ops.mac(ops.accumulator(), a, b), c, d)
    hi = ops.b.add(hi, ops.b.lshr(lo, ops.shift52))
    return ops.barrett(hi, ops.b.and_(lo, ops.mask))


def _tensor(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    a0, a1, b0, b1, d0, d1, d2 = pointers
    with ops.em.vectors(integers[0], ops.lanes) as (i,):
        x0, x1, y0, y1 = (ops.load(p, i) for p in (a0, a1, b0, b1))
        results = ops.mul(x0, y0), dot2(ops, x0, y1, x1, y0), ops.mul(x1, y1)
        for value, out in zip(results, (d0, d1, d2), strict=True):
            ops.store(value, out, i)


def _same(ops: Pointwise, x: Value) -> Value:
    return x


_add = _rowwise(2, lambda ops, x, y: ops.add(x, y), additive=True)
_sub = _rowwise(2, lambda ops, x, y: ops.sub(x, y), additive=True)
_neg = _rowwise(1, lambda ops, x: ops.neg(x), additive=True)
_mul = _rowwise(2, lambda ops, x, y: ops.mul(x, y))
_multiply_add = _rowwise(3, lambda ops, x, y, z: ops.mul_add(x, y, z))
_sub_mul = _rowwise(3, lambda ops, x, y, z: ops.sub_mul(x, y, z))
_dot2 = _rowwise(4, dot2)
_tensor_product = limb_kernel(7, 1, _tensor)
_clear = _rowwise(0, lambda ops: ops.zero(), additive=True)
_scale = _with_scalar(1, lambda ops, x, w: ops.scale(x, w), lambda ops, w: ops.constant(w))
_scale_add = _with_scalar(2, lambda ops, x, z, w: ops.scale_add(x, w, z), lambda ops, w: ops.constant(w))
_add_all = _with_scalar(1, lambda ops, x, s: ops.add(x, s), _same, additive=True)
_sub_all = _with_scalar(1, lambda ops, x, s: ops.sub(x, s), _same, additive=True)
_sub_from_all = _with_scalar(1, lambda ops, x, s: ops.sub(s, x), _same, additive=True)
_fill = _with_scalar(0, lambda ops, s: s, _same, additive=True)


@compiled
def _add_first(record, out, scalar, minus):
    """out[0] plus (or minus) a residue."""
    q = uload(record, limb.Q)
    s = uload(scalar, 0)
    if minus != 0:
        s = q - s
    v = uload(out, 0) + s
    ustore(out, 0, v - q if v >= q else v)


@compiled
def _place(operands, scratch, code, offset, block):
    """Address of a register at this block: operand `code` at byte `offset`, or scratch register -code - 1."""
    if code >= 0:
        return load(operands, code) + offset
    return scratch - 8 * (code + 1) * block


@compiled
def _run_block(record, program, operands, scratch, limb_index, row_offset, first_block, count):
    """All instructions on one block. operands: address of the operand addresses; row_offset: bytes into each operand."""
    length = load(program, 0)
    block = load(program, 1)
    at = program + 8 * HEADER_WORDS
    for _ in range(length):
        opcode = load(at, 0)
        out = _place(operands, scratch, load(at, 1), row_offset, block)
        if opcode == TENSOR:
            d1 = _place(operands, scratch, load(at, 2), row_offset, block)
            d2 = _place(operands, scratch, load(at, 3), row_offset, block)
            a0 = _place(operands, scratch, load(at, 4), row_offset, block)
            a1 = _place(operands, scratch, load(at, 5), row_offset, block)
            b0 = _place(operands, scratch, load(at, 6), row_offset, block)
            b1 = _place(operands, scratch, load(at, 7), row_offset, block)
            _tensor_product(record, a0, a1, b0, b1, out, d1, d2, count)
        elif opcode in (ADD_FIRST, SUB_FIRST):
            if first_block:
                _add_first(record, out, load(operands, load(at, 2)) + 8 * limb_index, opcode - ADD_FIRST)
        elif opcode == FILL:
            _fill(record, load(operands, load(at, 2)) + 8 * limb_index, out, count)
        elif opcode == CLEAR:
            _clear(record, out, count)
        else:
            a = _place(operands, scratch, load(at, 2), row_offset, block)
            if opcode == NEG:
                _neg(record, a, out, count)
            elif opcode == COPY:
                copy_words(a, out, count)
            elif SCALE <= opcode <= SUB_FROM_ALL:
                s = load(operands, load(at, 3)) + 8 * limb_index
                if opcode == SCALE:
                    _scale(record, a, s, out, count)
                elif opcode == ADD_ALL:
                    _add_all(record, a, s, out, count)
                elif opcode == SUB_ALL:
                    _sub_all(record, a, s, out, count)
                else:
                    _sub_from_all(record, a, s, out, count)
            else:
                b = _place(operands, scratch, load(at, 3), row_offset, block)
                if opcode == ADD:
                    _add(record, a, b, out, count)
                elif opcode == SUB:
                    _sub(record, a, b, out, count)
                elif opcode == MUL:
                    _mul(record, a, b, out, count)
                elif opcode == SCALE_ADD:
                    _scale_add(record, a, b, load(operands, load(at, 4)) + 8 * limb_index, out, count)
                else:
                    c = _place(operands, scratch, load(at, 4), row_offset, block)
                    if opcode == MAC:
                        _multiply_add(record, a, b, c, out, count)
                    elif opcode == SUB_MUL:
                        _sub_mul(record, a, b, c, out, count)
                    else:
                        d = _place(operands, scratch, load(at, 5), row_offset, block)
                        _dot2(record, a, b, c, d, out, count)
        at += 8 * INSTRUCTION_WORDS


@compiled
def _overlapping(operands, hazards, row_bytes):
    """Whether any (output, input) pair of the list shares memory. hazards: count, then pairs of operand indices."""
    for k in range(load(hazards, 0)):
        distance = load(operands, load(hazards, 1 + 2 * k)) - load(operands, load(hazards, 2 + 2 * k))
        if -row_bytes < distance < row_bytes:
            return True
    return False


@entry
def elementwise(row):
    """row: ring, limbs, n, program, program for overlapping operands, hazards, how many operands, the operands, and first and last limb, scratch.

    The first program writes outputs where they lie as soon as they are known. That is wrong if such an output is the memory of an
    input read later (`hazards` lists those pairs): the other program then keeps all outputs in scratch until the end.
    """
    ring, limbs, n = row[0], row[1], row[2]
    operands = address_of(row) + 56
    program = row[3]
    if _overlapping(operands, row[5], 8 * n * limbs):
        program = row[4]
    block = load(program, 1)
    after = 7 + row[6]
    for j in range(row[after], row[after + 1]):
        record = load(ring, j)
        done = 0
        while done < n:
            _run_block(record, program, operands, row[after + 2], j, 8 * (j * n + done), done == 0, block)
            done += block


@entry
def copy(row):
    """row: x, out, words."""
    copy_words(row[0], row[1], row[2])

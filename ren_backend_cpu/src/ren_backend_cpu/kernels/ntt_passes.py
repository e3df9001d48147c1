"""Passes of the transform over a row, emitted for any `Butterfly`: radix 8, 4 and 2, and the last six stages as a tail.

Stages are numbered from the one with the widest butterflies. Node 1 is the whole row, nodes 2k and 2k + 1 are the halves of node k;
node k's twiddle is psi^brv(k), so a table in node order serves every pass with consecutive reads.

A radix-2^r pass runs r stages on 2^r vectors held in registers. The tail loads 64 consecutive elements as 8 vectors, runs three
stages between the vectors, transposes the 8 x 8 matrix, and runs three more. It does not transpose back: hence the order of
`ren.numtheory.roots.ntt_exponents`. Two blocks are interleaved to hide the latency of the multiply-add chain. Where a vector has four
lanes, a block on the stack takes the place of the registers between the two halves of the tail.
"""

from __future__ import annotations

from collections.abc import Callable

from numba.core import cgutils

from ren_backend_cpu.kernels.butterflies import Butterfly, Tracked, Twiddle
from ren_backend_cpu.kernels.emit import I64, Value

_INTERLEAVED = 2
#: Steps (of two blocks) that a tail asks for ahead. A step is longer than what the processor looks ahead by itself: over many limbs
#: this saves 10 % of a forward and 20 % of an inverse transform at n = 2^15, and costs nothing where tables are in the cache.
_AHEAD = 4


def _forward_stage(ar: Butterfly, v: list[Value], stage: int, twiddles: list[Twiddle]) -> None:
    half = len(v) >> (stage + 1)
    for block, t in enumerate(twiddles):
        for i in range(2 * half * block, 2 * half * block + half):
            v[i], v[i + half] = ar.forward(v[i], v[i + half], t)


def _inverse_stage(ar: Butterfly, v: list[Tracked], stage: int, twiddles: list[Twiddle]) -> None:
    half = len(v) >> (stage + 1)
    for block, t in enumerate(twiddles):
        for i in range(2 * half * block, 2 * half * block + half):
            v[i], v[i + half] = ar.inverse(v[i], v[i + half], t)


def _node_twiddles(ar: Butterfly, table: Value, node: Value, stages: int) -> list[list[Twiddle]]:
    """Twiddles of stage s below a node: those of its 2^s descendants."""
    b, i = ar.b, ar.em.i
    return [[ar.twiddle(table, b.add(b.shl(node, i(s)), i(j))) for j in range(1 << s)] for s in range(stages)]


def _columns(ar: Butterfly) -> int:
    """Columns that a pass takes side by side: with vectors of four lanes, two, since one has too few butterflies at a time to hide their latency."""
    return 2 if 1 < ar.lanes < 8 else 1


def _steps(ar: Butterfly, h: Value) -> Value:
    return ar.b.udiv(h, ar.em.i(ar.lanes * _columns(ar)))


def _rows(ar: Butterfly, base: Value, step: Value, h: Value, radix: int) -> list[list[Value]]:
    """Element indices of the rows of each column of a step."""
    b, i = ar.b, ar.em.i
    columns = []
    for c in range(_columns(ar)):
        j = b.add(base, b.add(b.mul(step, i(ar.lanes * _columns(ar))), i(ar.lanes * c)))
        columns.append([b.add(j, b.mul(h, i(r))) for r in range(radix)])
    return columns


#: What a tail stores for a value that it leaves: words, from the value and its element index.
Leave = Callable[[Value, Value], Value]


def forward_first(
    ar: Butterfly,
    radix: int,
    table: Value,
    src: Value,
    dst: Value,
    n: Value,
    enter: Callable[[Value], Value] | None = None,
) -> None:
    """The first pass, out of place: canonical residues in, or whatever `enter` makes values of."""
    em, b = ar.em, ar.b
    enter = enter or ar.enter
    stages = radix.bit_length() - 1
    h = b.lshr(n, em.i(stages))
    twiddles = _node_twiddles(ar, table, em.i(1), stages)
    with em.loop(_steps(ar, h)) as lp:
        columns = _rows(ar, em.i(0), lp.index, h, radix)
        vectors = [[enter(em.vload(src, x, I64, ar.lanes)) for x in index] for index in columns]
        vectors = [[ar.offset(x) if r < radix // 2 else x for r, x in enumerate(v)] for v in vectors]
        for s in range(stages):
            for v in vectors:
                _forward_stage(ar, v, s, twiddles[s])
        for index, v in zip(columns, vectors, strict=True):
            for x, value in zip(index, v, strict=True):
                ar.store(value, dst, x)


def forward_middle(
    ar: Butterfly, radix: int, table: Value, dst: Value, base: Value, node: Value, blocks: Value, h: Value
) -> None:
    """An in-place pass over `blocks` consecutive blocks of radix * h elements from element `base` on; the first is node `node`."""
    em, b = ar.em, ar.b
    stages = radix.bit_length() - 1
    with em.loop(blocks) as block:
        start = b.add(base, b.mul(block.index, b.mul(h, em.i(radix))))
        twiddles = _node_twiddles(ar, table, b.add(node, block.index), stages)
        with em.loop(_steps(ar, h)) as lp:
            columns = _rows(ar, start, lp.index, h, radix)
            vectors = [[ar.load(dst, x) for x in index] for index in columns]
            for s in range(stages):
                for v in vectors:
                    _forward_stage(ar, v, s, twiddles[s])
            for index, v in zip(columns, vectors, strict=True):
                for x, value in zip(index, v, strict=True):
                    ar.store(value, dst, x)


def inverse_middle(
    ar: Butterfly, radix: int, table: Value, dst: Value, base: Value, node: Value, blocks: Value, h: Value
) -> None:
    """Undo `forward_middle`."""
    em, b = ar.em, ar.b
    stages = radix.bit_length() - 1
    with em.loop(blocks) as block:
        start = b.add(base, b.mul(block.index, b.mul(h, em.i(radix))))
        twiddles = _node_twiddles(ar, table, b.add(node, block.index), stages)
        with em.loop(_steps(ar, h)) as lp:
            columns = _rows(ar, start, lp.index, h, radix)
            vectors: list[list[Tracked]] = [[(ar.load(dst, x), ar.kept) for x in index] for index in columns]
            for s in reversed(range(stages)):
                for v in vectors:
                    _inverse_stage(ar, v, s, twiddles[s])
            for index, v in zip(columns, vectors, strict=True):
                for x, value in zip(index, v, strict=True):
                    ar.store(ar.settle(value), dst, x)


def inverse_last(ar: Butterfly, radix: int, table: Value, dst: Value, n: Value, scale: Value, centred: bool) -> None:
    """Undo `forward_first`, in place: canonical residues out, times the factor of `scale`, plus floor(q/2) if `centred`."""
    em, b = ar.em, ar.b
    stages = radix.bit_length() - 1
    h = b.lshr(n, em.i(stages))
    twiddles = _node_twiddles(ar, table, em.i(1), stages)
    factors = ar.twiddle(scale, em.i(0)), ar.twiddle(scale, em.i(1))
    with em.loop(_steps(ar, h)) as lp:
        columns = _rows(ar, em.i(0), lp.index, h, radix)
        vectors: list[list[Tracked]] = [[(ar.load(dst, x), ar.kept) for x in index] for index in columns]
        for s in reversed(range(1, stages)):
            for v in vectors:
                _inverse_stage(ar, v, s, twiddles[s])
        for index, v in zip(columns, vectors, strict=True):
            for r in range(radix // 2):
                pair = r, r + radix // 2
                for k, words in zip(pair, ar.inverse_last(v[pair[0]], v[pair[1]], *factors), strict=True):
                    em.vstore(ar.plus_half(words) if centred else words, dst, index[k], I64)


def forward_tail(
    ar: Butterfly, table: Value, src: Value, dst: Value, first: Value, blocks: Value, leave: Leave | None = None
) -> None:
    """The last six stages of `blocks` (even) 64-element blocks from block `first` on; canonical residues out, or what `leave` makes of them."""
    leave = leave or (lambda v, _: ar.leave(v))
    if ar.lanes < 8:
        _narrow_forward_tail(ar, table, src, dst, first, blocks, leave)
        return
    em, b = ar.em, ar.b
    with em.loop(b.udiv(blocks, em.i(_INTERLEAVED))) as lp:
        starts, indices, vectors = _tail_blocks(ar, first, lp.index, src)
        _prefetch_table(ar, table, starts[0])
        for s in range(3):
            for start, v in zip(starts, vectors, strict=True):
                _forward_stage(ar, v, s, _tail_scalars(ar, table, start, s))
        vectors = [em.transpose(v) for v in vectors]
        for s in range(3):
            for start, v in zip(starts, vectors, strict=True):
                _forward_stage(ar, v, s, ar.level(table, start, s, False))
        for index, v in zip(indices, vectors, strict=True):
            for x, value in zip(index, v, strict=True):
                em.vstore(leave(value, x), dst, x, I64)


def inverse_tail(ar: Butterfly, table: Value, src: Value, dst: Value, first: Value, blocks: Value) -> None:
    """Undo `forward_tail`, out of place: canonical residues in."""
    if ar.lanes < 8:
        _narrow_inverse_tail(ar, table, src, dst, first, blocks)
        return
    em, b = ar.em, ar.b
    with em.loop(b.udiv(blocks, em.i(_INTERLEAVED))) as lp:
        starts, indices, _ = _tail_blocks(ar, first, lp.index, None)
        _prefetch_table(ar, table, starts[0])
        row = 64 * _INTERLEAVED
        em.prefetch(src, b.add(indices[0][0], em.i(row * _AHEAD)), row)
        tracked: list[list[Tracked]] = [
            [(ar.enter(em.vload(src, x, I64, ar.lanes)), 1) for x in index] for index in indices
        ]
        for s in (2, 1, 0):
            for start, v in zip(starts, tracked, strict=True):
                _inverse_stage(ar, v, s, ar.level(table, start, s, True))
        tracked = [[(x, ar.kept) for x in em.transpose([ar.settle(x) for x in v])] for v in tracked]
        for s in (2, 1, 0):
            for start, v in zip(starts, tracked, strict=True):
                _inverse_stage(ar, v, s, _tail_scalars(ar, table, start, s))
        for index, v in zip(indices, tracked, strict=True):
            for x, value in zip(index, v, strict=True):
                ar.store(ar.settle(value), dst, x)


def _narrow_forward_tail(
    ar: Butterfly, table: Value, src: Value, dst: Value, first: Value, blocks: Value, leave: Leave
) -> None:
    em, b, i = ar.em, ar.b, ar.em.i
    parts = range(8 // ar.lanes)
    kept = _stack_block(ar)
    with em.loop(blocks) as lp:
        block = b.add(first, lp.index)
        start, base = b.mul(block, i(ar.tail_words)), b.mul(block, i(64))
        _prefetch_table(ar, table, start)
        vectors = [[ar.load(src, b.add(base, i(8 * r + ar.lanes * part))) for r in range(8)] for part in parts]
        for s in range(3):
            for v in vectors:
                _forward_stage(ar, v, s, _tail_scalars(ar, table, start, s))
        for part, v in zip(parts, vectors, strict=True):
            for r in range(8):
                ar.store(v[r], kept, i(8 * r + ar.lanes * part))
        vectors = [_transposed_part(ar, kept, part) for part in parts]
        for s in range(3):
            for part, v in zip(parts, vectors, strict=True):
                _forward_stage(ar, v, s, ar.level(table, start, s, False, part))
        for part, v in zip(parts, vectors, strict=True):
            for k in range(8):
                x = b.add(base, i(8 * k + ar.lanes * part))
                em.vstore(leave(v[k], x), dst, x, I64)


def _narrow_inverse_tail(ar: Butterfly, table: Value, src: Value, dst: Value, first: Value, blocks: Value) -> None:
    em, b, i = ar.em, ar.b, ar.em.i
    parts = range(8 // ar.lanes)
    kept = _stack_block(ar)
    with em.loop(blocks) as lp:
        block = b.add(first, lp.index)
        start, base = b.mul(block, i(ar.tail_words)), b.mul(block, i(64))
        _prefetch_table(ar, table, start)
        em.prefetch(src, b.add(base, i(64 * _INTERLEAVED * _AHEAD)), 64)
        vectors: list[list[Tracked]] = []
        for part in parts:
            places = [b.add(base, i(8 * k + ar.lanes * part)) for k in range(8)]
            vectors.append([(ar.enter(em.vload(src, x, I64, ar.lanes)), 1) for x in places])
        for s in (2, 1, 0):
            for part, v in zip(parts, vectors, strict=True):
                _inverse_stage(ar, v, s, ar.level(table, start, s, True, part))
        for part, v in zip(parts, vectors, strict=True):
            _store_transposed_part(ar, [ar.settle(x) for x in v], kept, part)
        vectors = [[(ar.load(kept, i(8 * r + ar.lanes * part)), ar.kept) for r in range(8)] for part in parts]
        for s in (2, 1, 0):
            for v in vectors:
                _inverse_stage(ar, v, s, _tail_scalars(ar, table, start, s))
        for part, v in zip(parts, vectors, strict=True):
            for r, value in enumerate(v):
                ar.store(ar.settle(value), dst, b.add(base, i(8 * r + ar.lanes * part)))


def _stack_block(ar: Butterfly) -> Value:
    """64 words on the stack."""
    words = cgutils.alloca_once(ar.b, I64, size=64 + 8)
    aligned = ar.b.and_(ar.b.add(ar.b.ptrtoint(words, I64), ar.em.i(63)), ar.em.i(-64))
    return ar.em.ptr(aligned)


def _transposed_part(ar: Butterfly, block: Value, part: int) -> list[Value]:
    """Columns 0..7 of rows lanes * part .. of an 8 x 8 block, each as a vector."""
    rows = [
        [ar.load(block, ar.em.i(8 * (ar.lanes * part + r) + first)) for r in range(ar.lanes)]
        for first in range(0, 8, ar.lanes)
    ]
    return [column for square in rows for column in ar.em.transpose(square)]


def _store_transposed_part(ar: Butterfly, columns: list[Value], block: Value, part: int) -> None:
    """Undo `_transposed_part`."""
    for first in range(0, 8, ar.lanes):
        for r, row in enumerate(ar.em.transpose(columns[first : first + ar.lanes])):
            ar.store(row, block, ar.em.i(8 * (ar.lanes * part + r) + first))


def _tail_blocks(
    ar: Butterfly, first: Value, step: Value, source: Value | None
) -> tuple[list[Value], list[list[Value]], list[list[Value]]]:
    """Table offsets, element indices and (from `source`) vectors of the interleaved blocks of one step."""
    em, b = ar.em, ar.b
    starts, indices, vectors = [], [], []
    for u in range(_INTERLEAVED):
        block = b.add(first, b.add(b.mul(step, em.i(_INTERLEAVED)), em.i(u)))
        starts.append(b.mul(block, em.i(ar.tail_words)))
        base = b.mul(block, em.i(64))
        indices.append([b.add(base, em.i(8 * r)) for r in range(8)])
        if source is not None:
            vectors.append([ar.load(source, x) for x in indices[-1]])
    return starts, indices, vectors


def _prefetch_table(ar: Butterfly, table: Value, start: Value) -> None:
    words = ar.tail_words * _INTERLEAVED
    ar.em.prefetch(table, ar.b.add(start, ar.em.i(words * _AHEAD)), words)


def _tail_scalars(ar: Butterfly, table: Value, start: Value, stage: int) -> list[Twiddle]:
    """Twiddles between whole vectors: entries 2^stage - 1 + j at the start of the block's table."""
    at = ar.b.gep(table, [start])
    return [ar.twiddle(at, ar.em.i((1 << stage) - 1 + j)) for j in range(1 << stage)]


def permute(ar: Butterfly, src: Value, dst: Value, n: Value, convert: Callable[[Value], Value]) -> None:
    """dst = convert(src), each 64-element block transposed as an 8 x 8 matrix where n >= 64 (it is its own inverse). One lane.

    src may equal dst: a block is loaded whole before it is stored.
    """
    em, b = ar.em, ar.b
    big = b.icmp_unsigned(">=", n, em.i(64))
    with b.if_else(big) as (blocks, small):
        with blocks, em.loop(b.lshr(n, em.i(6))) as lp:
            base = b.mul(lp.index, em.i(64))
            values = [em.vload(src, b.add(base, em.i(k)), I64, 1) for k in range(64)]
            for k, v in enumerate(values):
                em.vstore(convert(v), dst, b.add(base, em.i(8 * (k % 8) + k // 8)), I64)
        with small, em.loop(n) as lp:
            em.vstore(convert(em.vload(src, lp.index, I64, 1)), dst, lp.index, I64)

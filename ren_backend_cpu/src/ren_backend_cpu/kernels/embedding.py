"""The canonical embedding of `ren.schemes.ckks.embedding` in vectors: the same butterflies, each rounded as that module says, so the same bits.

Real and imaginary parts lie in arrays of their own. Passes of two stages (one pass of one, where the number is odd) run on whole vectors; the last
2 log2(lanes) stages run on blocks of lanes x lanes values in registers, with a transposition in the middle that is not undone: position p of a block
is found at row p % lanes, column p / lanes. What gathers the slots knows that.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from ren_backend_cpu.kernels.emit import F64, FLOAT_LANES, I32, Em, Value, const, kernel, store_double, vt
from ren_backend_cpu.kernels.jit import called_from_python, compiled

LANES = FLOAT_LANES
LOG_LANES = LANES.bit_length() - 1
#: Values of a block in registers.
BLOCK = LANES * LANES
#: Doubles of the table of one block: (cosine, sine) of the nodes between vectors, padded; then of the nodes between lanes, a vector each.
SCALARS = 2 * LANES
TABLE = SCALARS + 2 * (LANES - 1) * LANES

#: Values that the passes after the first ones work on, block by block: 16 KiB.
CACHED = 1024

#: (real parts, imaginary parts)
Pair = tuple[Value, Value]


def _load(em: Em, parts: tuple[Value, Value], at: Value) -> Pair:
    return em.vload(parts[0], at, F64, LANES), em.vload(parts[1], at, F64, LANES)


def _store(em: Em, v: Pair, parts: tuple[Value, Value], at: Value) -> None:
    em.vstore(v[0], parts[0], at, F64)
    em.vstore(v[1], parts[1], at, F64)


def _forward(em: Em, x: Pair, y: Pair, c: Pair) -> tuple[Pair, Pair]:
    b = em.b
    p = (
        b.fsub(b.fmul(c[0], y[0]), b.fmul(c[1], y[1])),
        b.fadd(b.fmul(c[0], y[1]), b.fmul(c[1], y[0])),
    )
    return (b.fadd(x[0], p[0]), b.fadd(x[1], p[1])), (b.fsub(x[0], p[0]), b.fsub(x[1], p[1]))


def _inverse(em: Em, x: Pair, y: Pair, c: Pair) -> tuple[Pair, Pair]:
    b = em.b
    d = b.fsub(x[0], y[0]), b.fsub(x[1], y[1])
    turned = (
        b.fadd(b.fmul(c[0], d[0]), b.fmul(c[1], d[1])),
        b.fsub(b.fmul(c[0], d[1]), b.fmul(c[1], d[0])),
    )
    return (b.fadd(x[0], y[0]), b.fadd(x[1], y[1])), turned


def _stage(em: Em, v: list[Pair], s: int, twiddles: list[Pair], inverse: bool) -> None:
    half = len(v) >> (s + 1)
    butterfly = _inverse if inverse else _forward
    for block, c in enumerate(twiddles):
        for k in range(2 * half * block, 2 * half * block + half):
            v[k], v[k + half] = butterfly(em, v[k], v[k + half], c)


def _pass(stages: int, inverse: bool) -> Any:
    """f(real, imaginary, cosines, sines, first value, first node, blocks, h): blocks of 2^stages h values, h a multiple of the lanes."""

    def emit(em: Em, pointers: list[Value], integers: list[Value]) -> None:
        parts, c_r, c_i = (pointers[0], pointers[1]), pointers[2], pointers[3]
        base, node, blocks, h = integers
        b, order = em.b, range(stages)
        with em.loop(blocks) as block:
            first = b.add(base, b.mul(block.index, b.shl(h, em.i(stages))))
            k = b.add(node, block.index)
            twiddles = []
            for s in order:
                nodes = [b.add(b.shl(k, em.i(s)), em.i(j)) for j in range(1 << s)]
                twiddles.append([(em.splat_word(c_r, m, LANES, F64), em.splat_word(c_i, m, LANES, F64)) for m in nodes])
            with em.vectors(h, LANES) as (i,):
                places = [b.add(b.add(first, i), b.mul(h, em.i(r))) for r in range(1 << stages)]
                v = [_load(em, parts, p) for p in places]
                for s in reversed(order) if inverse else order:
                    _stage(em, v, s, twiddles[s], inverse)
                for x, p in zip(v, places, strict=True):
                    _store(em, x, parts, p)

    emit.__name__ = f"{'inverse' if inverse else 'forward'}_pass{stages}"
    return kernel(4, 4, emit)


def _tail(inverse: bool) -> Any:
    """f(real, imaginary, table, first block, blocks)."""

    def emit(em: Em, pointers: list[Value], integers: list[Value]) -> None:
        parts, table = (pointers[0], pointers[1]), pointers[2]
        first, blocks = integers
        b = em.b
        with em.loop(blocks) as lp:
            block = b.add(first, lp.index)
            at = em.at(table, b.mul(block, em.i(TABLE)))
            between: list[list[Pair]] = []
            across: list[list[Pair]] = []
            for s in range(LOG_LANES):
                nodes = [(1 << s) - 1 + j for j in range(1 << s)]
                between.append(
                    [(em.splat_word(at, 2 * m, LANES, F64), em.splat_word(at, 2 * m + 1, LANES, F64)) for m in nodes]
                )
                places = [em.i(SCALARS + 2 * LANES * m) for m in nodes]
                across.append(
                    [(em.vload(at, p, F64, LANES), em.vload(at, b.add(p, em.i(LANES)), F64, LANES)) for p in places]
                )
            rows = [b.add(b.mul(block, em.i(BLOCK)), em.i(LANES * r)) for r in range(LANES)]
            v = [_load(em, parts, p) for p in rows]
            steps = [*((s, between) for s in range(LOG_LANES)), *((s, across) for s in range(LOG_LANES))]
            for count, (s, twiddles) in enumerate(reversed(steps) if inverse else steps):
                if count == LOG_LANES:
                    v = list(zip(*(em.transpose([x[part] for x in v]) for part in range(2)), strict=True))
                _stage(em, v, s, twiddles[s], inverse)
            for x, p in zip(v, rows, strict=True):
                _store(em, x, parts, p)

    emit.__name__ = "inverse_tail" if inverse else "forward_tail"
    return kernel(3, 2, emit)


_forward4, _forward2, _forward_tail = _pass(2, False), _pass(1, False), _tail(False)
_inverse4, _inverse2, _inverse_tail = _pass(2, True), _pass(1, True), _tail(True)


def _emit_gather_complex(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """Slots, pairs of doubles, to the places that `order` says."""
    message, order, r, i = pointers
    with em.vectors(integers[0], LANES) as (m,):
        pairs = [
            em.vload(message, em.b.shl(em.word(order, em.b.add(m, em.i(k))), em.i(1)), F64, 2) for k in range(LANES)
        ]
        while len(pairs) > 1:
            half = len(pairs) // 2
            pairs = [em.shuffle(a, b, range(2 * a.type.count)) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
            assert len(pairs) == half
        for part, dst in enumerate((r, i)):
            em.vstore(em.shuffle(pairs[0], pairs[0], range(part, 2 * LANES, 2)), dst, m, F64)


def _emit_gather_real(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    message, order, r, i = pointers
    ty = vt(F64, LANES)
    with em.vectors(integers[0], LANES) as (m,):
        v = ir.Constant(ty, ir.Undefined)
        for k in range(LANES):
            slot = em.word(message, em.word(order, em.b.add(m, em.i(k))), F64)
            v = em.b.insert_element(v, slot, ir.Constant(I32, k))
        em.vstore(v, r, m, F64)
        em.vstore(const(ty, 0.0), i, m, F64)


def _emit_scale(em: Em, pointers: list[Value], integers: list[Value], *, rounded: bool) -> None:
    """out = x times the double with the bits `factor`, rounded to integers or not."""
    x, out = pointers
    factor, n = integers
    w = em.splat(em.b.bitcast(factor, F64), LANES)
    with em.vectors(n, LANES, 2) as indices:
        for i in indices:
            v = em.b.fmul(em.vload(x, i, F64, LANES), w)
            em.vstore(em.rint(v) if rounded else v, out, i, F64)


def _emit_mirror(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """high[k] = -low[size - k]; high follows low in memory and high[0] is overwritten by what lies there."""
    low, high = pointers
    (size,) = integers
    b = em.b
    with em.vectors(size, LANES) as (k,):
        v = em.vload(low, b.sub(b.sub(size, k), em.i(LANES - 1)), F64, LANES)
        em.vstore(b.fneg(em.shuffle(v, v, range(LANES - 1, -1, -1))), high, k, F64)


def _emit_scatter(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    """out[j] = the pair at place[j]."""
    r, i, place, out = pointers
    ty = vt(F64, 2)
    with em.vectors(integers[0], 1, 4) as indices:
        for j in indices:
            at = em.word(place, j)
            v = ir.Constant(ty, ir.Undefined)
            for part, src in enumerate((r, i)):
                v = em.b.insert_element(v, em.word(src, at, F64), ir.Constant(I32, part))
            em.vstore(v, out, em.b.shl(j, em.i(1)), F64)


_gather_complex, _gather_real = kernel(4, 1, _emit_gather_complex), kernel(4, 1, _emit_gather_real)
_scaled = kernel(2, 2, partial(_emit_scale, rounded=False))
_rounded = kernel(2, 2, partial(_emit_scale, rounded=True))
_mirror = kernel(2, 1, _emit_mirror)
_scatter = kernel(4, 1, _emit_scatter)


@compiled
def _first_cached(size):
    """Values of the blocks that fit the cache, a power of 4 times BLOCK, and how many there are."""
    h = BLOCK
    while 4 * h <= min(size, CACHED):
        h *= 4
    return h, size // h


@called_from_python(*[types.int64] * 10)
def to_slots(coefficients, place, r, i, c_r, c_i, table, size, out, factor):
    """coefficients: size real parts, then size imaginary ones. place: where each slot lies in a transformed vector. r, i: scratch. out: size pairs of
    doubles. factor: bits of a double."""
    _scaled(coefficients, r, factor, size)
    _scaled(coefficients + 8 * size, i, factor, size)
    h, nodes = size, 1
    cached, many = _first_cached(size)
    if many & 0x2AAAAAAAAAAAAAAA != 0:  # 2, 8, 32, ... blocks: an odd number of stages until there
        h, nodes = size // 2, 2
        _forward2(r, i, c_r, c_i, 0, 1, 1, h)
    for phase in range(2):  # whole vectors down to cached blocks, then block by block
        floor = cached if phase == 0 else BLOCK
        outer = 1 if phase == 0 else many
        top = h if phase == 0 else cached
        inner = nodes if phase == 0 else 1
        for block in range(outer):
            first, node = block * cached, nodes if phase == 0 else many + block
            below, count = top, inner
            while below > floor:
                below //= 4
                _forward4(r, i, c_r, c_i, first, node, count, below)
                node *= 4
                count *= 4
            if phase == 1:
                _forward_tail(r, i, table, first // BLOCK, cached // BLOCK)
    _scatter(r, i, place, out, size)


@called_from_python(*[types.int64] * 11)
def to_integers(message, is_complex, order, r, i, c_r, c_i, table, size, out, factor):
    """message: `size` doubles or pairs of them. order: the slot at each place of a transformed vector. r, i: scratch. out: the rounded coefficients, size real
    parts, then size imaginary ones. factor: bits of a double."""
    if is_complex != 0:
        _gather_complex(message, order, r, i, size)
    else:
        _gather_real(message, order, r, i, size)
    cached, many = _first_cached(size)
    odd = many & 0x2AAAAAAAAAAAAAAA != 0
    for phase in range(2):
        outer = many if phase == 0 else 1
        for block in range(outer):
            first = block * cached
            if phase == 0:
                _inverse_tail(r, i, table, first // BLOCK, cached // BLOCK)
            below = BLOCK if phase == 0 else cached
            top = cached if phase == 0 else size // 2 if odd else size
            while below < top:
                count = cached // below // 4 if phase == 0 else size // below // 4
                node = (many + block) * count if phase == 0 else count
                _inverse4(r, i, c_r, c_i, first, node, count, below)
                below *= 4
    if odd:
        _inverse2(r, i, c_r, c_i, 0, 1, 1, size // 2)
    _rounded(r, out, factor, size)
    high = out + 8 * size
    if is_complex != 0:
        _rounded(i, high, factor, size)
    else:
        _mirror(out, high, size)
        store_double(high, 0, 0.0)

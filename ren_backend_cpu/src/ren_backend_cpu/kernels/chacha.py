"""ChaCha20 key stream (RFC 8439, section 2.3) in vector registers, handed to a consumer word by word.

Lane l of a register holds the same word of block l, so a round is plain vector arithmetic and nothing is shuffled. Storing the
registers as they are gives the sliced order of `ren.numtheory.sampling`: the words of a group of 16 blocks, 128 of 64 bits each.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba.core import cgutils

from ren_backend_cpu.features import target
from ren_backend_cpu.kernels.emit import I32, I64, Em, Value, const, kernel, vt

#: Blocks per vector: a group is made of one vector of 16 lanes where that is a register, else of two of 8.
LANES = 16 if target().has("avx512f") else 8
BLOCKS = 16
GROUP_WORDS = 128

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"
_COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
_STEPS = ((0, 1, 3, 16), (2, 3, 1, 12), (0, 1, 3, 8), (2, 3, 1, 7))

#: consume(index of the word in its vector, LANES / 2 words of 64 bits, their index in the stream from the first group on)
Consume = Callable[[int, Value, Value], None]


def _rotate_left(em: Em, v: Value, bits: int) -> Value:
    return em.call(f"llvm.fshl.v{LANES}i32", v.type, [v, v, const(v.type, bits)])


def _rounds(em: Em, state: list[Value]) -> list[Value]:
    """Twenty rounds; four independent quarter rounds advance step by step, which hides their latency. A loop of ten: written out it takes a
    second to compile in each kernel, and registers do not hold the state between double rounds either way."""
    b = em.b
    cells = [cgutils.alloca_once(b, v.type) for v in state]
    for value, cell in zip(state, cells, strict=True):
        b.store(value, cell)
    with em.loop(em.i(10)):
        s = [b.load(cell, typ=v.type) for v, cell in zip(state, cells, strict=True)]
        for quarters in (_COLUMNS, _DIAGONALS):
            for x, y, z, bits in _STEPS:
                for q in quarters:
                    s[q[x]] = b.add(s[q[x]], s[q[y]])
                for q in quarters:
                    s[q[z]] = _rotate_left(em, b.xor(s[q[z]], s[q[x]]), bits)
        for value, cell in zip(s, cells, strict=True):
            b.store(value, cell)
    return [b.load(cell, typ=v.type) for v, cell in zip(state, cells, strict=True)]


def key_stream(em: Em, seed: Value, nonce: list[Value], first: Value, groups: Value, consume: Consume) -> None:
    """Emit `consume` for all words of groups first .. first+groups-1.

    seed: pointer to the 32-byte key. nonce: state words 13 (stream), 14 (attempt), 15 (distribution) as int64.
    """
    b = em.b
    vector = vt(I32, LANES)
    words = vt(I64, LANES // 2)
    lane = ir.Constant(vector, [ir.Constant(I32, i) for i in range(LANES)])
    per_group = BLOCKS // LANES
    start: list[Value] = [const(vector, c) for c in _CONSTANTS]
    start += [em.splat_word(seed, w, LANES, I32) for w in range(8)]
    start.append(None)  # word 12 counts blocks: set in the loop
    start += [em.splat(b.trunc(w, I32), LANES) for w in nonce]
    with em.loop(b.mul(groups, em.i(per_group))) as lp:
        counter = b.add(b.mul(first, em.i(BLOCKS)), b.mul(lp.index, em.i(LANES)))
        start[12] = b.add(em.splat(b.trunc(counter, I32), LANES), lane)
        state = _rounds(em, start)
        # Word w of half a group goes to the same half of that word's 16 lanes.
        group, half = b.udiv(lp.index, em.i(per_group)), b.urem(lp.index, em.i(per_group))
        base = b.add(b.mul(group, em.i(GROUP_WORDS)), b.mul(half, em.i(LANES // 2)))
        for w in range(16):
            consume(w, b.bitcast(b.add(state[w], start[w]), words), b.add(base, em.i(8 * w)))


def _emit_words(em: Em, pointers: list[Value], integers: list[Value]) -> None:
    out, seed = pointers
    stream, attempt, tag, first, groups = integers
    key_stream(em, seed, [stream, attempt, tag], first, groups, lambda w, v, i: em.vstore(v, out, i, I64))


#: stream_words(out, seed, stream, attempt, distribution, first group, groups): the key stream itself.
stream_words = kernel(2, 5, _emit_words, apart=True)

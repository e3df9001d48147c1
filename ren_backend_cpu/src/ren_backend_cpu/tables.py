"""Limb records and twiddle tables of one (n, q): built at first use, immutable once published, shared by all threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from ren.numtheory.roots import primitive_root_2n
from ren.ring import RingSpec

from ren_backend_cpu.features import choose_path, compressed_tail
from ren_backend_cpu.kernels import limb

Words = NDArray[np.uint64]


def aligned_words(count: int) -> Words:
    """Uninitialised words at a 64-byte address."""
    block = np.empty(count + 8, np.uint64)
    start = -(block.ctypes.data // 8) % 8
    return block[start : start + count]


def float_bits(value: float) -> int:
    """The 64 bits of a double."""
    return int(np.float64(value).view(np.uint64))


def constants(q: int) -> list[int]:
    """A limb record with everything that depends on q alone; entries that do not fit their path are meaningless there."""
    k = q.bit_length()
    one52, one64 = 1 << 52, 1 << 64
    record = [0] * limb.WORDS
    record[limb.Q], record[limb.Q2], record[limb.Q4], record[limb.HALF] = q, 2 * q, 4 * q, q // 2
    record[limb.NEG52], record[limb.INV52], record[limb.FRAC52] = one52 - q, one52 // q, (one52 % q << 52) // q
    record[limb.QINV52], record[limb.QINV64] = pow(q, -1, one52), pow(q, -1, one64)
    record[limb.BARRETT52_RIGHT], record[limb.BARRETT52_LEFT] = k - 1, 53 - k
    record[limb.BARRETT52] = (1 << 51 + k) // q
    record[limb.R52], record[limb.R52_SHOUP] = one52 % q, (one52 % q << 52) // q
    record[limb.INV64], record[limb.FRAC64] = one64 // q, (one64 % q << 64) // q
    record[limb.BARRETT64_RIGHT], record[limb.BARRETT64_LEFT] = k - 2, 66 - k
    record[limb.BARRETT64] = (1 << 62 + k) // q
    record[limb.R64], record[limb.R64_SHOUP] = one64 % q, (one64 % q << 64) // q
    record[limb.QF], record[limb.QF_INV] = float_bits(float(q)), float_bits(1.0 / q)
    record[limb.QF_UNIT] = float_bits(2.0 ** (52 + k))
    return record


def radices(stages: int) -> list[int]:
    """log2 radices of the passes for that many stages: 3 where possible, else 2; a 1 only alone."""
    plan = []
    while stages > 0:
        step = stages if stages < 3 else 2 if stages == 4 else 3
        plan.append(step)
        stages -= step
    return plan


#: Words per 64 coefficients of the twiddles of the levels within 64, and of the others, in one direction.
_TAIL_WORDS, _COMPRESSED_TAIL_WORDS, _NODE_WORDS = 128, 40, 2


def twiddle_rows(compressed: bool) -> float:
    """Rows of n words of twiddles that a vector transform reads."""
    return ((_COMPRESSED_TAIL_WORDS if compressed else _TAIL_WORDS) + _NODE_WORDS) / 64


class LimbTable:
    """Everything the kernels need for one (n, q). `address` is that of its limb record; the object keeps the memory alive."""

    def __init__(self, n: int, q: int, path: int | None = None) -> None:
        from ren_backend_cpu.kernels import ntt, twiddles

        self.n, self.q = n, q
        self.log_n = n.bit_length() - 1
        self.path = choose_path(n, q) if path is None else path
        self.compressed = self.path == limb.IFMA_LAZY and compressed_tail(n, q)
        vector = self.path != limb.SCALAR
        psi = primitive_root_2n(q, n)
        record = constants(q)
        inv, frac = np.uint64(record[limb.INV64]), np.uint64(record[limb.FRAC64])
        kept = []
        for root, main, tail in (
            (psi, limb.FORWARD, limb.FORWARD_TAIL),
            (pow(psi, -1, q), limb.INVERSE, limb.INVERSE_TAIL),
        ):
            steps = np.array([pow(root, n >> (s + 1), q) for s in range(self.log_n)], np.uint64)
            powers = np.empty(n, np.uint64)
            twiddles.node_powers(powers, steps, np.uint64(q), inv, frac)
            entries = self._entries(powers, inv, frac)
            nodes = aligned_words(_NODE_WORDS * (n // 64) if vector else 2 * n)
            nodes[:] = entries[: nodes.size]
            record[main] = nodes.ctypes.data
            kept.append(nodes)
            if vector:
                packed = aligned_words((_COMPRESSED_TAIL_WORDS if self.compressed else _TAIL_WORDS) * (n // 64))
                pack = twiddles.pack_tails_compressed if self.compressed else twiddles.pack_tails
                pack(entries, packed, n // 64)
                record[tail] = packed.ctypes.data
                kept.append(packed)
            if self.compressed:
                pairs = limb.LEVEL_PAIRS if main == limb.FORWARD else limb.LEVEL_PAIRS_INVERSE
                record[pairs : pairs + 6] = [int(x) for x in entries[2:8]]
            if main == limb.INVERSE:
                self._inverse_node1 = int(powers[1])
        plan = radices(self.log_n - 6 if vector else self.log_n)
        record[limb.PATH], record[limb.N] = self.path, n
        record[limb.LAZY_OFFSET] = (2 * self.log_n + (3 if self.compressed else 0)) * q
        record[limb.PASSES] = len(plan) | sum(r << (4 + 4 * k) for k, r in enumerate(plan))
        self._default_scale = self.scale_pair(1)
        record[limb.SCALE] = self._default_scale.ctypes.data
        forward, inverse = ntt.COMPRESSED if self.compressed else ntt.TRANSFORMS[self.path]
        record[limb.FORWARD_FN], record[limb.INVERSE_FN] = forward.address, inverse.address
        self.record = aligned_words(limb.WORDS)
        self.record[:] = [word % (1 << 64) for word in record]
        kept.append(self.record)
        for array in kept:
            array.flags.writeable = False
        self._kept = kept
        self.address = int(self.record.ctypes.data)

    def _entries(self, w: Words, inv: np.uint64, frac: np.uint64) -> Words:
        """(w, quotient) pairs in the form of this path."""
        from ren_backend_cpu.kernels import twiddles

        out = np.empty(2 * w.size, np.uint64)
        if self.path in (limb.FLOAT_LAZY, limb.FLOAT_STRICT):
            twiddles.float_entries(w, out.view(np.float64), np.uint64(self.q))
        else:
            shift = np.uint64(12 if self.path in (limb.IFMA_LAZY, limb.IFMA_STRICT) else 0)
            twiddles.integer_entries(w, out, np.uint64(self.q), inv, frac, shift)
        return out

    def pair(self, w: int) -> tuple[int, int]:
        """A multiplier w < q and its quotient, as words, in the form of this path's twiddles."""
        if self.path in (limb.FLOAT_LAZY, limb.FLOAT_STRICT):
            signed = float(w if w <= self.q // 2 else w - self.q)
            return float_bits(signed), float_bits(signed / self.q)
        return w, (w << (52 if self.path in (limb.IFMA_LAZY, limb.IFMA_STRICT) else 64)) // self.q

    def scale_pair(self, c: int) -> Words:
        """Four words for `ntt_inverse_scaled` with factor c (any int): the pairs of c n^-1 and c n^-1 psi^-(n/2)."""
        q = self.q
        first = c * pow(self.n, -1, q) % q
        return np.array(self.pair(first) + self.pair(first * self._inverse_node1 % q), np.uint64)


class RingTable:
    """The limb records of a ring. `address` is that of an int64 array with one record address per limb."""

    def __init__(self, limbs: Sequence[LimbTable]) -> None:
        self.limbs = tuple(limbs)
        self.records = np.array([t.address for t in self.limbs], np.int64)
        self.records.flags.writeable = False
        self.address = int(self.records.ctypes.data)


_lock = threading.RLock()
_limbs: dict[tuple[int, int], LimbTable] = {}
_rings: dict[tuple[int, tuple[int, ...]], RingTable] = {}


def limb_table(n: int, q: int) -> LimbTable:
    """The table of (n, q). Built by one thread, seen by others only when complete."""
    found = _limbs.get((n, q))
    if found is None:
        with _lock:
            found = _limbs.get((n, q))
            if found is None:
                found = _limbs[n, q] = LimbTable(n, q)
    return found


def ring_table(ring: RingSpec) -> RingTable:
    """The tables of all limbs of a ring."""
    key = ring.n, ring.moduli
    found = _rings.get(key)
    if found is None:
        with _lock:
            found = _rings.get(key)
            if found is None:
                found = _rings[key] = RingTable([limb_table(ring.n, q) for q in ring.moduli])
    return found


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()  # its holder, if any, does not exist in the child; what was published is complete


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

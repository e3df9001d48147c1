"""The canonical embedding in doubles, defined to the last bit, so that encoded integers depend neither on the device nor on a library's transform.

With w(X) = sum_k w_k X^k of `size` complex terms, the slots are its values at zeta^(4t+1), zeta = exp(pi i / (2 size)): the roots of X^size - i. That
polynomial splits like the ring of the number-theoretic transform: X^(2h) - c^2 = (X^h - c)(X^h + c), so a value a + X^h b modulo it is (a + c b, a - c b)
modulo the factors. Node 1 is the whole, nodes 2k and 2k + 1 are the factors of node k, and node k = 2^d + p has c = exp(2 pi i (4 brv_d(p) + 1) / 2^(d+3)).
Position p of the result is the root with t = brv(p). No twist, no reordering.

Bits: real and imaginary parts are doubles on their own, every operation of the following butterflies is rounded, none is fused, stages follow each other:

    to slots          p = (c_r y_r - c_i y_i, c_r y_i + c_i y_r), (x, y) -> (x + p, x - p)
    to coefficients   d = x - y, (x, y) -> (x + y, (c_r d_r + c_i d_i, c_r d_i - c_i d_r)), not divided by `size`

The factor of a scale is multiplied last, before rounding to integers (ties to even), or first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.backend.capability import Embedding, Embeds
from ren.backend.select import get_backend
from ren.numtheory.roots import bit_reversal

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tables:
    """slot_of[p]: the slot at position p of a transformed vector; position_of: its inverse. c_r, c_i: the twiddle of node k at index k (0 is not used)."""

    slot_of: NDArray[np.intp]
    position_of: NDArray[np.intp]
    c_r: Doubles
    c_i: Doubles


@lru_cache(maxsize=32)
def tables(size: int) -> Tables:
    """Of the ring of degree 2 * size; read-only."""
    # Two threads may both build them on first use; they build the same values.
    reversal = bit_reversal(size)
    position_of = np.empty(size, np.intp)
    power = 1
    for j in range(size):
        position_of[j] = reversal[(power - 1) // 4]
        power = power * 5 % (4 * size)
    slot_of = np.empty(size, np.intp)
    slot_of[position_of] = np.arange(size)
    c_r, c_i = np.ones(size), np.zeros(size)
    for d in range(size.bit_length() - 1):
        nodes = 1 << d
        c_r[nodes : 2 * nodes], c_i[nodes : 2 * nodes] = _roots(4 * bit_reversal(nodes) + 1, nodes)
    made = Tables(slot_of, position_of, c_r, c_i)
    for array in (made.slot_of, made.position_of, made.c_r, made.c_i):
        array.flags.writeable = False
    return made


def _roots(u: NDArray[np.int64], nodes: int) -> tuple[Doubles, Doubles]:
    """Cosine and sine of u pi / (4 nodes), 0 < u < 4 nodes, from angles up to pi / 4: the rounding of a larger angle would be the largest error of all."""
    left = u > 2 * nodes
    u = np.where(left, 4 * nodes - u, u)
    steep = u > nodes
    angle = np.pi * (np.where(steep, 2 * nodes - u, u) / (4 * nodes))
    a, b = np.cos(angle), np.sin(angle)
    cosine, sine = np.where(steep, b, a), np.where(steep, a, b)
    return np.where(left, -cosine, cosine), sine


class HostEmbedding:
    """The definition, in NumPy. A backend may have the same in faster code (`ren.backend.capability.Embedding`), with the same bits."""

    def to_integers(self, message: NDArray[Any], factor: float, size: int, integers: Doubles) -> None:
        """See the protocol."""
        stride = integers.size // (2 * size)
        low, high = integers[: integers.size // 2 : stride], integers[integers.size // 2 :: stride]
        at = tables(size).position_of[: message.size]
        r, i = np.zeros(size), np.zeros(size)
        r[at] = message.real
        real = message.dtype == np.float64
        if not real:
            i[at] = message.imag
        r, i = _to_coefficients(r, i)
        np.rint(r * factor, out=low)
        if real:  # m(1/X) = m(X), that is m_(n-k) = -m_k: exactly so, whatever was rounded on the way
            high[0] = 0.0
            np.negative(low[:0:-1], out=high[1:])
        else:
            np.rint(i * factor, out=high)

    def to_slots(self, coefficients: Doubles, factor: float, size: int) -> NDArray[np.complex128]:
        """See the protocol."""
        n = coefficients.size
        stride = n // (2 * size)
        r, i = _to_slots(coefficients[: n // 2 : stride] * factor, coefficients[n // 2 :: stride] * factor)
        at = tables(size).position_of
        out = np.empty(size, np.complex128)
        out.real, out.imag = r[at], i[at]
        return out


HOST = HostEmbedding()


def embedding_of(device: str) -> Embedding:
    """The embedding of a device's backend, else NumPy's: the same bits."""
    backend = get_backend(device)
    return backend.embedding() if isinstance(backend, Embeds) else HOST


def _stages(size: int) -> tuple[int, int]:
    """How many stages run on rows, and how many after that on columns: so that NumPy's inner loops are long in all of them."""
    log = size.bit_length() - 1
    return (log + 1) // 2, log // 2


def _to_slots(r: Doubles, i: Doubles) -> tuple[Doubles, Doubles]:
    t = tables(r.size)
    early, late = _stages(r.size)
    for s in range(early):
        shape = (1 << s, 2, -1)
        c = slice(1 << s, 2 << s)
        _forward(r.reshape(shape), i.reshape(shape), t.c_r[c, None], t.c_i[c, None])
    r, i = (np.ascontiguousarray(v.reshape(1 << early, -1).T) for v in (r, i))
    for s in range(late):
        _late(_forward, r, i, t, early, s)
    return r.T.reshape(-1), i.T.reshape(-1)


def _to_coefficients(r: Doubles, i: Doubles) -> tuple[Doubles, Doubles]:
    t = tables(r.size)
    early, late = _stages(r.size)
    r, i = (np.ascontiguousarray(v.reshape(1 << early, -1).T) for v in (r, i))
    for s in reversed(range(late)):
        _late(_inverse, r, i, t, early, s)
    r, i = (np.ascontiguousarray(v.T).reshape(-1) for v in (r, i))
    for s in reversed(range(early)):
        shape = (1 << s, 2, -1)
        c = slice(1 << s, 2 << s)
        _inverse(r.reshape(shape), i.reshape(shape), t.c_r[c, None], t.c_i[c, None])
    return r, i


def _late(butterflies: Any, r: Doubles, i: Doubles, t: Tables, early: int, s: int) -> None:
    """Stage early + s of a transposed vector: index [position in a block of stage `early`, block]."""
    blocks = 1 << early
    shape = (1 << s, 2, -1, blocks)
    # Node (block << s) + the part of the block, as [part, 1, block].
    c = slice(blocks << s, 2 * blocks << s)
    c_r, c_i = (v[c].reshape(blocks, 1 << s).T[:, None, :] for v in (t.c_r, t.c_i))
    butterflies(r.reshape(shape), i.reshape(shape), c_r, c_i)


def _forward(r: Doubles, i: Doubles, c_r: Doubles, c_i: Doubles) -> None:
    """Butterflies between the halves of axis 1, in place."""
    y_r, y_i = r[:, 1], i[:, 1]
    p_r, p_i = c_r * y_r - c_i * y_i, c_r * y_i + c_i * y_r
    for v, p in ((r, p_r), (i, p_i)):
        np.subtract(v[:, 0], p, out=v[:, 1])
        v[:, 0] += p


def _inverse(r: Doubles, i: Doubles, c_r: Doubles, c_i: Doubles) -> None:
    d_r, d_i = r[:, 0] - r[:, 1], i[:, 0] - i[:, 1]
    r[:, 0] += r[:, 1]
    i[:, 0] += i[:, 1]
    r[:, 1] = c_r * d_r + c_i * d_i
    i[:, 1] = c_r * d_i - c_i * d_r

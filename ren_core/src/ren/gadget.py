"""Gadget decomposition, keys and their product: the polynomial side of key switching."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ren.backend.buffer import Buffer
from ren.engine import capture
from ren.engine.exec_unit import ExecUnit, Operand
from ren.engine.pool import pool_of
from ren.engine.run import backend_of
from ren.engine.run import realize as _realize_nodes
from ren.errors import DeviceMismatchError, InvalidCoefficientsError, RingMismatchError
from ren.graph import Node
from ren.ops import Domain, Kind, Op
from ren.poly import Poly
from ren.ring import RingSpec


class KeyBuffer:
    """Key rows for gadget products: for each digit two polynomials (components b and a) in the NTT domain, in one piece of memory.

    ring: that of the rows. digits: how many. A captured function may use one without being given it: it is a constant of the plan.
    """

    __slots__ = ("_node", "__weakref__")

    _node: Node

    @classmethod
    def from_polys(cls, rows: Sequence[tuple[Poly, Poly]]) -> KeyBuffer:
        """A key from [(b_0, a_0), (b_1, a_1), ...], all of one ring and device.

        Unrealized rows are computed digit by digit into the key and are not kept: a key is not in memory twice.
        """
        if not rows:
            raise InvalidCoefficientsError("a key needs at least one digit, got none", subject="rows")
        first = rows[0][0]
        ring, device = first.ring, first.device
        polys = [p for pair in rows for p in pair]
        for p in polys:
            if p.ring != ring:
                raise RingMismatchError(f"key rows of different rings: {ring!r} and {p.ring!r}", subject="rows")
            if p.device != device:
                raise DeviceMismatchError(f"key rows on different devices: {device!r} and {p.device!r}", subject="rows")
        backend = backend_of(device)
        size = ring.limbs * ring.n
        whole = pool_of(backend).take(size * len(polys))
        copy = backend.compile(ExecUnit("copy", ring, (), (Operand(0, 0, size),), outputs=(Operand(1, 0, size),)))
        for d, pair in enumerate(rows):
            nodes = [_apart(p.ntt()._node) for p in pair]
            _realize_nodes(nodes)
            for c, node in enumerate(nodes):
                assert node.realized is not None
                copy([node.realized.location, (whole.memory, (2 * d + c) * size)])
            del nodes, node  # the memory of one digit serves the next
        return cls._of_buffer(whole, ring, len(rows), device)

    @classmethod
    def _of_buffer(cls, buffer: Buffer, ring: RingSpec, digits: int, device: str) -> KeyBuffer:
        key = cls.__new__(cls)
        key._node = Node(
            Op.BUFFER,
            (),
            (),
            ring.take(0, ring.limbs),
            Domain.NTT,
            device,
            kind=Kind.KEY,
            count=digits,
            realized=buffer,
        )
        return key

    @property
    def ring(self) -> RingSpec:
        return self._node.ring

    @property
    def digits(self) -> int:
        return self._node.count

    @property
    def device(self) -> str:
        return self._node.device

    @property
    def nbytes(self) -> int:
        """Memory the rows take."""
        return 8 * self._node.words

    def to_polys(self) -> list[tuple[Poly, Poly]]:
        """[(b_0, a_0), ...] as views of the key's memory, NTT domain."""
        node = self._node
        assert node.realized is not None
        size = node.ring.limbs * node.ring.n
        polys = []
        for i in range(2 * node.count):
            leaf = Node(
                Op.BUFFER, (), (), node.ring, Domain.NTT, node.device, realized=node.realized.view(i * size, size)
            )
            leaf.pinned = capture.pinning()
            polys.append(Poly._of(leaf))
        return list(zip(polys[::2], polys[1::2], strict=True))

    def __repr__(self) -> str:
        return f"<KeyBuffer digits={self.digits} n={self.ring.n} limbs={self.ring.limbs} {self.device}>"


class Digits:
    """The gadget decomposition of a polynomial: `count` digits over the extended ring, NTT domain. Lazy, as a Poly is."""

    __slots__ = ("_node", "__weakref__")

    _node: Node

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def ring(self) -> RingSpec:
        """The ring of each digit: that of the polynomial, then the special moduli."""
        return self._node.ring

    @property
    def count(self) -> int:
        return self._node.count

    def product(self, key: KeyBuffer, limb_index: Sequence[int]) -> tuple[Poly, Poly]:
        """(b, a) = (sum over d of digit_d * key[d].b, the same with a), NTT domain.

        limb_index[i]: which limb of the key belongs to limb i of the digits. The key may have more digits than needed.
        Raises RingMismatchError where the moduli do not agree or digits are missing in the key.
        """
        digits, rows = self._node, key._node
        if rows.device != digits.device:
            raise DeviceMismatchError(f"digits on {digits.device!r}, key on {rows.device!r}", subject="key")
        if rows.ring.n != digits.ring.n or rows.count < digits.count:
            raise RingMismatchError(
                f"{digits.count} digits over {digits.ring!r} do not match a key of {rows.count} digits over {rows.ring!r}",
                subject="key",
            )
        index = _selection(rows.ring, tuple(limb_index), digits.ring)
        if index is None:
            raise RingMismatchError(
                f"limbs {tuple(limb_index)} of {rows.ring!r} are not the moduli of the digits, {digits.ring!r}",
                subject="limb_index",
            )
        both = Node(Op.GADGET_PRODUCT, (digits, rows), index, digits.ring, Domain.NTT, digits.device, count=2)
        b = Node(Op.PART, (both,), (0,), digits.ring, Domain.NTT, digits.device)
        a = Node(Op.PART, (both,), (1,), digits.ring, Domain.NTT, digits.device)
        return Poly._of(b), Poly._of(a)

    def switch(
        self, key: KeyBuffer, limb_index: Sequence[int], drop: int, b: Poly | None = None, a: Poly | None = None
    ) -> tuple[Poly, Poly]:
        """`product`, then `mod_down(drop, add=b)` and the same with a: a whole key switch. Raises what these do."""
        digits, rows = self._node, key._node
        added = tuple([None if p is None else p._node.ring for p in (b, a)])
        index = None
        if rows.device == digits.device and rows.count >= digits.count:
            index = _switch_index(rows.ring, tuple(limb_index), digits.ring, drop, *added)
        if index is None or any(p is not None and p._node.device != digits.device for p in (b, a)):
            switched_b, switched_a = self.product(key, limb_index)
            return switched_b.mod_down(drop, add=b), switched_a.mod_down(drop, add=a)
        # The nodes that these methods make: checked once for these rings, and every product and rotation comes here.
        ring, device = digits.ring, digits.device
        both = Node(Op.GADGET_PRODUCT, (digits, rows), index, ring, Domain.NTT, device, count=2)
        kept = ring.drop(drop)
        made = []
        for c, add in ((0, b), (1, a)):
            part = Node(Op.PART, (both,), (c,), ring, Domain.NTT, device)
            args = (part,) if add is None else (part, add._node)
            made.append(Poly._of(Node(Op.MOD_DOWN, args, (drop,), kept, Domain.NTT, device)))
        return made[0], made[1]

    def realize(self) -> Digits:
        """Compute and keep the digits (one decomposition for many products); returns self."""
        _realize_nodes((self._node,))
        return self


def decompose(poly: Poly, alpha: int, special: Sequence[int]) -> Digits:
    """The gadget decomposition of `poly`: digit d is the centred conversion of limbs d*alpha .. (d+1)*alpha-1 to all its moduli and
    the special ones. alpha: limbs per digit, at least 1."""
    x = poly._node
    if alpha < 1:
        raise InvalidCoefficientsError(f"decompose: alpha must be at least 1, got {alpha}", subject="alpha")
    moduli = tuple(map(int, special))
    count = -(-x.ring.limbs // alpha)
    return Digits(
        Node(
            Op.DECOMPOSE,
            (x,),
            (alpha, moduli),
            x.ring.extend(moduli),
            Domain.NTT,
            x.device,
            kind=Kind.DIGITS,
            count=count,
        )
    )


@lru_cache(maxsize=1024)
def _selection(key: RingSpec, index: tuple[int, ...], digits: RingSpec) -> tuple[int, ...] | None:
    """`index` as plain ints if it selects the limbs of the digits from those of a key. Asked at each product, with few answers."""
    index = tuple(map(int, index))
    fits = all(0 <= i < key.limbs for i in index) and tuple(key.moduli[i] for i in index) == digits.moduli
    return index if fits else None


@lru_cache(maxsize=1024)
def _switch_index(
    key: RingSpec, index: tuple[int, ...], digits: RingSpec, drop: int, b: RingSpec | None, a: RingSpec | None
) -> tuple[int, ...] | None:
    """`index` as plain ints if `Digits.switch` may make its nodes without looking at any of these again."""
    fits = 0 < drop < digits.limbs and all(
        z is None or (z.limbs >= digits.limbs - drop and z.n == digits.n and z.moduli == digits.moduli[: z.limbs])
        for z in (b, a)
    )
    return _selection(key, index, digits) if fits else None


def _apart(node: Node) -> Node:
    """A realized node as it is; else one whose value lies in memory once it is realized, without staying there with `node`."""
    if node.realized is not None and node.op is not Op.CONST:
        return node
    return Node(Op.COPY, (node,), (), node.ring, node.domain, node.device)

"""Values and keys without content, for graphs that are planned and never run: of every shape that the real ones have.

Whoever tries to compute with one gets an error from the backend: its memory is no memory.
"""

from __future__ import annotations

import math
import secrets
from typing import Any

from ren.backend.buffer import Buffer
from ren.backend.select import get_backend
from ren.graph import Node
from ren.ops import Domain, Kind, Op
from ren.poly import KeyBuffer, Poly
from ren.ring import RingSpec
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.context import remember
from ren.schemes.ckks.engine import PublicEngine
from ren.schemes.ckks.key_store import KeyStore
from ren.schemes.ckks.keys import (
    ConjugationKey,
    EvaluationKey,
    EvaluationKeySet,
    PublicKey,
    RelinearizationKey,
    RotationKey,
    RotationKeySet,
    public_key_ring,
)
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.plaintext import Plaintext
from ren.schemes.ckks.scale import Scale


class NoMemory:
    """Stands where memory would be."""

    def __repr__(self) -> str:
        return "<no memory: a placeholder was to be computed with>"


_NOTHING = NoMemory()


def _leaf(ring: RingSpec, device: str, kind: Kind = Kind.POLY, count: int = 1) -> Node:
    node = Node(Op.BUFFER, (), (), ring, Domain.NTT, device, kind=kind, count=count)
    node.realized = Buffer(get_backend(device), _NOTHING, node.words)
    return node


class _PlannedKeys(KeyStore):
    """Makes a placeholder for every key that is asked for."""

    def __init__(self, params: CKKSParams, device: str) -> None:
        super().__init__(params, f"plan-{secrets.token_hex(8)}")
        self._device = device
        self._made: dict[tuple[str, int], EvaluationKey] = {}

    def _key(self, cls: type[EvaluationKey], *extra: int) -> Any:
        at = cls.kind, extra[0] if extra else 0
        found = self._made.get(at)
        if found is None:
            params = self.params
            node = _leaf(params.key_ring, self._device, Kind.KEY, params.digits_at(0))
            assert node.realized is not None
            buffer = KeyBuffer._of_buffer(node.realized, node.ring, node.count, self._device)
            make: Any = cls
            found = self._made[at] = make(*extra, params, self.key_id, 0, bytes(32), buffer)
        return found

    def public_key(self) -> PublicKey:
        ring = public_key_ring(self.params)
        b, a = (Poly._of(_leaf(ring, self._device)) for _ in range(2))
        return PublicKey(self.params, self.key_id, bytes(32), b, a)

    def relinearization_key(self) -> RelinearizationKey:
        key: RelinearizationKey = self._key(RelinearizationKey)
        return key

    def conjugation_key(self) -> ConjugationKey:
        key: ConjugationKey = self._key(ConjugationKey)
        return key

    def rotation_key(self, step: int) -> RotationKey:
        key: RotationKey = self._key(RotationKey, step % self.params.slot_count)
        return key

    def evaluation_keys(self) -> EvaluationKeySet:
        return EvaluationKeySet(_PlannedRotations(self), self.relinearization_key(), self.conjugation_key())

    def key_of(self, node: Node) -> EvaluationKey | None:
        """The key whose rows a leaf holds."""
        return next((k for k in self._made.values() if k.buffer._node is node), None)


class _PlannedRotations(RotationKeySet):
    """A key for every step."""

    __slots__ = ("_store",)

    def __init__(self, store: _PlannedKeys) -> None:
        super().__init__()
        self._store = store

    def __getitem__(self, step: int) -> RotationKey:
        return self._store.rotation_key(step)

    def __contains__(self, step: object) -> bool:
        return isinstance(step, int)


class PlanningEngine(PublicEngine):
    """An engine of placeholders: operators build graphs as they always do, and nothing can be encrypted, decrypted or computed."""

    __slots__ = ("planned",)

    def __init__(self, params: CKKSParams, device: str) -> None:
        self.planned = _PlannedKeys(params, device)
        self._start(params, device, self.planned, False)
        remember(self, owner=False)

    def poly(self, level: int) -> Poly:
        """A polynomial at `level`, NTT domain."""
        return Poly._of(_leaf(self.params.ring_at(level), self.device))

    def ciphertext(self, level: int, scale: Scale, slots: int) -> Ciphertext:
        return Ciphertext(self.poly(level), self.poly(level), level, scale, slots, self.key_id, math.inf)

    def encoded(self, level: int, scale: Scale, slots: int) -> Plaintext:
        return Plaintext(self.poly(level), level, scale, slots, 1.0, True, self.params.fingerprint)

    def encode_operand(self, values: Any, level: int, scale: Scale, slots: int) -> Plaintext:
        return self.encoded(level, scale, slots)

    def plaintext(self, value: Any, level: int = 0, scale: Scale | float | None = None) -> Plaintext:
        exact = self.params.scale_at(level) if scale is None else Scale.of(scale)
        return self.encoded(self.params.check_level(level), exact, self.num_slots)

    def encode(
        self,
        values: Any,
        msg_bound: float = 1.0,
        level: int = 0,
        scale: Scale | float | None = None,
        *,
        slots: int | None = None,
    ) -> Plaintext:
        return self.plaintext(values, level, scale)

    def imaginary_unit(self, ring: RingSpec) -> Poly:
        return Poly._of(_leaf(ring, self.device))

    def key_of(self, node: Node) -> EvaluationKey | None:
        """The evaluation key that a leaf of a graph holds; None for a polynomial."""
        return self.planned.key_of(node)

"""Key types: secret, public, evaluation keys, and sets of evaluation keys.

Each kind is a type of its own, so that a function which must not see the secret cannot be handed it by accident. Every key carries
the id of its owner's secret (a random tag, drawn apart from the secret) and is checked against it at each use.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ren.errors import KeyMismatchError, MissingKeyError, SecretExportError, UnsupportedOperandError
from ren.ops import Domain
from ren.poly import KeyBuffer, Poly
from ren.schemes.ckks.context import context
from ren.schemes.ckks.params import CKKSParams

__all__ = [
    "ConjugationKey",
    "EvaluationKey",
    "EvaluationKeySet",
    "PublicKey",
    "RelinearizationKey",
    "RotationKey",
    "RotationKeySet",
    "SecretKey",
    "allow_secret_pickle",
    "context",
]

_SECRET_PICKLE: ContextVar[bool] = ContextVar("ren.ckks.secret_pickle", default=False)


@contextlib.contextmanager
def allow_secret_pickle() -> Iterator[None]:
    """Within this block a SecretKey may be pickled and copied. Whoever reads the bytes can decrypt everything."""
    token = _SECRET_PICKLE.set(True)
    try:
        yield
    finally:
        _SECRET_PICKLE.reset(token)


class SecretKey:
    """The secret polynomial s: uniform ternary coefficients, stored over all chain and special primes (NTT domain).

    Never printed, compared or logged. Pickling and copying raise SecretExportError outside `allow_secret_pickle()`.
    """

    __slots__ = ("params", "key_id", "_poly")

    def __init__(self, params: CKKSParams, key_id: str, poly: Poly) -> None:
        self.params = params
        self.key_id = key_id
        self._poly = poly

    def reveal(self) -> Poly:
        """The polynomial itself, over `params.key_ring`. The one way to it, so that a search for the name finds every use."""
        return self._poly

    @property
    def device(self) -> str:
        return self._poly.device

    def __repr__(self) -> str:
        return f"<SecretKey {self.key_id} (not shown)>"

    def __reduce__(self) -> tuple[Any, ...]:
        if not _SECRET_PICKLE.get():
            raise SecretExportError(
                "a SecretKey is not pickled or copied by accident",
                subject="SecretKey",
                hint="Send engine.public() instead; to keep the secret itself, use ckks.save_secret or `with ckks.allow_secret_pickle():`",
            )
        return _load_secret, (self.params, self.key_id, self._poly.device, self._poly.residues())


def _load_secret(params: CKKSParams, key_id: str, device: str, rows: NDArray[np.uint64]) -> SecretKey:
    return SecretKey(params, key_id, Poly.from_residues(rows, params.key_ring, Domain.NTT, device))


@dataclass(frozen=True, eq=False, repr=False, slots=True, weakref_slot=True)
class PublicKey:
    """An encryption of zero, (b, a) with b = e - a s, over the chain and the first special prime (NTT domain).

    The extra prime lets encryption divide its noise away (`ren.schemes.ckks.encryption`). seed: the published seed of a.
    """

    params: CKKSParams
    key_id: str
    seed: bytes
    b: Poly
    a: Poly

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 16 * self.b.ring.n * self.b.ring.limbs

    @property
    def device(self) -> str:
        return self.b.device

    def __repr__(self) -> str:
        return f"<PublicKey {self.key_id}, {self.nbytes} bytes>"

    def __reduce__(self) -> tuple[Any, ...]:
        return load_public_key, (self.params, self.key_id, self.seed, self.b.device, self.b.residues())


def load_public_key(
    params: CKKSParams, key_id: str, seed: bytes, device: str | None, b: NDArray[np.uint64]
) -> PublicKey:
    """A public key from the residue rows of b; a is expanded from its seed."""
    ring = public_key_ring(params)
    rows = Poly.from_residues(b, ring, Domain.NTT, device)
    return PublicKey(params, key_id, seed, rows, uniform_half(ring, seed, 0, device).realize())


def public_key_ring(params: CKKSParams) -> Any:
    """The ring of the public key: the chain, then the first special prime."""
    return params.ring.extend(params.special[:1])


def uniform_half(ring: Any, seed: bytes, row: int, device: str | None) -> Poly:
    """The uniform polynomial of row `row` of a key, expanded from the key's published seed. Lazy."""
    return Poly.sample("uniform", None, ring, seed=seed, stream=row * ring.limbs, domain=Domain.NTT, device=device)


class EvaluationKey:
    """A key-switching key: rows (b_d, a_d), one per digit, with b_d + a_d t = e_d + P g_d s' over the key ring.

    level: the shallowest level it serves (0: all); it has no limbs for shallower ones. seed: the published seed of the a_d. `nbytes` is its
    size in memory, `stored_nbytes` that of a file, which holds the seed instead of half the rows.
    """

    kind: ClassVar[str] = "evaluation"
    __slots__ = ("params", "key_id", "level", "seed", "buffer", "_index")

    def __init__(self, params: CKKSParams, key_id: str, level: int, seed: bytes, buffer: KeyBuffer) -> None:
        self.params = params
        self.key_id = key_id
        self.level = level
        self.seed = seed
        self.buffer = buffer
        self._index: dict[int, tuple[int, ...]] = {}

    @property
    def nbytes(self) -> int:
        return self.params.evaluation_key_bytes(self.level)

    @property
    def stored_nbytes(self) -> int:
        return self.params.evaluation_key_bytes(self.level, stored=True)

    def limb_index(self, level: int) -> tuple[int, ...]:
        """Where the limbs of `params.key_ring_at(level)` lie in this key. Raises MissingKeyError above the key's level."""
        index = self._index.get(level)
        if index is None:
            if level < self.level:
                raise MissingKeyError(
                    f"{self!r} serves levels from {self.level} on, the ciphertext is at level {level}",
                    subject=self.kind,
                    hint="Make the key for that level, or drop the ciphertext to the key's level first",
                )
            chain = len(self.params.chain) - self.level
            kept = len(self.params.chain) - level
            index = self._index[level] = (*range(kept), *range(chain, chain + len(self.params.special)))
        return index

    def _label(self) -> str:
        return self.kind

    def __repr__(self) -> str:
        level = f", from level {self.level}" if self.level else ""
        return f"<{type(self).__name__} ({self._label()}) {self.key_id}, {self.nbytes} bytes{level}>"

    def _extra(self) -> tuple[Any, ...]:
        return ()

    def b_rows(self) -> NDArray[np.uint64]:
        """The rows that a file holds: b_d of every digit, [digits, limbs, n], NTT domain."""
        return np.stack([b.residues() for b, _ in self.buffer.to_polys()])

    def __reduce__(self) -> tuple[Any, ...]:
        return load_evaluation_key, (
            type(self),
            self._extra(),
            self.params,
            self.key_id,
            self.level,
            self.seed,
            self.buffer.device,
            self.b_rows(),
        )


class RelinearizationKey(EvaluationKey):
    """From s^2 to s: turns a product of three polynomials back into two."""

    kind = "relinearization"
    __slots__ = ()


class ConjugationKey(EvaluationKey):
    """For the automorphism X -> X^-1, which conjugates every slot."""

    kind = "conjugation"
    __slots__ = ()


class RotationKey(EvaluationKey):
    """For one rotation; `step` is normalised to 1 .. slot_count - 1."""

    kind = "rotation"
    __slots__ = ("step",)

    def __init__(self, step: int, params: CKKSParams, key_id: str, level: int, seed: bytes, buffer: KeyBuffer) -> None:
        super().__init__(params, key_id, level, seed, buffer)
        self.step = step

    def _label(self) -> str:
        return f"rotation by {self.step}"

    def _extra(self) -> tuple[Any, ...]:
        return (self.step,)


class IdentityRotationKey(RotationKey):
    """What rotations by multiples of the slot count take: nothing. A RotationKeySet accepts it and keeps nothing, so that a loop over the steps of a program, written before
    there was an engine to take them modulo its slots, needs no case of its own."""

    __slots__ = ()

    def __init__(self, params: CKKSParams, key_id: str) -> None:
        self.params = params
        self.key_id = key_id
        self.level = 0
        self.step = 0

    @property
    def nbytes(self) -> int:
        return 0

    @property
    def stored_nbytes(self) -> int:
        return 0

    def __reduce__(self) -> tuple[Any, ...]:
        return IdentityRotationKey, (self.params, self.key_id)


def load_evaluation_key(
    cls: type[EvaluationKey],
    extra: tuple[Any, ...],
    params: CKKSParams,
    key_id: str,
    level: int,
    seed: bytes,
    device: str | None,
    b: NDArray[np.uint64],
) -> EvaluationKey:
    """A key from its stored rows b [digits, limbs, n]; the a_d are expanded from the seed."""
    ring = params.key_ring_at(level)
    rows = [
        (Poly.from_residues(np.ascontiguousarray(row), ring, Domain.NTT, device), uniform_half(ring, seed, d, device))
        for d, row in enumerate(b)
    ]
    key: EvaluationKey = cast(Any, cls)(*extra, params, key_id, level, seed, KeyBuffer.from_polys(rows))
    return key


class RotationKeySet(Mapping[int, RotationKey]):
    """Rotation keys by step. Steps are looked up modulo the slot count, so -1 finds the key for slot_count - 1; step 0 needs no key."""

    __slots__ = ("_keys", "_slots")

    def __init__(self, keys: Mapping[int, RotationKey] | None = None) -> None:
        """keys: step -> key; each key must be the one for that step, and all must have one owner."""
        self._keys: dict[int, RotationKey] = {}
        self._slots = 0
        first: RotationKey | None = None
        for step, key in (keys or {}).items():
            if not isinstance(key, RotationKey):
                raise UnsupportedOperandError(
                    f"RotationKeySet: step {step} is given a {type(key).__name__}, not a RotationKey",
                    subject="rotations",
                )
            first = key if first is None else first
            if (key.key_id, key.params) != (first.key_id, first.params):
                raise KeyMismatchError(
                    f"RotationKeySet: keys of {first.key_id} and {key.key_id} together", subject="rotations"
                )
            self._slots = key.params.slot_count
            if step % self._slots != key.step:
                raise KeyMismatchError(
                    f"RotationKeySet: the key given for step {step} (normalised {step % self._slots}) rotates by {key.step}",
                    subject="rotations",
                )
            if key.step:
                self._keys[key.step] = key

    def lacking(self, steps: Iterable[int]) -> list[int]:
        """Those of the steps for which there is no key and one is needed, ascending."""
        return sorted(k for k in steps if k not in self and not (self._slots and k % self._slots == 0))

    @property
    def steps(self) -> tuple[int, ...]:
        """Normalised steps present, ascending."""
        return tuple(sorted(self._keys))

    def __getitem__(self, step: int) -> RotationKey:
        found = self._keys.get(step % self._slots if self._slots else step)
        if found is None:
            raise missing_rotation(step, step % self._slots if self._slots else step, self.steps)
        return found

    def __contains__(self, step: object) -> bool:
        return isinstance(step, int) and bool(self._slots) and step % self._slots in self._keys

    def __iter__(self) -> Iterator[int]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"RotationKeySet(steps={self.steps})"


def missing_rotation(step: int, normalised: int, present: tuple[int, ...]) -> MissingKeyError:
    """The error for an absent rotation key: the step asked for, the normalised one, the steps present."""
    shown = ", ".join(map(str, present[:32])) + (f", ... {len(present)} in all" if len(present) > 32 else "")
    return MissingKeyError(
        f"no rotation key for step {step} (normalised: {normalised}); keys present: {shown or 'none'}",
        subject="rotation",
        hint=f"Make it where the secret is: engine.rotation_key({normalised}), or engine.public(rotations=[{normalised}])",
    )


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class EvaluationKeySet:
    """The keys that an evaluation may use, and no others. Raises KeyMismatchError when they have different owners."""

    rotations: RotationKeySet | None = None
    relinearization: RelinearizationKey | None = None
    conjugation: ConjugationKey | None = None

    def __post_init__(self) -> None:
        for name, kind in (
            ("rotations", RotationKeySet),
            ("relinearization", RelinearizationKey),
            ("conjugation", ConjugationKey),
        ):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise UnsupportedOperandError(
                    f"EvaluationKeySet: {name} must be a {kind.__name__}, got {type(value).__name__}", subject=name
                )
        owners = {(key.key_id, key.params.fingerprint) for key in self.members()}
        if len(owners) > 1:
            raise KeyMismatchError(
                f"EvaluationKeySet: keys of different owners: {sorted(k for k, _ in owners)}", subject="evaluation keys"
            )

    def members(self) -> tuple[EvaluationKey, ...]:
        """Every key in the set."""
        found: list[EvaluationKey] = list(self.rotations.values()) if self.rotations else []
        found += [key for key in (self.relinearization, self.conjugation) if key is not None]
        return tuple(found)

    @property
    def key_id(self) -> str | None:
        """The owner's key id; None for an empty set."""
        keys = self.members()
        return keys[0].key_id if keys else None

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(key.nbytes for key in self.members())

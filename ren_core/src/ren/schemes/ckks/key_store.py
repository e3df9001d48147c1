"""Where an engine keeps its keys: a store that can only hold public ones, and the owner's, which makes missing ones from the secret.

Keys are made once, under a lock, outside any capture, one at a time and only those that are asked for or used. Before anything is
allocated the bytes are counted against a budget.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from ren import config
from ren.engine.capture import outside_capture
from ren.errors import KeyMismatchError, MemoryBudgetError, MissingKeyError, ParameterError, ParametersMismatchError
from ren.numtheory.sampling import deterministic_seeds
from ren.schemes.ckks import key_generation
from ren.schemes.ckks.keys import (
    ConjugationKey,
    EvaluationKeySet,
    PublicKey,
    RelinearizationKey,
    RotationKey,
    RotationKeySet,
    SecretKey,
    missing_rotation,
)
from ren.schemes.ckks.params import CKKSParams

_K = TypeVar("_K")


def default_budget() -> int:
    """Bytes that evaluation keys may take: REN_KEY_BUDGET, else half of the physical memory."""
    asked = config.integer("REN_KEY_BUDGET", minimum=0)
    if asked is not None:
        return asked
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):  # a platform that does not say
        return 8 << 30


class KeyStore:
    """Public keys of one owner. There is no place for a secret in it, and no way to make a key."""

    __slots__ = ("params", "key_id", "public", "relinearization", "conjugation", "rotations", "lock", "__weakref__")

    def __init__(self, params: CKKSParams, key_id: str) -> None:
        self.params = params
        self.key_id = key_id
        self.public: PublicKey | None = None
        self.relinearization: RelinearizationKey | None = None
        self.conjugation: ConjugationKey | None = None
        self.rotations: dict[int, RotationKey] = {}
        self.lock = threading.RLock()

    # -- what is there

    def evaluation_keys(self) -> EvaluationKeySet:
        """A snapshot of the evaluation keys present."""
        with self.lock:
            return EvaluationKeySet(RotationKeySet(self.rotations), self.relinearization, self.conjugation)

    def add(self, keys: EvaluationKeySet) -> None:
        """Take keys made elsewhere. Raises KeyMismatchError for another owner's."""
        for key in keys.members():
            self.check_owner(key.key_id, key.params, repr(key))
        with self.lock:
            if keys.relinearization is not None:
                self.relinearization = keys.relinearization
            if keys.conjugation is not None:
                self.conjugation = keys.conjugation
            for key in (keys.rotations or {}).values():
                self.rotations[key.step] = key

    def check_owner(self, key_id: str, params: CKKSParams, what: str) -> None:
        if params != self.params:
            raise ParametersMismatchError(
                f"{what} was made with parameters {params.fingerprint}, this engine has {self.params.fingerprint}",
                subject="parameters",
            )
        if key_id != self.key_id:
            raise KeyMismatchError(f"{what} belongs to key {key_id}, this engine to key {self.key_id}", subject="key")

    @property
    def nbytes(self) -> int:
        """Bytes of the evaluation keys present."""
        return self.evaluation_keys().nbytes

    # -- what an operation needs

    def public_key(self) -> PublicKey:
        if self.public is None:
            raise self._missing("public key", "engine.public() of the owner has it")
        return self.public

    def relinearization_key(self) -> RelinearizationKey:
        if self.relinearization is None:
            raise self._missing(
                "relinearization key",
                "Make it where the secret is: engine.relinearization_key, or engine.public(relinearization=True)",
            )
        return self.relinearization

    def conjugation_key(self) -> ConjugationKey:
        if self.conjugation is None:
            raise self._missing(
                "conjugation key",
                "Make it where the secret is: engine.conjugation_key, or engine.public(conjugation=True)",
            )
        return self.conjugation

    def rotation_key(self, step: int) -> RotationKey:
        found = self.rotations.get(step % self.params.slot_count)
        if found is None:
            with self.lock:
                present = tuple(sorted(self.rotations))
            raise missing_rotation(step, step % self.params.slot_count, present)
        return found

    def _missing(self, what: str, hint: str) -> MissingKeyError:
        return MissingKeyError(f"no {what} here (key {self.key_id})", subject=what, hint=hint)


class OwnerKeyStore(KeyStore):
    """The owner's store: it holds the secret and makes keys.

    auto: also for operations that miss one; otherwise only when asked by name (`make_*`). budget: bytes for evaluation keys. seed: toy parameters only; makes the
    keys reproducible, and worthless as keys.
    """

    __slots__ = ("secret", "auto", "budget", "_seed")

    def __init__(
        self,
        params: CKKSParams,
        device: str,
        *,
        auto: bool,
        budget: int | None,
        seed: bytes | None = None,
        secret: SecretKey | None = None,
    ) -> None:
        if seed is not None and not params.toy:
            raise ParameterError(
                "seed= makes keys predictable and is accepted for toy parameters only",
                subject="seed",
                hint="Leave it out, or use toy=True parameters in tests",
            )
        self._seed = seed
        with outside_capture(), self._seeds("secret"):
            key_id = key_generation.new_key_id() if secret is None else secret.key_id
            self.secret = key_generation.generate_secret(params, device, key_id) if secret is None else secret
        super().__init__(params, key_id)
        self.check_owner(self.secret.key_id, self.secret.params, "the secret key")
        self.auto = auto
        self.budget = default_budget() if budget is None else budget

    # -- by name: made when absent

    def make_public(self) -> PublicKey:
        return self._once("public", lambda: key_generation.generate_public(self.secret), "public key")

    def make_relinearization(self) -> RelinearizationKey:
        self._afford(int(self.relinearization is None), "the relinearization key")
        return self._once(
            "relinearization", lambda: key_generation.generate_relinearization(self.secret), "relinearization key"
        )

    def make_conjugation(self) -> ConjugationKey:
        self._afford(int(self.conjugation is None), "the conjugation key")
        return self._once("conjugation", lambda: key_generation.generate_conjugation(self.secret), "conjugation key")

    def make_rotations(self, steps: Iterable[int]) -> RotationKeySet:
        """Keys for the steps (normalised; multiples of the slot count need none). Raises MemoryBudgetError before making the first."""
        slots = self.params.slot_count
        wanted = sorted({step % slots for step in steps} - {0})
        self._afford(sum(step not in self.rotations for step in wanted), f"{len(wanted)} rotation keys")
        return RotationKeySet({step: self._rotation(step) for step in wanted})

    def _rotation(self, step: int) -> RotationKey:
        found = self.rotations.get(step)
        if found is None:
            with self.lock:
                found = self.rotations.get(step)
                if found is None:
                    with outside_capture(), self._seeds(f"rotation {step}"):
                        found = key_generation.generate_rotation(self.secret, step)
                    self.rotations[step] = found
        return found

    def _once(self, name: str, make: Callable[[], _K], label: str) -> _K:
        found: _K | None = getattr(self, name)
        if found is None:
            with self.lock:
                found = getattr(self, name)
                if found is None:
                    with outside_capture(), self._seeds(label):
                        found = make()
                    setattr(self, name, found)
        return found

    def _seeds(self, label: str) -> contextlib.AbstractContextManager[None]:
        if self._seed is None:
            return contextlib.nullcontext()
        return deterministic_seeds(self._seed + label.encode())

    def _afford(self, count: int, what: str) -> None:
        if not count:
            return
        each = self.params.evaluation_key_bytes()
        held = self.nbytes
        if held + count * each > self.budget:
            raise MemoryBudgetError(
                f"{what}: {count} new keys of {each} bytes are {count * each} bytes; {held} are held, the budget is {self.budget} bytes",
                subject="keys",
                hint="Ask for fewer steps (sums of powers of two reach every rotation), or raise key_budget= or REN_KEY_BUDGET",
            )

    # -- by operations

    def public_key(self) -> PublicKey:
        return self.make_public() if self.public is None and self.auto else super().public_key()

    def relinearization_key(self) -> RelinearizationKey:
        return (
            self.make_relinearization() if self.relinearization is None and self.auto else super().relinearization_key()
        )

    def conjugation_key(self) -> ConjugationKey:
        return self.make_conjugation() if self.conjugation is None and self.auto else super().conjugation_key()

    def rotation_key(self, step: int) -> RotationKey:
        normalised = step % self.params.slot_count
        if normalised not in self.rotations and self.auto:
            self._afford(1, f"the key for rotation by {normalised}")
            return self._rotation(normalised)
        return super().rotation_key(step)

    def __repr__(self) -> str:
        return f"<OwnerKeyStore {self.key_id} (secret not shown)>"

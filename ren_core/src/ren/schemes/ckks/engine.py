"""The engine: parameters, keys and policy of one key owner, and every operation on its values.

`Engine` belongs to the owner and holds the secret. `PublicEngine`, what `engine.public()` gives, has no place for one: it encrypts and
evaluates. `keygen(params)` and `Engine(params)` are the same; `with engine:` activates it for the current thread or task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ren.backend.select import get_backend
from ren.engine.capture import outside_capture
from ren.errors import MissingKeyError, ParametersMismatchError, SecretExportError, UnsupportedOperandError
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes.ckks import accuracy, bounds, evaluator, key_generation, matrices, messages, polynomial, rotation
from ren.schemes.ckks import levels as levelling
from ren.schemes.ckks.bounds import BoundPolicy
from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
from ren.schemes.ckks.context import enter, leave, remember, require_key
from ren.schemes.ckks.key_store import KeyStore, OwnerKeyStore
from ren.schemes.ckks.keys import (
    ConjugationKey,
    EvaluationKey,
    EvaluationKeySet,
    IdentityRotationKey,
    PublicKey,
    RelinearizationKey,
    RotationKey,
    RotationKeySet,
    SecretKey,
)
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.plaintext import Plaintext
from ren.schemes.ckks.scale import Scale

Encrypted = Ciphertext | CiphertextProduct
_K = TypeVar("_K", bound=EvaluationKey)
_E = TypeVar("_E", Ciphertext, CiphertextProduct)


class PublicEngine:
    """What a server has: parameters, the public key and some evaluation keys of one owner. It cannot decrypt.

    params, config: the parameters (one object). device: backend name. key_id: the owner's. Raises MissingKeyError for keys it was not given. Safe to use
    from several threads; each thread enters it itself. Pickling keeps everything.
    """

    __slots__ = ("params", "device", "key_id", "bounds", "keys", "_unit", "__weakref__")

    def __init__(
        self,
        params: CKKSParams,
        public_key: PublicKey,
        evaluation_keys: EvaluationKeySet | None = None,
        *,
        device: str | None = None,
        strict_bounds: bool = False,
    ) -> None:
        keys = KeyStore(params, public_key.key_id)
        keys.check_owner(public_key.key_id, public_key.params, "the public key")
        keys.public = public_key
        if evaluation_keys is not None:
            keys.add(evaluation_keys)
        self._start(params, device or public_key.device, keys, strict_bounds)
        remember(self, owner=False)

    def _start(self, params: CKKSParams, device: str, keys: KeyStore, strict_bounds: bool) -> None:
        self.params = params
        self.device = device
        self.key_id = keys.key_id
        self.bounds = BoundPolicy(params, strict=strict_bounds)
        self.keys = keys
        self._unit: Poly | None = None

    # -- what it is

    @property
    def config(self) -> CKKSParams:
        """The parameters, under the name that engine users know."""
        return self.params

    @property
    def num_slots(self) -> int:
        return self.params.slot_count

    @property
    def strict_bounds(self) -> bool:
        """Whether a possible overflow is an error."""
        return self.bounds.strict

    @property
    def fingerprint(self) -> str:
        """Parameters and key owner in one text: equal for engines whose values can meet."""
        return f"{self.params.fingerprint}:{self.key_id}"

    def __repr__(self) -> str:
        toy = " TOY (no security)" if self.params.toy else ""
        return f"<{type(self).__name__} slots={self.num_slots} levels={self.params.levels} device={self.device} key={self.key_id}{toy}>"

    def __enter__(self) -> PublicEngine:
        enter(self)
        return self

    def __exit__(self, *exc: object) -> None:
        leave(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_public, (self.params, self.public_key, self.evaluation_keys, self.strict_bounds)

    # -- keys

    @property
    def public_key(self) -> PublicKey:
        """For encryption by anybody."""
        return self.keys.public_key()

    @property
    def relinearization_key(self) -> RelinearizationKey:
        """For products of ciphertexts. Raises MissingKeyError where it is absent and cannot be made."""
        return self.keys.relinearization_key()

    @property
    def conjugation_key(self) -> ConjugationKey:
        """For conjugation. Raises MissingKeyError where it is absent and cannot be made."""
        return self.keys.conjugation_key()

    def rotation_key(self, step: int) -> RotationKey:
        """For rotation by `step` (torch.roll direction), modulo the slot count. Raises MissingKeyError naming the steps present. An empty key for multiples of
        the slot count, which need none."""
        step = rotation.step_of(step)
        return self.keys.rotation_key(step) if step % self.num_slots else IdentityRotationKey(self.params, self.key_id)

    def rotation_keys(self, steps: Iterable[int]) -> RotationKeySet:
        """Several at once; multiples of the slot count need no key."""
        wanted = {step % self.num_slots for step in rotation.steps_of(steps)} - {0}
        return RotationKeySet({step: self.rotation_key(step) for step in wanted})

    @property
    def evaluation_keys(self) -> EvaluationKeySet:
        """The evaluation keys present."""
        return self.keys.evaluation_keys()

    def add_keys(self, keys: EvaluationKeySet) -> None:
        """Take keys that the owner sent. Raises KeyMismatchError for another owner's."""
        self.keys.add(keys)

    def encryption_key(self) -> PublicKey | SecretKey:
        """What `encrypt` uses by default."""
        return self.public_key

    def use_key(self, key: _K | None, key_id: str, operation: str) -> _K:
        """`key` after checks: present, and the owner's. Raises MissingKeyError or KeyMismatchError."""
        if key is None:
            raise MissingKeyError(
                f"{operation}: the key set that was passed lacks the key for it",
                subject=operation,
                hint="Add the key, or pass no key set to use the engine's",
            )
        if not isinstance(key, EvaluationKey):
            raise UnsupportedOperandError(
                f"{operation}: not an evaluation key: {type(key).__name__}", subject=operation
            )
        require_key(key_id, key.key_id, operation, repr(key))
        return key

    def require_params(self, fingerprint: str, operation: str) -> None:
        """Raise ParametersMismatchError unless a value was made with equal parameters."""
        if fingerprint != self.params.fingerprint:
            raise ParametersMismatchError(
                f"{operation}: the value was made with parameters {fingerprint}, this engine has {self.params.fingerprint}",
                subject=operation,
                hint="Encode it again with this engine",
            )

    # -- messages

    def encode(
        self,
        values: Any,
        msg_bound: float = 1.0,
        level: int = 0,
        scale: Scale | float | None = None,
        *,
        slots: int | None = None,
    ) -> Any:
        """Encode 1 to `slots` real or complex numbers; an array with leading axes gives a PlaintextBatch. Realized.

        msg_bound: public bound on every absolute value; never derive it from secret data. level: where the plaintext is used. scale: None takes the standard one
        of the level. slots: logical extent (power of two), repeated to fill the ring. Raises EncodingError (a ValueError) naming the index for NaN, infinity, values
        above msg_bound, too many or no values; CapacityError when a value does not fit the level; TypeError for what is no sequence of numbers.
        """
        return messages.encode(self, values, msg_bound, level, scale, slots)

    def encode_operand(self, values: Any, level: int, scale: Scale, slots: int) -> Plaintext:
        """Public numbers that meet a ciphertext: bound by their largest modulus."""
        return messages.encode_operand(self, values, level, scale, slots)

    def plaintext(self, value: Any, level: int = 0, scale: Scale | float | None = None) -> Any:
        """Encode public data, a number (in every slot) or a vector, bound by its largest modulus. Level, scale and errors as `encode`."""
        level = self.params.check_level(level)
        exact = self.params.scale_at(level) if scale is None else Scale.of(scale)
        accuracy.require_value_scale(self.params, "plaintext", exact)
        if isinstance(value, (int, float, complex)) or getattr(value, "ndim", None) == 0:
            return messages.encode_constant(self, value, level, exact)
        return messages.encode_operand(self, value, level, exact, self.num_slots)

    def encrypt(self, plaintext: Any, key: PublicKey | SecretKey | None = None) -> Any:
        """Encrypt a Plaintext (or PlaintextBatch). Same level, scale and bound; a fresh randomness each time. Realized outside a captured function.

        key: None takes the secret key where the engine holds it (less noise, faster), else the public key. Raises KeyMismatchError for another owner's.
        """
        return messages.encrypt(self, plaintext, key)

    def decrypt(self, x: Any, secret_key: SecretKey | None = None) -> Any:
        """The Plaintext inside a Ciphertext, CiphertextProduct or CiphertextBatch. Realized.

        Raises MissingKeyError without a secret key, KeyMismatchError for another owner's value, DecryptionError when a coefficient exceeds a
        quarter of the modulus (overflow, or noise over the message).
        """
        if secret_key is None:
            raise MissingKeyError(
                "decrypt: no secret key here, this is a public engine",
                subject="decrypt",
                hint="Send the ciphertext to the owner of the key",
            )
        return messages.decrypt(self, x, secret_key)

    def decode(
        self,
        plaintext: Any,
        length: int | None = None,
        *,
        is_real: bool | None = None,
        round_bits: int | None = None,
    ) -> Any:
        """The first `length` slots (None: all) as a NumPy array: float64 for real messages, complex128 otherwise.

        is_real: None follows what is known of the message. Warns (ImaginaryPartWarning) when it drops imaginary parts that are no noise. round_bits: round to
        multiples of 2^-round_bits, which results must be before they are published (docs/explanation/threat-model.md).
        """
        return messages.decode(self, plaintext, length, is_real, round_bits)

    def encrypt_message(
        self,
        message: Any,
        public_key: PublicKey | SecretKey | None = None,
        level: int = 0,
        scale: Scale | float | None = None,
    ) -> Any:
        """Encode and encrypt. The bound is the capacity of the level: nothing is derived from the data."""
        return messages.encrypt(self, messages.encode(self, message, None, level, scale, None), public_key)

    def decrypt_message(self, ciphertext: Any, secret_key: SecretKey | None = None, is_real: bool | None = None) -> Any:
        """Decrypt and decode: a torch.Tensor where the torch frontend is installed, else a NumPy array."""
        return messages.to_frontend_array(self.decode(self.decrypt(ciphertext, secret_key), is_real=is_real))

    # -- operations: carried out by `ren.schemes.ckks.evaluator` and its neighbours

    def add(self, x: Encrypted, y: Any) -> Any:
        return evaluator.add(self, x, y)

    def sub(self, x: Encrypted, y: Any) -> Any:
        return evaluator.sub(self, x, y)

    def rsub(self, x: Encrypted, y: Any) -> Any:
        return evaluator.rsub(self, x, y)

    def negate(self, x: _E) -> _E:
        return evaluator.negate(self, x)

    def mul(self, x: Encrypted, y: Any) -> Any:
        return evaluator.multiply(self, x, y)

    def multiply(
        self,
        x: Encrypted,
        y: Any,
        *,
        relinearize: bool = True,
        rescale: bool = True,
        key: RelinearizationKey | None = None,
    ) -> Any:
        """x * y; see `ren.schemes.ckks.multiply`."""
        result = evaluator.multiply(self, x, y, relinearize=relinearize, rescale=rescale, key=key)
        if result is NotImplemented:
            raise UnsupportedOperandError(f"multiply: a ciphertext and {type(y).__name__}", subject="multiply")
        return result

    def div(self, x: Ciphertext, y: Any) -> Any:
        return evaluator.divide(self, x, y)

    def power(self, x: Ciphertext, exponent: Any) -> Any:
        return evaluator.power(self, x, exponent)

    def square(self, x: Ciphertext) -> Ciphertext:
        product: Ciphertext = evaluator.multiply(self, x, x)
        return product

    def relinearize(self, x: Encrypted, *, rescale: bool = False, key: RelinearizationKey | None = None) -> Ciphertext:
        return evaluator.relinearize(self, x, rescale=rescale, key=key)

    def rescale(self, x: _E) -> _E:
        return levelling.rescale(self, x)

    def mod_drop(self, x: _E, levels: int = 1) -> _E:
        return levelling.mod_drop(self, x, levels)

    def adjust(self, x: _E, level: int, scale: Scale | None = None) -> _E:
        return levelling.adjust(self, x, level, scale)

    def assume_bound(self, x: _E, bound: float) -> _E:
        return evaluator.assume_bound(x, bound)

    def rotate(self, x: Ciphertext, k: int, *, keys: EvaluationKeySet | RotationKeySet | None = None) -> Ciphertext:
        return rotation.rotate(self, x, k, keys=keys)

    def rotate_many(
        self, x: Ciphertext, steps: Iterable[int], *, keys: EvaluationKeySet | RotationKeySet | None = None
    ) -> list[Ciphertext]:
        return rotation.rotate_many(self, x, steps, keys=keys)

    def conjugate(self, x: Ciphertext, *, keys: EvaluationKeySet | None = None) -> Ciphertext:
        return rotation.conjugate(self, x, keys=keys)

    def sum_slots(self, x: Ciphertext, *, keys: EvaluationKeySet | RotationKeySet | None = None) -> Ciphertext:
        return rotation.sum_slots(self, x, keys=keys)

    def polyval(
        self, x: Ciphertext, coefficients: Sequence[Any], *, basis: str = "power", key: RelinearizationKey | None = None
    ) -> Ciphertext:
        return polynomial.polyval(self, x, coefficients, basis=basis, key=key)

    def linear_transform(self, x: Ciphertext, matrix: Any, *, keys: EvaluationKeySet | None = None) -> Ciphertext:
        return matrices.linear_transform(self, x, matrix, keys=keys)

    # -- for the evaluator

    def check_bound(self, operation: str, bound: float, level: int, scale: Scale, *operands: float) -> float:
        return self.bounds.check(operation, bound, level, scale, *operands)

    def require_capacity(self, operation: str, size: float, level: int, scale: Scale) -> float:
        return self.bounds.require(operation, size, level, scale)

    def warn_transparent(self, operation: str) -> None:
        bounds.warn_transparent(operation)

    def imaginary_unit(self, ring: RingSpec) -> Poly:
        """X^(n/2), which is i in every slot, over a ring of the chain (NTT domain)."""
        unit = self._unit
        if unit is None:
            with outside_capture():
                coefficients = [0] * self.params.n
                coefficients[self.params.n // 2] = 1
                unit = self._unit = Poly(coefficients, self.params.ring, self.device).ntt().realize()
        return unit.limbs(0, ring.limbs)


class Engine(PublicEngine):
    """The owner's engine: it holds the secret key, decrypts, and makes keys when they are first used.

    preset_or_params: a CKKSParams or a preset name. device: backend name, None for the default. auto_keys: make missing evaluation keys at first use;
    False raises MissingKeyError instead, and keys are made by asking for them (`relinearization_key`, `rotation_key(step)`, ...). strict_bounds: a possible
    overflow is an error. key_budget: bytes that evaluation keys may take (None: REN_KEY_BUDGET, else half of the memory). secret_key: use an existing one. seed: toy
    parameters only, makes the keys reproducible.

    Pickling and copying raise SecretExportError: send `public()`.
    """

    __slots__ = ("_owner",)

    def __init__(
        self,
        preset_or_params: str | CKKSParams = "default",
        device: str | None = None,
        *,
        auto_keys: bool = True,
        strict_bounds: bool = False,
        key_budget: int | None = None,
        secret_key: SecretKey | None = None,
        seed: bytes | None = None,
    ) -> None:
        params = CKKSParams.preset(preset_or_params) if isinstance(preset_or_params, str) else preset_or_params
        if not isinstance(params, CKKSParams):
            raise UnsupportedOperandError(
                f"Engine: needs CKKSParams or a preset name, got {type(params).__name__}",
                subject="params",
                hint="For example CKKSParams.default()",
            )
        name = get_backend(device).name
        owner = OwnerKeyStore(params, name, auto=auto_keys, budget=key_budget, seed=seed, secret=secret_key)
        self._owner = owner
        self._start(params, name, owner, strict_bounds)
        remember(self, owner=True)

    def __enter__(self) -> Engine:
        enter(self)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise SecretExportError(
            "an engine that holds the secret key is not pickled or copied by accident",
            subject="Engine",
            hint="Send engine.public(); to keep the secret itself, use ckks.save_secret",
        )

    # -- keys: asked for by name, they are made

    @property
    def auto_keys(self) -> bool:
        return self._owner.auto

    @property
    def secret_key(self) -> SecretKey:
        return self._owner.secret

    @property
    def public_key(self) -> PublicKey:
        """For encryption by anybody; made when first asked for."""
        return self._owner.make_public()

    @property
    def relinearization_key(self) -> RelinearizationKey:
        """For products of ciphertexts; made when first asked for."""
        return self._owner.make_relinearization()

    @property
    def conjugation_key(self) -> ConjugationKey:
        """For conjugation; made when first asked for."""
        return self._owner.make_conjugation()

    def rotation_key(self, step: int) -> RotationKey:
        """For rotation by `step`, modulo the slot count; made when first asked for. An empty key for multiples of the slot count, which need none."""
        normalised = rotation.step_of(step) % self.num_slots
        if normalised == 0:
            return IdentityRotationKey(self.params, self.key_id)
        return self._owner.make_rotations([normalised])[normalised]

    def rotation_keys(self, steps: Iterable[int]) -> RotationKeySet:
        """Several at once. Raises MemoryBudgetError, naming bytes and budget, before the first one is made."""
        return self._owner.make_rotations(rotation.steps_of(steps))

    def evaluation_keys_for(self, needs: Any) -> EvaluationKeySet:
        """Exactly the keys that a program needs. needs: what `analyze_evaluation_key_requirements` returned, with or without an engine: steps are taken modulo the slot
        count, duplicates and 0 left out. Raises MemoryBudgetError before the first key is made."""
        return EvaluationKeySet(
            self.rotation_keys(needs.rotation_steps),
            self.relinearization_key if needs.requires_relinearization else None,
            self.conjugation_key if needs.requires_conjugation else None,
        )

    def generate_relinearization_key(self, level: int = 0) -> RelinearizationKey:
        """A new key that the engine does not keep, for ciphertexts at `level` and deeper."""
        with outside_capture():
            return key_generation.generate_relinearization(self._owner.secret, level)

    def generate_rotation_key(self, step: int, level: int = 0) -> RotationKey:
        """A new key that the engine does not keep, for ciphertexts at `level` and deeper."""
        with outside_capture():
            return key_generation.generate_rotation(self._owner.secret, rotation.step_of(step) % self.num_slots, level)

    def encryption_key(self) -> PublicKey | SecretKey:
        return self._owner.secret

    def decrypt(self, x: Any, secret_key: SecretKey | None = None) -> Any:
        """As `PublicEngine.decrypt`; the engine's own secret key by default."""
        return messages.decrypt(self, x, self._owner.secret if secret_key is None else secret_key)

    def public(
        self, *, rotations: Iterable[int] = (), relinearization: bool = False, conjugation: bool = False
    ) -> PublicEngine:
        """An engine without the secret: the public key, every evaluation key made so far, and those asked for here (made now)."""
        self.rotation_keys(rotations)
        if relinearization:
            self._owner.make_relinearization()
        if conjugation:
            self._owner.make_conjugation()
        return PublicEngine(
            self.params, self.public_key, self.evaluation_keys, device=self.device, strict_bounds=self.strict_bounds
        )


def _restore_public(params: CKKSParams, public: PublicKey, keys: EvaluationKeySet, strict_bounds: bool) -> PublicEngine:
    return PublicEngine(params, public, keys, strict_bounds=strict_bounds)

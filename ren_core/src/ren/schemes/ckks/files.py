"""Ciphertexts, plaintexts, keys and public engines as bytes (`ren.schemes.ckks.serialize` is the format), and the secret key in a file of its own.

Keys are stored with the seed of their uniform half instead of that half. Lazy values are realized first. What is read is checked against the engine
it is meant for: kind, parameters, key owner, size, checksum.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from ren.errors import (
    FormatError,
    KeyMismatchError,
    ParametersMismatchError,
    SecretExportError,
    UnsupportedOperandError,
)
from ren.ops import Domain
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes.ckks.batch import CiphertextBatch, PlaintextBatch
from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
from ren.schemes.ckks.engine import PublicEngine
from ren.schemes.ckks.keys import (
    ConjugationKey,
    EvaluationKey,
    EvaluationKeySet,
    PublicKey,
    RelinearizationKey,
    RotationKey,
    RotationKeySet,
    SecretKey,
    load_evaluation_key,
    load_public_key,
    public_key_ring,
)
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.plaintext import Plaintext
from ren.schemes.ckks.scale import Scale
from ren.schemes.ckks.serialize import (
    DEFAULT_MAX_BYTES,
    Record,
    pack_residues,
    read_file,
    read_record,
    unpack_residues,
    write_record,
    write_secret_file,
)

_KEY_KINDS: dict[str, type[EvaluationKey]] = {
    "relinearization-key": RelinearizationKey,
    "rotation-key": RotationKey,
    "conjugation-key": ConjugationKey,
}
_KIND_OF = {cls: kind for kind, cls in _KEY_KINDS.items()}


def to_bytes(value: Any) -> bytes:
    """A Ciphertext, CiphertextProduct, Plaintext, batch, key, key set, CKKSParams or PublicEngine as bytes; `from_bytes` reads them back.

    Raises SecretExportError for a SecretKey or an Engine (use `save_secret`, or `engine.public()`), UnsupportedOperandError for other types.
    """
    if isinstance(value, (Ciphertext, CiphertextProduct)):
        return _ciphertext_bytes(value)
    if isinstance(value, Plaintext):
        return _plaintext_bytes(value)
    if isinstance(value, CiphertextBatch):
        return write_record("ciphertext-batch", facts={"shape": value.shape}, blocks=[to_bytes(x) for x in value.items])
    if isinstance(value, PlaintextBatch):
        return write_record("plaintext-batch", facts={"shape": value.shape}, blocks=[to_bytes(x) for x in value.items])
    if isinstance(value, PublicKey):
        return write_record(
            "public-key",
            facts={"params": _params_facts(value.params), "seed": value.seed.hex()},
            blocks=[_packed(value.b)],
            fingerprint=value.params.fingerprint,
            key_id=value.key_id,
        )
    if isinstance(value, EvaluationKey):
        return _evaluation_key_bytes(value)
    if isinstance(value, EvaluationKeySet):
        return write_record(
            "evaluation-keys", facts={}, blocks=[to_bytes(k) for k in value.members()], key_id=value.key_id or ""
        )
    if isinstance(value, CKKSParams):
        return write_record("params", facts={"params": _params_facts(value)}, fingerprint=value.fingerprint)
    if type(value) is PublicEngine:
        return write_record(
            "public-engine",
            facts={"strict_bounds": value.strict_bounds},
            blocks=[to_bytes(value.public_key), to_bytes(value.evaluation_keys)],
            fingerprint=value.params.fingerprint,
            key_id=value.key_id,
        )
    if isinstance(value, (SecretKey, PublicEngine)):
        raise SecretExportError(
            f"to_bytes: a {type(value).__name__} holds the secret key",
            subject=type(value).__name__,
            hint="Send engine.public(); to keep the secret itself, use ckks.save_secret",
        )
    raise UnsupportedOperandError(f"to_bytes: cannot store a {type(value).__name__}", subject="to_bytes")


def from_bytes(
    data: bytes, engine: PublicEngine | None = None, *, device: str | None = None, max_bytes: int = DEFAULT_MAX_BYTES
) -> Any:
    """The value that `to_bytes` wrote.

    engine: what it must belong to (parameters and key owner are checked); needed for nothing else, as values find their engine by key id. device: where
    polynomials go (None: the engine's, else the default). Raises FormatError and its subclasses (ValueErrors), KeyMismatchError.
    """
    record = read_record(data, max_bytes=max_bytes)
    reader = _READERS.get(record.kind)
    if reader is None:
        hint = "Load it with ckks.load_secret" if record.kind == "secret-key" else None
        raise FormatError(f"from_bytes: cannot read a {record.kind}", subject="kind", hint=hint)
    if engine is not None:
        _check_owner(record, engine)
        device = device or engine.device
    return reader(record, device, engine)


def save_secret(secret: SecretKey | Any, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the secret key (of an Engine, or a SecretKey) to a file that only its owner can read. Whoever reads it can decrypt everything.

    Raises FileExistsError unless `overwrite`.
    """
    key = secret if isinstance(secret, SecretKey) else getattr(secret, "secret_key", None)
    if not isinstance(key, SecretKey):
        raise UnsupportedOperandError(
            f"save_secret: a {type(secret).__name__} holds no secret key", subject="save_secret"
        )
    # Coefficients are -1, 0, 1: one limb holds them all.
    small = key.reveal().limbs(0, 1).intt().residues()[0]
    signs = np.where(small > 1, -1, small.astype(np.int64)).astype(np.int8)
    data = write_record(
        "secret-key",
        facts={"params": _params_facts(key.params)},
        blocks=[signs],
        fingerprint=key.params.fingerprint,
        key_id=key.key_id,
        secret=True,
    )
    write_secret_file(path, data, overwrite=overwrite)


def load_secret(path: str | os.PathLike[str], *, device: str | None = None) -> SecretKey:
    """The secret key from its file; `Engine(key.params, secret_key=key)` makes an engine of it. Raises FormatError and its subclasses."""
    record = read_file(path, kind="secret-key")
    params = _read_params(record)
    signs = np.frombuffer(_only(record), np.int8)
    if signs.size != params.n or np.abs(signs).max() > 1:
        raise FormatError("secret-key: the block does not hold a ternary polynomial", subject="blocks")
    poly = Poly(signs.astype(np.int64), params.key_ring, device).ntt().realize()
    return SecretKey(params, record.key_id, poly)


# -- values ----------------------------------------------------------------------------------------------------------


def _state_facts(x: Ciphertext | CiphertextProduct | Plaintext) -> dict[str, Any]:
    return {
        "n": x.b.ring.n if not isinstance(x, Plaintext) else x.poly.ring.n if x.poly is not None else 0,
        "moduli": list(
            x.b.ring.moduli if not isinstance(x, Plaintext) else x.poly.ring.moduli if x.poly is not None else ()
        ),
        "level": x.level,
        "scale": str(x.scale),
        "slots": x.slots,
        "bound": "inf" if x.bound == float("inf") else x.bound.hex(),
        "is_real": x.is_real,
        "occupied": x.occupied,
    }


def _ciphertext_bytes(x: Ciphertext | CiphertextProduct) -> bytes:
    x.realize()
    polys = [x.a, x.b] if isinstance(x, Ciphertext) else [x.a, x.b, x.c]
    kind = "ciphertext" if isinstance(x, Ciphertext) else "ciphertext-product"
    return write_record(kind, facts=_state_facts(x), blocks=[_packed(p) for p in polys], key_id=x.key_id)


def _read_ciphertext(record: Record, device: str | None, engine: PublicEngine | None) -> Any:
    cls: Any = Ciphertext if record.kind == "ciphertext" else CiphertextProduct
    ring, state = _read_state(record, engine)
    if len(record.blocks) != (2 if cls is Ciphertext else 3):
        raise FormatError(f"{record.kind}: {len(record.blocks)} polynomials found", subject="blocks")
    polys = [_unpacked(block, ring, device) for block in record.blocks]
    s = state
    return cls(
        *polys, s["level"], s["scale"], s["slots"], record.key_id, s["bound"], s["is_real"], occupied=s["occupied"]
    )


def _plaintext_bytes(x: Plaintext) -> bytes:
    if x.poly is None:
        v = complex(x.value)
        facts = {
            "type": type(x.value).__name__,
            "value": str(x.value) if isinstance(x.value, int) else [v.real.hex(), v.imag.hex()],
        }
        return write_record("constant", facts=facts)
    return write_record("plaintext", facts=_state_facts(x), blocks=[_packed(x.realize().poly)], fingerprint=x.params_id)


def _read_plaintext(record: Record, device: str | None, engine: PublicEngine | None) -> Plaintext:
    ring, s = _read_state(record, engine)
    poly = _unpacked(_only(record), ring, device)
    params_id, occupied = record.fingerprint, s["occupied"]
    return Plaintext(poly, s["level"], s["scale"], s["slots"], s["bound"], s["is_real"], params_id, occupied=occupied)


def _read_constant(record: Record, device: str | None, engine: PublicEngine | None) -> Plaintext:
    kind, value = record.fact("type", str), record.fact("value", (str, list))
    try:
        if kind == "int" and isinstance(value, str) and len(value) < 4000:
            return Plaintext.const(int(value))
        real, imaginary = (float.fromhex(part) for part in value)
    except (ValueError, TypeError) as error:
        raise FormatError("constant: the value is malformed", subject="value") from error
    return Plaintext.const(complex(real, imaginary) if kind == "complex" else real)


def _read_state(record: Record, engine: PublicEngine | None) -> tuple[RingSpec, dict[str, Any]]:
    moduli = record.fact("moduli", list)
    try:
        ring = RingSpec(record.fact("n", int), tuple(moduli))
        scale = Scale.parse(record.fact("scale", str))
        bound = float.fromhex(record.fact("bound", str))
    except (ValueError, TypeError) as error:
        raise FormatError(f"{record.kind}: the facts are malformed", subject="facts") from error
    level, slots = record.fact("level", int), record.fact("slots", int)
    if level < 0 or not 1 <= slots <= ring.n // 2 or slots & (slots - 1) or not bound >= 0:
        raise FormatError(
            f"{record.kind}: level {level}, slots {slots} or bound {bound} is out of range", subject="facts"
        )
    occupied = record.facts.get("occupied")  # files that were written before it was recorded do not say it
    if occupied is not None and not (type(occupied) is int and 1 <= occupied <= slots):
        raise FormatError(f"{record.kind}: occupied is {occupied!r}, of {slots} slots", subject="facts")
    if engine is not None and (level > engine.params.levels or ring != engine.params.ring_at(level)):
        raise ParametersMismatchError(
            f"{record.kind}: its ring is not that of level {level} of this engine", subject="parameters"
        )
    return ring, {
        "level": level,
        "scale": scale,
        "slots": slots,
        "bound": bound,
        "is_real": record.fact("is_real", bool),
        "occupied": occupied,
    }


def _read_batch(record: Record, device: str | None, engine: PublicEngine | None) -> Any:
    shape = tuple(record.fact("shape", list))
    items = tuple(from_bytes(bytes(block), engine, device=device) for block in record.blocks)
    kind: type = Ciphertext if record.kind == "ciphertext-batch" else Plaintext
    cls: Any = CiphertextBatch if kind is Ciphertext else PlaintextBatch
    if not all(isinstance(x, kind) for x in items) or not all(isinstance(s, int) and s >= 0 for s in shape):
        raise FormatError(f"{record.kind}: the items or the shape are malformed", subject="blocks")
    try:
        return cls(shape, items)
    except ValueError as error:
        raise FormatError(f"{record.kind}: {error}", subject="shape") from error


# -- keys ------------------------------------------------------------------------------------------------------------


def _evaluation_key_bytes(key: EvaluationKey) -> bytes:
    facts = {"params": _params_facts(key.params), "seed": key.seed.hex(), "level": key.level}
    if isinstance(key, RotationKey):
        facts["step"] = key.step
    blocks = [pack_residues(row, key.buffer.ring.moduli) for row in key.b_rows()]
    return write_record(
        _KIND_OF[type(key)], facts=facts, blocks=blocks, fingerprint=key.params.fingerprint, key_id=key.key_id
    )


def _read_evaluation_key(record: Record, device: str | None, engine: PublicEngine | None) -> EvaluationKey:
    cls = _KEY_KINDS[record.kind]
    params, level = _read_params(record), record.fact("level", int)
    if not 0 <= level <= params.levels or len(record.blocks) != params.digits_at(level):
        raise FormatError(
            f"{record.kind}: level {level} with {len(record.blocks)} digits does not fit its parameters",
            subject="level",
        )
    extra: tuple[int, ...] = ()
    if cls is RotationKey:
        step = record.fact("step", int)
        if not 0 < step < params.slot_count:
            raise FormatError(f"rotation-key: step {step} is not within 1 and {params.slot_count - 1}", subject="step")
        extra = (step,)
    rows = np.stack([unpack_residues(block, params.n, params.key_ring_at(level).moduli) for block in record.blocks])
    return load_evaluation_key(cls, extra, params, record.key_id, level, _read_seed(record), device, rows)


def _read_public_key(record: Record, device: str | None, engine: PublicEngine | None) -> PublicKey:
    params = _read_params(record)
    rows = unpack_residues(_only(record), params.n, public_key_ring(params).moduli)
    return load_public_key(params, record.key_id, _read_seed(record), device, rows)


def _read_key_set(record: Record, device: str | None, engine: PublicEngine | None) -> EvaluationKeySet:
    found: dict[type, Any] = {}
    rotations: dict[int, RotationKey] = {}
    for block in record.blocks:
        key = from_bytes(bytes(block), engine, device=device)
        if isinstance(key, RotationKey):
            rotations[key.step] = key
        elif isinstance(key, (RelinearizationKey, ConjugationKey)):
            found[type(key)] = key
        else:
            raise FormatError(f"evaluation-keys: a {type(key).__name__} is none", subject="blocks")
    return EvaluationKeySet(RotationKeySet(rotations), found.get(RelinearizationKey), found.get(ConjugationKey))


def _read_public_engine(record: Record, device: str | None, engine: PublicEngine | None) -> PublicEngine:
    if len(record.blocks) != 2:
        raise FormatError(f"public-engine: {len(record.blocks)} parts found, 2 expected", subject="blocks")
    public = from_bytes(bytes(record.blocks[0]), device=device)
    keys = from_bytes(bytes(record.blocks[1]), device=device)
    if not isinstance(public, PublicKey) or not isinstance(keys, EvaluationKeySet):
        raise FormatError("public-engine: its parts are not a public key and a key set", subject="blocks")
    return PublicEngine(public.params, public, keys, device=device, strict_bounds=record.fact("strict_bounds", bool))


# -- parameters ------------------------------------------------------------------------------------------------------


def _params_facts(params: CKKSParams) -> dict[str, Any]:
    return {f.name: getattr(params, f.name) for f in fields(params)}


def _read_params(record: Record) -> CKKSParams:
    facts = record.fact("params", dict)
    try:
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}
        params = CKKSParams(**given)
    except (TypeError, ValueError) as error:
        raise FormatError(f"{record.kind}: the parameters are malformed: {error}", subject="params") from error
    if params.fingerprint != record.fingerprint:
        raise ParametersMismatchError(
            f"{record.kind}: parameters {params.fingerprint} under the fingerprint {record.fingerprint}",
            subject="params",
        )
    return params


def _check_owner(record: Record, engine: PublicEngine) -> None:
    if record.fingerprint and record.fingerprint != engine.params.fingerprint:
        raise ParametersMismatchError(
            f"{record.kind}: made with parameters {record.fingerprint}, this engine has {engine.params.fingerprint}",
            subject="parameters",
            hint="Use an engine with equal parameters",
        )
    if record.key_id and record.key_id != engine.key_id:
        raise KeyMismatchError(
            f"{record.kind}: belongs to key {record.key_id}, this engine to key {engine.key_id}",
            subject="key",
            hint="Use the engine in which it was made",
        )


# -- small parts -----------------------------------------------------------------------------------------------------


def _packed(poly: Poly | None) -> bytes:
    assert poly is not None
    ntt = poly.ntt()
    return pack_residues(ntt.residues(), ntt.ring.moduli)


def _unpacked(block: memoryview, ring: RingSpec, device: str | None) -> Poly:
    return Poly.from_residues(unpack_residues(block, ring.n, ring.moduli), ring, Domain.NTT, device)


def _only(record: Record) -> memoryview:
    if len(record.blocks) != 1:
        raise FormatError(f"{record.kind}: {len(record.blocks)} blocks found, 1 expected", subject="blocks")
    return record.blocks[0]


def _read_seed(record: Record) -> bytes:
    try:
        seed = bytes.fromhex(record.fact("seed", str))
    except ValueError as error:
        raise FormatError(f"{record.kind}: the seed is malformed", subject="seed") from error
    if len(seed) != 32:
        raise FormatError(f"{record.kind}: the seed has {len(seed)} bytes", subject="seed")
    return seed


_READERS: dict[str, Callable[[Record, str | None, PublicEngine | None], Any]] = {
    "ciphertext": _read_ciphertext,
    "ciphertext-product": _read_ciphertext,
    "plaintext": _read_plaintext,
    "constant": _read_constant,
    "ciphertext-batch": _read_batch,
    "plaintext-batch": _read_batch,
    "public-key": _read_public_key,
    **dict.fromkeys(_KEY_KINDS, _read_evaluation_key),
    "evaluation-keys": _read_key_set,
    "params": lambda record, device, engine: _read_params(record),
    "public-engine": _read_public_engine,
}

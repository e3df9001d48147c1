"""Evaluation keys that a program needs against those that a workspace holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ren.program.diagnostics import Diagnostic, located
from ren.program.requirements import EvaluationKeyRequirements, most_slots, span_steps

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine


def key_diagnostics(
    needed: EvaluationKeyRequirements, space: Mapping[Any, Any], engine: PublicEngine | None
) -> Iterator[Diagnostic]:
    """Findings about workspace["evaluation_keys"] and workspace["public_key"]."""
    keys = space.get("evaluation_keys")
    if needed.any:
        if not _is_key_set(keys):
            yield located(
                "missing-evaluation-keys", f"needed: {describe(needed)}. {_instead(keys)}", subject="evaluation_keys"
            )
        else:
            yield from _incomplete(needed, keys)
    if _is_key_set(keys) and engine is not None:
        yield from _incompatible(keys, engine)
    public = space.get("public_key")
    if public is not None and engine is not None:
        problem = _owner_problem(public, engine) or _kind_problem(public)
        if problem is not None:
            yield located("incompatible-public-key", f"workspace['public_key']: {problem}", subject="public_key")


def _kind_problem(public: Any) -> str | None:
    """Why a key of this owner is no public key: a secret one encrypts as well, and has no business in a workspace."""
    from ren.schemes.ckks.keys import PublicKey

    return None if isinstance(public, PublicKey) else f"must be a ckks.PublicKey, got {type(public).__name__}"


def _is_key_set(keys: Any) -> bool:
    if keys is None:
        return False
    from ren.schemes.ckks.keys import EvaluationKeySet

    return isinstance(keys, EvaluationKeySet)


def _instead(keys: Any) -> str:
    if keys is None:
        return "Bind workspace['evaluation_keys'] to a ckks.EvaluationKeySet"
    return f"workspace['evaluation_keys'] must be a ckks.EvaluationKeySet, got {type(keys).__name__}"


def describe(needed: EvaluationKeyRequirements) -> str:
    """What is needed, as text."""
    parts = []
    steps = set(needed.rotation_steps)
    for stride in needed.all_slots_from:
        steps -= set(span_steps(stride, most_slots() // stride))
    if steps:
        parts.append(f"rotation by {', '.join(map(str, sorted(steps)))}")
    if needed.all_slots_from:
        parts.append(
            f"rotations for a sum over all slots from step {', '.join(map(str, sorted(needed.all_slots_from)))}"
        )
    if needed.requires_relinearization:
        parts.append("relinearization")
    if needed.requires_conjugation:
        parts.append("conjugation")
    size = f" ({needed.key_count} keys, {needed.key_bytes / 2**20:.1f} MiB)" if needed.key_bytes else ""
    return "; ".join(parts) + size


def _incomplete(needed: EvaluationKeyRequirements, keys: Any) -> Iterator[Diagnostic]:
    present = keys.rotations
    missing = sorted(needed.rotation_steps) if present is None else present.lacking(needed.rotation_steps)
    if missing:
        shown = ", ".join(map(str, present or ())) or "none"
        message = f"rotation keys are missing for steps {', '.join(map(str, missing))}; present: {shown}. engine.evaluation_keys_for(requirements) makes exactly what is needed"
        yield located("incomplete-evaluation-keys", message, subject="rotations")
    yield from _too_deep(needed, keys)
    if needed.requires_relinearization and keys.relinearization is None:
        yield located("incomplete-evaluation-keys", "the relinearization key is missing", subject="relinearization")
    if needed.requires_conjugation and keys.conjugation is None:
        yield located("incomplete-evaluation-keys", "the conjugation key is missing", subject="conjugation")


def _too_deep(needed: EvaluationKeyRequirements, keys: Any) -> Iterator[Diagnostic]:
    """Keys made for deeper levels than those at which they are used."""
    for (kind, step), level in sorted(needed.shallowest.items()):
        if kind == "rotation":
            key = keys.rotations[step] if keys.rotations is not None and step in keys.rotations else None
        else:
            key = getattr(keys, kind)
        if key is not None and key.level > level:
            what = f"rotation by {step}" if kind == "rotation" else kind
            message = f"the key for {what} serves level {key.level} and deeper; it is used at level {level}"
            yield located("incomplete-evaluation-keys", message, subject="rotations" if kind == "rotation" else kind)


def _incompatible(keys: Any, engine: PublicEngine) -> Iterator[Diagnostic]:
    for key in keys.members():
        problem = _owner_problem(key, engine)
        if problem is not None:
            yield located("incompatible-evaluation-keys", f"{key!r}: {problem}", subject="evaluation_keys")


def _owner_problem(key: Any, engine: PublicEngine) -> str | None:
    """Why a key does not belong to an engine, or None."""
    params = getattr(key, "params", None)
    if params is None or not hasattr(key, "key_id"):
        return f"not a key: {type(key).__name__}"
    if params != engine.params:
        return f"made for parameters {params.fingerprint}, the engine has {engine.params.fingerprint}"
    if key.key_id != engine.key_id:
        return f"belongs to key {key.key_id}, the engine to key {engine.key_id}"
    return None

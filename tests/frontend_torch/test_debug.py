"""`program.debug` of traced programs against the traced function: what the reference is given, and what is said of results that it cannot judge to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from ren import jit

X = np.cos(np.arange(64)) * 0.9
Y = np.sin(3 * np.arange(64)) * 0.9


def lowered(engine: Any, function: Any, **inputs: Any) -> tuple[Any, Any, Any]:
    captured = jit.trace(function, inputs=inputs)
    found = jit.default_pipeline().run(captured.program, captured.workspace)
    space = found.workspace
    keys = engine.evaluation_keys_for(jit.analyze_evaluation_key_requirements(found.program))
    space.update(engine=engine, public_key=engine.public_key, evaluation_keys=keys)
    return captured, found.program, space


def secret(engine: Any, values: Any) -> Any:
    return engine.encrypt(engine.encode(values))


@pytest.mark.parametrize("wrong", [False, True])
def test_a_reference_computes_on_what_ciphertexts_hold(engine: Any, wrong: bool) -> None:
    captured, program, space = lowered(
        engine, lambda x, y: x.roll(1) * y + x, x=jit.encrypted(bound=1.0), y=jit.encrypted(bound=1.0)
    )
    reference = (lambda x, y: torch.as_tensor(x).roll(2) * y + x) if wrong else captured.reference
    report = program.debug(secret(engine, X), y=secret(engine, Y), workspace=space, reference=reference)
    assert report.ok is not wrong
    assert not wrong or report.first.code == "reference"


def test_a_reference_computes_on_what_plaintexts_and_shorter_vectors_hold(engine: Any) -> None:
    captured, program, space = lowered(
        engine, lambda x, p: (x * p).sum(), x=jit.encrypted(slots=6, bound=1.0), p=jit.plaintext()
    )
    x = engine.encrypt(engine.encode(X[:6], slots=8))
    p = engine.encode(Y[:6], slots=8)
    seen: list[Any] = []

    def reference(x: Any, p: Any) -> Any:
        seen.extend((x, p))
        return captured.reference(x, p[:6])

    report = program.debug(x, p, workspace=space, reference=reference)
    assert report.ok, str(report)
    np.testing.assert_allclose(seen[0], X[:6], atol=1e-6)
    np.testing.assert_allclose(seen[1][:6], Y[:6], atol=1e-6)


@pytest.mark.parametrize(("handler", "ok"), [(np.sin, True), (lambda v: v, False), (lambda v: -np.sin(v), False)])
def test_what_follows_a_kept_call_is_compared_and_the_report_says_how_far(engine: Any, handler: Any, ok: bool) -> None:
    _, program, space = lowered(engine, lambda x: torch.sin(x) * 0.5, x=jit.encrypted(bound=1.0))
    space["torch_handlers"] = {"torch.sin": lambda x, **_: secret(engine, handler(engine.decode(engine.decrypt(x))))}
    report = program.debug(X, workspace=space, reference=np.sin(X) * 0.5)
    assert report.ok is ok, str(report)
    assert ok or report.first.code == "reference"
    assert "result 0 was compared with the reference to 0.00098 only" in str(report)


def test_a_ciphertext_at_its_bound_may_decrypt_to_a_little_more(engine: Any) -> None:
    _, program, space = lowered(engine, lambda x: x * 0.5, x=jit.encrypted(bound=0.5))
    assert program.debug(secret(engine, np.full(64, 0.5)), workspace=space).ok
    report = program.debug(secret(engine, np.full(64, 0.501)), workspace=space)
    assert report.first.code == "bound"
    assert report.first.operation == "argument x"

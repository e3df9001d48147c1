"""What a handler of a kept call returns is checked where it returns it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from ren import jit
from ren.errors import ProgramRunError
from ren.schemes import ckks

X = np.cos(np.arange(64)) * 0.9


def program_of(engine: Any, handler: Any) -> tuple[Any, Any]:
    captured = jit.trace(lambda x: torch.sin(x) * 2, inputs={"x": jit.encrypted(bound=1.0)})
    found = jit.default_pipeline().run(captured.program, captured.workspace)
    keys = engine.evaluation_keys_for(jit.analyze_evaluation_key_requirements(found.program))
    found.workspace.update(
        engine=engine, public_key=engine.public_key, evaluation_keys=keys, torch_handlers={"torch.sin": handler}
    )
    return found.program, found.workspace


def foreign(_: Any) -> Any:
    other = ckks.Engine("python-test", device="reference")
    return other.encrypt(other.encode(X))


WRONG = {
    "nothing": (lambda x: None, "returned nothing, a ckks.Ciphertext is needed"),
    "text": (lambda x: "x", "an object of type str"),
    "number": (lambda x: 7, "an object of type int"),
    "tensor": (lambda x: torch.zeros(64), "an object of type Tensor"),
    "product": (lambda x: ckks.multiply(x, x, relinearize=False), "a product that was not relinearized"),
    "another key": (foreign, "a ciphertext of key"),
    "batch": (lambda x: ckks.CiphertextBatch((2,), (x, x)), "a batch of shape"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_wrong_result_is_refused_with_the_handler_named(engine: Any, case: str, compiled: bool) -> None:
    handler, message = WRONG[case]
    program, space = program_of(engine, lambda x, **_: handler(x))
    with pytest.raises(ProgramRunError, match=message) as caught:
        (program.compile(space) if compiled else program.run)(X, **({} if compiled else {"workspace": space}))
    assert "torch.sin" in str(caught.value)
    assert "test_handler_results.py" in str(caught.value)


def test_a_right_result_is_taken(engine: Any) -> None:
    program, space = program_of(engine, lambda x, **_: x)
    for _ in range(2):
        np.testing.assert_allclose(engine.decode(engine.decrypt(program.run(X, workspace=space))), 2 * X, atol=1e-6)

"""An 8 x 8 matrix by diagonals, a quadratic, and a caller's gain: what the whole pipeline pays for it, pinned."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.program import Program, encrypted, message, plaintext, types
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for

S, N = 64, 8
MATRIX = np.random.default_rng(1).uniform(-0.2, 0.2, (N, N))
BIAS = np.linspace(0, 0.1, N)


def diagonal(k: int) -> Any:
    return np.tile([MATRIX[j, (j - k) % N] for j in range(N)], S // N)


def source() -> Program:
    b = ProgramBuilder(x=encrypted(), weight=message(), bias=message(), gain=plaintext())

    def sem(name: str, *values: Any, **attributes: Any) -> Any:
        return b(f"ren.semantic.{name}", *values, **attributes)

    def public(value: Any, target: str) -> Any:
        attributes = {"ren.call.kind": "function", "ren.call.target": target}
        return b("torch.call", value, types=[types.message()], **attributes)

    affine = sem("multiply", b["x"], public(b["weight"], "diagonal0"))
    for k in range(1, N):
        rolled = sem("roll", b["x"], shift=k, dimension=-1)
        affine = sem("add", affine, sem("multiply", rolled, public(b["weight"], f"diagonal{k}")))
    affine = sem("add", affine, public(b["bias"], "repeat"))
    quadratic = sem("multiply", sem("add", affine, b.constant(0.25)), sem("subtract", affine, b.constant(0.5)))
    return b.program(sem("multiply", quadratic, b["gain"]))


@pytest.fixture(scope="module")
def program() -> Program:
    return jit.default_pipeline().run(source()).program


def test_one_relinearization_one_group_of_seven_three_rescales(program: Program) -> None:
    found = Counter(op.name.removeprefix("ren.ckks.") for op in program.walk())
    assert (found["relinearize"], found["rotate"], found["rotate_group"], found["rescale"]) == (1, 0, 1, 3)
    (group,) = [op for op in program.walk() if op.name == "ren.ckks.rotate_group"]
    assert len(group.results) == 7
    assert found["align"] + found["meet"] + found["from_ntt"] == 0
    needed = jit.analyze_evaluation_key_requirements(program)
    assert set(needed.rotation_steps) == set(range(1, N))


@pytest.mark.parametrize("level", [0, 2, 3])
def test_decrypts_right_wherever_the_gain_is_encoded(engine: Any, program: Program, level: int) -> None:
    handlers: dict[str, Any] = {f"diagonal{k}": lambda w, k=k: diagonal(k) for k in range(N)}
    handlers["repeat"] = lambda v: np.tile(v, S // N)
    space = workspace_for(program, engine, torch_handlers=handlers)
    x = np.linspace(-1, 1, N)
    gain = engine.plaintext(0.75, level=level, scale=engine.config.default_scale)
    result = program.run(np.tile(x, S // N), MATRIX, BIAS, gain, workspace=space)
    affine = MATRIX @ x + BIAS
    expected = np.tile((affine + 0.25) * (affine - 0.5) * 0.75, S // N)
    np.testing.assert_allclose(decoded(engine, result), expected, rtol=0, atol=1e-8)
    assert result.level == max(level, 2) + 1

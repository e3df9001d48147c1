"""Traced programs under encryption: lowered by the default pipeline, run, decrypted and compared with PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from ren import jit
from ren.schemes.ckks import CiphertextBatch
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.testing.program_kit import workspace_for
from torch_corpus import RIGHT, W, X

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
#: The noise of these programs at 40 bits, values up to 30; a wrong value is off by far more.
ATOL = 2e-6


def lowered(captured: Any, engine: Any) -> tuple[Any, Any]:
    """The program after the default pipeline, and a workspace with the keys that it needs."""
    program = jit.default_pipeline().run(captured.program, captured.workspace).program
    workspace = workspace_for(program, engine)
    workspace["materials"] = captured.workspace.get("materials", {})
    return program, workspace


def revealed(engine: Any, value: Any) -> Any:
    """Results with encrypted values decrypted, complex."""
    if isinstance(value, (Ciphertext, CiphertextBatch)):
        return torch.as_tensor(engine.decode(engine.decrypt(value), is_real=False))
    if isinstance(value, Mapping):
        return {k: revealed(engine, v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(revealed(engine, v) for v in value)
    return value


def run(engine: Any, captured: Any, *args: Any, **kwargs: Any) -> Any:
    """The decrypted results in their logical shapes. Readiness promises that the program runs."""
    program, workspace = lowered(captured, engine)
    report = program.readiness(workspace)
    assert report.runnable, "\n".join(map(str, report.diagnostics))
    return captured.decode(revealed(engine, program.run(*args, workspace=workspace, **kwargs)))


def assert_close(found: Any, expected: Any) -> None:
    if isinstance(expected, Mapping):
        assert list(found) == list(expected)
        for key, part in expected.items():
            assert_close(found[key], part)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_close(a, b)
    elif expected is None or isinstance(expected, str):
        assert found == expected
    else:
        found, expected = torch.as_tensor(found), torch.as_tensor(expected)
        assert found.shape == expected.shape
        torch.testing.assert_close(found.to(torch.complex128), expected.to(torch.complex128), rtol=0, atol=ATOL)


@pytest.mark.parametrize("name", RIGHT)
def test_corpus(name: str, engine: Any) -> None:
    function = RIGHT[name]
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8), "w": jit.message(shape=(8,))})
    assert_close(run(engine, captured, X, W), function(x=X.clone(), w=W.clone()))

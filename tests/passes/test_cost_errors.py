"""Predicted errors against measured ones: the typical error within one bit, the maximum never exceeded."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.program import Workspace
from ren.schemes import ckks
from ren.testing.program_kit import ProgramBuilder, workspace_for


def _corpus() -> Any:
    spec = importlib.util.spec_from_file_location("pass_corpus", Path(__file__).with_name("test_corpus.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pass_corpus"] = module
    spec.loader.exec_module(module)
    return module


CORPUS = _corpus()
CASES = {c.name: c for c in CORPUS.CASES}
FEW = (
    "polynomial-3",
    "sum-of-products",
    "2x2-1-six-times",
    "sum-v8",
    "rolled-products",
    "matmul-linear-8x8",
    "x/w",
    "mean-full",
    "nothing-to-do",
)


@pytest.fixture(scope="module")
def owner() -> Any:
    return ckks.Engine("python-test")


def measured(item: Any, owner: Any, runs: int) -> list[tuple[Any, float, float]]:
    """(predicted, measured rms, measured maximum) per result that an operation makes."""
    sem = CORPUS.Sem(ProgramBuilder(**item.inputs))
    found = item.build(sem)
    source = sem.b.program(*(found if isinstance(found, tuple) else (found,)))
    lowered = jit.default_pipeline().run(source, Workspace()).program
    space = workspace_for(lowered, owner, materials=dict(item.materials))
    cost = lowered.cost(owner, workspace=space)
    returned = lowered.entry_block().last_op.operands  # type: ignore[union-attr]
    rows = [cost.row(v.owner) for v in returned]
    random = np.random.default_rng(11)
    secret = [s.role == "encrypted" for s in item.inputs.values()]
    errors: list[list[np.ndarray[Any, Any]]] = [[] for _ in returned]
    for _ in range(runs):
        given = [
            random.uniform(-1, 1, np.shape(a)) if hidden else a
            for a, hidden in zip(item.arguments, secret, strict=True)
        ]
        results, expected = lowered.run(*given, workspace=space), item.expected(*given)
        if not isinstance(results, tuple):
            results, expected = (results,), (expected,)
        for i, (result, want) in enumerate(zip(results, expected, strict=True)):
            got = owner.decode(owner.decrypt(result), is_real=False)[: np.size(want)]
            errors[i].append(np.abs(got - np.ravel(want)))
    return [
        (row.error, float(np.sqrt(np.mean(np.square(e)))), float(np.max(e)))
        for row, e in zip(rows, errors, strict=True)
        if row is not None and row.error is not None
    ]


def check(item: Any, owner: Any, runs: int, tolerance: float) -> None:
    for predicted, rms, maximum in measured(item, owner, runs):
        assert maximum <= predicted.maximum
        assert predicted.simulated
        assert abs(math.log2(predicted.rms / rms)) <= tolerance, f"predicted {predicted.rms:.3g}, measured {rms:.3g}"


@pytest.mark.parametrize("name", FEW)
def test_typical_errors_within_a_bit_and_no_error_above_the_maximum(name: str, owner: Any) -> None:
    check(CASES[name], owner, 12, 1.0)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_the_same_for_the_whole_corpus(name: str, owner: Any) -> None:
    check(CASES[name], owner, 60, 1.0)

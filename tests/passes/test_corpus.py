"""A corpus of programs, lowered by the default pipeline, run encrypted and compared with NumPy; every one is idempotent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from passes_corpus import CASES, CLOSE, Case, Sem, X
from ren import jit
from ren.program import Workspace, encrypted, plaintext
from ren.testing.program_kit import ProgramBuilder, decoded, run_both_ways, workspace_for


@pytest.mark.parametrize("item", CASES, ids=lambda c: c.name)
def test_decrypts_to_what_it_means(engine: Any, item: Case) -> None:
    sem = Sem(ProgramBuilder(**item.inputs))
    found = item.build(sem)
    source = sem.b.program(*(found if isinstance(found, tuple) else (found,)))
    lowered = jit.default_pipeline().run(source, Workspace()).program
    space = workspace_for(lowered, engine, materials=dict(item.materials))
    report = lowered.readiness(space)
    assert report.runnable, str(report)
    results = run_both_ways(lowered, *item.arguments, workspace=space)
    expected = item.expected(*item.arguments)
    if not isinstance(results, tuple):
        results, expected = (results,), (expected,)
    for result, want in zip(results, expected, strict=True):
        got = decoded(engine, result)
        np.testing.assert_allclose(got[: np.size(want)], np.ravel(want), **CLOSE)
    again = jit.default_pipeline().run(lowered, Workspace())
    assert again.program.to_text() == lowered.to_text()
    assert not any(r.stats.inserted or r.stats.removed or r.stats.transformed for r in again.reports)


def test_the_corpus_is_large_enough() -> None:
    assert len(CASES) >= 40
    assert len({c.name for c in CASES}) == len(CASES)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_callers_plaintext_meets_at_the_deeper_level(engine: Any, level: int) -> None:
    sem = Sem(ProgramBuilder(x=encrypted(), g=plaintext()))
    gained = sem.mul(sem.mul(sem["x"], sem["x"]), sem["g"])
    source = sem.b.program(sem.add(sem.mul(gained, gained), sem["x"]))
    lowered = jit.default_pipeline().run(source).program
    space = workspace_for(lowered, engine)
    result = lowered.run(X, engine.plaintext(0.5, level=level), workspace=space)
    np.testing.assert_allclose(decoded(engine, result), (X * X / 2) ** 2 + X, **CLOSE)
    assert result.level == max(level, 1) + 2

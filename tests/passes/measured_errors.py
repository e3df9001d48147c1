"""Decrypted errors of corpus programs, in several lowerings, beside the predicted ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from passes_corpus import CASES, Case, Sem
from ren import jit
from ren.program import Program, Workspace
from ren.program.cost_errors import ErrorEstimate
from ren.testing.program_kit import ProgramBuilder, workspace_for


@dataclass(frozen=True)
class Result:
    """One result of a program. rms, maximum: of the decrypted error, over slots and runs."""

    predicted: ErrorEstimate | None
    rms: float
    maximum: float


@cache
def source(index: int) -> Program:
    """Program number `index` of the corpus as it is written."""
    sem = Sem(ProgramBuilder(**CASES[index].inputs))
    found = CASES[index].build(sem)
    return sem.b.program(*(found if isinstance(found, tuple) else (found,)))


@cache
def by_default(index: int) -> Program:
    return jit.default_pipeline().run(source(index), Workspace()).program


def measured(item: Case, program: Program, owner: Any, runs: int, *, compiled: bool = False) -> list[Result]:
    """Every result of a lowered program on random inputs; public data stays what the corpus gives. What was captured at the first run is replayed at the others."""
    space = workspace_for(program, owner, materials=dict(item.materials))
    report = program.readiness(space)
    assert report.runnable, f"{item.name}: {report}"
    bounded = program.cost(owner, workspace=space).results
    call = program.compile(space) if compiled else lambda *a: program.run(*a, workspace=space)
    random = np.random.default_rng(11)
    secret = [s.role == "encrypted" for s in item.inputs.values()]
    errors: list[list[Any]] = [[] for _ in bounded]
    for _ in range(runs):
        given = [
            random.uniform(-1, 1, np.shape(a)) if hidden else a
            for a, hidden in zip(item.arguments, secret, strict=True)
        ]
        results, expected = call(*given), item.expected(*given)
        if not isinstance(results, tuple):
            results, expected = (results,), (expected,)
        for i, (result, want) in enumerate(zip(results, expected, strict=True)):
            got = owner.decode(owner.decrypt(result), is_real=False)[: np.size(want)]
            errors[i].append(np.abs(got - np.ravel(want)))
    return [
        Result(p, float(np.sqrt(np.mean(np.square(e)))), float(np.max(e)))
        for p, e in zip(bounded, errors, strict=True)
    ]

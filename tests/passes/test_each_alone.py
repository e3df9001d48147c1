"""Each optimisation alone on the corpus: the meaning stays, the counts never grow, and what it saves over all programs is pinned.

Every program is evaluated on numbers for every optimisation (`ren.program.clear_run`); `test_cost_errors.py` runs them encrypted.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from measured_errors import by_default, source
from passes_corpus import CASES, CLOSE, Case, S
from ren import jit
from ren.program import PassPipeline, Program, Workspace
from ren.program.clear_run import clear_results
from ren.program.types import EncryptedType

PLAIN = (
    "eliminate-dead-values",
    "lower-semantic-to-logical",
    "expand-logical",
    "insert-plaintext-preparation",
    "insert-multiply-ntt-transitions",
    "lower-logical-to-ckks",
    "insert-relinearization",
    "insert-rescale",
    "align-levels",
)
ON_REQUEST = ("rebalance-products", "collect-polynomials")
WHOLE = jit.default_pipeline(enable=ON_REQUEST)
ALONE = [name for name in WHOLE.names if name not in PLAIN]
#: Optimisation -> what it saves over the whole corpus, against plain lowering.
SAVED: dict[str, dict[str, int]] = {
    "fold-public-work": {},
    "collect-polynomials": {
        "depth": 5,
        "encode": 34,
        "from_ntt": 24,
        "product": 70,
        "relinearize": 46,
        "rescale": 99,
        "to_ntt": 91,
    },
    "rebalance-products": {"depth": 2, "rescale": 3},
    "fuse-scalar-products": {"depth": 1, "encode": 1, "from_ntt": 1, "product": 1, "rescale": 1, "to_ntt": 1},
    "split-rotations": {"decomposition": 17, "rotation": 17},
    "place-domains": {"from_ntt": 139, "to_ntt": 146},
    "merge-equal-values": {"product": 26, "relinearize": 26, "rescale": 33, "to_ntt": 95},
    "late-rescale": {"rescale": 117},
    "late-relinearization": {"relinearize": 10, "rescale": 117},
    "encode-plaintexts-once": {"encode": 3},
    "hoist-rotations": {"decomposition": 72},
}
#: The default pipeline over plain lowering.
SAVED_BY_DEFAULT = {
    "decomposition": 69,
    "depth": 1,
    "encode": 4,
    "from_ntt": 139,
    "product": 27,
    "relinearize": 35,
    "rescale": 147,
    "rotation": 17,
    "to_ntt": 166,
}


#: Relinearizations meet only where nothing is rescaled in between.
TOGETHER = {"late-relinearization": "late-rescale"}


def pipeline(optimisation: str | None) -> PassPipeline:
    wanted = (*PLAIN, optimisation, TOGETHER.get(optimisation or ""))
    return PassPipeline([p for p in WHOLE.passes if p.name in wanted])


@cache
def lowered(index: int, optimisation: str | None) -> Program:
    return pipeline(optimisation).run(source(index), Workspace()).program


def counts(program: Program) -> Counter[str]:
    """Work that takes time, by kind; a group of rotations is one decomposition and as many keys."""
    found: Counter[str] = Counter()
    for op in program.walk():
        kind = op.name.removeprefix("ren.ckks.")
        if kind in ("relinearize", "rescale", "to_ntt", "from_ntt", "encode"):
            found[kind] += 1
        elif kind.startswith("prepare."):
            found["encode"] += 1
        elif kind == "align":
            found["rescale"] += 1
        elif kind in ("rotate", "conjugate"):
            found["rotation"] += 1
            found["decomposition"] += 1
        elif kind == "rotate_group":
            found["rotation"] += len(op.results)
            found["decomposition"] += 1
        elif kind in ("multiply", "multiply_plaintext", "square"):
            found["product"] += 1
    returned = program.entry_function().function_type.outputs.data
    found["depth"] = max((t.data.level or 0 for t in returned if isinstance(t, EncryptedType)), default=0)
    return found


def check(results: Any, item: Case) -> None:
    expected = item.expected(*item.arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.ravel(got)[: np.size(want)], np.ravel(want), **CLOSE)


@pytest.mark.parametrize("optimisation", [None, *ALONE])
def test_the_meaning_of_every_program_stays(optimisation: str | None) -> None:
    for index, item in enumerate(CASES):
        program = lowered(index, optimisation)
        materials = {"materials": dict(item.materials)}
        check(clear_results(program, list(item.arguments), Workspace(materials), S), item)


@pytest.mark.parametrize("optimisation", ALONE)
def test_counts_never_grow_and_what_is_saved(optimisation: str) -> None:
    saved: Counter[str] = Counter()
    for index, item in enumerate(CASES):
        before, after = counts(lowered(index, None)), counts(lowered(index, optimisation))
        for kind in before.keys() | after.keys():
            assert after[kind] <= before[kind], f"{item.name}: {kind} {before[kind]} -> {after[kind]}"
            saved[kind] += before[kind] - after[kind]
    assert {k: v for k, v in sorted(saved.items()) if v} == SAVED[optimisation]


def test_what_the_default_pipeline_saves() -> None:
    saved: Counter[str] = Counter()
    for index in range(len(CASES)):
        before, after = counts(lowered(index, None)), counts(by_default(index))
        saved.update({kind: before[kind] - after[kind] for kind in before.keys() | after.keys()})
    assert {k: v for k, v in sorted(saved.items()) if v} == SAVED_BY_DEFAULT

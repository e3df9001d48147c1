"""Predicted errors against decrypted ones, for every program and every optimisation: the typical error within one bit, the maximum never exceeded."""

from __future__ import annotations

import math
from typing import Any

import pytest
from measured_errors import by_default, measured
from passes_corpus import CASES
from ren.schemes import ckks
from test_each_alone import ALONE, lowered

VARIANTS = ("default", "compiled", "plain", *ALONE)


@pytest.fixture(scope="module")
def owner() -> Any:
    return ckks.Engine("python-test")


def check(index: int, variant: str, owner: Any, runs: int) -> None:
    item = CASES[index]
    if variant in ("default", "compiled"):
        program = by_default(index)
    else:
        program = lowered(index, None if variant == "plain" else variant)
    results = measured(item, program, owner, runs, compiled=variant == "compiled")
    assert results
    for found in results:
        assert found.predicted is not None and found.predicted.simulated
        where = f"{item.name}, {variant}: {found}"
        assert found.maximum <= found.predicted.maximum, where
        assert abs(math.log2(found.predicted.rms / found.rms)) <= 1.0, where


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_corpus_in_turns(variant: str, owner: Any) -> None:
    """A third of the programs in each lowering, another one in the next: every program in several."""
    for index in range(VARIANTS.index(variant) % 3, len(CASES), 3):
        check(index, variant, owner, 12)


@pytest.mark.full
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("index", range(len(CASES)), ids=[c.name for c in CASES])
def test_the_whole_corpus(index: int, variant: str, owner: Any) -> None:
    check(index, variant, owner, 40)

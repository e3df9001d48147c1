"""Each pass alone, on text: what it makes of a program, its exact counters, and that it leaves its own output alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from ren import jit
from ren.program import PassPipeline, PassStats, Workspace

GOLDEN = Path(__file__).parent / "golden"

#: pass -> matched, transformed, inserted, removed, skipped on its golden program.
COUNTERS = {
    "fold-public-work": (3, 2, 2, 4, 0),
    "eliminate-dead-values": (1, 1, 0, 1, 0),
    "lower-semantic-to-logical": (15, 15, 15, 15, 0),
    "expand-logical": (3, 3, 4, 4, 0),
    "fuse-scalar-products": (6, 3, 4, 9, 0),
    "insert-plaintext-preparation": (5, 5, 5, 0, 0),
    "insert-multiply-ntt-transitions": (5, 5, 7, 0, 0),
    "lower-logical-to-ckks": (13, 13, 13, 14, 0),
    "insert-relinearization": (2, 2, 2, 0, 0),
    "insert-rescale": (5, 5, 8, 0, 0),
    "align-levels": (7, 3, 3, 0, 0),
    "late-rescale": (4, 4, 4, 5, 0),
    "late-relinearization": (2, 2, 0, 1, 0),
    "encode-plaintexts-once": (4, 4, 4, 4, 0),
    "place-domains": (10, 6, 0, 6, 0),
    "merge-equal-values": (1, 1, 0, 1, 0),
    "hoist-rotations": (2, 2, 1, 2, 0),
}


def only(name: str) -> PassPipeline:
    return PassPipeline([p for p in jit.default_pipeline().passes if p.name == name])


def text(name: str, when: str) -> str:
    return (GOLDEN / f"{name}.{when}.mlir").read_text()


def test_every_pass_of_ours_has_a_golden_text() -> None:
    assert set(jit.default_pipeline().names) >= set(COUNTERS)
    assert {p.name.partition(".")[0] for p in GOLDEN.iterdir()} == set(COUNTERS)


@pytest.mark.parametrize("name", COUNTERS)
def test_before_and_after(name: str) -> None:
    source = jit.parse(text(name, "before"))
    result = only(name).run(source, Workspace())
    assert result.program.to_text() == text(name, "after")
    assert result.reports[0].stats == PassStats(*COUNTERS[name])
    assert result.reports[0].diagnostics == ()
    assert source.to_text() == text(name, "before")


@pytest.mark.parametrize("name", COUNTERS)
def test_again_changes_nothing(name: str) -> None:
    """J18."""
    after = jit.parse(text(name, "after"))
    result = only(name).run(after, Workspace())
    assert result.program.to_text() == after.to_text()
    stats = result.reports[0].stats
    assert (stats.inserted, stats.removed, stats.transformed) == (0, 0, 0)


@pytest.mark.parametrize("name", COUNTERS)
def test_inserted_and_removed_add_up(name: str) -> None:
    before, after = (sum(1 for _ in jit.parse(text(name, when)).walk()) for when in ("before", "after"))
    _, _, inserted, removed, _ = COUNTERS[name]
    assert after - before == inserted - removed

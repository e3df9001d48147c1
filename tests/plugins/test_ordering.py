"""Pass order depends on what passes declare, and on nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ren.errors import PassOrderError
from ren.plugin.ordering import STAGES, PassPlace, Stage, order_passes


def test_stage_then_wishes_then_name() -> None:
    places = [
        PassPlace("z-clean", Stage.CLEAN),
        PassPlace("a-optimize", Stage.OPTIMIZE),
        PassPlace("late", Stage.CKKS),
        PassPlace("early", Stage.CKKS, before=("late",)),
        PassPlace("z-first", Stage.CKKS, before=("early", "not there")),
        PassPlace("free", Stage.CKKS, after=("z-clean",)),
    ]
    wanted = ("z-clean", "free", "z-first", "early", "late", "a-optimize")
    for permutation in itertools.permutations(places):
        assert order_passes(permutation) == wanted


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([PassPlace("a", Stage.CKKS, after=("b",)), PassPlace("b", Stage.CKKS, after=("a",))], "a -> b -> a"),
        ([PassPlace("a", Stage.CKKS, after=("a",))], "a -> a"),
        (
            [
                PassPlace("x", Stage.CKKS, after=("a",)),
                PassPlace("a", Stage.CKKS, before=("b",)),
                PassPlace("b", Stage.CKKS, before=("c",)),
                PassPlace("c", Stage.CKKS, before=("a",)),
            ],
            "a -> b -> c -> a",
        ),
        (
            [PassPlace("a", Stage.CLEAN, after=("b",)), PassPlace("b", Stage.OPTIMIZE)],
            "'b' of stage 'optimize' is to run before 'a', whose stage 'clean'",
        ),
        ([PassPlace("a", Stage.CLEAN), PassPlace("a", Stage.LOWER)], "'a' is in the pipeline twice"),
    ],
)
def test_impossible_orders_name_the_passes(places: list[PassPlace], words: str) -> None:
    with pytest.raises(PassOrderError) as error:
        order_passes(places)
    assert words in str(error.value)


@given(
    st.permutations(range(8)),
    st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda e: e[0] < e[1]), max_size=12),
    st.randoms(),
)
def test_every_wish_is_met(names: list[int], wishes: set[tuple[int, int]], random: object) -> None:
    label = {i: f"p{n}" for i, n in enumerate(names)}
    stage = {i: STAGES[i // 3] for i in range(8)}
    places = [PassPlace(label[i], stage[i], before=tuple(label[b] for a, b in wishes if a == i)) for i in range(8)]
    ordered = order_passes(places)
    random.shuffle(places)  # type: ignore[attr-defined]
    assert order_passes(places) == ordered
    assert sorted(ordered) == sorted(label.values())
    at = {name: i for i, name in enumerate(ordered)}
    assert all(at[label[a]] < at[label[b]] for a, b in wishes)
    assert [stage[i] for name in ordered for i in label if label[i] == name] == sorted(
        (stage[i] for i in range(8)), key=STAGES.index
    )

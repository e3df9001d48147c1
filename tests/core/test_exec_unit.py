"""When a value in a plan is dead: what decides whether a backend may leave out writing it."""

from __future__ import annotations

import pytest
from ren.engine.exec_unit import ExecUnit, Operand, read_later
from ren.ring import RingSpec

RING = RingSpec(16, (97,))
VALUE = Operand(1, 16, 16)


def unit(reads: Operand, writes: Operand, scalar: Operand | None = None) -> ExecUnit:
    return ExecUnit("ntt", RING, (), (reads,), (scalar,) if scalar else (), (writes,))


ELSEWHERE = Operand(0, 0, 16)


@pytest.mark.parametrize(
    ("other", "shared", "covered"),
    [
        (Operand(1, 16, 16), True, True),
        (Operand(1, 0, 48), True, True),
        (Operand(1, 17, 15), True, False),
        (Operand(1, 0, 17), True, False),
        (Operand(1, 31, 1), True, False),
        (Operand(1, 0, 16), False, False),
        (Operand(1, 32, 16), False, False),
        (Operand(2, 16, 16), False, False),
    ],
)
def test_words_shared_and_covered(other: Operand, shared: bool, covered: bool) -> None:
    assert VALUE.overlaps(other) is other.overlaps(VALUE) is shared
    assert other.covers(VALUE) is covered


def test_a_value_is_read_later_until_one_output_covers_it() -> None:
    reader, half = unit(VALUE, ELSEWHERE), unit(ELSEWHERE, Operand(1, 16, 8))
    other_half, whole = unit(ELSEWHERE, Operand(1, 24, 8)), unit(ELSEWHERE, Operand(1, 0, 32))
    assert not read_later([], VALUE)
    assert read_later([half, reader], VALUE)
    assert read_later([half, other_half, reader], VALUE), "said to be needed, though both halves are overwritten: on the safe side"
    assert not read_later([whole, reader], VALUE)
    assert read_later([unit(VALUE, VALUE), whole], VALUE), "reads before it writes"
    assert read_later([unit(ELSEWHERE, ELSEWHERE, scalar=Operand(1, 20, 1))], VALUE)

"""RingSpec: integers of every kind, and nothing that only looks like one."""

import numpy as np
import pytest
from ren.errors import InvalidRingError
from ren.ring import RingSpec


@pytest.mark.parametrize("moduli", [(np.int64(17), np.uint64(97)), [17, 97], np.array([17, 97]), range(17, 98, 80)])
@pytest.mark.parametrize("n", [8, np.int64(8), np.uint8(8)])
def test_integers_of_every_kind(n, moduli):
    ring = RingSpec(n=n, moduli=moduli)
    assert ring == RingSpec(n=8, moduli=(17, 97))
    assert [type(value) for value in (ring.n, *ring.moduli)] == [int, int, int]


@pytest.mark.parametrize("moduli", [(17.9, 97.2), (17.0,), ("17", "97"), "17", b"17", 17, None, (None,), (True,)])
def test_moduli_are_never_converted(moduli):
    with pytest.raises(InvalidRingError, match=r"RingSpec.moduli.* must be .*, got "):
        RingSpec(n=8, moduli=moduli)


@pytest.mark.parametrize("n", [True, 8.0, "8", None])
def test_the_degree_is_never_converted(n):
    with pytest.raises(InvalidRingError, match="RingSpec.n must be an int"):
        RingSpec(n=n, moduli=(17,))

"""How a set of rotations of one value is best split into baby steps and giant steps."""

from __future__ import annotations

from collections.abc import Iterable

#: Time of one more rotation in a hoisted group, and of the rescale of one more inner sum, as parts of a rotation by itself. Measured at n = 2^14 with 8 limbs
#: in 4 digits (1.0 and 0.34 of 1.9 ms); larger rings have similar ratios, since decomposing and reading the key grow together.
HOISTED = 0.5
INNER_SUM = 0.18
#: A split has to save this part of the time: below, one group is as good and easier to read.
WORTH = 0.25


def _time(babies: int, giants: int) -> float:
    """Rotations by `babies` steps in one group and by `giants` steps one by one, in units of one rotation."""
    grouped = 1 + HOISTED * (babies - 1) if babies else 0.0
    return grouped + giants * (1 + INNER_SUM)


def baby_width(steps: Iterable[int]) -> int | None:
    """The power of two w for which writing each step as g + b, b = step mod w, takes the least time: the value is rotated by each b once, sums of equal g by
    g once. None where one hoisted group is about as fast.

    Source: Halevi, Shoup, "Faster homomorphic linear transformations in HElib", ia.cr/2018/244, sections 4 and 5.
    """
    wanted = set(steps)
    one_group = _time(len(wanted - {0}), 0)
    best, width = one_group, None
    w, span = 2, max(wanted, default=0) - min(wanted, default=0)
    while w <= span:
        time = _time(len({s % w for s in wanted} - {0}), len({s - s % w for s in wanted} - {0}))
        if time < best:
            best, width = time, w
        w *= 2
    return width if width is not None and best <= (1 - WORTH) * one_group else None

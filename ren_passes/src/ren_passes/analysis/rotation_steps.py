"""How a set of rotations of one value is best split into baby steps and giant steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ren.program.cost_model import CostModel

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


def _predicted(model: CostModel) -> Callable[[int, int], float]:
    """The same in seconds, predicted for this machine."""

    def time(babies: int, giants: int) -> float:
        apart = model.rotations(giants, hoisted=False) + giants * model.rescale()
        return model.rotations(babies, hoisted=True) + apart

    return time


def baby_width(steps: Iterable[int], model: CostModel | None = None) -> int | None:
    """The power of two w for which writing each step as g + b, b = step mod w, takes the least time: the value is rotated by each b once, sums of equal g by
    g once. None where one hoisted group is about as fast. model: predicts times for given parameters on this machine; without one they follow from the figures above.

    Source: Halevi, Shoup, "Faster homomorphic linear transformations in HElib", ia.cr/2018/244, sections 4 and 5.
    """
    wanted = set(steps)
    time_of = _time if model is None else _predicted(model)
    one_group = time_of(len(wanted - {0}), 0)
    best, width = one_group, None
    w, span = 2, max(wanted, default=0) - min(wanted, default=0)
    while w <= span:
        time = time_of(len({s % w for s in wanted} - {0}), len({s - s % w for s in wanted} - {0}))
        if time < best:
            best, width = time, w
        w *= 2
    return width if width is not None and best <= (1 - WORTH) * one_group else None

"""How a set of rotations of one value is best split into baby steps and giant steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

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


class Split(NamedTuple):
    """Steps as g + b with b in offset .. offset + width - 1 and g a multiple of width."""

    width: int
    offset: int

    def of(self, step: int) -> tuple[int, int]:
        """(g, b) of a step."""
        baby = (step - self.offset) % self.width + self.offset
        return step - baby, baby

    def counts(self, steps: Iterable[int]) -> tuple[int, int]:
        """(rotations by some b, rotations by some g)."""
        pairs = [self.of(s) for s in steps]
        return len({b for _, b in pairs} - {0}), len({g for g, _ in pairs} - {0})


def best_split(steps: Iterable[int], model: CostModel | None = None) -> Split | None:
    """The split that takes the least time: the value is rotated by each b once, sums of equal g by g once. None where one hoisted group is about as fast.

    Widths are powers of two; offsets are 0 and the first step. model: predicts times for given parameters on this machine; without one they follow from the
    figures above. Source: Halevi, Shoup, "Faster homomorphic linear transformations in HElib", ia.cr/2018/244, sections 4 and 5.
    """
    wanted = set(steps)
    if len(wanted) < 4:
        return None
    time = _time if model is None else _predicted(model)
    first, span = min(wanted), max(wanted) - min(wanted)
    splits = [Split(1 << i, offset) for i in range(1, span.bit_length()) for offset in (0, first)]
    best = min(splits, key=lambda s: time(*s.counts(wanted)), default=None)
    limit = (1 - WORTH) * time(len(wanted - {0}), 0)
    return best if best is not None and time(*best.counts(wanted)) <= limit else None

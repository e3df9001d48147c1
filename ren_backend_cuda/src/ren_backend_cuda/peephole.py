"""Pairs of units that one launch sequence does: what the engine's vocabulary keeps apart, seen in a whole plan.

mod_down, then the automorphism of its result: a rotation ends like this in both components. The last kernel of the division stores through
the permutation, so that a pass over memory and the temporary in between are saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from ren.engine.exec_unit import ExecUnit, Slot, SlotKind, read_later
from ren.ops import Domain

#: Kernel of a fused unit; params of `mod_down`, then g. Not one that a backend can declare.
MOD_DOWN_AUTOMORPHISM = "mod_down_automorphism"


def fuse(units: Sequence[ExecUnit], slots: Sequence[Slot]) -> list[ExecUnit]:
    """The plan with such pairs as one unit each."""
    fused: list[ExecUnit] = []
    at = 0
    while at < len(units):
        first, second = units[at], units[at + 1] if at + 1 < len(units) else None
        if second is not None and _fits(first, second, slots) and not read_later(islice(units, at + 2, None), *first.outputs):
            g, _ = second.params
            fused.append(
                replace(first, kernel=MOD_DOWN_AUTOMORPHISM, params=(*first.params, g), outputs=second.outputs)
            )
            at += 2
        else:
            fused.append(first)
            at += 1
    return fused


def _fits(first: ExecUnit, second: ExecUnit, slots: Sequence[Slot]) -> bool:
    """A division whose result is a temporary, and its automorphism, which writes over nothing that the division still reads."""
    return (
        (first.kernel, second.kernel) == ("mod_down", "automorphism")
        and len(first.params) == 3
        and len(second.params) == 2
        and first.params[2] == second.params[1] == Domain.NTT
        and first.outputs == second.inputs
        and first.ring.n == second.ring.n  # equal words may be fewer, longer rows
        and slots[first.outputs[0].slot].kind is SlotKind.TEMPORARY
        and not any(a.overlaps(b) for a in first.inputs for b in second.outputs)
    )

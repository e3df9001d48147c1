"""Units that one kernel does limb by limb while the limb is in the cache: what the engine's vocabulary keeps apart, seen in a whole plan.

* `from_float` or a `sample` of small integers, and the transform of what it made, in place, before anybody else touches it.
* The remainder of a public-key encryption: a one-limb polynomial r is extended to all limbs, centred, and taken off an error e of small integers, and the difference is
  transformed. The error is then drawn for the limb of r alone, which says everything about it, and difference and residues are made of integers.

Results have the bits of the units apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind, read_later
from ren.ops import Domain

from ren_backend_cpu.lower_remainder import fits
from ren_backend_cpu.lower_sampling import largest

#: Kernels of fused units. None that a backend can declare.
FROM_FLOAT_NTT, SAMPLE_NTT, REMAINDER_NTT = "from_float_ntt", "sample_ntt", "remainder_ntt"

_SUBTRACT = (2, 0, (("sub", 0, 1),), (2,), Domain.COEFF)


def fuse(units: Sequence[ExecUnit], slots: Sequence[Slot]) -> list[ExecUnit]:
    """The plan with such groups as one unit each."""
    fused: list[ExecUnit] = []
    gone: set[int] = set()  # transforms that a unit before them does
    at = 0
    while at < len(units):
        three = _remainder(units, at, fused, slots)
        if three is not None:
            (place, drawn), unit = three
            fused[place] = drawn
            fused.append(unit)
            at += 3
            continue
        pair = _transformed(units, at)
        if pair is not None:
            merged, transform = pair
            fused.append(merged)
            gone.add(transform)
        elif at not in gone:
            fused.append(units[at])
        at += 1
    return fused


def _transformed(units: Sequence[ExecUnit], at: int) -> tuple[ExecUnit, int] | None:
    """A unit with the transform of its result in the same memory, which so replaces it, and where that transform is."""
    first = units[at]
    if first.kernel == "from_float":
        merged = FROM_FLOAT_NTT
    elif first.kernel == "sample" and largest(first) is not None:
        merged = SAMPLE_NTT
    else:
        return None
    (made,) = first.outputs
    for place in range(at + 1, len(units)):
        unit = units[place]
        if unit.kernel == "ntt" and unit.inputs == unit.outputs == (made,) and unit.ring == first.ring:
            return replace(first, kernel=merged), place
        if any(made.overlaps(o) for o in unit.operands):
            return None
    return None


def _remainder(
    units: Sequence[ExecUnit], at: int, before: Sequence[ExecUnit], slots: Sequence[Slot]
) -> tuple[tuple[int, ExecUnit], ExecUnit] | None:
    """The fused unit that replaces units at .. at + 2, and where in `before` the sample is that feeds it, with what is to be drawn there."""
    if at + 2 >= len(units):
        return None
    extend, subtract, transform = units[at : at + 3]
    kernels = (extend.kernel, subtract.kernel, transform.kernel)
    if kernels != ("basis_extend", "elementwise", "ntt") or subtract.params != _SUBTRACT:
        return None
    mode, kept_moduli = extend.params
    n, (last,) = extend.ring.n, extend.ring.moduli[:1]
    if mode != "centred" or extend.ring.limbs != 1 or not fits(n, last):
        return None
    (extended,), (out,) = extend.outputs, transform.outputs
    error, converted = subtract.inputs
    if (
        (subtract.ring.n, subtract.ring.moduli) != (n, tuple(kept_moduli))
        or subtract.ring != transform.ring
        or converted != Operand(extended.slot, extended.offset + n, extended.words - n)
        or not subtract.outputs == transform.inputs == transform.outputs
        or slots[extended.slot].kind is not SlotKind.TEMPORARY
        or read_later(units[at + 3 :], extended)
        or any(extended.overlaps(o) for o in (*extend.inputs, out))
    ):
        return None
    # The last unit that wrote to the memory of the error must be a sample of it and of one limb more, which nobody else reads but for that limb.
    drawn = next((i for i in range(len(before) - 1, -1, -1) if _writes(before[i], error)), None)
    if drawn is None or slots[error.slot].kind is not SlotKind.TEMPORARY or read_later(units[at + 2 :], error):
        return None
    sample = before[drawn]
    whole = Operand(error.slot, error.offset, error.words + n)
    bound = largest(sample) if sample.kernel == "sample" else None
    if (
        bound is None
        or 2 * bound >= last
        or sample.outputs != (whole,)
        or (sample.ring.n, sample.ring.moduli) != (n, (*kept_moduli, last))
        or any(error.overlaps(o) for unit in before[drawn + 1 :] for o in (*unit.inputs, *unit.scratch))
        or whole.overlaps(out)
        or whole.overlaps(extended)
    ):
        return None
    row = Operand(whole.slot, whole.offset + error.words, n)
    if any(_writes(unit, row) for unit in before[drawn + 1 :]) or any(row.overlaps(o) for o in extend.scratch):
        return None
    one = replace(sample, ring=sample.ring.take(sample.ring.limbs - 1, sample.ring.limbs), outputs=(row,))
    scratch = (Operand(extended.slot, extended.offset, n),)
    ring = sample.ring
    unit = ExecUnit(REMAINDER_NTT, ring, (), (row, *extend.inputs), (), (out,), scratch)
    return (drawn, one), unit


def _writes(unit: ExecUnit, operand: Operand) -> bool:
    return any(operand.overlaps(o) for o in (*unit.outputs, *unit.scratch))

"""Lowering of `gadget_product` and `key_switch`."""

from __future__ import annotations

from collections.abc import Sequence

from ren.engine.exec_unit import ExecUnit

from ren_backend_cuda.conversion import digit_bounds
from ren_backend_cuda.device import DeviceMemory
from ren_backend_cuda.lower_conversion import Gadget
from ren_backend_cuda.lower_transform import digits_columns, digits_forward, is_large, key_rows
from ren_backend_cuda.lowered import (
    SCRATCH,
    Arguments,
    At,
    Pattern,
    Step,
    Table,
    blocks,
    check_operands,
    domain_of,
    parameters,
    require,
    u32,
)
from ren_backend_cuda.tables import Tables

_THREADS = 256
#: Words of digits between the two kernels of their transform: 32 MiB, half of what the caches of large cards hold.
_CHUNK_WORDS = 1 << 22


def _key_words(unit: ExecUnit, digits: int, key_limbs: int, index: Sequence[int], limbs: int) -> int:
    """The size of the key operand: `digits` digits or more, and limb index[i] of the key for limb i."""
    require(
        len(index) == limbs and len(set(index)) == limbs and all(0 <= i < key_limbs for i in index),
        unit,
        f"the index must name {limbs} different limbs of the {key_limbs} of the key, got {index}",
    )
    require(len(unit.inputs) == 2, unit, f"2 inputs, got {len(unit.inputs)}")
    words, digit_words = unit.inputs[1].words, 2 * key_limbs * unit.ring.n
    require(
        words % digit_words == 0 and words >= digits * digit_words,
        unit,
        f"the key must have {digits} digits or more of {digit_words} words, got {words} words",
    )
    return words


def _product(
    n: int,
    limbs: int,
    ring: Table,
    digits: At,
    count: int,
    key: At,
    outs: tuple[At, At],
    index: DeviceMemory,
    key_limbs: int,
) -> Step:
    threads = min(n // 2, _THREADS)
    grid = (blocks(n // 2, threads), limbs, 1)
    arguments: Arguments = (ring, index, *u32(count, key_limbs, n))
    return Step("inner_product", "gadget_product", grid, threads, (digits, key, *outs), arguments)


def lower_gadget_product(unit: ExecUnit, tables: Tables) -> Pattern:
    count, key_limbs, index = parameters(unit, 3)
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    require(count >= 1, unit, f"at least one digit, got {count}")
    check_operands(unit, (count * limbs * n, _key_words(unit, count, key_limbs, index, limbs)), (limbs * n,) * 2)
    where = tables.constant(index)
    ring = tables.ring(n, moduli)
    return Pattern((_product(n, limbs, ring, At(0), count, At(1), (At(2), At(3)), where, key_limbs),))


def _chunks(targets: int, digits: int, n: int) -> list[tuple[int, int]]:
    """(start, stop) of the targets that are worked on together: few enough that their digits stay in the second-level cache."""
    most = max(1, _CHUNK_WORDS // (digits * n))
    size = blocks(targets, blocks(targets, most))
    return [(start, min(start + size, targets)) for start in range(0, targets, size)]


def lower_key_switch(unit: ExecUnit, tables: Tables) -> Pattern:
    """Large rings: the digits between the two kernels of their transform are the only ones that reach memory, in chunks of targets."""
    alpha, special, domain, key_limbs, index = parameters(unit, 5)
    require(alpha >= 1, unit, f"alpha must be at least 1, got {alpha}")
    n, limbs = unit.ring.n, unit.ring.limbs
    wide = unit.ring.extend(special) if special else unit.ring
    key_words = _key_words(unit, len(digit_bounds(limbs, alpha)), key_limbs, index, wide.limbs)
    check_operands(unit, (limbs * n, key_words), (wide.limbs * n,) * 2)
    x, key, b, a, rows = At(0), At(1), At(2), At(3), At(SCRATCH)
    middle = rows.row(limbs, n)
    gadget = Gadget(tables, unit, alpha, tuple(special), domain_of(unit, domain), x, rows)
    steps = list(gadget.steps)
    if not is_large(n):
        digits = gadget.digits(0, wide.limbs)
        steps += digits_forward(tables, n, digits, rows, middle)
        ring, where = tables.ring(n, digits.targets), tables.constant(index)
        steps.append(_product(n, wide.limbs, ring, middle, digits.count, key, (b, a), where, key_limbs))
        return Pattern(tuple(steps), (limbs + gadget.count * wide.limbs) * n)
    chunks = _chunks(wide.limbs, gadget.count, n)
    for start, stop in chunks:
        digits, where = gadget.digits(start, stop), tables.constant(index[start:stop])
        steps.append(digits_columns(tables, n, digits, rows, middle))
        outs = b.row(start, n), a.row(start, n)
        steps.append(key_rows(tables, n, digits, middle, key, outs, where, key_limbs))
    return Pattern(tuple(steps), (limbs + gadget.count * (chunks[0][1] - chunks[0][0])) * n)

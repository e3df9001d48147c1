"""Division by dropped moduli: rescaling, and the mod-down of key switching.

Limb by limb: the conversion of the dropped limbs to a kept limb, its transform and the final multiply-add follow each other while
the row is in the cache. Where the path has it, the transform ends in the multiply-add, and one dropped row is its input as it is (`ntt_divide`).
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from ren_backend_cpu.kernels.arith import FloatOps, IfmaOps, Pointwise, limb_kernel
from ren_backend_cpu.kernels.basis_conversion import AFTER, convert_row, convert_rows, scale_row
from ren_backend_cpu.kernels.emit import Value, load
from ren_backend_cpu.kernels.jit import compiled, entry
from ren_backend_cpu.kernels.ntt_call import ntt_forward, ntt_inverse_scaled
from ren_backend_cpu.kernels.ntt_divide import CONSTANTS, ntt_divide


def _difference_scaled(ops: Pointwise, x: Value, c: Value, w: tuple[Value, Value]) -> Value:
    """(x - c) w, below 3q on the 52-bit path (which `_settle` or `_sum` brings below q), else below q."""
    if isinstance(ops, IfmaOps):
        return ops.lazy_scale(ops.b.sub(ops.b.add(x, ops.q), c), w)
    if isinstance(ops, FloatOps):
        return ops.scale(ops.b.fsub(x, c), w)  # both in [0, q), so the difference is in range as it is
    return ops.scale(ops.sub(x, c), w)


def _sum(ops: Pointwise, t: Value, z: Value) -> Value:
    """t + z as a residue, t from `_difference_scaled`."""
    if isinstance(ops, IfmaOps):
        return ops.csub(ops.csub(ops.b.add(t, z), ops.q2), ops.q)  # below 4q
    return ops.add(t, z)


def _settle(ops: Pointwise, t: Value) -> Value:
    return ops.csub(ops.csub(t, ops.q2), ops.q) if isinstance(ops, IfmaOps) else t


def _unroll(ops: Pointwise) -> int:
    return 2 if ops.lanes > 1 else 1


def _emit_divide(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    x, c, out, constants = pointers
    w = ops.constant(ops.word(constants, 0))
    with ops.em.vectors(integers[0], ops.lanes, _unroll(ops)) as indices:
        for i in indices:
            ops.store(_settle(ops, _difference_scaled(ops, ops.load(x, i), ops.load(c, i), w)), out, i)


def _emit_divide_add(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    x, c, z, out, constants = pointers
    w = ops.constant(ops.word(constants, 0))
    with ops.em.vectors(integers[0], ops.lanes, _unroll(ops)) as indices:
        for i in indices:
            t = _difference_scaled(ops, ops.load(x, i), ops.load(c, i), w)
            ops.store(_sum(ops, t, ops.load(z, i)), out, i)


def _emit_divide_add_scaled(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    x, c, z, out, constants = pointers
    w, v = ops.constant(ops.word(constants, 0)), ops.constant(ops.word(constants, 1))
    with ops.em.vectors(integers[0], ops.lanes, _unroll(ops)) as indices:
        for i in indices:
            t = _difference_scaled(ops, ops.load(x, i), ops.load(c, i), w)
            ops.store(_sum(ops, t, ops.scale(ops.load(z, i), v)), out, i)


def _emit_add_scaled(ops: Pointwise, pointers: list[Value], integers: list[Value]) -> None:
    x, z, out, constants = pointers
    w = ops.constant(ops.word(constants, 0))
    with ops.em.vectors(integers[0], ops.lanes, _unroll(ops)) as indices:
        for i in indices:
            ops.store(ops.add(ops.load(x, i), ops.scale(ops.load(z, i), w)), out, i)


#: divide(limb record, x, c, out, constants, n): out = (x - c) w, w the residue at `constants`.
divide = limb_kernel(4, 1, _emit_divide)
#: divide_add(limb record, x, c, z, out, constants, n): out = (x - c) w + z.
divide_add = limb_kernel(5, 1, _emit_divide_add)
#: divide_add_scaled(limb record, x, c, z, out, constants, n): out = (x - c) w + z v, v the residue after w.
divide_add_scaled = limb_kernel(5, 1, _emit_divide_add_scaled)
#: add_scaled(limb record, x, z, out, constants, n): out = x + z w.
add_scaled = limb_kernel(4, 1, _emit_add_scaled)


@compiled
def dropped_rows(ring, x, z, y, scales, factors, kept, first, stop, z_limbs, ntt, n):
    """Dropped limbs first .. stop-1 of x + P z as inputs of a centred conversion, in the rows of y.

    scales: 4 words per dropped limb (`to_digits`). factors: P modulo each dropped limb. `second_stage` completes those that z has.
    """
    for i in range(first, stop):
        record, j = load(ring, kept + i), kept + i
        src, dst = x + 8 * j * n, y + 8 * i * n
        if j < z_limbs:
            add_scaled(record, src, z + 8 * j * n, dst, factors + 8 * i, n)
            src = dst
        if ntt != 0:
            ntt_inverse_scaled(record, src, dst, scales + 32 * i, 1)
        else:
            scale_row(record, src, dst, scales + 32 * i, 1, n)


@compiled
def second_stage(ring, targets, matrix, minus_one, y, c, kept, shared, dropped, first, stop, n):
    """Rows first .. stop-1 of the first `shared` of y less the conversion of the other ones: the limbs that z has, after the others are
    divided away."""
    rest = dropped - shared
    for i in range(first, stop):
        row = y + 8 * i * n
        convert_row(load(targets, i), y + 8 * shared * n, c, matrix + 8 * i * (rest + AFTER), rest, n)
        add_scaled(load(ring, kept + i), row, c, row, minus_one + 8 * i, n)


@compiled
def _finish(record, x, c, z, out, constants, z_limbs, z_scaled, ntt, n, fused):
    """One kept limb from its conversion c."""
    function = load(fused, 0)
    if function != 0:
        ntt_divide(function, record, c, c, x, z, out, fused + 8)
        return
    if ntt != 0:
        ntt_forward(record, c, c)
    if z_limbs == 0:
        divide(record, x, c, out, constants, n)
    elif z_scaled == 0:
        divide_add(record, x, c, z, out, constants, n)
    else:
        divide_add_scaled(record, x, c, z, out, constants, n)


@entry
def mod_down_rows(row):
    """The row of `mod_down`, for its first phase: dropped limbs to inputs of the conversion."""
    x, z, y, ring, scales, factors = row[0], row[1], row[3], row[4], row[6], row[7]
    dropped_rows(ring, x, z, y, scales, factors, row[10], row[22], row[23], row[12], row[14], row[15])


@entry
def mod_down_second(row):
    """The row of `mod_down`, for the phase of the limbs in two stages."""
    second_stage(
        row[4], row[17], row[18], row[19], row[3], row[24], row[10], row[16], row[11], row[22], row[23], row[15]
    )


@entry
def mod_down(row):
    """x, z, out, rows, ring, targets, scales, factors, matrix, constants, kept, dropped, z limbs, z scaled, ntt, n, and for limbs in two
    stages: how many are in the second, targets, matrix and -1 of each; fused, direct; and first and last kept limb, scratch

    rows: one per dropped limb, made by the other phases. scratch: two rows. targets: the records that conversions use, per kept limb. matrix: per kept limb a constant
    for each dropped one, and AFTER. constants: per kept limb 1/D and P/D. z scaled: whether P/D is not 1. fused: per kept limb the function of
    `ntt_divide` or 0, and its constants. direct: whether the one dropped row is its input as it is.
    """
    x, z, out, y, ring, targets = row[0], row[1], row[2], row[3], row[4], row[5]
    matrix, constants, dropped, z_limbs = row[8], row[9], row[11], row[12]
    z_scaled, ntt, n = row[13], row[14], row[15]
    fused, direct, first, stop, c0 = row[20], row[21], row[22], row[23], row[24]
    c1 = c0 + 8 * n
    width = 8 * (dropped + AFTER)
    if direct != 0:
        for i in range(first, stop):
            offset, d = 8 * i * n, fused + 8 * (1 + CONSTANTS) * i
            added = 0 if z_limbs == 0 else z + offset
            ntt_divide(load(d, 0), load(ring, i), y, c0, x + offset, added, out + offset, d + 8)
        return
    for j in range(first, stop, 2):  # two kept limbs per reading of the dropped ones
        if j + 1 < stop:
            convert_rows(
                load(targets, j),
                load(targets, j + 1),
                y,
                c0,
                c1,
                matrix + j * width,
                matrix + (j + 1) * width,
                dropped,
                n,
            )
        else:
            convert_row(load(targets, j), y, c0, matrix + j * width, dropped, n)
        for k in range(min(2, stop - j)):
            i = j + k
            offset, c = 8 * i * n, c0 + 8 * k * n
            added = 0 if z_limbs == 0 else z + offset
            d = fused + 8 * (1 + CONSTANTS) * i
            _finish(load(ring, i), x + offset, c, added, out + offset, constants + 16 * i, z_limbs, z_scaled, ntt, n, d)

"""Faults of samplers, and at the border to doubles."""

from __future__ import annotations

from math import prod

import numpy as np

from ren.engine.exec_unit import ExecUnit
from ren.numtheory import modular, sampling
from ren.numtheory.crt import centre, recombine, residues
from ren.testing.mutants.base import Words, fault, moduli_of, rows_of


def _seed(words: Words) -> bytes:
    return words.astype("<u8").tobytes()


@fault("sample")
def rejection_forgotten(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """The first words reduced, whatever they are: biased by up to one part in nine."""
    distribution, _, stream = unit.params
    if distribution == "uniform":
        for j, (row, q) in enumerate(zip(rows_of(unit, outs[0]), unit.ring.moduli, strict=True)):
            row[:] = sampling.stream_words(_seed(ins[0]), unit.ring.n, "uniform", stream + j) % np.uint64(q)


@fault("sample")
def limbs_share_one_stream(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    distribution, _, stream = unit.params
    if distribution == "uniform":
        for row, q in zip(rows_of(unit, outs[0]), unit.ring.moduli, strict=True):
            row[:] = sampling.sample_uniform(_seed(ins[0]), q, unit.ring.n, stream)


@fault("sample")
def block_counter_starts_anew(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """Each group of 16 blocks gives the same words: shows from n = 256 on."""
    if unit.params[0] == "ternary":
        rows = rows_of(unit, outs[0])
        group = sampling.GROUP_WORDS
        for start in range(group, unit.ring.n, group):
            rows[:, start : start + group] = rows[:, :group]


@fault("sample")
def last_seed_word_ignored(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    short = np.append(ins[0][:3], np.uint64(0))
    distribution, argument, stream = unit.params
    rows = sampling.sample_rows(_seed(short), distribution, argument, stream, unit.ring.n, unit.ring.moduli)
    outs[0][:] = rows.reshape(-1)


@fault("sample")
def gaussian_sign_inverted(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    if unit.params[0] == "gaussian":
        outs[0][:] = modular.negate(outs[0], moduli_of(unit, outs[0]))


@fault("sample")
def repeated_position_is_dropped(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """Floyd's fall-back to j forgotten: the weight comes out too small."""
    if unit.params[0] == "sparse_ternary" and unit.params[1] > 1:
        rows = rows_of(unit, outs[0])
        rows[:, int(np.flatnonzero(rows[0])[-1])] = 0


@fault("from_float")
def through_signed_words(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """Wraps from 2^63 on."""
    values = [(int(v) + (1 << 63)) % (1 << 64) - (1 << 63) for v in ins[0][: unit.ring.n].view(np.float64)]
    outs[0][:] = residues(values, unit.ring.moduli).reshape(-1)


@fault("from_float")
def negative_multiple_of_q_is_q(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    negative = np.tile(ins[0][: unit.ring.n].view(np.float64) < 0, unit.ring.limbs)
    outs[0][:] = np.where(negative & (outs[0] == 0), moduli_of(unit, outs[0]), outs[0])


@fault("lift")
def rounded_twice(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    """First to 64 significant bits, then to 53: wrong next to ties."""
    n, moduli = unit.ring.n, unit.ring.moduli[:2]
    x = rows_of(unit, ins[0])[:2]
    values = [_round(int(v), 64) for v in centre(recombine(x, moduli), prod(moduli))]
    outs[0][:n] = np.array([float(v) for v in values]).view(np.uint64)


def _round(v: int, bits: int) -> int:
    shift = max(abs(v).bit_length() - bits, 0)
    size, rest = divmod(abs(v), 1 << shift)
    size += 2 * rest > 1 << shift or (2 * rest == 1 << shift and size % 2 == 1 and shift > 0)
    return (size << shift) * (-1 if v < 0 else 1)


@fault("lift")
def not_centred(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    values = recombine(rows_of(unit, ins[0])[:2], unit.ring.moduli[:2])
    outs[0][: unit.ring.n] = np.array([float(v) for v in values]).view(np.uint64)


@fault("lift")
def misfits_not_counted(unit: ExecUnit, ins: list[Words], scalars: list[Words], outs: list[Words]) -> None:
    outs[0][-1] = 0

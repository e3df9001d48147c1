"""Lowering of `basis_extend` and `decompose`, and the constants of base conversion that all users of it share."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit
from ren.ops import Domain

from ren_backend_cpu.features import MIN_VECTOR_N, target
from ren_backend_cpu.kernels import basis_conversion as kernels
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.lowered import Lowered, check_operands, parameters, require
from ren_backend_cpu.lowering import Lowering
from ren_backend_cpu.tables import LimbTable, aligned_words, limb_table, ring_table

Words = NDArray[np.uint64]
#: Widest modulus whose residues the 52-bit and float paths take as conversion input.
NARROW = 1 << 50
#: The overflow of an exact conversion is summed in one word: 2^55 + limbs 2^56 < 2^64.
MAX_EXACT_LIMBS = 255


class Conversion:
    """Constants of the conversion from residues modulo `moduli` to each of `targets`.

    records: addresses of the limb records that `convert_row` is to use, one per target. constants: one row per target, times the radix of
    its path; with `overflow`, the terms end with -Q for the overflow row. width: words per row of `constants`, at least those needed.
    factors: what the rows are multiplied by, Q/q_i unless given.
    """

    def __init__(
        self,
        moduli: Sequence[int],
        targets: Sequence[LimbTable],
        *,
        centred: bool,
        overflow: bool = False,
        width: int | None = None,
        factors: Sequence[int] | None = None,
    ) -> None:
        modulus = prod(moduli)
        factors = list(factors or [modulus // q for q in moduli]) + ([-modulus] if overflow else [])
        last = -sum(q // 2 * f for q, f in zip(moduli, factors, strict=False)) if centred else 0
        narrow = max(moduli) < NARROW
        self.keep = [t if narrow or not _is_narrow(t.path) else _wide_record(t) for t in targets]
        self.records = [r.address if isinstance(r, LimbTable) else int(r.ctypes.data) for r in self.keep]
        rows = np.zeros((len(targets), width or len(factors) + kernels.AFTER), np.uint64)
        sources = [*moduli, *([MAX_EXACT_LIMBS] if overflow else [])]
        for row, table in zip(rows, targets, strict=True):
            path = table.path if narrow or not _is_narrow(table.path) else _wide_path(table.n)
            residues = [f * kernels.radix(path) % table.q for f in (*factors, last)]
            row[: len(factors) + kernels.AFTER] = [*residues, kernels.room(path, table.q, sources)]
        self.constants = rows


def _is_narrow(path: int) -> bool:
    return path not in (limb.SCALAR, limb.VECTOR64)


def _wide_path(n: int) -> int:
    return limb.VECTOR64 if n >= MIN_VECTOR_N and limb.VECTOR64 in target().paths else limb.SCALAR


_lock = threading.RLock()
_wide: dict[tuple[int, int], Words] = {}


def _wide_record(table: LimbTable) -> Words:
    """The limb record with a path that takes conversion inputs of any width. Not for transforms: its twiddles are those of the old path."""
    with _lock:
        found = _wide.get((table.n, table.q))
        if found is None:
            found = aligned_words(limb.WORDS)
            found[:] = table.record
            found[limb.PATH] = _wide_path(table.n)
            found.flags.writeable = False
            _wide[table.n, table.q] = found
        return found


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()  # its holder, if any, does not exist in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def digit_scales(n: int, moduli: Sequence[int], domain: Domain) -> Words:
    """Four words per limb for `to_digits`: the factor (Q/q_i)^-1 mod q_i, merged into the inverse transform in the NTT domain."""
    modulus = prod(moduli)
    return row_scales(n, moduli, [pow(modulus // q, -1, q) for q in moduli], domain)


def row_scales(n: int, moduli: Sequence[int], factors: Sequence[int], domain: Domain) -> Words:
    """Four words per limb for `to_digits` with these factors."""
    rows = np.zeros((len(moduli), 4), np.uint64)
    for row, q, factor in zip(rows, moduli, factors, strict=True):
        row[:] = limb_table(n, q).scale_pair(factor) if domain is Domain.NTT else (factor, 0, 0, 0)
    return rows


def digit_bounds(limbs: int, alpha: int) -> list[tuple[int, int]]:
    """(start, stop) of the limbs of each digit; the last one may be narrower."""
    return [(start, min(start + alpha, limbs)) for start in range(0, limbs, alpha)]


class Gadget:
    """Constants of `decompose` and `key_switch`: records and matrix as [digit][limb] and [digit][limb][alpha + AFTER], scales per limb."""

    def __init__(self, n: int, moduli: Sequence[int], special: Sequence[int], alpha: int, domain: Domain) -> None:
        tables = [limb_table(n, q) for q in (*moduli, *special)]
        digits = [moduli[start:stop] for start, stop in digit_bounds(len(moduli), alpha)]
        conversions = [Conversion(d, tables, centred=True, width=alpha + kernels.AFTER) for d in digits]
        self.records = np.array([c.records for c in conversions], np.int64)
        self.matrix = np.stack([c.constants for c in conversions])
        self.scales = np.concatenate([digit_scales(n, d, domain) for d in digits])
        self.keep = tuple(conversions)


_MODES = ("approximate", "centred", "exact")


def scratch_basis_extend(unit: ExecUnit) -> int:
    return (unit.ring.limbs + int(unit.params[0] == "exact")) * unit.ring.n


def lower_basis_extend(unit: ExecUnit) -> Lowered:
    mode, new = parameters(unit, 2)
    require(mode in _MODES, unit, f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    n, moduli = unit.ring.n, unit.ring.moduli
    limbs = len(moduli)
    exact = mode == "exact"
    require(not exact or limbs <= MAX_EXACT_LIMBS, unit, f"exact takes at most {MAX_EXACT_LIMBS} limbs, got {limbs}")
    unit.ring.extend(new)  # raises unless the new moduli fit the ring
    check_operands(unit, (limbs * n,), ((limbs + len(new)) * n,), scratch_basis_extend(unit))
    ring = ring_table(unit.ring)
    conversion = Conversion(moduli, [limb_table(n, p) for p in new], centred=mode == "centred", overflow=exact)
    reciprocals = np.array([[(1 << (63 + q.bit_length())) // q, q.bit_length() + 7] for q in moduli], np.uint64)
    row = (
        *(unit.inputs[0], unit.outputs[0], unit.scratch[0]),
        *(ring.address, np.array(conversion.records, np.int64), digit_scales(n, moduli, Domain.COEFF)),
        *(conversion.constants, reciprocals if exact else 0, limbs, len(new), int(mode == "centred"), n),
    )
    before = [(kernels.basis_extend_digits, limbs)]
    if exact:
        before.append((kernels.basis_extend_overflow, 1))
    return Lowered(kernels.basis_extend, row, (ring, conversion), len(new), before=tuple(before))


def scratch_decompose(unit: ExecUnit) -> int:
    return unit.ring.limbs * unit.ring.n


def lower_decompose(unit: ExecUnit) -> Lowered:
    alpha, special, domain = parameters(unit, 3)
    require(alpha >= 1, unit, f"alpha must be at least 1, got {alpha}")
    n, limbs = unit.ring.n, unit.ring.limbs
    wide = unit.ring.extend(special) if special else unit.ring
    digits = len(digit_bounds(limbs, alpha))
    check_operands(unit, (limbs * n,), (digits * wide.limbs * n,), scratch_decompose(unit))
    alpha = min(alpha, limbs)
    domain = Domain(domain)
    gadget = Gadget(n, unit.ring.moduli, special, alpha, domain)
    ring = ring_table(wide)
    row = (
        *(unit.inputs[0], unit.outputs[0], unit.scratch[0], ring.address, gadget.records, gadget.scales, gadget.matrix),
        *(limbs, wide.limbs, alpha, int(domain is Domain.NTT), n),
    )
    return Lowered(kernels.decompose, row, (ring, gadget), wide.limbs, before=((kernels.decompose_rows, limbs),))


BASIS_EXTEND = Lowering(lower_basis_extend, scratch_basis_extend)
DECOMPOSE = Lowering(lower_decompose, scratch_decompose)

"""Lowering of `ntt` and `intt`, and the launches of transforms that other units are made of.

Rings of up to 2^11 run in one block per limb (`ntt_block.cu`), larger ones in two kernels (`ntt.cu`, one module per degree).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ren.engine.exec_unit import ExecUnit

from ren_backend_cuda.device import DeviceMemory
from ren_backend_cuda.lowered import NOWHERE, Arguments, At, Pattern, Step, check_operands, parameters, u32
from ren_backend_cuda.tables import Tables, transform_scale

#: Degrees from here on take two kernels.
LARGE = 1 << 12
#: No limb of a unit is centred, or has an addend.
NONE = 0xFFFFFFFF

_BLOCK_THREADS = 256
_ROW_THREADS = 256
#: Words per thread of a key product: it keeps sums beside them.
_KEY_WORDS = 8
_COLUMNS = 16


def is_large(n: int) -> bool:
    return n >= LARGE


@dataclass(frozen=True, slots=True)
class Shape:
    """How a large degree is cut: n = columns' length n1 times rows' length n2 (`ntt.cu`)."""

    n: int

    @property
    def n1(self) -> int:
        return 1 << (self.n.bit_length() - 1) // 2

    @property
    def n2(self) -> int:
        return self.n // self.n1

    def columns(self, kernel: str, limbs: int, batch: int, operands: tuple[At, ...], arguments: Arguments) -> Step:
        tiles = self.n2 // _COLUMNS
        return self._step(kernel, (tiles, limbs, batch), self.n1, self.n1 * _COLUMNS, operands, arguments)

    def rows(
        self,
        kernel: str,
        limbs: int,
        batch: int,
        operands: tuple[At, ...],
        arguments: Arguments,
        words_per_thread: int = 16,
    ) -> Step:
        lanes = self.n2 // words_per_thread
        rows = _ROW_THREADS // lanes
        words = rows * (self.n2 + lanes)
        return self._step(kernel, (self.n1 // rows, limbs, batch), _ROW_THREADS, words, operands, arguments)

    def _step(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        words: int,
        operands: tuple[At, ...],
        arguments: Arguments,
    ) -> Step:
        defines = (("REN_LOG_N", self.n.bit_length() - 1),)
        return Step("ntt", kernel, grid, threads, operands, arguments, 8 * words, defines)


def _block_step(n: int, kernel: str, limbs: int, batch: int, operands: tuple[At, ...], arguments: Arguments) -> Step:
    threads = min(_BLOCK_THREADS, n // 2)
    log_n = np.uint32(n.bit_length() - 1)
    return Step("ntt_block", kernel, (1, limbs, batch), threads, operands, (*arguments, log_n), 8 * n)


# -- launches --------------------------------------------------------------------------------------------------------


def forward(tables: Tables, n: int, moduli: tuple[int, ...], x: At, out: At) -> list[Step]:
    """The transform of rows."""
    ring, limbs = tables.ring(n, moduli), len(moduli)
    if not is_large(n):
        return [_block_step(n, "forward", limbs, 1, (x, out), (ring,))]
    shape = Shape(n)
    return [
        shape.columns("forward_columns", limbs, 1, (x, out), (ring,)),
        shape.rows("forward_rows", limbs, 1, (out, out, out), (ring, *u32(1, 0, limbs, 0, 0))),
    ]


def inverse(
    tables: Tables,
    n: int,
    moduli: tuple[int, ...],
    scales: DeviceMemory,
    x: At,
    out: At,
    *,
    z: At = NOWHERE,
    z_rows: int = 0,
    centre_from: int = NONE,
) -> list[Step]:
    """The inverse transform of rows x, for the first z_rows of x + P z, times the factors in `scales`; centred digits from row `centre_from`."""
    ring, limbs = tables.ring(n, moduli), len(moduli)
    if not is_large(n):
        return [_block_step(n, "inverse", limbs, 1, (x, z, out), (ring, scales, *u32(z_rows, centre_from)))]
    shape = Shape(n)
    return [
        shape.rows("inverse_rows", limbs, 1, (x, z, out), (ring, scales, *u32(z_rows))),
        shape.columns("inverse_columns", limbs, 1, (out, out), (ring, scales, *u32(centre_from))),
    ]


@dataclass(frozen=True, slots=True)
class Digits:
    """Digits of a gadget decomposition: constants [digit][target][alpha + 1] of their conversions to `targets`, those from number
    `first` on of all that they are converted to.

    limbs: those of the polynomial. own: where the transform of x lies from target `first` on, if it is known: that of the limbs that a digit is made of.
    """

    targets: tuple[int, ...]
    count: int
    alpha: int
    limbs: int
    constants: DeviceMemory
    own: At | None
    first: int = 0

    @property
    def arguments(self) -> tuple[np.uint32, ...]:
        return u32(self.count, self.alpha, self.limbs, self.own is not None, self.first)


def digits_forward(tables: Tables, n: int, digits: Digits, rows: At, out: At) -> list[Step]:
    """Conversion of digit rows to all targets and their transform: out [digit][target][n]."""
    ring, limbs = tables.ring(n, digits.targets), len(digits.targets)
    own = digits.own or out
    if not is_large(n):
        arguments: Arguments = (ring, digits.constants, *digits.arguments)
        return [_block_step(n, "convert", limbs, digits.count, (rows, own, out), arguments)]
    return [
        digits_columns(tables, n, digits, rows, out),
        Shape(n).rows("forward_rows", limbs, digits.count, (out, own, out), (ring, *digits.arguments)),
    ]


def digits_columns(tables: Tables, n: int, digits: Digits, rows: At, out: At) -> Step:
    """Only the first kernel of `digits_forward`. Large rings."""
    ring, limbs = tables.ring(n, digits.targets), len(digits.targets)
    arguments: Arguments = (ring, digits.constants, *digits.arguments)
    return Shape(n).columns("convert_columns", limbs, digits.count, (rows, out), arguments)


def key_rows(
    tables: Tables,
    n: int,
    digits: Digits,
    middle: At,
    key: At,
    outs: tuple[At, At],
    index: DeviceMemory,
    key_limbs: int,
) -> Step:
    """The second kernel of the transform, and the product with the key. Large rings. middle: what `digits_columns` left."""
    ring, limbs = tables.ring(n, digits.targets), len(digits.targets)
    operands = (middle, digits.own or middle, key, *outs)
    arguments: Arguments = (ring, index, *digits.arguments, *u32(key_limbs))
    return Shape(n).rows("key_rows", limbs, 1, operands, arguments, _KEY_WORDS)


def convert_divide(
    tables: Tables,
    n: int,
    targets: tuple[int, ...],
    terms: int,
    constants: DeviceMemory,
    divisions: DeviceMemory,
    rows: At,
    middle: At,
    x: At,
    z: At,
    out: At,
    g: int,
) -> list[Step]:
    """out = (x - c) D^-1 + z P D^-1 under X -> X^g in the NTT domain, c the transform of the conversion of `terms` digit rows.

    middle: scratch of the targets' size. z may be ABSENT.
    """
    ring, limbs = tables.ring(n, targets), len(targets)
    g_inverse = np.uint32(pow(g, -1, 2 * n))
    if not is_large(n):
        arguments: Arguments = (ring, constants, divisions, np.uint32(terms), g_inverse)
        return [_block_step(n, "convert_divide", limbs, 1, (rows, x, z, out), arguments)]
    digits = Digits(targets, 1, terms, terms, constants, None)
    return [
        digits_columns(tables, n, digits, rows, middle),
        Shape(n).rows("divide_rows", limbs, 1, (middle, x, z, out), (ring, divisions, g_inverse)),
    ]


# -- units -----------------------------------------------------------------------------------------------------------


def lower_ntt(unit: ExecUnit, tables: Tables) -> Pattern:
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli
    check_operands(unit, (len(moduli) * n,), (len(moduli) * n,))
    return Pattern(tuple(forward(tables, n, moduli, At(0), At(1))))


def lower_intt(unit: ExecUnit, tables: Tables) -> Pattern:
    parameters(unit, 0)
    n, moduli = unit.ring.n, unit.ring.moduli
    check_operands(unit, (len(moduli) * n,), (len(moduli) * n,))
    scales = tables.scales([transform_scale(n, q, 1) for q in moduli])
    return Pattern(tuple(inverse(tables, n, moduli, scales, At(0), At(1))))

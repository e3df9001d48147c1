"""Public matrix times encrypted vector by the diagonal method, with baby steps and giant steps.

With roll(x, r)[j] = x[j - r] and d_r[j] = M[j, j - r] (indices modulo the slots), M x = sum_r d_r * roll(x, r) (Halevi and Shoup, "Algorithms in HElib", ia.cr/2014/106, section 4.3).
Writing r = g i + k, all rolls by k < g share one decomposition, and sum_k runs before the roll by g i, which is applied to the diagonals backwards. Rotations
happen before the one rescale at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ren.errors import EncodingError, LevelMismatchError
from ren.schemes.ckks import alignment, evaluator, levels, rotation
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.encoder import check_extent
from ren.schemes.ckks.keys import EvaluationKeySet
from ren.schemes.ckks.parts import bound_product
from ren.schemes.ckks.plaintext import Plaintext
from ren.schemes.ckks.scale import Scale

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine

#: Price of a hoisted rotation (one key product and its division by P) relative to a whole one.
_HOISTED = 0.4


@dataclass(frozen=True, eq=False, slots=True)
class LinearTransform:
    """A matrix with its diagonals encoded for one level, scale and slot count; apply it with `apply` as often as you like.

    terms: giant step -> (baby step, encoded diagonal) pairs. rotations: every step that it needs a key for. row_norm: largest sum of absolute values in a
    row, by which the bound grows.
    """

    level: int
    scale: Scale
    slots: int
    terms: tuple[tuple[int, tuple[tuple[int, Plaintext], ...]], ...]
    row_norm: float
    is_real: bool

    @property
    def rotations(self) -> tuple[int, ...]:
        steps = {g for g, _ in self.terms} | {k for _, group in self.terms for k, _ in group}
        return tuple(sorted(steps - {0}))

    def apply(self, engine: PublicEngine, x: Ciphertext, *, keys: EvaluationKeySet | None = None) -> Ciphertext:
        """M x: this transform's level + 1. x is brought to that level first, with this transform's scale where that costs nothing, else with its own, which is exact too.

        Raises MissingKeyError before any work, LevelMismatchError for an x that is deeper, LevelExhaustedError when no level is left.
        """
        rotation.require_ciphertext(x, "linear_transform")
        if x.slots != self.slots:
            raise EncodingError(
                f"linear_transform: prepared for {self.slots} slots, the ciphertext has {x.slots}", subject="slots"
            )
        levels.require_level(engine, "linear_transform", self.level, x)
        for step in self.rotations:
            rotation.rotation_key(engine, x, step, keys)
        x = self._brought(engine, x)
        baby = sorted({k for _, group in self.terms for k, _ in group})
        rolled = dict(zip(baby, rotation.rotate_many(engine, x, baby, keys=keys), strict=True))
        bound = bound_product(x.bound, self.row_norm)
        total: Ciphertext | None = None
        for giant, group in self.terms:
            inner: Ciphertext | None = None
            for k, diagonal in group:
                term = evaluator.multiply(engine, rolled[k], diagonal, rescale=False)
                inner = term if inner is None else evaluator.add(engine, inner, term)
            assert inner is not None
            moved = rotation.rotate(engine, evaluator.with_bound(inner, bound), giant, keys=keys)
            total = moved if total is None else evaluator.add(engine, total, moved)
        assert total is not None
        result = levels.rescale(engine, total)
        return Ciphertext(
            result.a,
            result.b,
            result.level,
            result.scale,
            x.slots,
            x.key_id,
            engine.check_bound("linear_transform", bound, result.level, result.scale, x.bound),
            x.is_real and self.is_real,
        )

    def _brought(self, engine: PublicEngine, x: Ciphertext) -> Ciphertext:
        if x.level > self.level:
            raise LevelMismatchError(
                f"linear_transform: prepared for level {self.level}, the ciphertext is at level {x.level}",
                subject="level",
                hint=f"Prepare it with level={x.level}; one prepared for a deeper level takes shallower ciphertexts",
            )
        if (x.level, x.scale) == (self.level, self.scale):
            return x
        due = alignment.rescales_due(engine.params, x.level, x.scale, self.level)
        if due or alignment.adjustment(engine.params, x.level, x.scale, self.level, self.scale) is not None:
            return levels.adjust(engine, x, self.level, self.scale)
        return levels.mod_drop(engine, x, self.level - x.level)


def prepare(
    engine: PublicEngine, matrix: Any, *, level: int = 0, scale: Scale | None = None, slots: int | None = None
) -> LinearTransform:
    """Encode a public matrix of at most slots x slots entries (any shape below that; the rest is zero) for ciphertexts at `level` and `scale`.

    A scale that is that of a product without its rescale prepares for the level and scale after it.
    """
    level = engine.params.check_level(level)
    slots = check_extent(slots, engine.params.n)
    scale = engine.params.scale_at(level) if scale is None else scale
    m = np.asarray(matrix)
    if m.ndim != 2 or not 1 <= m.shape[0] <= slots or not 1 <= m.shape[1] <= slots:
        raise EncodingError(
            f"linear_transform: the matrix must have two axes of 1 to {slots}, got shape {m.shape}", subject="matrix"
        )
    if m.dtype.kind not in "biufc" or not np.isfinite(m).all():
        raise EncodingError("linear_transform: the matrix must hold finite numbers", subject="matrix")
    diagonals = _diagonals(m, slots)
    giant = _giant_step(sorted(diagonals), slots)
    plan = alignment.for_factor(engine.params, level, scale, True, "linear_transform")
    level, scale, factor = plan.level, plan.scale, plan.factor
    grouped: dict[int, list[tuple[int, Plaintext]]] = {}
    for r, d in sorted(diagonals.items()):
        k = r % giant
        encoded = engine.encode_operand(np.roll(d, -(r - k)), level, factor, slots)
        grouped.setdefault(r - k, []).append((k, encoded))
    terms = tuple((g, tuple(group)) for g, group in grouped.items())
    return LinearTransform(level, scale, slots, terms, float(np.abs(m).sum(axis=1).max()), m.dtype.kind != "c")


def linear_transform(
    engine: PublicEngine, x: Ciphertext, matrix: Any, *, keys: EvaluationKeySet | None = None
) -> Ciphertext:
    """M x for a public matrix M: result[j] = sum_i M[j, i] x[i]; rows beyond the matrix give 0. Level + 1."""
    rotation.require_ciphertext(x, "linear_transform")
    levels.require_level(engine, "linear_transform", x.level, x)
    return prepare(engine, matrix, level=x.level, scale=x.scale, slots=x.slots).apply(engine, x, keys=keys)


def _diagonals(m: NDArray[Any], slots: int) -> dict[int, NDArray[Any]]:
    """The non-zero d_r, r modulo slots. An all-zero matrix has one zero diagonal, so that its product is defined."""
    rows, columns = m.shape
    found: dict[int, NDArray[Any]] = {}
    for offset in range(-(columns - 1), rows):
        at = np.arange(max(0, offset), min(rows, columns + offset))
        values = m[at, at - offset]
        if values.any():
            d = found.setdefault(offset % slots, np.zeros(slots, np.result_type(m, np.float64)))
            d[at] = d[at] + values
    return found or {0: np.zeros(slots)}


def _giant_step(steps: Sequence[int], slots: int) -> int:
    """The power of two g for which (baby steps, hoisted) + (giant steps) is cheapest."""

    def cost(g: int) -> float:
        return _HOISTED * len({r % g for r in steps} - {0}) + len({r - r % g for r in steps} - {0})

    return min((1 << i for i in range(slots.bit_length())), key=lambda g: (cost(g), -g))

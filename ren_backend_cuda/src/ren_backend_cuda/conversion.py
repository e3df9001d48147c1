"""Constants of base conversion, as residues (`ren.backend.reference.basis_conversion` says what is converted)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def digit_bounds(limbs: int, alpha: int) -> list[tuple[int, int]]:
    """(start, stop) of the limbs of each digit; the last one may be narrower."""
    return [(start, min(start + alpha, limbs)) for start in range(0, limbs, alpha)]


def digit_factors(moduli: Sequence[int]) -> list[int]:
    """(Q/q_i)^-1 mod q_i: what residues are multiplied by to become digits."""
    modulus = prod(moduli)
    return [pow(modulus // q, -1, q) for q in moduli]


def cofactors(moduli: Sequence[int]) -> list[int]:
    """Q/q_i: what digits are multiplied by."""
    modulus = prod(moduli)
    return [modulus // q for q in moduli]


def conversion_rows(
    moduli: Sequence[int],
    factors: Sequence[int],
    targets: Sequence[int],
    *,
    centred: bool,
    overflow: int = 0,
) -> list[list[int]]:
    """For each target the factors as its residues, then the last word.

    centred: digits come shifted by floor(q_i / 2), and the last word takes the shift back. overflow: one more factor (of the overflow row).
    """
    terms = [*factors, *([overflow] if overflow else [])]
    last = -sum(q // 2 * f for q, f in zip(moduli, factors, strict=True)) if centred else 0
    return [[*(f % p for f in terms), last % p] for p in targets]

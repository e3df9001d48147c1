"""Rings Z_Q[X]/(X^n + 1) in residue number system form."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from ren.errors import InvalidRingError
from ren.numtheory.primes import is_prime, nearest_ntt_prime

MAX_N = 1 << 17
MAX_MODULUS_BITS = 61


@dataclass(frozen=True)
class RingSpec:
    """The ring Z_Q[X]/(X^n + 1), Q the product of `moduli`.

    n: power of two, 2 <= n <= 2^17. moduli: distinct primes q = 1 (mod 2n) below 2^61, one residue row ("limb") each,
    in the order in which limbs are stored; rescaling drops the last one. Equal by value, hashable, immutable.

    Raises InvalidRingError (a ValueError) that names the field, the value and the nearest legal one.
    """

    n: int
    moduli: tuple[int, ...]

    def __post_init__(self) -> None:
        n = _integer(self.n, "n")
        object.__setattr__(self, "n", n)
        if n < 2 or n > MAX_N or n & (n - 1):
            legal = min(max(2, 1 << max(n - 1, 1).bit_length()), MAX_N)
            raise InvalidRingError(
                f"RingSpec.n must be a power of two in [2, 2^17], got {n}", subject="n", hint=f"Use n={legal}"
            )
        if isinstance(self.moduli, (str, bytes)) or not isinstance(self.moduli, Iterable):
            raise InvalidRingError(
                f"RingSpec.moduli must be a sequence of primes, got {self.moduli!r}",
                subject="moduli",
                hint="Write moduli=(17, 97)",
            )
        object.__setattr__(self, "moduli", tuple(_integer(q, f"moduli[{i}]") for i, q in enumerate(self.moduli)))
        if not self.moduli:
            raise InvalidRingError("RingSpec.moduli must name at least one prime, got ()", subject="moduli")
        seen: set[int] = set()
        for q in self.moduli:
            if q in seen or q >= 1 << MAX_MODULUS_BITS or q % (2 * n) != 1 or not is_prime(q):
                why = "appears twice" if q in seen else f"is not a prime = 1 (mod {2 * n}) below 2^61"
                near = nearest_ntt_prime(q, n, exclude=set(self.moduli))
                raise InvalidRingError(
                    f"RingSpec.moduli: {q} {why}", subject="moduli", hint=f"The nearest legal prime is {near}"
                )
            seen.add(q)

    @cached_property
    def limbs(self) -> int:
        """Number of residue rows."""
        return len(self.moduli)

    @property
    def log_n(self) -> int:
        return self.n.bit_length() - 1

    @cached_property
    def modulus(self) -> int:
        """Q, the product of the moduli."""
        return prod(self.moduli)

    def take(self, start: int, stop: int) -> RingSpec:
        """The ring of limbs start..stop-1."""
        ring = self._parts.get((start, stop))
        return (
            ring if ring is not None else self._parts.setdefault((start, stop), _ring(self.n, self.moduli[start:stop]))
        )

    def drop(self, count: int = 1) -> RingSpec:
        """The ring without the last `count` limbs."""
        return self.take(0, self.limbs - count)

    def extend(self, moduli: tuple[int, ...]) -> RingSpec:
        """The ring with further limbs appended."""
        moduli = tuple(moduli)
        ring = self._extensions.get(moduli)
        return ring if ring is not None else self._extensions.setdefault(moduli, _ring(self.n, self.moduli + moduli))

    # Every operation of a graph asks for a derived ring. Found here it costs no copy and no hash of all moduli.
    @cached_property
    def _parts(self) -> dict[tuple[int, int], RingSpec]:
        return {}

    @cached_property
    def _extensions(self) -> dict[tuple[int, ...], RingSpec]:
        return {}

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.moduli[:4])) + (
            f", ... {self.limbs} primes" if self.limbs > 4 else "," if self.limbs == 1 else ""
        )
        return f"RingSpec(n={self.n}, moduli=({shown}))"

    def __reduce__(self) -> tuple[Any, ...]:
        return _ring, (self.n, self.moduli)

    # Hashing 30 big primes for each graph node would dominate scheduling, so it is done once.
    def __hash__(self) -> int:
        h = self.__dict__.get("_hash")
        if h is None:
            h = hash((self.n, self.moduli))
            self.__dict__["_hash"] = h
        return int(h)


def _integer(value: Any, field: str) -> int:
    """An integer of any kind (`__index__`), NumPy's included; never a truncated float, a text or a truth value."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise InvalidRingError(f"RingSpec.{field} must be an int, got {value!r}", subject=field.partition("[")[0])


_CACHE: dict[tuple[int, tuple[int, ...]], RingSpec] = {}


def _ring(n: int, moduli: tuple[int, ...]) -> RingSpec:
    """Interned derived rings: primality is checked once and equality is mostly identity."""
    key = (n, moduli)
    ring = _CACHE.get(key)
    if ring is None:
        if len(_CACHE) > 4096:
            _CACHE.clear()
        ring = _CACHE[key] = RingSpec(n, moduli)
    return ring

"""Whole plans as the engine makes them, on mixed data: what single units do not show.

Both components of a ciphertext go through the same launches (two units in grid z), a division is fused with the automorphism of its result, and
the switching key is one of a higher level, whose limbs in between no kernel may use: they hold no residues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.ops import Domain
from ren.ring import RingSpec
from ren.testing.vectors import generator, operand, primes_of_width

Words = NDArray[np.uint64]
ALPHA, SPECIAL, SKIPPED = 2, 2, 2


@dataclass
class Plan:
    """Units over slots; data: what inputs hold, by slot."""

    units: list[ExecUnit] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    data: dict[int, Words] = field(default_factory=dict)

    def value(self, kind: SlotKind, words: int) -> Operand:
        self.slots.append(Slot(kind, words))
        return Operand(len(self.slots) - 1, 0, words)

    def input(self, data: Words) -> Operand:
        at = self.value(SlotKind.INPUT, data.size)
        self.data[at.slot] = data
        return at

    def temporary(self, ring: RingSpec) -> Operand:
        return self.value(SlotKind.TEMPORARY, ring.limbs * ring.n)

    def output(self, ring: RingSpec) -> Operand:
        return self.value(SlotKind.OUTPUT, ring.limbs * ring.n)

    def add(self, kernel: str, ring: RingSpec, params: tuple[Any, ...], *ins: Operand, outs: tuple[Operand, ...]) -> None:
        self.units.append(ExecUnit(kernel, ring, params, ins, (), outs))


def _rings(n: int, bits: int) -> tuple[RingSpec, RingSpec]:
    """(ring, ring with the special moduli): the last digit is narrower."""
    limbs = 5 if n <= 4096 else 3
    moduli = primes_of_width(n, bits, limbs + SPECIAL)
    return RingSpec(n, moduli[:limbs]), RingSpec(n, moduli)


def _switch(p: Plan, ring: RingSpec, wide: RingSpec, x: Operand, rng: np.random.Generator) -> tuple[Operand, Operand]:
    digits, key_limbs = -(-ring.limbs // ALPHA), wide.limbs + SKIPPED
    index = (*range(ring.limbs), *range(ring.limbs + SKIPPED, key_limbs))
    key = np.full((digits, 2, key_limbs, ring.n), np.iinfo(np.uint64).max, np.uint64)
    for digit in range(digits):
        for component in range(2):
            key[digit, component, list(index)] = operand(wide, "mixed", rng).reshape(-1, ring.n)
    params = (ALPHA, wide.moduli[ring.limbs :], Domain.NTT, key_limbs, index)
    outs = p.temporary(wide), p.temporary(wide)
    p.add("key_switch", ring, params, x, p.input(key.reshape(-1)), outs=outs)
    return outs


def rotation(n: int, bits: int = 61) -> Plan:
    """A ciphertext under X -> X^g, switched back to its key."""
    p, rng = Plan(), generator("rotation", n, bits)
    ring, wide = _rings(n, bits)
    b, a = (p.input(operand(ring, "mixed", rng)) for _ in range(2))
    g = 5 % (2 * n) if n > 2 else 3
    for x, z in zip(_switch(p, ring, wide, a, rng), ((b,), ()), strict=True):
        t = p.temporary(ring)
        p.add("mod_down", wide, (SPECIAL, ring.limbs if z else 0, Domain.NTT), x, *z, outs=(t,))
        p.add("automorphism", ring, (g, Domain.NTT), t, outs=(p.output(ring),))
    return p


def product(n: int, bits: int = 61) -> Plan:
    """The product of two ciphertexts, relinearized and rescaled."""
    p, rng = Plan(), generator("product", n, bits)
    ring, wide = _rings(n, bits)
    factors = [p.input(operand(ring, "mixed", rng)) for _ in range(4)]
    parts = [p.temporary(ring) for _ in range(3)]
    tensor = (("mul", 0, 2), ("mul", 0, 3), ("mac", 1, 2, 5), ("mul", 1, 3))
    p.add("elementwise", ring, (4, 0, tensor, (4, 6, 7), Domain.NTT), *factors, outs=tuple(parts))
    drop = SPECIAL + 1
    for x, z in zip(_switch(p, ring, wide, parts[2], rng), parts, strict=False):
        p.add("mod_down", wide, (drop, ring.limbs, Domain.NTT), x, z, outs=(p.output(wide.drop(drop)),))
    return p


PLANS: dict[str, Callable[..., Plan]] = {"rotation": rotation, "product": product}


def results(backend: Any, plan: Plan) -> list[Words]:
    """The outputs of one run, every slot in a memory of its own."""
    units, slots = plan.units, list(plan.slots)
    scratch = max(backend.scratch_words(u) for u in units)
    if scratch:
        place = (Operand(len(slots), 0, scratch),)
        slots.append(Slot(SlotKind.TEMPORARY, scratch))
        units = [replace(u, scratch=place) if backend.scratch_words(u) else u for u in units]
    views = [(backend.alloc(s.words), 0) for s in slots]
    for slot, data in plan.data.items():
        backend.copyin(views[slot][0], 0, data)
    backend.graph(units, slots)(views)
    return [backend.copyout(views[i][0], 0, s.words) for i, s in enumerate(slots) if s.kind is SlotKind.OUTPUT]


def differ(found: list[Words], expected: list[Words]) -> list[int]:
    """Numbers of the outputs that are not equal."""
    assert len(found) == len(expected)
    return [i for i, (f, e) in enumerate(zip(found, expected, strict=True)) if not np.array_equal(f, e)]

"""What one CKKS operation costs on the CPU backend's raw kernels, as a plan without engine or scheme around it.

    taskset -c 1 python tests/bench/operations.py --set A [--rows rotate,encrypt] [--seconds 3]

Prints minimum and median microseconds (quiet samples, see timing.py). The plans are those the scheduler makes for the operation;
operands are random residues, which cost what real ones do. Nothing here asserts a speed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ren.backend.protocol import Backend
from ren.engine.exec_unit import ExecUnit, Operand, Slot, SlotKind
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.ring import RingSpec
from ren_backend_cpu.backend import CpuBackend

sys.path.insert(0, str(Path(__file__).parent))

from timing import alternate  # noqa: E402

#: n, bits of the chain primes, bits of the special primes, alpha.
SETS = {
    "A": (1 << 14, (50, *(40,) * 7), (49, 49), 2),
    "B": (1 << 15, (50, *(40,) * 12), (45,) * 5, 5),
    "C": (1 << 16, (50, *(40,) * 24), (45,) * 9, 9),
}
NTT = Domain.NTT


class Plan:
    """Units over slots, one slot per value, all bound once."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.units: list[ExecUnit] = []
        self.slots: list[Slot] = [Slot(SlotKind.TEMPORARY, 0)]  # scratch, shared by all units

    def value(self, words: int) -> Operand:
        self.slots.append(Slot(SlotKind.INPUT, words))
        return Operand(len(self.slots) - 1, 0, words)

    def poly(self, ring: RingSpec) -> Operand:
        return self.value(ring.limbs * ring.n)

    def add(
        self, kernel: str, ring: RingSpec, params: tuple[Any, ...], *ins: Operand, outs: tuple[Operand, ...]
    ) -> None:
        unit = ExecUnit(kernel, ring, params, ins, (), outs)
        scratch = self.backend.scratch_words(unit)
        self.slots[0] = Slot(SlotKind.TEMPORARY, max(self.slots[0].words, scratch))
        self.units.append(replace(unit, scratch=(Operand(0, 0, scratch),)) if scratch else unit)

    def runner(self) -> Callable[[], None]:
        run = self.backend.graph(self.units, self.slots)
        # Zeros are residues of every modulus, and kernels do not look at what they compute with.
        views = []
        for slot in self.slots:
            memory = self.backend.alloc(slot.words)
            self.backend.copyin(memory, 0, np.zeros(slot.words, np.uint64))
            views.append((memory, 0))
        return lambda: run(views)


class Operations:
    def __init__(self, sizes: tuple[int, tuple[int, ...], tuple[int, ...], int], backend: Backend) -> None:
        n, chain, special, self.alpha = sizes
        primes: list[int] = []
        for bits in (*chain, *special):
            primes.append(next(q for q in ntt_primes_below(1 << bits, n) if q not in primes))
        self.n, self.backend = n, backend
        self.ring = RingSpec(n, tuple(primes[: len(chain)]))
        self.special = tuple(primes[len(chain) :])
        self.wide = self.ring.extend(self.special)
        self.digits = -(-len(chain) // self.alpha)

    def key_words(self) -> int:
        return self.digits * 2 * self.wide.limbs * self.n

    def switch(self, p: Plan, x: Operand) -> tuple[Operand, Operand]:
        b, a, key = p.poly(self.wide), p.poly(self.wide), p.value(self.key_words())
        limbs = self.wide.limbs
        params = (self.alpha, self.special, NTT, limbs, tuple(range(limbs)))
        p.add("key_switch", self.ring, params, x, key, outs=(b, a))
        return b, a

    def rotate(self) -> Plan:
        p, ring = Plan(self.backend), self.ring
        b, a = p.poly(ring), p.poly(ring)
        wide_b, wide_a = self.switch(p, a)
        k = len(self.special)
        t = p.poly(ring)
        for x, z in ((wide_b, (b,)), (wide_a, ())):
            out = p.poly(ring)
            p.add("mod_down", self.wide, (k, ring.limbs if z else 0, NTT), x, *z, outs=(t,))
            p.add("automorphism", ring, (5, NTT), t, outs=(out,))
        return p

    def multiply(self, rescale: bool = False) -> Plan:
        p, ring = Plan(self.backend), self.ring
        x = [p.poly(ring) for _ in range(4)]
        d = [p.poly(ring) for _ in range(3)]
        tensor = (("mul", 0, 2), ("mul", 0, 3), ("mac", 1, 2, 5), ("mul", 1, 3))
        p.add("elementwise", ring, (4, 0, tensor, (4, 6, 7), NTT), *x, outs=tuple(d))
        wide = self.switch(p, d[2])
        k = len(self.special) + rescale
        for y, z in zip(wide, d[:2], strict=True):
            p.add("mod_down", self.wide, (k, ring.limbs, NTT), y, z, outs=(p.poly(self.wide.drop(k)),))
        return p

    def rescale(self) -> Plan:
        p = Plan(self.backend)
        for _ in range(2):
            p.add("mod_down", self.ring, (1, 0, NTT), p.poly(self.ring), outs=(p.poly(self.ring.drop(1)),))
        return p

    def encode(self) -> Plan:
        p, ring = Plan(self.backend), self.ring
        out = p.poly(ring)
        p.add("from_float", ring, (), p.value(self.n + 1), outs=(out,))
        p.add("ntt", ring, (), out, outs=(out,))
        return p

    def encrypt(self) -> Plan:
        """b = v pk_b + e_0 + m, a = v pk_a + e_1."""
        p, ring = Plan(self.backend), self.ring
        small = []
        for distribution, argument in (("ternary", None), ("gaussian", "3.19"), ("gaussian", "3.19")):
            v = p.poly(ring)
            p.add("sample", ring, (distribution, argument, 0), p.value(4), outs=(v,))
            p.add("ntt", ring, (), v, outs=(v,))
            small.append(v)
        ins = (*small, p.poly(ring), p.poly(ring), p.poly(ring))  # v, e0, e1, pk b, pk a, m
        steps = (("mac", 0, 3, 1), ("add", 6, 5), ("mac", 0, 4, 2))
        p.add("elementwise", ring, (6, 0, steps, (7, 8), NTT), *ins, outs=(p.poly(ring), p.poly(ring)))
        return p

    def decrypt(self) -> Plan:
        """The first three limbs of b + a s as doubles."""
        p = Plan(self.backend)
        ring = self.ring.take(0, min(3, self.ring.limbs))
        t = p.poly(ring)
        p.add("elementwise", ring, (3, 0, (("mac", 1, 2, 0),), (3,), NTT), *(p.poly(ring) for _ in range(3)), outs=(t,))
        p.add("intt", ring, (), t, outs=(t,))
        p.add("lift", ring, (), t, outs=(p.value(self.n + 1),))
        return p

    def key(self) -> Plan:
        """One switching key: per digit a = uniform, b = e + g - a s over all limbs."""
        p, wide = Plan(self.backend), self.wide
        s = p.poly(wide)
        for _ in range(self.digits):
            a, e, b, g = p.poly(wide), p.poly(wide), p.poly(wide), p.poly(wide)
            p.add("sample", wide, ("uniform", None, 0), p.value(4), outs=(a,))
            p.add("sample", wide, ("gaussian", "3.19", 0), p.value(4), outs=(e,))
            p.add("ntt", wide, (), e, outs=(e,))
            steps = (("mul", 1, 3), ("sub", 0, 4), ("add", 5, 2))
            p.add("elementwise", wide, (4, 0, steps, (6,), NTT), e, a, g, s, outs=(b,))
        return p

    def hoisted(self, count: int = 7) -> Plan:
        """`count` rotations of one ciphertext."""
        p, ring, wide = Plan(self.backend), self.ring, self.wide
        b, a = p.poly(ring), p.poly(ring)
        digits = p.value(self.digits * wide.limbs * self.n)
        p.add("decompose", ring, (self.alpha, self.special, NTT), a, outs=(digits,))
        index = tuple(range(wide.limbs))
        x = p.poly(wide), p.poly(wide)
        t = p.poly(ring)
        for _ in range(count):
            p.add("gadget_product", wide, (self.digits, wide.limbs, index), digits, p.value(self.key_words()), outs=x)
            for y, z in ((x[0], (b,)), (x[1], ())):
                p.add("mod_down", wide, (len(self.special), ring.limbs if z else 0, NTT), y, *z, outs=(t,))
                p.add("automorphism", ring, (5, NTT), t, outs=(p.poly(ring),))
        return p

    def rows(self) -> dict[str, Callable[[], Plan]]:
        return {
            "encode (without FFT)": self.encode,
            "encrypt, public key": self.encrypt,
            "decrypt (without FFT)": self.decrypt,
            "rescale": self.rescale,
            "rotate": self.rotate,
            "ct*ct + relinearize": self.multiply,
            "ct*ct + relinearize + rescale": lambda: self.multiply(rescale=True),
            "7 hoisted rotations": self.hoisted,
            "one switching key": self.key,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=sorted(SETS), default="A")
    parser.add_argument("--rows", default="", help="comma-separated substrings; empty = all")
    parser.add_argument("--seconds", type=float, default=2.0, help="per row")
    options = parser.parse_args()
    operations = Operations(SETS[options.set], CpuBackend())
    print(
        f"set {options.set}: n = {operations.n}, {operations.ring.limbs} limbs + {len(operations.special)} special ones"
    )
    for name, make in operations.rows().items():
        if options.rows and not any(part in name for part in options.rows.split(",")):
            continue
        run = make().runner()
        samples = alternate({name: run}, budget_s=options.seconds)[name]
        quiet = "" if samples.gated else " ~"
        print(
            f"{name:32} min {samples.minimum * 1e3:8.0f} us   median {samples.median * 1e3:8.0f} us{quiet}", flush=True
        )


if __name__ == "__main__":
    main()

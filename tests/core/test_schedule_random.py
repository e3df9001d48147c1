"""Whole schedules: random graphs over every operation, realized at once, against the same operations realized one by one."""

import random

import pytest
from ren.gadget import KeyBuffer, decompose
from ren.numtheory.primes import ntt_primes_below
from ren.poly import Poly, realize
from ren.ring import RingSpec

N = 8
PRIMES = [q for q, _ in zip(ntt_primes_below(1 << 12, N), range(8), strict=False)]
RING = RingSpec(N, tuple(PRIMES[:4]))
SPECIAL = tuple(PRIMES[4:6])
EXTRA = tuple(PRIMES[6:8])
KEY_RING = RING.extend(SPECIAL)


def random_poly(rng, ring):
    p = Poly([rng.randrange(ring.modulus) for _ in range(ring.n)], ring)
    return p.ntt() if rng.random() < 0.5 else p


class World:
    """Plays a script of random operations. single: realize each result at once."""

    def __init__(self, seed, single):
        rng = random.Random(seed)
        self.single = single
        self.key = KeyBuffer.from_polys([(random_poly(rng, KEY_RING), random_poly(rng, KEY_RING)) for _ in range(4)])
        self.pool = [random_poly(rng, RING) for _ in range(4)] + [Poly.const(rng.randrange(99), RING)]
        for _ in range(rng.randint(10, 40)):
            found = self.step(rng)
            if single:
                for p in found:
                    p.realize()
            self.pool += found
        chosen = rng.sample(range(len(self.pool)), 6)
        self.roots = [self.pool[i] for i in chosen]
        self.live = self.pool[5:]

    def step(self, rng):
        x = rng.choice(self.pool)
        limbs = x.ring.limbs
        same = [p for p in self.pool if p.ring == x.ring]
        y = rng.choice(same)
        kind = rng.randrange(14)
        if kind < 3:
            return [(x + y, x - y, x * y)[kind]]
        if kind == 3:
            return [x * rng.randrange(-9, 9) - rng.randrange(9)]
        if kind == 4:
            return [rng.randrange(9) - x, -x]
        if kind == 5:
            return [x.automorphism(rng.choice([1, 3, 5, 15]))]
        if kind == 6 and limbs > 1:
            return [x.rescale() if rng.random() < 0.5 else x.mod_down(limbs - 1)]
        if kind == 7 and limbs > 1:
            start = rng.randrange(limbs)
            return [x.limbs(start, rng.randrange(start + 1, limbs + 1))]
        if kind == 8 and not set(EXTRA) & set(x.ring.moduli):
            return [x.mod_raise(EXTRA, rng.choice(["exact", "approximate", "centred"])).mod_down(2, add=x)]
        if kind == 9 and x.ring.moduli == RING.moduli[:limbs]:
            digits = decompose(x, rng.choice([1, 2]), SPECIAL)
            index = [*range(limbs), RING.limbs, RING.limbs + 1]
            b, a = digits.product(self.key, index)
            out = [b.mod_down(2, add=y), a.mod_down(2)]
            if rng.random() < 0.4:  # digits with two users
                out.append(digits.product(self.key, index)[0].automorphism(3).mod_down(3 if limbs > 1 else 2))
            return out
        if kind == 10:
            return [x.contiguous()]
        if kind == 11:
            return [x.ntt(), x.intt()]
        if kind == 12:
            seed = rng.randbytes(32)
            return [x + Poly.sample(rng.choice(["uniform", "ternary"]), None, x.ring, seed)]
        return [x * x + y * x - x.automorphism(3)]


@pytest.mark.parametrize("seed", [*range(60), 180, 1114])  # the last two once caught work that was lowered twice
def test_at_once_equals_one_by_one(seed, monkeypatch):
    monkeypatch.setenv("REN_BACKEND", "reference")
    if seed % 3 == 0:
        monkeypatch.setenv("REN_DEBUG_POISON", "1")
    apart, whole = World(seed, single=True), World(seed, single=False)
    realize(*whole.roots)
    for p, q in zip(apart.roots, whole.roots, strict=True):
        assert p.domain is q.domain
        assert p.residues().tolist() == q.residues().tolist()
    realize(*whole.live)
    assert [p.tolist() for p in apart.live] == [q.tolist() for q in whole.live]

"""Random sequences of calls: jitted functions against the same functions undecorated, values compared at the end.

Results of earlier calls stay alive and are compared only after all calls were made; they are fed back, passed twice, wrapped in
containers and dataclasses, passed by keyword, lazily combined, rebound in a closure, and used from several threads.
"""

import random
import threading
from dataclasses import dataclass

import pytest
import ren
from ren.poly import Poly
from ren.ring import RingSpec

RINGS = (RingSpec(n=4, moduli=(17, 41)), RingSpec(n=8, moduli=(17, 97)))


@dataclass
class Box:
    poly: Poly
    gain: int


def functions(closure):
    def product(x, y):
        return x * y + x

    def pair(x, y, k=3):
        return x * k - y, (x + y).automorphism(3)

    def boxes(a, b):
        return Box(a.poly * a.gain + b.poly, a.gain), [b.poly - 1, a.poly]

    def mixed(items, *, table):
        return {"s": sum(items, table["z"]) * table["z"], "z": table["z"]}

    def down(x, y):
        return (x * y).rescale() + x.mod_drop(1)

    def weighted(x, y):
        return x * closure["w"] + y * closure["w"].automorphism(5)

    return [product, pair, boxes, mixed, down, weighted]


def polys_in(value):
    if isinstance(value, Poly):
        return [value]
    if isinstance(value, Box):
        return [value.poly]
    if isinstance(value, dict):
        value = list(value.values())
    return [p for v in value for p in polys_in(v)]


class Side:
    """One of two equal worlds: jitted or not. The same script of choices is played in both."""

    def __init__(self, seed, decorate):
        rng = random.Random(seed)
        self.closures = [{"w": self.fresh(rng, ring)} for ring in RINGS]
        self.functions = [[decorate(f) for f in functions(c)] for c in self.closures]
        self.live = [[self.fresh(rng, ring) for _ in range(4)] for ring in RINGS]
        self.everything = []

    @staticmethod
    def fresh(rng, ring):
        p = Poly([rng.randrange(-50, 50) for _ in range(ring.n)], ring)
        return p.ntt() if rng.random() < 0.3 else p

    def play(self, seed, steps):
        rng = random.Random(seed)
        for _ in range(steps):
            which = rng.randrange(len(RINGS))
            ring, live = RINGS[which], self.live[which]
            product, pair, boxes, mixed, down, weighted = self.functions[which]
            x, y = rng.choice(live), rng.choice(live)
            kind = rng.randrange(12)
            if kind == 0:
                out = product(x, y)
            elif kind == 1:
                out = product(y=x, x=x)
            elif kind == 2:
                out = pair(x, y)
            elif kind == 3:
                out = pair(x + y, y * 2, k=3)
            elif kind == 4:
                out = boxes(Box(x, rng.randrange(1, 4)), Box(y, 2))
            elif kind == 5:
                out = mixed([x, y, x], table={"z": rng.choice(live)})
            elif kind == 6:
                out = mixed((x,), table={"z": y})
            elif kind == 7:
                out = down(x, y)
            elif kind == 8:
                self.closures[which]["w"] = rng.choice(live)
                out = weighted(x, y)
            elif kind == 9:
                out = weighted(x, Poly.const(rng.randrange(3), ring))
            elif kind == 10:
                live[rng.randrange(len(live))] = self.fresh(rng, ring)
                continue
            else:
                out = x + y  # lazy: realized by whoever comes next
            found = polys_in(out)
            self.everything += found
            whole = [p for p in found if p.ring == ring]
            if whole:
                live[rng.randrange(len(live))] = rng.choice(whole)
        return self

    def values(self):
        return [(p.domain, p.tolist()) for p in self.everything]


def pair_of_worlds(seed, steps, **options):
    eager = Side(seed, lambda f: f).play(seed, steps)
    jitted = Side(seed, ren.jit(maxsize=None, **options)).play(seed, steps)
    return eager, jitted


@pytest.mark.parametrize("seed", range(12))
def test_jit_equals_eager(seed):
    eager, jitted = pair_of_worlds(seed, 120)
    assert jitted.values() == eager.values()


@pytest.mark.parametrize(
    "options", [{"prune": True}, {"constants": "dynamic"}, {"scalars": "dynamic"}, {"nested": "inline"}]
)
def test_options_change_no_value(options):
    eager, jitted = pair_of_worlds(99, 150, **options)
    assert jitted.values() == eager.values()


def test_poisoned_memory_changes_no_value(monkeypatch):
    monkeypatch.setenv("REN_DEBUG_POISON", "1")
    eager, jitted = pair_of_worlds(7, 120)
    assert jitted.values() == eager.values()


def test_small_plan_caches_change_no_value():
    eager = Side(3, lambda f: f).play(3, 100)
    with pytest.warns(RuntimeWarning, match="maxsize=1"):
        jitted = Side(3, ren.jit(maxsize=1)).play(3, 100)
    assert jitted.values() == eager.values()


def test_threads_share_the_functions():
    shared = {}

    def decorate(f):
        return shared.setdefault(f.__name__, ren.jit(f, maxsize=None))

    def product(x, y):
        return x * y + x

    def pair(x, y):
        return [x - y, {"a": (x + y).automorphism(3)}]

    jitted = [decorate(product), decorate(pair)]
    failures = []

    def work(seed):
        rng = random.Random(seed)
        ring = RINGS[seed % 2]
        x = y = Side.fresh(rng, ring)
        u = v = Poly(x.tolist(), ring) if x.domain == "coeff" else Poly(x.tolist(), ring).ntt()
        for _ in range(40):
            i = rng.randrange(2)
            out, expected = polys_in(jitted[i](x, y)), polys_in((product, pair)[i](u, v))
            if any(p.domain != q.domain for p, q in zip(out, expected, strict=True)):
                failures.append(seed)
            x, y, u, v = out[-1], x, expected[-1], u
        if x != u or y != v:
            failures.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures

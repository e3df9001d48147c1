"""Where transforms are placed: against brute force on small random graphs, and on shapes with a known answer."""

import itertools
import random

import pytest
from ren.engine.schedule import domains, schedule
from ren.engine.schedule.domains import Problem
from ren.engine.schedule.normalise import normalise
from ren.engine.schedule.values import values_of
from ren.gadget import KeyBuffer, decompose
from ren.ops import KERNELS, Domain
from ren.poly import Poly
from ren.ring import RingSpec

RING = RingSpec(n=4, moduli=(17, 41, 73))


@pytest.fixture(autouse=True)
def _reference(monkeypatch):
    monkeypatch.setenv("REN_BACKEND", "reference")


def leaf(domain="coeff", ring=RING):
    p = Poly([1, 2, 3, 4], ring)
    return p.realize() if domain == "coeff" else p.ntt().realize()


def graph_of(*polys):
    return values_of(normalise([p._node for p in polys]).key)


def random_graph(rng):
    """A few leaves, up to a dozen operations, a few roots, one ring per limb count."""
    pool = [leaf(rng.choice(["coeff", "ntt"])) for _ in range(rng.randint(1, 3))]
    for _ in range(rng.randint(2, 11)):
        x = rng.choice(pool)
        same = [p for p in pool if p.ring == x.ring]
        kind = rng.randrange(8)
        if kind < 2:
            y = x + rng.choice(same)
        elif kind == 2:
            y = x * rng.choice(same)
        elif kind == 3:
            y = x * 3 - 1
        elif kind == 4:
            y = x.automorphism(3)
        elif kind == 5 and x.ring.limbs > 1:
            y = x.rescale()
        elif kind == 6 and x.ring.limbs > 1:
            y = x.limbs(0, x.ring.limbs - 1)
        else:
            y = -x
        pool.append(y.ntt() if rng.random() < 0.2 else y.intt() if rng.random() < 0.2 else y)
    return graph_of(*rng.sample(pool, min(len(pool), rng.randint(1, 3))))


def brute_force(graph):
    problem = Problem(graph)
    free = [i for i, f in enumerate(problem.free) if f]
    best = None
    for choice in itertools.product((Domain.NTT, Domain.COEFF), repeat=len(free)):
        for i, d in zip(free, choice, strict=True):
            problem.domain[i] = d
        cost = problem.cost()
        best = cost if best is None else min(best, cost)
    return best


def placed(graph):
    problem = Problem(graph)
    for component in problem.components():
        problem.solve(component)
    return problem


@pytest.mark.parametrize("seed", range(120))
def test_exact_placement_is_optimal(seed):
    graph = random_graph(random.Random(seed))
    assert placed(graph).cost() == brute_force(graph)


def test_heuristic_places_every_value_and_is_close(monkeypatch):
    monkeypatch.setattr(domains, "EXACT_LIMIT", 0)
    total, optimum = 0, 0
    for seed in range(120):
        graph = random_graph(random.Random(seed))
        problem = placed(graph)
        assert all(problem.domain[i] is not None for i, f in enumerate(problem.free) if f)
        total, optimum = total + problem.cost(), optimum + brute_force(graph)
    assert optimum <= total <= 1.25 * optimum


def kernels_of(*polys):
    return [s.kernel for s in schedule(normalise([p._node for p in polys]).key, frozenset(KERNELS)).steps]


def test_a_sum_of_products_is_transformed_back_once():
    pairs = [(leaf("ntt"), leaf("ntt")) for _ in range(5)]
    total = sum((x * y for x, y in pairs), Poly.zeros(RING)).intt()
    assert kernels_of(total) == ["elementwise", "intt"]


def test_linear_work_stays_where_its_operands_are():
    x, y = leaf(), leaf()
    assert kernels_of((x * 3 + y).automorphism(3) - 1) == ["elementwise", "automorphism", "elementwise"]


def test_a_transform_is_shared_by_all_its_users():
    x, y = leaf(), leaf("ntt")
    assert kernels_of((x * y).ntt(), (x * x).ntt(), x * 2 + 1).count("ntt") == 1


def test_there_and_back_is_nothing():
    x = leaf()
    assert kernels_of(x.ntt().intt().ntt().intt() + 1) == ["elementwise"]


def test_only_the_limbs_that_are_needed_are_transformed():
    x, y = leaf(), leaf("ntt")
    steps = schedule(
        normalise([(x.limbs(1, 3) * y.limbs(1, 3))._node]).key,
        frozenset(KERNELS),
    ).steps
    (ntt,) = [s for s in steps if s.kernel == "ntt"]
    assert ntt.ring.moduli == RING.moduli[1:]


def test_a_large_component_uses_the_heuristic_in_linear_time():
    x, y = leaf(), leaf("ntt")
    for i in range(3000):
        x = x + (y if i % 7 == 0 else x)
    assert kernels_of((x * y).intt())


def test_both_components_of_a_gadget_product_count():
    special = (89, 97)
    wide = RING.extend(special)
    key = KeyBuffer.from_polys([(leaf("ntt", wide), leaf("ntt", wide))] * 2)
    x, y = leaf("ntt"), leaf("ntt")
    z = (x * y).rescale()
    b, a = decompose(z, 2, special).product(key, (0, 1, 3, 4))
    rotated = b.mod_down(2, add=z).automorphism(3), a.mod_down(2).automorphism(3)
    assert sorted(kernels_of(*rotated)) == [
        "automorphism",
        "automorphism",
        "elementwise",
        "key_switch",
        *["mod_down"] * 3,
    ]


def test_only_limbs_that_are_used_count():
    x = leaf()  # three limbs, of which one is used: cheaper to transform than the sum of two roots
    y = x.limbs(0, 1) * 3
    assert kernels_of(y.ntt(), (y + 1).ntt()).count("ntt") == 1

"""Fusion: fewer units, the same values, within the limits; common and dead work."""

import random

import pytest
from ren.engine.schedule import fuse, schedule
from ren.engine.schedule.normalise import normalise
from ren.gadget import KeyBuffer, decompose
from ren.ops import KERNELS
from ren.poly import Poly, realize
from ren.ring import RingSpec

RING = RingSpec(n=4, moduli=(17, 41, 73))
SPECIAL = (89, 97)


@pytest.fixture(autouse=True)
def _reference(monkeypatch):
    monkeypatch.setenv("REN_BACKEND", "reference")


def leaf(seed, ring=RING):
    rng = random.Random(seed)
    return Poly([rng.randrange(ring.modulus) for _ in range(ring.n)], ring).ntt().realize()


def steps_of(*polys, kernels=frozenset(KERNELS)):
    return schedule(normalise([p._node for p in polys]).key, kernels).steps


def test_a_ciphertext_product_is_one_program():
    a0, a1, b0, b1 = map(leaf, range(4))
    (step,) = steps_of(a0 * b0, a0 * b1 + a1 * b0, a1 * b1)
    inputs, _, program, outputs, _ = step.params
    assert (inputs, len(outputs)) == (4, 3)
    assert sorted(i[0] for i in program) == ["mac", "mul", "mul", "mul"]


def test_common_subexpressions_are_computed_once():
    x, y = leaf(1), leaf(2)
    (step,) = steps_of((x * y + 1) - (y * x), x * y)
    assert [i[0] for i in step.params[2]].count("mul") == 1


def test_dead_code_costs_nothing():
    x, y = leaf(1), leaf(2)
    product = x * y
    product.automorphism(3).rescale()
    assert [s.kernel for s in steps_of(x + y)] == ["elementwise"]


def test_scalar_forms():
    x = leaf(1)
    (step,) = steps_of((3 - (x * 5 - 7)) + 2, x - 1)
    assert [i[0] for i in step.params[2]] == ["scale", "subc", "csub", "addc", "subc"]
    assert step.params[1] == 5


@pytest.mark.parametrize("seed", range(30))
def test_limits_and_values_on_random_graphs(seed):
    rng = random.Random(seed)
    pool = [leaf(i) for i in range(20)]
    values = [p.tolist() for p in pool]
    modulus, n = RING.modulus, RING.n
    for _ in range(150):
        i, j = rng.randrange(len(pool)), rng.randrange(max(0, len(pool) - 12), len(pool))
        x, y, a, b = pool[i], pool[j], values[i], values[j]
        kind = rng.randrange(5)
        if kind == 0:
            pool.append(x + y)
            values.append([(u + v) % modulus for u, v in zip(a, b, strict=True)])
        elif kind == 1:
            pool.append(x - y)
            values.append([(u - v) % modulus for u, v in zip(a, b, strict=True)])
        elif kind == 2:
            pool.append(x * 7)
            values.append([u * 7 % modulus for u in a])
        elif kind == 3:
            pool.append(4 - y)
            values.append([((4 if k == 0 else 0) - u) % modulus for k, u in enumerate(b)])
        else:
            pool.append(x * y)
            out = [0] * n
            for p, u in enumerate(a):
                for q, v in enumerate(b):
                    out[(p + q) % n] += u * v if p + q < n else -u * v
            values.append([c % modulus for c in out])
    chosen = rng.sample(range(20, len(pool)), 25)
    for step in steps_of(*(pool[i] for i in chosen)):
        if step.kernel == "elementwise":
            inputs, scalars, program, outputs, _ = step.params
            assert inputs <= fuse.MAX_INPUTS
            assert scalars <= fuse.MAX_SCALARS
            assert len(program) <= fuse.MAX_INSTRUCTIONS
            assert 1 <= len(outputs) <= fuse.MAX_OUTPUTS
    realize(*(pool[i] for i in chosen))
    assert [pool[i].tolist() for i in chosen] == [values[i] for i in chosen]


def test_long_sums_stay_within_the_limits():
    total = leaf(0)
    for i in range(1, 100):
        total = total + leaf(i)
    steps = steps_of(total)
    assert 100 / fuse.MAX_INPUTS <= len(steps) <= 100 / (fuse.MAX_INPUTS - 2) + 1


def key_of(ring, digits):
    return KeyBuffer.from_polys([(leaf(10 + i, ring), leaf(20 + i, ring)) for i in range(digits)])


def test_key_switch_is_one_kernel_when_its_digits_have_one_user():
    x, wide = leaf(1), RING.extend(SPECIAL)
    key = key_of(wide, 2)
    b, a = decompose(x, 2, SPECIAL).product(key, range(5))
    assert [s.kernel for s in steps_of(b, a)] == ["key_switch"]
    apart = frozenset(KERNELS) - {"key_switch"}
    assert [s.kernel for s in steps_of(b, a, kernels=apart)] == ["decompose", "gadget_product"]
    digits = decompose(x, 2, SPECIAL)
    (b1, a1), (b2, _) = digits.product(key, range(5)), digits.product(key_of(wide, 3), range(5))
    assert sorted(s.kernel for s in steps_of(b1, a1, b2)) == ["decompose", "gadget_product", "gadget_product"]
    realize(b, a, b1, a1)
    assert b == b1
    assert a == a1


def test_work_beside_a_group_joins_it_before_a_key_switch_asks_for_one_of_its_values():
    wide = RING.extend(SPECIAL)
    key = key_of(wide, 2)

    def square(b, a, limbs):
        x, y = 2 * b, 2 * a
        index = [*range(limbs), 3, 4]
        switched = decompose(a * y, 2, SPECIAL).product(key, index)
        return [s.mod_down(3, add=p) - 1 for s, p in zip(switched, (b * x, b * y + a * x), strict=True)]

    b, a = square(leaf(1), leaf(2), 3)
    steps = steps_of(*square(b, a, 2))
    kernels = [s.kernel for s in steps]
    product = ["elementwise", "key_switch", "mod_down", "mod_down"]
    assert kernels == [*product, *product, "elementwise", "elementwise"]
    assert [len(s.outputs) for s in steps if s.kernel == "elementwise"] == [3, 3, 1, 1]
    again = square(*square(leaf(1), leaf(2), 3), 2)
    realize(*again)
    one = square(*(p.realize() for p in square(leaf(1), leaf(2), 3)), 2)
    assert [p.tolist() for p in again] == [p.tolist() for p in one]


def test_a_key_round_trips_and_its_rows_are_views():
    wide = RING.extend(SPECIAL)
    rows = [(leaf(i, wide), Poly.const(i, wide)) for i in range(2)]
    key = KeyBuffer.from_polys(rows)
    assert key.digits == 2
    assert key.nbytes == 2 * 2 * wide.limbs * wide.n * 8
    for (b, a), (b0, a0) in zip(key.to_polys(), rows, strict=True):
        assert b == b0
        assert a == a0
        assert b._node.realized.memory is key._node.realized.memory

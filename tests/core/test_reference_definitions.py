"""The reference backend against definitions in Python integers that share no code with it."""

import random

import numpy as np
import pytest
from ren.backend.reference import ReferenceBackend
from ren.ops import KERNELS, Domain
from ren.testing import definitions
from ren.testing.cases import KernelCase, cases
from ren.testing.runner import assert_same, run_apart, unit_of
from ren.testing.vectors import generator, operand, ring_of_width, widths

REFERENCE = ReferenceBackend()


def run(case, inputs, scalars=()):
    unit = unit_of(case, REFERENCE)
    return run_apart(REFERENCE, unit, REFERENCE.compile(unit), inputs, scalars)


def run_kernel(kernel, ring, params, inputs, outputs):
    arrays = tuple(np.array(i, np.uint64) for i in inputs)
    return run(KernelCase(kernel, ring, params, ((arrays, ()),), outputs), arrays)


@pytest.mark.parametrize("n", [2, 4, 8, 16])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_is_its_definition(kernel, n):
    """Every case of the conformance kit: moduli of every legal width, operands at the edges."""
    for case in cases(kernel, n, widths(n, every=n <= 8)):
        for number, (inputs, scalars) in enumerate(case.operands):
            expected = definitions.define(
                kernel, case.ring, case.params, [x.tolist() for x in inputs], [s.tolist() for s in scalars]
            )
            assert_same(
                case, run(case, inputs, scalars), [np.array(e, np.uint64) for e in expected], number, "by definition"
            )


@pytest.mark.parametrize("kernel", ["ntt", "intt", "automorphism", "mod_down", "decompose", "sample"])
def test_kernel_is_its_definition_in_the_order_of_large_rings(kernel):
    """From n = 64 on, blocks of NTT values are transposed; samples of more than 128 words cross a group."""
    n = 256 if kernel == "sample" else 64
    for case in cases(kernel, n, (33, 61)):
        inputs, scalars = case.operands[-1]
        expected = definitions.define(
            kernel, case.ring, case.params, [x.tolist() for x in inputs], [s.tolist() for s in scalars]
        )
        assert_same(case, run(case, inputs, scalars), [np.array(e, np.uint64) for e in expected], 0, "by definition")


@pytest.mark.parametrize("n", [1024, 8192])
@pytest.mark.parametrize("bits", [31, 45, 60])
def test_transform_at_random_points(n, bits):
    ring = ring_of_width(n, bits, 1)
    q = ring.moduli[0]
    x = operand(ring, "mixed", generator("points", n, bits))
    (values,) = run_kernel("ntt", ring, (), [x], (n,))
    for i in random.Random(n).sample(range(n), 4):
        point = pow(definitions.root(q, n), definitions.exponents(n)[i], q)
        assert int(values[i]) == definitions.evaluate(x.tolist(), point, q)
    (back,) = run_kernel("intt", ring, (), [values], (n,))
    assert np.array_equal(back, x)


@pytest.mark.parametrize("n", [2, 8, 64])
def test_pointwise_product_is_the_negacyclic_product(n):
    for bits in widths(n, every=False):
        ring = ring_of_width(n, bits, 1)
        q = ring.moduli[0]
        rng = generator("product", n, bits)
        a, b = operand(ring, "mixed", rng), operand(ring, "mixed", rng)
        values = [run_kernel("ntt", ring, (), [x], (n,))[0] for x in (a, b)]
        program = (2, 0, (("mul", 0, 1),), (2,), Domain.NTT)
        (product,) = run_kernel("elementwise", ring, program, values, (n,))
        (c,) = run_kernel("intt", ring, (), [product], (n,))
        assert c.tolist() == definitions.negacyclic_product(a.tolist(), b.tolist(), q)


@pytest.mark.parametrize("g", [3, 5, 31, 15])
def test_automorphism_commutes_with_the_transform(g):
    ring = ring_of_width(16, 30, 2)
    x = operand(ring, "random", generator("commute", g))
    (then,) = run_kernel("ntt", ring, (), [run_kernel("automorphism", ring, (g, Domain.COEFF), [x], (32,))[0]], (32,))
    (first,) = run_kernel("automorphism", ring, (g, Domain.NTT), [run_kernel("ntt", ring, (), [x], (32,))[0]], (32,))
    assert np.array_equal(then, first)


def rows_of(values, moduli):
    return [[v % q for v in values] for q in moduli]


def flat(rows):
    return [w for row in rows for w in row]


def test_rescale_is_the_rounded_quotient():
    """k = 1: out = round(y / q_last), for integers of every kind, those nearest to a half included."""
    ring = ring_of_width(16, 45, 3)
    last = ring.moduli[-1]
    rng = random.Random(3)
    half = last // 2
    values = [0, 1, -1, half, half + 1, -half, -half - 1, 7 * last + half, 7 * last + half + 1, -5 * last + half]
    values += [rng.randrange(-ring.modulus // 2, ring.modulus // 2) for _ in range(6)]
    (out,) = run_kernel("mod_down", ring, (1, 0, Domain.COEFF), [flat(rows_of(values, ring.moduli))], (32,))
    expected = [(2 * v + last) // (2 * last) for v in values]  # round half up; the modulus is odd, so no half occurs
    assert out.tolist() == flat(rows_of(expected, ring.moduli[:2]))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_mod_down_is_within_half_the_dropped_moduli(k):
    """|out - y / D| <= k / 2: each dropped modulus adds at most one half."""
    ring = ring_of_width(16, 40, 5)
    rng = random.Random(k)
    values = [rng.randrange(-ring.modulus // 2, ring.modulus // 2) for _ in range(16)]
    (out,) = run_kernel("mod_down", ring, (k, 0, Domain.COEFF), [flat(rows_of(values, ring.moduli))], ((5 - k) * 16,))
    kept = ring.drop(k)
    found = definitions.integers([r.tolist() for r in out.reshape(-1, 16)], kept.moduli)
    divisor = ring.modulus // kept.modulus
    for v, w in zip(values, found, strict=True):
        assert 2 * abs(definitions.centred_value(w, kept.modulus) * divisor - v) <= k * divisor


def test_exact_extension_is_the_centred_value():
    """Except next to Q/2, where fixed point may take the other neighbour."""
    ring = ring_of_width(16, 58, 4)
    new = ring_of_width(16, 30, 2).moduli
    big = ring.modulus
    rng = random.Random(5)
    values = [0, 1, -1, big // 2 - (big >> 52), -(big // 2) + (big >> 52), 12345, -99999]
    values += [rng.randrange(-big // 2 + (big >> 50), big // 2 - (big >> 50)) for _ in range(9)]
    (out,) = run_kernel("basis_extend", ring, ("exact", new), [flat(rows_of(values, ring.moduli))], (6 * 16,))
    assert out.tolist() == flat(rows_of(values, ring.moduli + new))


@pytest.mark.parametrize(("mode", "low", "high"), [("approximate", 0, 4), ("centred", -2, 2)])
def test_conversions_add_few_multiples_of_the_modulus(mode, low, high):
    ring = ring_of_width(16, 40, 4)
    new = ring_of_width(16, 61, 5).moduli
    rng = random.Random(6)
    values = [rng.randrange(ring.modulus) for _ in range(16)]
    (out,) = run_kernel("basis_extend", ring, (mode, new), [flat(rows_of(values, ring.moduli))], (9 * 16,))
    wide = ring.extend(new)
    found = definitions.integers([r.tolist() for r in out.reshape(-1, 16)], wide.moduli)
    for v, w in zip(values, found, strict=True):
        quotient, rest = divmod(definitions.centred_value(w, wide.modulus) - v, ring.modulus)
        assert rest == 0
        assert low - 1 <= quotient <= high


def test_digits_recombine():
    """sum over d of digit_d * (Q / Q_d) * ((Q / Q_d)^-1 mod Q_d) = x mod Q: what makes key switching work."""
    ring = ring_of_width(8, 40, 5)
    special = ring_of_width(8, 41, 2).moduli
    x = operand(ring, "mixed", generator("digits"))
    (words,) = run_kernel("decompose", ring, (2, special, Domain.COEFF), [x], (3 * 7 * 8,))
    wide = ring.extend(special)
    total = [0] * 8
    for d, digit in enumerate(words.reshape(3, 7, 8)):
        coefficients = [definitions.inverse_transform(r.tolist(), q) for r, q in zip(digit, wide.moduli, strict=True)]
        part = ring.take(2 * d, min(2 * d + 2, 5)).modulus
        values = [definitions.centred_value(v, wide.modulus) for v in definitions.integers(coefficients, wide.moduli)]
        assert all(abs(v) <= part for v in values)
        factor = ring.modulus // part * pow(ring.modulus // part, -1, part)
        total = [t + factor * v for t, v in zip(total, values, strict=True)]
    assert [t % ring.modulus for t in total] == definitions.integers(
        [r.tolist() for r in x.reshape(-1, 8)], ring.moduli
    )


@pytest.mark.parametrize("v", [0, 1, -1, (1 << 53) + 1, -(1 << 53) - 1, (1 << 54) + 6, (1 << 60) - 1, (1 << 80) + 1])
def test_the_two_roundings_agree(v):
    """The definition rounds by integer arithmetic, the reference by Python's int to float."""
    assert definitions.nearest_double(v) == float(v)


def test_largest_ring():
    """n = 2^17 works, at the widest modulus."""
    ring = ring_of_width(1 << 17, 61, 1)
    x = operand(ring, "mixed", generator("largest"))
    (values,) = run_kernel("ntt", ring, (), [x], (ring.n,))
    q = ring.moduli[0]
    point = pow(definitions.root(q, ring.n), definitions.exponents(ring.n)[77], q)
    assert int(values[77]) == definitions.evaluate(x.tolist(), point, q)

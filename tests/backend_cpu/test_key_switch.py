"""Decomposition, gadget products and key switching: any number of digits, any alpha, mixed paths, keys of a higher level."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray
from ren.engine.exec_unit import ExecUnit, Operand
from ren.errors import KernelOperandError
from ren.numtheory.primes import ntt_primes_below
from ren.ops import Domain
from ren.ring import RingSpec
from ren.testing.cases import KernelCase, cases
from ren.testing.vectors import generator, operand, primes_of_width, ring_of_many_widths
from ren_backend_cpu.kernels.inner_product import CACHED_BYTES
from ren_backend_cpu.lower_key_switch import lower_key_switch

Words = NDArray[np.uint64]


def make_key(wide: RingSpec, digits: int, key_limbs: int, index: tuple[int, ...], rng: np.random.Generator) -> Words:
    """[digit][2][key limb][n]: residues at `index`, all ones in the limbs that must not be read."""
    key = np.full((digits, 2, key_limbs, wide.n), np.iinfo(np.uint64).max, np.uint64)
    for digit in range(digits):
        for component in range(2):
            key[digit, component, list(index)] = operand(wide, "mixed", rng).reshape(-1, wide.n)
    return key.reshape(-1)


def switch_case(ring: RingSpec, special: tuple[int, ...], alpha: int, domain: Domain, spare: int = 0) -> KernelCase:
    """spare: limbs of the key that this level has lost, between the chain and the special ones."""
    rng = generator("switch", ring, alpha, domain)
    wide = ring.extend(special) if special else ring
    key_limbs = wide.limbs + spare
    index = (*range(ring.limbs), *range(ring.limbs + spare, key_limbs))
    digits = -(-ring.limbs // alpha) + bool(spare)
    key = make_key(wide, digits, key_limbs, index, rng)
    params = (alpha, special, domain, key_limbs, index)
    runs = tuple(((operand(ring, p, rng), key), ()) for p in ("minus_one", "mixed"))
    return KernelCase("key_switch", ring, params, runs, (wide.limbs * ring.n,) * 2)


@pytest.mark.parametrize("kernel", ["decompose", "gadget_product", "key_switch"])
@pytest.mark.parametrize("n", [2, 64, 128, 512])
def test_agrees_with_the_reference(kernel: str, n: int, agree) -> None:
    for case in cases(kernel, n, (20, 40, 46, 50, 51, 61)):
        agree(case)


@pytest.mark.parametrize("domain", list(Domain))
@pytest.mark.parametrize(
    ("limbs", "special", "alpha"), [(9, 1, 1), (16, 2, 1), (17, 3, 2), (10, 10, 10), (9, 9, 8), (5, 0, 2), (7, 1, 20)]
)
@pytest.mark.parametrize("n", [8, 128])
def test_many_digits_and_wide_digits(limbs: int, special: int, alpha: int, domain: Domain, n: int, agree) -> None:
    """More digits, and more limbs per digit, than one accumulator holds; an odd number of target limbs; no special modulus."""
    moduli = primes_of_width(n, 45, limbs + special)
    agree(switch_case(RingSpec(n, moduli[:limbs]), moduli[limbs:], alpha, domain))


@pytest.mark.parametrize("width", [20, 46, 47, 50, 61])
@pytest.mark.parametrize("digits", [1, 2, 4, 5, 7, 8, 9, 14, 15, 22])
def test_largest_products(digits: int, width: int, agree) -> None:
    """Every product at its largest, around the numbers of digits at which sums are reduced in between."""
    n = 128
    ring = RingSpec(n, primes_of_width(n, width, 2))
    row = operand(ring, "minus_one", generator())
    digit_words, key = np.tile(row, digits), np.tile(row, 2 * digits)
    params = (digits, 2, (0, 1))
    agree(KernelCase("gadget_product", ring, params, (((digit_words, key), ()),), (2 * n,) * 2))


def test_results_stored_past_the_caches(compute) -> None:
    """Large results take other store instructions; limb by limb they are what small ones are."""
    n, limbs, digits = 1 << 15, 33, 2
    assert 16 * limbs * n > CACHED_BYTES > 16 * (limbs // 2) * n
    moduli = tuple(islice(ntt_primes_below(1 << 45, n), limbs - 1)) + tuple(islice(ntt_primes_below(1 << 60, n), 1))
    ring = RingSpec(n, moduli)
    rng = generator("large")
    x = np.concatenate([operand(ring, "random", rng) for _ in range(digits)])
    key = np.concatenate([operand(ring, "random", rng) for _ in range(2 * digits)])
    whole = compute("gadget_product", ring, (digits, limbs, tuple(range(limbs))), [x, key], [limbs * n] * 2)
    for start, stop in ((0, limbs // 2), (limbs // 2, limbs - 1), (limbs - 1, limbs)):
        part, count = ring.take(start, stop), stop - start
        digit_rows = np.ascontiguousarray(x.reshape(digits, limbs, n)[:, start:stop]).reshape(-1)
        index = tuple(range(start, stop))
        found = compute("gadget_product", part, (digits, limbs, index), [digit_rows, key], [count * n] * 2)
        for w, f in zip(whole, found, strict=True):
            assert np.array_equal(w[start * n : stop * n], f)


@pytest.mark.parametrize("alpha", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [128, 256])
def test_paths_mixed_as_in_a_chain(n: int, alpha: int, agree) -> None:
    """A 50-bit first prime, 40-bit scale primes and 49-bit special ones; then a key with two more levels."""
    moduli = []
    for bits in (50, 40, 40, 40, 40, 49, 49):
        moduli.append(next(q for q in ntt_primes_below(1 << bits, n) if q not in moduli))
    ring = RingSpec(n, tuple(moduli[:5]))
    agree(switch_case(ring, tuple(moduli[5:]), alpha, Domain.NTT))
    agree(switch_case(ring.drop(2), tuple(moduli[5:]), alpha, Domain.NTT, spare=2))


@pytest.mark.parametrize("domain", list(Domain))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [8, 128])
def test_all_widths_together(n: int, reverse: bool, domain: Domain, agree) -> None:
    moduli = ring_of_many_widths(n, 9).moduli
    moduli = moduli[::-1] if reverse else moduli
    for alpha in (1, 3):
        agree(switch_case(RingSpec(n, moduli[:6]), moduli[6:], alpha, domain))


@pytest.mark.parametrize("domain", list(Domain))
def test_key_switch_is_decompose_and_product(domain: Domain, compute) -> None:
    n, alpha = 256, 2
    moduli = primes_of_width(n, 45, 7)
    case = switch_case(RingSpec(n, moduli[:5]), moduli[5:], alpha, domain)
    (x, key), _ = case.operands[1]
    wide = case.ring.extend(moduli[5:])
    words = wide.limbs * n
    (digits,) = compute("decompose", case.ring, (alpha, moduli[5:], domain), [x], [3 * words])
    apart = compute("gadget_product", wide, (3, 7, tuple(range(7))), [digits, key], [words] * 2)
    together = compute("key_switch", case.ring, case.params, [x, key], [words] * 2)
    for a, t in zip(apart, together, strict=True):
        assert np.array_equal(a, t)


@pytest.mark.parametrize(
    ("index", "digits"),
    [((0, 1, 2, 2), 2), ((0, 1, 2), 2), ((0, 1, 2, 4), 2), ((0, 1, 2, -1), 2), ((0, 1, 2, 3), 1)],
    ids=["twice", "short", "beyond", "negative", "too few digits"],
)
def test_bad_key_index_is_refused(index: tuple[int, ...], digits: int) -> None:
    n = 64
    moduli = primes_of_width(n, 45, 4)
    words = 4 * n
    unit = ExecUnit(
        "key_switch",
        RingSpec(n, moduli[:3]),
        (2, moduli[3:], Domain.NTT, 4, index),
        (Operand(0, 0, 3 * n), Operand(1, 0, digits * 2 * words)),
        (),
        (Operand(2, 0, words), Operand(3, 0, words)),
        (Operand(4, 0, 100 * n),),
    )
    with pytest.raises(KernelOperandError):
        lower_key_switch(unit)

"""Parameter sets: presets, the prime search, levels and scales, the choice from depth and precision."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
from ren.errors import InvalidRingError, ParameterError
from ren.numtheory.primes import is_prime
from ren.schemes.ckks import prime_chain
from ren.schemes.ckks.noise import chain_of_products
from ren.schemes.ckks.params import CKKSParams

FAMILY = [(s, b) for s in (8192, 16384, 32768) for b in (30, 40, 50)]


def test_default_is_what_the_contract_says() -> None:
    p = CKKSParams.default()
    assert (p.slot_count, p.scale_bits, p.levels, p.security_bits, p.toy) == (16384, 40, 16, 128, False)
    assert p == CKKSParams.preset("default") and p.default_scale == 2.0**40
    assert p.chain[0].bit_length() == 50


def test_the_documents_preset() -> None:
    p = CKKSParams.preset("slots8192-scale40-levels7-int64")
    assert (p.slot_count, p.n, p.levels, len(p.chain)) == (8192, 16384, 7, 8)
    assert p == CKKSParams.preset("slots8192-scale40-levels7")
    assert p.modulus_bits <= 430


@pytest.mark.parametrize(("slots", "scale"), FAMILY)
def test_every_length_up_to_the_largest_is_a_preset(slots: int, scale: int) -> None:
    largest = prime_chain.largest_depth(2 * slots, scale)
    for levels in (1, largest // 2, largest):
        p = CKKSParams.preset(f"slots{slots}-scale{scale}-levels{levels}")
        assert (p.levels, p.slot_count, p.security_bits) == (levels, slots, 128)
    with pytest.raises(
        ParameterError, match=f"largest number of levels is {largest}: slots{slots}-scale{scale}-levels{largest}"
    ):
        CKKSParams.preset(f"slots{slots}-scale{scale}-levels{largest + 1}")


@pytest.mark.parametrize(
    "name", ["", "slots8192", "slots8192-scale40-levels7-int32", "slots8192-scale40-levels-1", "Default"]
)
def test_an_unknown_preset_lists_the_forms(name: str) -> None:
    with pytest.raises(ParameterError, match="Forms: default, python-test"):
        CKKSParams.preset(name)


def test_a_preset_outside_the_family_names_the_nearest() -> None:
    with pytest.raises(ParameterError, match="slots8192"):
        CKKSParams.preset("slots12000-scale40-levels2")
    with pytest.raises(ParameterError, match="scale50"):
        CKKSParams.preset("slots8192-scale60-levels2")


@pytest.mark.parametrize(("slots", "scale"), FAMILY)
def test_scales_do_not_drift(slots: int, scale: int) -> None:
    """The distance of a level's scale from 2^scale_bits is one gap between primes, not doubled from level to level.

    Gap: NTT primes near x are 2n * ln(x) / 2 apart on average, and `levels` of them are used on both sides, so the nearest unused one is
    some 2n ln(x) levels / 4 away; four times that allows for uneven gaps. Numeric order would reach 2^levels gaps.
    """
    p = CKKSParams.preset(f"slots{slots}-scale{scale}-levels{prime_chain.largest_depth(2 * slots, scale)}")
    allowed = 4 * (2 * p.n * scale * math.log(2) * p.levels / 4) / 2.0**scale
    for level in range(p.levels + 1):
        assert abs(math.expm1((p.scale_at(level).log2 - scale) * math.log(2))) < allowed


def test_each_dropped_prime_is_the_nearest_unused_one() -> None:
    p = CKKSParams.preset("slots8192-scale40-levels5")
    used = {p.chain[0]}
    for level in range(p.levels):
        target = p.scale_at(level).as_fraction() ** 2 / 2**40
        dropped = p.prime_dropped_at(level)
        assert dropped not in used
        # No unused prime lies strictly closer to the target on either side.
        near = math.floor(abs(dropped - target))
        step = 2 * p.n
        first = math.ceil(target) - near
        inside = range(first + (1 - first) % step, math.floor(target) + near + 1, step)
        assert not [q for q in inside if is_prime(q) and q not in used and abs(q - target) < abs(dropped - target)]
        used.add(dropped)
        assert p.scale_at(level + 1) == p.scale_at(level) ** 2 / dropped


@pytest.mark.parametrize(("slots", "scale"), FAMILY)
def test_the_special_modulus_exceeds_the_largest_digit_by_four_bits(slots: int, scale: int) -> None:
    p = CKKSParams.preset(f"slots{slots}-scale{scale}-levels5")
    digits = [math.prod(p.chain[i : i + p.alpha]) for i in range(0, len(p.chain), p.alpha)]
    assert math.prod(p.special) >= 16 * max(digits)
    assert len(digits) == p.digits_at(0)
    assert len(set(p.chain + p.special)) == len(p.chain) + len(p.special)


def test_default_sets_stay_on_the_fast_kernels() -> None:
    for name in ("default", "slots8192-scale40-levels7"):
        p = CKKSParams.preset(name)
        assert all(q < prime_chain.FAST_PRIME for q in p.chain[1:])
        assert all(q < prime_chain.STRICT_PRIME for q in p.chain + p.special)


def test_a_narrow_special_modulus_is_refused() -> None:
    p = CKKSParams.python_test()
    with pytest.raises(ParameterError, match="key switching would add visible noise"):
        CKKSParams(p.n, p.chain, p.special[:1], 2, p.scale_bits, toy=True)


def test_rings_and_levels() -> None:
    p = CKKSParams.python_test()
    assert p.ring_at(0) is p.ring and p.ring_at(2).moduli == p.chain[:-2]
    assert p.key_ring.moduli == p.chain + p.special
    assert p.key_ring_at(3).moduli == tuple(p.key_ring.moduli[i] for i in p.key_limb_index_at(3))
    assert p.digits_at(p.levels) == 1
    for bad in (-1, p.levels + 1, True, 1.0):
        with pytest.raises(ParameterError, match=f"level must be 0 to {p.levels}"):
            p.ring_at(bad)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="last one is at level"):
        p.prime_dropped_at(p.levels)


def test_equality_is_by_value_and_survives_pickle_and_bytes() -> None:
    p = CKKSParams.python_test()
    q = CKKSParams(p.n, list(p.chain), list(p.special), p.alpha, p.scale_bits, toy=True, name="mine")  # type: ignore[arg-type]
    assert p is not q and p == q and hash(p) == hash(q) and p.fingerprint == q.fingerprint
    for other in (pickle.loads(pickle.dumps(p)), copy.deepcopy(p), CKKSParams.from_bytes(p.to_bytes())):
        assert other == p and other.name == p.name and other.scale_at(3) == p.scale_at(3)
    assert CKKSParams(p.n, p.chain, p.special, p.alpha, 39, toy=True).fingerprint != p.fingerprint
    with pytest.raises(AttributeError):
        p.n = 4  # type: ignore[misc]


def test_the_fingerprint_is_stable_across_releases() -> None:
    assert CKKSParams.python_test().fingerprint == "a5671a4dd9aa5ce6a56c45c8bdf6e3a4"


def test_the_printed_table_tells_what_a_user_asks() -> None:
    text = str(CKKSParams.preset("slots8192-scale40-levels7"))
    for row in (
        "ring",
        "slots",
        "8192",
        "scale",
        "2^40",
        "levels",
        "primes",
        "security",
        "128 bits",
        "at most 430",
        "relinearization key",
        "10.0 MiB in memory",
    ):
        assert row in text
    p = CKKSParams.preset("slots8192-scale40-levels7")
    assert p.evaluation_key_bytes() == 2 * 4 * 10 * p.n * 8
    assert p.evaluation_key_bytes(stored=True) < p.evaluation_key_bytes() / 2
    assert p.evaluation_key_bytes(4) < p.evaluation_key_bytes() / 2
    assert p.ciphertext_bytes(7) == 2 * p.n * 8


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 100),
        ("chain", (15,)),
        ("alpha", 0),
        ("alpha", 99),
        ("scale_bits", 5),
        ("scale_bits", 60),
        ("sigma", "lots"),
        ("sigma", 3.2),
        ("special", ()),
    ],
)
def test_bad_fields_are_named(field: str, value: object) -> None:
    p = CKKSParams.python_test()
    values = {
        "n": p.n,
        "chain": p.chain,
        "special": p.special,
        "alpha": p.alpha,
        "scale_bits": p.scale_bits,
        field: value,
    }
    with pytest.raises((ParameterError, InvalidRingError)) as caught:
        CKKSParams(**values, toy=True)  # type: ignore[arg-type]
    assert caught.value.subject in (field, "moduli") and isinstance(caught.value, ValueError)


def test_a_scale_above_the_first_prime_is_refused() -> None:
    p = CKKSParams.python_test()
    with pytest.raises(ParameterError, match="no message would fit"):
        CKKSParams(p.n, p.chain, p.special, p.alpha, 52, toy=True)


@pytest.mark.parametrize(
    ("depth", "precision", "slots"),
    [(0, 10, None), (1, 15, None), (3, 20, 4096), (7, 20, 8192), (10, 25, 1000), (16, 18, 16384)],
)
def test_for_keeps_its_promise_with_the_smallest_scale(depth: int, precision: int, slots: int | None) -> None:
    p = CKKSParams.for_(depth=depth, precision_bits=precision, slots=slots)
    assert p.levels == depth and p.slot_count >= (slots or 1) and p.security_bits == 128
    assert max(noise.bound(p.slot_count) for noise in chain_of_products(p)) <= 2.0**-precision
    narrower = CKKSParams.build(n=p.n, levels=depth, scale_bits=p.scale_bits - 1)
    if p.scale_bits > 25:
        assert max(noise.bound(p.slot_count) for noise in chain_of_products(narrower)) > 2.0**-precision


def test_for_takes_a_larger_ring_when_depth_asks_for_it() -> None:
    assert CKKSParams.for_(depth=2, precision_bits=15, slots=8192).slot_count == 8192
    assert CKKSParams.for_(depth=20, precision_bits=15, slots=8192).slot_count > 8192


def test_for_says_what_is_possible() -> None:
    with pytest.raises(ParameterError, match=r"largest depth is (\d+)") as caught:
        CKKSParams.for_(depth=70, precision_bits=30)
    best = int(str(caught.value).rsplit(" ", 1)[1])
    assert CKKSParams.for_(depth=best, precision_bits=30).levels == best
    for bad in (
        {"depth": -1},
        {"precision_bits": 0},
        {"precision_bits": 60},
        {"slots": 0},
        {"slots": 1 << 20},
        {"depth": 2.5},
    ):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            CKKSParams.for_(**{"depth": 3, "precision_bits": 20, "slots": 64, **bad})  # type: ignore[arg-type]


def test_build_names_what_fits() -> None:
    with pytest.raises(
        ParameterError, match="largest number of levels is 8. Use levels=8 or 16384 slots .* or a scale of 3"
    ):
        CKKSParams.build(n=16384, levels=9, scale_bits=40)
    with pytest.raises(ParameterError, match="alpha"):
        CKKSParams.build(n=16384, levels=7, scale_bits=40, alpha=4)

"""The security table is enforced on the exact integer Q*P; refusals say what would be accepted."""

from __future__ import annotations

import pytest
from ren.errors import InsecureParametersError, ParameterError
from ren.numtheory.primes import nearest_ntt_prime
from ren.schemes.ckks import security
from ren.schemes.ckks.params import CKKSParams


def test_the_table_is_the_one_of_the_guidelines() -> None:
    assert security.MAX_MODULUS_BITS == {
        1024: 26,
        2048: 53,
        4096: 106,
        8192: 214,
        16384: 430,
        32768: 868,
        65536: 1747,
        131072: 3523,
    }


@pytest.mark.parametrize("n", list(security.MAX_MODULUS_BITS))
def test_the_limit_is_exact(n: int) -> None:
    bits = security.MAX_MODULUS_BITS[n]
    assert security.is_secure(n, (1 << bits,))
    assert not security.is_secure(n, ((1 << bits) + 1,))
    assert security.smallest_secure_ring((1 << bits) + 1) == (2 * n if n < 1 << 17 else None)


def test_a_wide_modulus_is_refused_and_the_text_says_what_fits() -> None:
    # The set once measured fastest: eight 45-bit primes and three special ones, 495 bits where 430 are allowed.
    n, primes = 1 << 14, []
    while len(primes) < 11:
        primes.append(nearest_ntt_prime(1 << 45, n, set(primes)))
    with pytest.raises(InsecureParametersError) as caught:
        CKKSParams(n, tuple(primes[:8]), tuple(primes[8:]), 2, 40)
    text = str(caught.value)
    assert "495 bits" in text and "n=16384 admits at most 430" in text and "n=32768" in text and "toy=True" in text
    assert isinstance(caught.value, ValueError) and caught.value.subject == "moduli"


def test_a_ring_outside_the_table_is_refused_unless_toy() -> None:
    with pytest.raises(ParameterError, match="n=256 has no row"):
        CKKSParams.build(n=256, levels=2, scale_bits=30)
    toy = CKKSParams.build(n=256, levels=2, scale_bits=30, toy=True)
    with pytest.raises(InsecureParametersError, match="not in the table"):
        CKKSParams(toy.n, toy.chain, toy.special, toy.alpha, toy.scale_bits)


def test_a_toy_set_says_so_everywhere_and_claims_nothing() -> None:
    toy = CKKSParams.python_test()
    assert toy.toy and toy.security_bits == 0
    assert "TOY" in repr(toy) and "NONE CLAIMED (toy" in str(toy)
    secure = CKKSParams.preset("slots8192-scale40-levels3")
    marked = CKKSParams(secure.n, secure.chain, secure.special, secure.alpha, secure.scale_bits, toy=True)
    assert marked.security_bits == 0 and secure.security_bits == 128 and marked != secure


@pytest.mark.parametrize("level", [80, 129, 192, 256, True, None])
def test_only_the_tabulated_security_level_is_accepted(level: object) -> None:
    with pytest.raises(ParameterError, match="must be 128"):
        CKKSParams.for_(depth=2, precision_bits=15, security=level)  # type: ignore[arg-type]


def test_a_narrow_error_is_insecure() -> None:
    p = CKKSParams.preset("slots8192-scale40-levels3")
    with pytest.raises(ParameterError, match="sigma 2.0 is below"):
        CKKSParams(p.n, p.chain, p.special, p.alpha, p.scale_bits, sigma="2.0")

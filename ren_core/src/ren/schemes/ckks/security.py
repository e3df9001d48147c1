"""Which moduli are secure in which ring: the table of the 2024 security guidelines.

Bossuat, Cammarota, Chillotti, Curtis, Dai, Gong, Hales, Kim, Kumara, Lee, Lu, Maple, Pedrouzo-Ulloa, Player, Polyakov, Rodriguez, Song,
Sohn, Yang, Yun: "Security Guidelines for Implementing Homomorphic Encryption", ia.cr/2024/463. Row "uniform ternary secret, 128 bits, classical":
the largest log2 of the whole modulus Q * P (ciphertext and key-switching primes) for error standard deviation 3.19. The limits hold for any set that is
published together: the widest modulus under which the secret is ever used counts, which is that of the evaluation keys.
"""

from __future__ import annotations

from math import prod

from ren.errors import InsecureParametersError, ParameterError

#: ring degree n -> largest bit length of Q * P for 128 bits of classical security.
MAX_MODULUS_BITS: dict[int, int] = {
    1 << 10: 26,
    1 << 11: 53,
    1 << 12: 106,
    1 << 13: 214,
    1 << 14: 430,
    1 << 15: 868,
    1 << 16: 1747,
    1 << 17: 3523,
}

#: The one security level (bits, classical attacks) that the table covers.
SECURITY_BITS = 128


def check_security_level(security: int) -> None:
    """Raise ParameterError for a security level that Ren has no table for."""
    if security != SECURITY_BITS or isinstance(security, bool):
        raise ParameterError(
            f"security must be {SECURITY_BITS}, got {security!r}",
            subject="security",
            hint=f"Use security={SECURITY_BITS}, or toy=True for tests without security",
        )


def is_secure(n: int, moduli: tuple[int, ...]) -> bool:
    """Whether the product of `moduli` is within the table: at most 2^bits, compared as integers."""
    return n in MAX_MODULUS_BITS and prod(moduli) <= 1 << MAX_MODULUS_BITS[n]


def smallest_secure_ring(modulus: int) -> int | None:
    """The smallest n of the table whose limit admits `modulus` (Q * P), None when it is too large for all of them."""
    return next((n for n, bits in MAX_MODULUS_BITS.items() if modulus <= 1 << bits), None)


def require_secure(n: int, moduli: tuple[int, ...], *, chain_limbs: int) -> None:
    """Raise InsecureParametersError unless Q * P is within the table for ring degree n.

    moduli: the chain primes, then the special ones; chain_limbs: how many belong to the chain (for the message).
    """
    if is_secure(n, moduli):
        return
    modulus = prod(moduli)
    bits = (modulus - 1).bit_length()
    fit = smallest_secure_ring(modulus)
    ways = [] if fit is None else [f"n={fit} (smallest ring that admits {bits} bits)"]
    if n in MAX_MODULUS_BITS:
        limit = MAX_MODULUS_BITS[n]
        ways.append(f"drop primes until Q*P has at most {limit} bits")
        asked = f"n={n} admits at most {limit}"
    else:
        asked = f"n={n} is not in the table (2^10 to 2^17)"
    raise InsecureParametersError(
        f"log2(Q*P) is {bits} bits ({chain_limbs} ciphertext primes, {len(moduli) - chain_limbs} special primes); for {SECURITY_BITS}-bit security {asked}",
        subject="n" if n not in MAX_MODULUS_BITS else "moduli",
        hint=f"Use {' or '.join(ways)}, or pass toy=True for tests without security",
    )

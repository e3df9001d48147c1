"""CKKS parameter sets: one frozen, checked, comparable, printable value."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, fields
from functools import cached_property
from math import prod
from typing import Any

from ren.errors import FormatError, ParameterError
from ren.ring import RingSpec
from ren.schemes.ckks.message import integer
from ren.schemes.ckks.prime_chain import SPECIAL_MARGIN_BITS, largest_digit
from ren.schemes.ckks.scale import Scale
from ren.schemes.ckks.security import MAX_MODULUS_BITS, SECURITY_BITS, is_secure, require_secure
from ren.schemes.ckks.serialize import read_record, residue_bytes, write_record

MIN_SCALE_BITS, MAX_SCALE_BITS = 10, 58
# More than any sensible set has; bounds the work of checking a file.
_MAX_PRIMES = 256
_SIGMA = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?")


@dataclass(frozen=True)
class CKKSParams:
    """Everything that fixes a CKKS instance. Equal by value (the name does not count), hashable, picklable.

    n: ring degree, a power of two; there are n/2 slots. chain: ciphertext primes q_0 .. q_L in storage order; a rescale drops the last. special: primes
    that only evaluation keys use; their product exceeds the largest digit by 4 bits at least. alpha: chain primes per key-switching digit.
    scale_bits: the base scale is 2^scale_bits. sigma: standard deviation of the error, as the text that names the sampler's table. The secret is uniform ternary.
    toy: allow sets without security; all objects made from such a set say so. name: for display only.

    Most users take `CKKSParams.default()`, `.preset(name)` or `.for_(depth=..., precision_bits=..., slots=...)`; researchers give all values, or `.build(...)`,
    which searches the primes. Raises ParameterError (a ValueError) naming the field, the value and the nearest accepted one; InsecureParametersError when Q*P is above
    the table of `ren.schemes.ckks.security` and `toy` is not set.
    """

    n: int
    chain: tuple[int, ...]
    special: tuple[int, ...]
    alpha: int
    scale_bits: int
    sigma: str = "3.19"
    toy: bool = False
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "chain", tuple(int(q) for q in self.chain))
        object.__setattr__(self, "special", tuple(int(q) for q in self.special))
        for name in ("n", "alpha", "scale_bits"):
            value = integer(getattr(self, name))
            if value is not None:
                object.__setattr__(self, name, value)
        ring = RingSpec(self.n, self.chain + self.special)  # checks n, primality, q = 1 mod 2n, distinctness
        if self.n < 8:
            raise ParameterError(f"n must be at least 8, got {self.n}", subject="n", hint="Use n=8 or more")
        if not self.chain or not self.special:
            raise ParameterError(
                f"chain and special each need a prime, got {len(self.chain)} and {len(self.special)}",
                subject="special" if self.chain else "chain",
            )
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, int) or not 1 <= self.alpha <= len(self.chain):
            raise ParameterError(
                f"alpha must be 1 to {len(self.chain)} (the number of ciphertext primes), got {self.alpha!r}",
                subject="alpha",
                hint=f"Use alpha={len(self.chain) if isinstance(self.alpha, int) and self.alpha > 1 else 1}",
            )
        check_scale_bits(self.scale_bits)
        if self.chain[0] <= 1 << self.scale_bits:
            raise ParameterError(
                f"the first prime {self.chain[0]} ({self.chain[0].bit_length()} bits) does not exceed the scale 2^{self.scale_bits}: no message would fit",
                subject="chain",
                hint=f"Use a scale of at most {max(self.chain[0].bit_length() - 4, MIN_SCALE_BITS)} bits or a wider first prime",
            )
        digit = largest_digit(self.chain, self.alpha)
        if prod(self.special) < digit << SPECIAL_MARGIN_BITS:
            raise ParameterError(
                f"the special primes have {prod(self.special).bit_length()} bits together and the largest digit {digit.bit_length()}: key switching would add visible noise",
                subject="special",
                hint=f"Their product must have {digit.bit_length() + SPECIAL_MARGIN_BITS} bits: use more special primes or a smaller alpha",
            )
        if not isinstance(self.sigma, str) or not _SIGMA.fullmatch(self.sigma) or not 0 < float(self.sigma) <= 64:
            raise ParameterError(
                f'sigma must be a decimal text such as "3.19", above 0 and at most 64, got {self.sigma!r}',
                subject="sigma",
                hint='Use "3.19"',
            )
        if not self.toy:
            if float(self.sigma) < 3.19:
                raise ParameterError(
                    f"sigma {self.sigma} is below the 3.19 of the security table",
                    subject="sigma",
                    hint='Use "3.19", or toy=True for tests without security',
                )
            require_secure(self.n, ring.moduli, chain_limbs=len(self.chain))

    # -- ways to make one --------------------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        *,
        n: int,
        levels: int,
        scale_bits: int,
        alpha: int | None = None,
        sigma: str = "3.19",
        toy: bool = False,
        name: str = "",
    ) -> CKKSParams:
        """Search primes for n, `levels` rescales and a scale of 2^scale_bits; the digit size comes from a cost model unless given.

        Raises ParameterError when the security table (or, for toys, the supply of primes) admits no such set; the text says how many levels fit.
        """
        from ren.schemes.ckks import presets

        return presets.build(
            cls, n=n, levels=levels, scale_bits=scale_bits, alpha=alpha, sigma=sigma, toy=toy, name=name
        )

    @classmethod
    def default(cls) -> CKKSParams:
        """16384 slots, 40-bit scale, 16 levels, 128-bit security."""
        from ren.schemes.ckks import presets

        return presets.preset("slots16384-scale40-levels16")

    @classmethod
    def python_test(cls) -> CKKSParams:
        """A tiny toy set for tests on the reference backend: 64 slots, 40-bit scale, 6 levels, no security."""
        from ren.schemes.ckks import presets

        return presets.preset("python-test")

    @classmethod
    def preset(cls, name: str) -> CKKSParams:
        """A set by name: "default", "python-test" or slots{8192,16384,32768}-scale{30,40,50}-levelsL for any L that fits.

        A suffix "-int64" is accepted: it names the residue type of every backend. Raises ParameterError: an unknown name lists the
        forms, too many levels name the largest that fits.
        """
        from ren.schemes.ckks import presets

        return presets.preset(name)

    @classmethod
    def for_(
        cls, *, depth: int, precision_bits: int, slots: int | None = None, security: int = SECURITY_BITS
    ) -> CKKSParams:
        """The cheapest set with `depth` consecutive multiplications, `precision_bits` bits after the point, and at least `slots` slots.

        precision_bits: after `depth` multiplications by fresh ciphertexts, each followed by a rotation, all values in [-1, 1], every slot is off by less than
        2^-precision_bits, but for a chance of 2^-40 (`ren.schemes.ckks.noise`). A circuit that amplifies errors, such as squaring ten times (2^10), needs those bits more.
        slots: None takes the smallest secure ring; a ring larger than 2 * slots is taken when depth asks for it.
        """
        from ren.schemes.ckks import presets

        return presets.for_(depth=depth, precision_bits=precision_bits, slots=slots, security=security)

    # -- rings and levels --------------------------------------------------------------------------------------------

    @property
    def levels(self) -> int:
        """L: how many rescales a fresh ciphertext can take; there are L + 1 chain primes."""
        return len(self.chain) - 1

    @property
    def slot_count(self) -> int:
        """Complex numbers per ciphertext: n / 2."""
        return self.n // 2

    @cached_property
    def ring(self) -> RingSpec:
        """The ring of fresh ciphertexts (level 0): all chain primes."""
        return RingSpec(self.n, self.chain).drop(0)  # the shared instance: comparing rings is then mostly identity

    def ring_at(self, level: int) -> RingSpec:
        """The ring of ciphertexts at `level`: the chain without its last `level` primes."""
        self.check_level(level)
        return self.ring.drop(level)

    @cached_property
    def special_ring(self) -> RingSpec:
        """The ring of the special primes alone."""
        return RingSpec(self.n, self.special)

    @cached_property
    def key_ring(self) -> RingSpec:
        """The ring of evaluation keys: chain primes, then special primes."""
        return self.ring.extend(self.special)

    def key_ring_at(self, level: int) -> RingSpec:
        """The ring in which key switching at `level` computes: the chain at that level, then the special primes."""
        return self.ring_at(level).extend(self.special)

    def key_limb_index_at(self, level: int) -> tuple[int, ...]:
        """Where the limbs of `key_ring_at(level)` lie in a full-level key: the index tuple of a gadget product."""
        self.check_level(level)
        kept = len(self.chain) - level
        return (*range(kept), *range(len(self.chain), len(self.chain) + len(self.special)))

    def digits_at(self, level: int) -> int:
        """Key-switching digits at `level`: chain primes left / alpha, rounded up."""
        self.check_level(level)
        return -(-(len(self.chain) - level) // self.alpha)

    def check_level(self, level: Any) -> int:
        """`level` (any integer type) as an int. Raises ParameterError unless 0 <= level <= levels."""
        found = level if type(level) is int else integer(level)
        if found is None or not 0 <= found <= self.levels:
            raise ParameterError(f"level must be 0 to {self.levels}, got {level!r}", subject="level")
        return found

    # -- scales ------------------------------------------------------------------------------------------------------

    @cached_property
    def default_scale(self) -> Scale:
        """The base scale 2^scale_bits: the scale of level 0."""
        return Scale.power_of_two(self.scale_bits)

    @cached_property
    def _scales(self) -> tuple[Scale, ...]:
        scales = [self.default_scale]
        for level in range(self.levels):
            scales.append(scales[-1] ** 2 / self.chain[-1 - level])
        return tuple(scales)

    def scale_at(self, level: int) -> Scale:
        """The standard scale of `level`: scale_0 = 2^scale_bits, scale_(l+1) = scale_l^2 / (prime dropped at level l), exactly."""
        self.check_level(level)
        return self._scales[level]

    def prime_dropped_at(self, level: int) -> int:
        """The prime by which a rescale from `level` to `level` + 1 divides."""
        if not 0 <= level < self.levels:
            raise ParameterError(
                f"no rescale at level {level}: the last one is at level {self.levels - 1}", subject="level"
            )
        return self.chain[-1 - level]

    # -- security and size -------------------------------------------------------------------------------------------

    @cached_property
    def modulus_bits(self) -> int:
        """Bits of Q*P, the modulus that security depends on."""
        return (self.key_ring.modulus - 1).bit_length()

    @cached_property
    def security_bits(self) -> int:
        """The security claimed: 128, or 0 for a toy set."""
        return SECURITY_BITS if not self.toy and is_secure(self.n, self.chain + self.special) else 0

    def ciphertext_bytes(self, level: int = 0) -> int:
        """Bytes of a ciphertext in memory: two polynomials."""
        return 16 * self.n * self.ring_at(level).limbs

    @property
    def public_key_bytes(self) -> int:
        """Bytes of the public encryption key in memory: two polynomials over the chain and one special prime."""
        return 16 * self.n * (len(self.chain) + 1)

    def evaluation_key_bytes(self, level: int = 0, *, stored: bool = False) -> int:
        """Bytes of one relinearization, rotation or conjugation key that serves `level` and deeper.

        stored: as a file, where the uniform half of every row is one 32-byte seed; otherwise expanded in memory.
        """
        moduli = self.key_ring_at(level).moduli
        if stored:
            return self.n * self.digits_at(level) * sum(map(residue_bytes, moduli)) + 32
        return 16 * self.n * self.digits_at(level) * len(moduli)

    # -- identity ----------------------------------------------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that depend on every value (not on the name), the same in all processes and releases."""
        text = f"ckks-v1|n={self.n}|chain={self.chain}|special={self.special}|alpha={self.alpha}|scale_bits={self.scale_bits}|sigma={self.sigma}|secret=ternary|toy={self.toy}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def _hash(self) -> int:
        return hash((self.n, self.chain, self.special, self.alpha, self.scale_bits, self.sigma, self.toy))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return CKKSParams, tuple(getattr(self, f.name) for f in fields(self))

    def to_bytes(self) -> bytes:
        """The set as a record of kind "parameters" (`ren.schemes.ckks.serialize`)."""
        facts = {f.name: getattr(self, f.name) for f in fields(self)}
        return write_record("parameters", facts=facts, fingerprint=self.fingerprint)

    @classmethod
    def from_bytes(cls, data: bytes) -> CKKSParams:
        """The inverse of `to_bytes`, with all checks of the constructor. Raises FormatError subclasses, ParameterError, InvalidRingError."""
        record = read_record(data, kind="parameters", max_bytes=1 << 16)
        chain, special = record.fact("chain", list), record.fact("special", list)
        if not all(type(q) is int for q in chain + special) or len(chain + special) > _MAX_PRIMES:
            raise FormatError(
                f"parameters: chain and special must be lists of at most {_MAX_PRIMES} ints together", subject="chain"
            )
        params = cls(
            record.fact("n", int),
            tuple(chain),
            tuple(special),
            record.fact("alpha", int),
            record.fact("scale_bits", int),
            record.fact("sigma", str),
            record.fact("toy", bool),
            record.fact("name", str),
        )
        if params.fingerprint != record.fingerprint:
            raise FormatError("parameters: the fingerprint does not belong to the values", subject="fingerprint")
        return params

    # -- text --------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"CKKSParams({name}n={self.n}, slots={self.slot_count}, scale=2^{self.scale_bits}, levels={self.levels}, {'TOY' if self.toy else f'{self.security_bits}-bit'})"

    def __str__(self) -> str:
        """A table: ring, primes, scale, levels, slots, security claimed, key sizes."""
        widths = [q.bit_length() for q in self.chain]
        digits = self.digits_at(0)
        limit = MAX_MODULUS_BITS.get(self.n)
        if self.toy:
            security = "NONE CLAIMED (toy set, for tests only)"
        else:
            security = f"{self.security_bits} bits, classical, uniform ternary secret (ia.cr/2024/463)"
        rows = [
            ("ring", f"Z_Q[X]/(X^{self.n} + 1)"),
            ("slots", f"{self.slot_count}"),
            ("scale", f"2^{self.scale_bits}"),
            ("levels", f"{self.levels}"),
            (
                "primes",
                f"{len(self.chain)}: {widths[0]} bits, then {self.levels} of {_range(widths[1:])} bits"
                if self.levels
                else f"1: {widths[0]} bits",
            ),
            ("special primes", f"{len(self.special)} of {_range([q.bit_length() for q in self.special])} bits"),
            ("key-switching digits", f"{digits} of up to {self.alpha} primes"),
            (
                "log2(Q*P)",
                f"{self.modulus_bits} bits" + (f", at most {limit} for {SECURITY_BITS}-bit security" if limit else ""),
            ),
            ("error deviation", self.sigma),
            ("security", security),
            ("ciphertext", _bytes(self.ciphertext_bytes())),
            ("public key", _bytes(self.public_key_bytes)),
            (
                "relinearization key",
                f"{_bytes(self.evaluation_key_bytes())} in memory, {_bytes(self.evaluation_key_bytes(stored=True))} stored",
            ),
            (
                "each rotation key",
                f"{_bytes(self.evaluation_key_bytes())} in memory, {_bytes(self.evaluation_key_bytes(stored=True))} stored",
            ),
            ("fingerprint", self.fingerprint),
        ]
        width = max(len(k) for k, _ in rows)
        title = f"CKKS parameters {self.name}".rstrip()
        return "\n".join([title, *(f"  {k:<{width}}  {v}" for k, v in rows)])


def check_scale_bits(scale_bits: int) -> None:
    """Raise ParameterError unless the base scale is between 2^10 and 2^58."""
    if (
        isinstance(scale_bits, bool)
        or not isinstance(scale_bits, int)
        or not MIN_SCALE_BITS <= scale_bits <= MAX_SCALE_BITS
    ):
        near = min(max(scale_bits, MIN_SCALE_BITS), MAX_SCALE_BITS) if isinstance(scale_bits, int) else 40
        raise ParameterError(
            f"scale_bits must be {MIN_SCALE_BITS} to {MAX_SCALE_BITS}, got {scale_bits!r}",
            subject="scale_bits",
            hint=f"The nearest accepted value is {near}",
        )


def _range(widths: list[int]) -> str:
    return f"{min(widths)}" if min(widths) == max(widths) else f"{min(widths)}-{max(widths)}"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"

"""Named parameter sets, and the choice of one from depth, precision and slots."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from ren.errors import ParameterError, UnsupportedOperandError
from ren.schemes.ckks import prime_chain
from ren.schemes.ckks.message import integer
from ren.schemes.ckks.noise import chain_of_products
from ren.schemes.ckks.params import MAX_SCALE_BITS, CKKSParams, check_scale_bits
from ren.schemes.ckks.security import MAX_MODULUS_BITS, check_security_level

PRESET_SLOTS = (8192, 16384, 32768)
PRESET_SCALES = (30, 40, 50)
#: `for_` takes no smaller scale: below, the gaps between NTT primes of large rings make scales uneven.
_SMALLEST_CHOSEN_SCALE = 25
_FAMILY = re.compile(r"slots(\d{1,7})-scale(\d{1,3})-levels(\d{1,4})(?:-int64)?")
_FORMS = "default, python-test, slots{8192,16384,32768}-scale{30,40,50}-levelsL"


def build(
    cls: type[CKKSParams], *, n: int, levels: int, scale_bits: int, alpha: int | None, sigma: str, toy: bool, name: str
) -> CKKSParams:
    """See `CKKSParams.build`."""
    n, levels, scale_bits = map(_plain, (n, levels, scale_bits))
    if isinstance(n, bool) or not isinstance(n, int) or n < 8 or n > 1 << 17 or n & (n - 1):
        raise ParameterError(f"n must be a power of two, 8 to 2^17, got {n!r}", subject="n")
    if isinstance(levels, bool) or not isinstance(levels, int) or not 0 <= levels <= 200:
        raise ParameterError(f"levels must be 0 to 200, got {levels!r}", subject="levels")
    check_scale_bits(scale_bits)
    bits = None if toy else MAX_MODULUS_BITS.get(n)
    if not toy and bits is None:
        raise ParameterError(
            f"n={n} has no row in the security table",
            subject="n",
            hint=f"Use n={min(MAX_MODULUS_BITS)} or more, or toy=True for tests without security",
        )
    fits = toy or levels <= prime_chain.largest_depth(n, scale_bits)
    chain = prime_chain.chain_primes(n, scale_bits, levels) if fits else ()
    if alpha is not None and fits and not 1 <= alpha <= len(chain):
        raise ParameterError(
            f"alpha must be 1 to {len(chain)} (the number of ciphertext primes), got {alpha!r}", subject="alpha"
        )
    choice = prime_chain.choose_digits(n, chain, modulus_bits=bits, alpha=alpha) if fits else None
    if choice is None:
        largest = prime_chain.largest_depth(n, scale_bits)
        if fits:
            raise ParameterError(
                f"alpha={alpha} leaves no room for special primes",
                subject="alpha",
                hint="Use a smaller alpha, or leave it out",
            )
        room = "no level fits" if largest < 0 else f"the largest number of levels is {largest}"
        raise ParameterError(
            f"levels={levels} does not fit n={n} with a scale of {scale_bits} bits at 128-bit security: {room}",
            subject="levels",
            hint=_remedy(n, levels, scale_bits, largest),
        )
    return cls(n, chain, choice.special, choice.alpha, scale_bits, sigma, toy, name)


def _plain(value: Any) -> Any:
    """An int for any integer type; everything else as it is, for the checks to name."""
    found = integer(value)
    return value if found is None else found


def _remedy(n: int, levels: int, scale_bits: int, largest: int) -> str:
    ways = [f"levels={largest}"] if largest >= 0 else []
    wider = next((m for m in MAX_MODULUS_BITS if m > n and prime_chain.largest_depth(m, scale_bits) >= levels), None)
    if wider:
        ways.append(f"{wider // 2} slots (n={wider})")
    narrower = next((s for s in range(scale_bits - 1, 19, -1) if prime_chain.largest_depth(n, s) >= levels), None)
    if narrower:
        ways.append(f"a scale of {narrower} bits")
    return "Use " + (" or ".join(ways) if ways else "fewer levels")


@lru_cache(maxsize=128)
def preset(name: str) -> CKKSParams:
    """See `CKKSParams.preset`."""
    if not isinstance(name, str):
        raise UnsupportedOperandError(f"a preset is named by a string, got {type(name).__name__}; forms: {_FORMS}")
    if name == "default":
        return CKKSParams.default()
    if name in ("python-test", "python_test"):
        return CKKSParams.build(n=128, levels=6, scale_bits=40, toy=True, name="python-test")
    match = _FAMILY.fullmatch(name)
    if match is None:
        raise ParameterError(f"unknown preset {name!r}", subject="preset", hint=f"Forms: {_FORMS}")
    slots, scale_bits, levels = map(int, match.groups())
    for field, value, legal in (("slots", slots, PRESET_SLOTS), ("scale", scale_bits, PRESET_SCALES)):
        if value not in legal:
            near = min(legal, key=lambda x: abs(x - value))
            raise ParameterError(
                f"preset {name!r}: {field} must be one of {', '.join(map(str, legal))}, got {value}",
                subject="preset",
                hint=f"The nearest is {field}{near}; CKKSParams.build takes any",
            )
    largest = prime_chain.largest_depth(2 * slots, scale_bits)
    if levels > largest:
        raise ParameterError(
            f"preset {name!r}: {levels} levels do not fit {slots} slots with a {scale_bits}-bit scale at 128-bit security",
            subject="preset",
            hint=f"The largest number of levels is {largest}: slots{slots}-scale{scale_bits}-levels{largest}; otherwise: {_remedy(2 * slots, levels, scale_bits, -1)}",
        )
    return CKKSParams.build(n=2 * slots, levels=levels, scale_bits=scale_bits, name=name)


def for_(*, depth: int, precision_bits: int, slots: int | None, security: int) -> CKKSParams:
    """See `CKKSParams.for_`."""
    check_security_level(security)
    depth, precision_bits, slots = map(_plain, (depth, precision_bits, slots))
    if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= 200:
        raise ParameterError(f"depth must be an int, 0 to 200, got {depth!r}", subject="depth")
    if isinstance(precision_bits, bool) or not isinstance(precision_bits, int) or not 1 <= precision_bits <= 45:
        raise ParameterError(
            f"precision_bits must be an int, 1 to 45 (encoding works in double precision), got {precision_bits!r}",
            subject="precision_bits",
            hint="Typical values are 15 to 30",
        )
    if slots is not None and (
        isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= max(MAX_MODULUS_BITS) // 2
    ):
        raise ParameterError(
            f"slots must be an int, 1 to {max(MAX_MODULUS_BITS) // 2}, or None, got {slots!r}", subject="slots"
        )
    name = f"for depth {depth}, {precision_bits} bits" + ("" if slots is None else f", {slots} slots")
    for n in MAX_MODULUS_BITS:
        if n >= 2 * (slots or 1):
            params = _smallest_scale(n, depth, precision_bits, name)
            if params is not None:
                return params
    best = _deepest(precision_bits, depth)
    raise ParameterError(
        f"no ring of the security table has depth {depth} at {precision_bits} bits of precision",
        subject="depth",
        hint=f"At this precision the largest depth is {best}" if best >= 0 else "Use a lower precision_bits",
    )


def _smallest_scale(n: int, depth: int, precision_bits: int, name: str) -> CKKSParams | None:
    """The set with the smallest scale that keeps the promise of `CKKSParams.for_` in the ring of degree n, if one is secure."""
    target = 2.0**-precision_bits
    # A rescale alone adds noise of about n / sqrt(18) / scale: no smaller scale can do.
    start = max(precision_bits + int(math.log2(n / math.sqrt(18))), _SMALLEST_CHOSEN_SCALE)
    for scale_bits in range(start, MAX_SCALE_BITS + 1):
        if (depth + 1) * scale_bits > MAX_MODULUS_BITS[n] or depth > prime_chain.largest_depth(n, scale_bits):
            return None  # wider scales fit even less
        params = CKKSParams.build(n=n, levels=depth, scale_bits=scale_bits, name=name)
        if max(noise.bound(params.slot_count) for noise in chain_of_products(params)) <= target:
            return params
    return None


def _deepest(precision_bits: int, depth: int) -> int:
    """The largest depth below `depth` that some ring of the table has at this precision; -1 for none."""
    low, high = -1, depth
    while high - low > 1:
        middle = (low + high) // 2
        if any(_smallest_scale(n, middle, precision_bits, "") for n in MAX_MODULUS_BITS):
            low = middle
        else:
            high = middle
    return low

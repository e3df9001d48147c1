"""The noise model: predicted errors of slots, as averages and as bounds that hold with a stated probability.

Everything is an error of a *slot*, in message units (coefficient noise divided by the scale). A polynomial with independent coefficients of variance v has
slots of variance n v (canonical embedding; Costache, Curtis, Hales, Murphy, Ogilvie, Player, "On the precision loss in approximate homomorphic encryption",
ia.cr/2022/162, section 3). Two kinds behave differently in the tail and are kept apart:

* direct: e with fixed variance in all slots. abs(slot)^2 is exponentially distributed: P(abs > t) = exp(-t^2 / V).
* product: r * s with both factors random polynomials (rounding times secret, digit times key noise). abs(slot)^2 is a product of two exponentials:
  P(abs > t) = 2 x K_1(2 x), x = t / sqrt(V), about sqrt(pi x) exp(-2 x): much heavier.

Sources of noise, coefficient variances (h = 2/3 is the variance of a ternary coefficient, so r * s has n h times the variance of r):

* encoding: rounding, 1/12; the transform in double precision, 2^-50 of the largest slot.
* dividing by the product of k primes (rescale k = 1, mod-down): the centred conversion is off by a sum of k uniform variables on [-1/2, 1/2], so k/12, on both
  components: k/12 direct and (k/12) n h product.
* encryption with the public key (over one extra prime p): (u e + e_0 + e_1 s) / p, then that division with k = 1.
* encryption with the secret key: sigma^2.
* key switching: sum over digits of digit_d * e_d, divided by P. A digit of a primes with product D is a centred conversion, of variance (a/12) D^2; together
  n sigma^2 sum_d (a_d/12) D_d^2 / P^2, product kind; then the division by P, k = number of special primes.

The model is average case over keys and noise with independent terms; the tests of the scheme compare it with measured errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.scale import Scale

#: Default probability that any slot exceeds a bound.
FAILURE = 2.0**-40
#: Relative precision of the encoder's transforms in double precision (measured maximum 2^-49.8 of the largest slot).
TRANSFORM_PRECISION = 2.0**-50
_TERNARY_VARIANCE = 2.0 / 3.0


@dataclass(frozen=True, slots=True)
class Noise:
    """Variance of the complex error of a slot (mean of abs^2), split by tail; see the module. Independent noises add."""

    direct: float = 0.0
    product: float = 0.0

    @property
    def variance(self) -> float:
        return self.direct + self.product

    @property
    def rms(self) -> float:
        """Root mean square of the modulus of the error, over slots and draws."""
        return math.sqrt(self.variance)

    def bound(self, slots: int, failure: float = FAILURE) -> float:
        """The modulus that no slot exceeds, except with probability `failure`, over all `slots` slots."""
        t = math.log(2 * slots / failure)  # half of the failure for each kind
        x = t / 2
        for _ in range(3):  # solves sqrt(pi x) exp(-2 x) = exp(-t); converges at once as the logarithm is flat
            x = (t + 0.5 * math.log(math.pi * x)) / 2
        return math.sqrt(self.direct * t) + math.sqrt(self.product) * x

    def scaled(self, factor: float) -> Noise:
        """The noise of `factor` times the value (factor: a constant, or the largest modulus of an exact multiplier)."""
        return Noise(self.direct * factor * factor, self.product * factor * factor)

    def __add__(self, other: Noise) -> Noise:
        return Noise(self.direct + other.direct, self.product + other.product)

    def __str__(self) -> str:
        return f"2^{math.log2(self.rms):.1f} rms" if self.variance else "0"


def systematic(error: float) -> Noise:
    """A fixed error of at most `error`, such as a constant that was rounded."""
    return Noise(error * error)


def rounding(n: int, divided_primes: int, scale: Scale | float) -> Noise:
    """Of dividing both components of a ciphertext by `divided_primes` primes; `scale` is the one afterwards."""
    unit = divided_primes / 12 * n / float(scale) ** 2
    return Noise(unit, unit * n * _TERNARY_VARIANCE)


def encoding(n: int, scale: Scale | float, largest: float = 1.0) -> Noise:
    """Of encoding a message with slots up to `largest` in modulus, and of decoding it."""
    transform = TRANSFORM_PRECISION * largest
    return Noise(n / 12 / float(scale) ** 2 + 2 * transform * transform)  # a power would raise where a product is inf


def encryption(params: CKKSParams, scale: Scale | float, *, public: bool = True) -> Noise:
    """Of encrypting with the public key, or with the secret key; without the encoding."""
    n, variance = params.n, float(params.sigma) ** 2
    if not public:
        return Noise(n * variance / float(scale) ** 2)
    divisor = min((params.special[0], *params.chain[1:]))  # which of them depends on the level; all are far above sigma
    unit = n * variance / (float(scale) * divisor) ** 2
    return Noise(unit, unit * 2 * n * _TERNARY_VARIANCE) + rounding(n, 1, scale)


def fresh(
    params: CKKSParams, scale: Scale | float | None = None, *, largest: float = 1.0, public: bool = True
) -> Noise:
    """Of a message encoded and encrypted at `scale` (None: the default scale)."""
    s = params.default_scale if scale is None else scale
    return encoding(params.n, s, largest) + encryption(params, s, public=public)


def rescale(params: CKKSParams, scale: Scale | float, *, primes: int = 1) -> Noise:
    """Added by a rescale to `scale` that drops `primes` primes in one division. Noise that is there already keeps its size in message units."""
    return rounding(params.n, primes, scale)


def key_switch(params: CKKSParams, level: int, scale: Scale | float) -> Noise:
    """Added by one key switch (relinearization, rotation, conjugation) at `level`.

    scale: that of the result.
    """
    n, chain = params.n, params.chain[: len(params.chain) - level]
    dropped = prod(params.special)
    digits = [chain[i : i + params.alpha] for i in range(0, len(chain), params.alpha)]
    inner = sum(len(d) / 12 * (prod(d) / dropped) ** 2 for d in digits) * float(params.sigma) ** 2
    return Noise(0.0, n * n * inner / float(scale) ** 2) + rounding(n, len(params.special), scale)


def multiply(x: Noise, y: Noise, bound_x: float, bound_y: float, *, same: bool = False) -> Noise:
    """Of the product of two noisy values with slots up to the given bounds, before relinearization and rescale.

    same: both operands carry the same error (x * x, or x and something computed from it): errors then add as amplitudes.
    """
    cross = x.variance * y.variance
    if same:
        return x.scaled(bound_y + bound_x * _ratio(y, x)) + Noise(0.0, cross)
    return x.scaled(bound_y) + y.scaled(bound_x) + Noise(0.0, cross)


def _ratio(y: Noise, x: Noise) -> float:
    return y.rms / x.rms if x.variance else 0.0


def relinearize_rescale(params: CKKSParams, level: int, scale: Scale | float) -> Noise:
    """Added after a product of operands at `level` by relinearization and a rescale to `scale`: the first at the scale before the rescale, so
    next to nothing, and the rounding of the second."""
    return key_switch(params, level, float(scale) * params.prime_dropped_at(level)) + rounding(params.n, 1, scale)


def chain_of_products(params: CKKSParams) -> Iterator[Noise]:
    """Noise after 0, 1, ..., params.levels multiplications: each multiplies by a fresh ciphertext and rotates once; all values within [-1, 1].

    What `CKKSParams.for_` promises its precision for. A circuit that amplifies errors (squaring ten times: by 2^10) loses that on top.
    """
    start = fresh(params)
    noise = start
    yield noise
    for level in range(params.levels):
        scale = params.scale_at(level + 1)
        noise = (
            multiply(noise, start, 1.0, 1.0)
            + relinearize_rescale(params, level, scale)
            + key_switch(params, level + 1, scale)
        )
        yield noise

"""The noise model against measurement: averages within sampling error, bounds never exceeded; tails against simulation."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from ren.schemes import ckks
from ren.schemes.ckks import noise
from ren.schemes.ckks.noise import Noise
from ren.schemes.ckks.params import CKKSParams
from ren.testing import fixed_randomness

KEYS = 6


def measured() -> dict[str, tuple[list[float], Noise]]:
    """Squared errors of every slot over several keys, and what the model says, per operation. Messages of modulus one."""
    p = CKKSParams.python_test()
    slots = p.slot_count
    rng = np.random.default_rng(11)
    s0, s1 = p.default_scale, p.scale_at(1)
    by_secret, by_public = noise.fresh(p, public=False), noise.fresh(p)
    found: dict[str, tuple[list[float], Noise]] = {}

    def note(name: str, result: Any, expected: Any, model: Noise) -> None:
        errors = np.abs(np.asarray(engine.decode(engine.decrypt(result), is_real=False)) - expected) ** 2
        found.setdefault(name, ([], model))[0].extend(errors)

    for key in range(KEYS):
        with fixed_randomness(key), ckks.Engine(p, device="reference") as engine:
            v, w = np.exp(2j * np.pi * rng.uniform(size=(2, slots)))
            x, y = (engine.encrypt(engine.encode(m, msg_bound=1.0)) for m in (v, w))
            xp, yp = (engine.encrypt(engine.encode(m, msg_bound=1.0), engine.public_key) for m in (v, w))
            note("encrypt, secret key", x, v, by_secret)
            note("encrypt, public key", xp, v, by_public)
            note("rotate", x.rotate(1), np.roll(v, 1), by_secret + noise.key_switch(p, 0, s0))
            low = engine.mod_drop(x, 5)
            note("rotate, one digit left", low.rotate(1), np.roll(v, 1), by_secret + noise.key_switch(p, 5, s0))
            product = noise.multiply(by_public, by_public, 1.0, 1.0)
            note("multiply", xp * yp, v * w, product + noise.relinearize_rescale(p, 0, s1))
            square = noise.multiply(by_public, by_public, 1.0, 1.0, same=True)
            note("square", engine.square(xp), v * v, square + noise.relinearize_rescale(p, 0, s1))
            plain = noise.multiply(by_secret, noise.encoding(p.n, s0), 1.0, 1.0)
            note("multiply by plaintext", x * w, v * w, plain + noise.rescale(p, s1))
            raw = ckks.multiply(x, y, relinearize=False, rescale=False)
            note("multiply, not relinearized", raw, v * w, noise.multiply(by_secret, by_secret, 1.0, 1.0))
    return found


@pytest.fixture(scope="module")
def measurements() -> dict[str, tuple[list[float], Noise]]:
    return measured()


OPERATIONS = (
    "encrypt, secret key",
    "encrypt, public key",
    "rotate",
    "rotate, one digit left",
    "multiply",
    "square",
    "multiply by plaintext",
    "multiply, not relinearized",
)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_average_and_worst_error_are_as_predicted(
    measurements: dict[str, tuple[list[float], Noise]], operation: str
) -> None:
    """A squared error has relative variance 1 (direct kind) to 3 (product kind), so the mean of N has 3 / N at most: five deviations are allowed."""
    squares, model = measurements[operation]
    deviation = 5 * math.sqrt(3 / len(squares))
    assert abs(np.mean(squares) / model.variance - 1) < deviation
    assert math.sqrt(max(squares)) < model.bound(len(squares))


@pytest.mark.parametrize("kind", ["direct", "product"])
@pytest.mark.parametrize("failure", [0.5, 0.1, 0.01])
def test_bounds_fail_as_rarely_as_stated(kind: str, failure: float) -> None:
    """Simulated slots: complex Gaussians, and products of two. A bound splits `failure` between the kinds, so half of it is due to one."""
    rng, slots, draws = np.random.default_rng(5), 64, 4000

    def gaussian() -> Any:
        return (rng.normal(size=(draws, slots)) + 1j * rng.normal(size=(draws, slots))) / math.sqrt(2)

    errors = gaussian() if kind == "direct" else gaussian() * gaussian()
    exceeded = np.mean(np.abs(errors).max(axis=1) > Noise(**{kind: 1.0}).bound(slots, failure))
    spread = 5 * math.sqrt(failure / 2 / draws)
    assert failure / 2 * 0.5 - spread < exceeded < failure / 2 + spread


def test_noise_adds_and_scales() -> None:
    a, b = Noise(3.0, 4.0), Noise(1.0, 2.0)
    assert a + b == Noise(4.0, 6.0) and a.scaled(-2.0) == Noise(12.0, 16.0) and a.rms == math.sqrt(7)
    assert noise.systematic(2.0).rms == 2.0 and str(Noise()) == "0" and str(Noise(4.0)) == "2^1.0 rms"


def test_multiplying_a_value_by_itself_doubles_its_error() -> None:
    x = Noise(1e-12)
    assert noise.multiply(x, x, 1.0, 1.0).rms == pytest.approx(math.sqrt(2) * 1e-6)
    assert noise.multiply(x, x, 1.0, 1.0, same=True).rms == pytest.approx(2e-6)
    assert noise.multiply(x, Noise(), 1.0, 8.0).rms == pytest.approx(8e-6)


@pytest.mark.parametrize(
    "name", ["slots8192-scale40-levels7", "default", "slots32768-scale40-levels24", "slots32768-scale30-levels40"]
)
def test_key_noise_stays_below_rounding_noise_at_every_level(name: str) -> None:
    """What the margin of the special modulus is for: switching keys costs no more than dividing by P does."""
    p = CKKSParams.preset(name)
    for level in range(p.levels + 1):
        total = noise.key_switch(p, level, p.default_scale)
        assert total.variance < 2 * noise.rounding(p.n, len(p.special), p.default_scale).variance


def test_noise_grows_along_a_chain_of_products() -> None:
    steps = list(noise.chain_of_products(CKKSParams.default()))
    assert len(steps) == 17 and all(a.variance < b.variance for a, b in pairwise(steps))
    assert steps[16].rms < 2.0**-22

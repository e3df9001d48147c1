"""What CKKS tests share: a toy engine on the reference backend, and values that carry their exact result and predicted noise.

Error bounds are never tuned: every `Tracked` operation applies the noise model (`ren.schemes.ckks.noise`) next to the encrypted and the plain computation, and
`check` compares the decrypted slots with the bound that fails with probability 2^-40.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from ren.schemes import ckks
from ren.schemes.ckks import noise
from ren.schemes.ckks.noise import Noise

Array = NDArray[Any]


def together(x: Noise, y: Noise) -> Noise:
    """Noise of a sum whose terms may carry the same error: amplitudes add."""
    return Noise(
        (x.direct**0.5 + y.direct**0.5) ** 2,
        (x.product**0.5 + y.product**0.5) ** 2,
    )


@dataclass(frozen=True, eq=False)
class Tracked:
    """A ciphertext with the exact slots and the predicted noise. Operators mirror those of the ciphertext."""

    lab: Lab
    ct: Any
    exact: Array
    noise: Noise

    @property
    def size(self) -> float:
        return float(np.abs(self.exact).max())

    def _params(self) -> ckks.CKKSParams:
        return self.lab.engine.params

    def _made(self, ct: Any, exact: Array, predicted: Noise) -> Tracked:
        return Tracked(self.lab, ct, exact, predicted)

    def _aligned(self, other: Tracked) -> Noise:
        """Noise of bringing the shallower of two operands to the level of the deeper one: a rounded constant and a rescale."""
        params = self._params()
        level = max(self.ct.level, other.ct.level)
        if (self.ct.level, self.ct.scale) == (other.ct.level, other.ct.scale):
            return Noise()
        constant = noise.systematic(max(self.size, other.size) * 2.0 ** -(params.scale_bits - 1))
        return noise.rescale(params, params.scale_at(level)) + constant

    def __add__(self, other: Any) -> Tracked:
        if isinstance(other, Tracked):
            return self._made(
                self.ct + other.ct, self.exact + other.exact, together(self.noise, other.noise) + self._aligned(other)
            )
        return self._made(self.ct + other, self.exact + other, self.noise + self._operand(other))

    def __sub__(self, other: Any) -> Tracked:
        if isinstance(other, Tracked):
            return self._made(
                self.ct - other.ct, self.exact - other.exact, together(self.noise, other.noise) + self._aligned(other)
            )
        return self._made(self.ct - other, self.exact - other, self.noise + self._operand(other))

    def _operand(self, other: Any) -> Noise:
        """A public operand is rounded to integers at the scale."""
        params = self._params()
        return noise.encoding(params.n, params.scale_at(self.ct.level), float(np.abs(other).max()))

    def __mul__(self, other: Any) -> Tracked:
        params = self._params()
        if isinstance(other, Tracked):
            product = self.ct * other.ct
            level = max(self.ct.level, other.ct.level)
            predicted = noise.multiply(
                self.noise + self._aligned(other), other.noise, self.size, other.size, same=True
            ) + noise.relinearize_rescale(params, level, params.scale_at(level + 1))
            return self._made(product, self.exact * other.exact, predicted)
        largest = float(np.abs(other).max())
        if isinstance(other, int):
            return self._made(self.ct * other, self.exact * other, self.noise.scaled(largest))
        predicted = noise.multiply(self.noise, self._operand(other), self.size, largest)
        return self._made(
            self.ct * other,
            self.exact * other,
            predicted + noise.rescale(params, params.scale_at(self.ct.level + 1)),
        )

    def switched(self, ct: Any, exact: Array, times: int = 1) -> Tracked:
        """After `times` key switches that leave the level alone."""
        params = self._params()
        one = noise.key_switch(params, self.ct.level, params.scale_at(self.ct.level))
        return self._made(ct, exact, self.noise + one.scaled(times**0.5))

    def bound(self) -> float:
        """What no slot exceeds (a rounded decoding is part of it)."""
        params = self._params()
        decoding = noise.systematic(noise.TRANSFORM_PRECISION * max(1.0, self.size))
        return (self.noise + decoding).bound(params.slot_count)

    def check(self) -> Tracked:
        """Decrypt and compare."""
        found = self.lab.open(self.ct)
        error = np.abs(found - self.exact).max()
        assert error <= self.bound(), f"error {error:.3e}, bound {self.bound():.3e}"
        return self


class Lab:
    """A toy engine and ways to make values with it."""

    def __init__(self, engine: ckks.Engine) -> None:
        self.engine = engine
        self.slots = engine.num_slots
        self.rng = np.random.default_rng(20261130)

    def values(self, *, complex_: bool = False) -> Array:
        """Uniform in [-1, 1], or in the complex unit square's inscribed disc."""
        real = self.rng.uniform(-1, 1, self.slots)
        return (real + 1j * self.rng.uniform(-1, 1, self.slots)) / 2**0.5 if complex_ else real

    def encrypt(
        self, values: Array | None = None, *, level: int = 0, public: bool = False, complex_: bool = False
    ) -> Tracked:
        """A fresh Tracked at `level`."""
        exact = self.values(complex_=complex_) if values is None else np.asarray(values)
        largest = max(1.0, float(np.abs(exact).max()))
        engine = self.engine
        ct = engine.encrypt(
            engine.encode(exact, msg_bound=largest, level=level), engine.public_key if public else engine.secret_key
        )
        predicted = noise.fresh(engine.params, engine.params.scale_at(level), largest=largest, public=public)
        return Tracked(self, ct, exact, predicted)

    def three_part_rescale(self, level: int) -> Noise:
        """Noise of rescaling (b, a, c) to `level`: three roundings, times 1, s and s^2 for the secret at hand."""
        params = self.engine.params
        s = np.array(self.engine.secret_key.reveal().to_centered_list(), float)
        roots = np.exp(1j * np.pi * np.arange(1, 2 * params.n, 2) / params.n)
        largest = float(np.abs(np.polynomial.polynomial.polyval(roots, s)).max())
        unit = params.n / 12 / float(params.scale_at(level)) ** 2
        return Noise(unit * (1 + largest**2 + largest**4))

    def open(self, ct: Any, length: int | None = None) -> Array:
        """Decrypt and decode."""
        return self.engine.decode(self.engine.decrypt(ct), length)


@pytest.fixture(scope="session")
def toy_engine() -> ckks.Engine:
    """64 slots, 40-bit scale, 6 levels; shared by the session, so its keys are made once."""
    return ckks.keygen(ckks.CKKSParams.python_test(), "reference")


@pytest.fixture
def lab(toy_engine: ckks.Engine) -> Iterator[Lab]:
    """The toy engine, active."""
    with toy_engine:
        yield Lab(toy_engine)


@pytest.fixture(scope="session")
def lab_of() -> Callable[[ckks.Engine], Lab]:
    """Makes a Lab around any engine."""
    return Lab


@pytest.fixture
def new_engine() -> Callable[..., ckks.Engine]:
    """Makes further toy engines, each with a secret of its own."""

    def make(**options: Any) -> ckks.Engine:
        return ckks.keygen(ckks.CKKSParams.python_test(), "reference", **options)

    return make

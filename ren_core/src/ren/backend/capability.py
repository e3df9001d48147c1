"""What a backend may tell beyond the protocol: whether its device can be used, as four separate facts, compilation ahead of time, what its
kernels cost on this machine, and a fast canonical embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ren.engine.calibration import Calibration


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a probe found, in order; each fact implies those before it. reason and fix speak about the first that is False."""

    installed: bool  # the packages it needs are there
    importable: bool  # and import without raising
    device_present: bool  # and see a device
    device_works: bool  # and the device gives a right answer
    reason: str = ""
    fix: str = ""
    detail: str = ""  # what was found, such as the device's name

    def __post_init__(self) -> None:
        facts = (self.installed, self.importable, self.device_present, self.device_works)
        if any(later and not earlier for earlier, later in zip(facts, facts[1:], strict=False)):
            raise ValueError(f"DeviceFacts: a later fact cannot hold without the earlier ones, got {facts}")
        if not self.device_works and not self.reason:
            raise ValueError("DeviceFacts: a device that does not work needs a reason")


#: A backend without a probe needs nothing beyond its own plugin.
ALWAYS = DeviceFacts(True, True, True, True)


@runtime_checkable
class Warmable(Protocol):
    """A backend that compiles at first use implements this beside `Backend`, for `ren warmup`."""

    def warmup(self, progress: Callable[[str], None]) -> None:
        """Compile everything that first use would compile. Calls `progress` with one line of text after each piece."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What a device can do at most. butterflies: of the transform modulo a usual scale prime, without touching memory."""

    bytes_per_second: float
    butterflies_per_second: float


@runtime_checkable
class Measurable(Protocol):
    """A backend that knows how fast its device could be implements this beside `Backend`, for `ren bench`."""

    def limits(self) -> Limits:
        """Measured now; takes about a second."""
        ...


@runtime_checkable
class Calibrated(Protocol):
    """A backend whose kernels' times can be predicted implements this beside `Backend`."""

    def calibrate(self, progress: Callable[[str], None]) -> Calibration:
        """Measure this machine (`ren.engine.calibrate` does it), keep the prices for later processes, use and return them. Calls `progress` with
        one line of text after each piece."""
        ...

    def calibration(self) -> Calibration:
        """The prices measured on this machine before; else others, whose `note` says where they come from. Fast: it measures nothing."""
        ...


def calibration_of(backend: Any) -> Calibration | None:
    """The prices of a backend's kernels; None when it has none."""
    return backend.calibration() if isinstance(backend, Calibrated) else None


class Embedding(Protocol):
    """The canonical embedding on the host, with the bits that `ren.schemes.ckks.embedding` defines. From any thread."""

    def to_integers(self, message: NDArray[Any], factor: float, size: int, integers: NDArray[np.float64]) -> None:
        """Fill `integers`, n doubles, with the coefficients of the polynomial whose `size` slots (a power of two, at most n/2) are the float64 or complex128
        `message`, padded with zeros, times `factor` times `size`, rounded. Coefficients at multiples of n/2/size alone are written."""
        ...

    def to_slots(self, coefficients: NDArray[np.float64], factor: float, size: int) -> NDArray[np.complex128]:
        """The `size` slots of `factor` times the polynomial of the coefficients at multiples of n/2/size."""
        ...


@runtime_checkable
class Embeds(Protocol):
    """A backend that has a faster embedding than NumPy's implements this beside `Backend`."""

    def embedding(self) -> Embedding: ...

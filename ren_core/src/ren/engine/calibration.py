"""From work to time: what a row of each kind of work costs in each kernel on one machine, and how much slower data is that lies far away.

The time of a unit is linear in its work (`ren.engine.cost.work_of`), with one set of prices per kernel, ring dimension and width of the modulus, and

    stream * sum over the unit's operands of bytes * far(reuse distance)

for operands that are not in the nearest cache, and for constants of the kernel: `far` is measured once per machine with plain copies, `stream` says how much of
it a kernel feels. Prices are measured by `ren.engine.calibrate`; this module knows no clock.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ren.engine.cost import Work, work_of
from ren.engine.exec_unit import ExecUnit
from ren.engine.reuse import Accesses, reuse_of
from ren.errors import CalibrationError

FORMAT = 2
#: Prices of one kernel at one ring dimension: kind of work, with ".<class>" where it depends on the modulus, -> seconds per row. "stream" has no unit.
Prices = Mapping[str, float]
STREAM = "stream"


@dataclass(frozen=True)
class Calibration:
    """What time costs on one machine.

    backend, machine: what was measured; `machine` names everything that prices depend on. note: where the prices come from, for reports.
    widths: upper bounds (exclusive) of the width classes of moduli, ascending. kernels: kernel -> log2 n -> prices. far: (bytes, seconds per byte) by
    ascending reuse distance, interpolated on a logarithmic scale. constants: kind of work -> rows of constants that it reads (`ren.engine.reuse`). replay: seconds that starting a plan takes, whatever is in it. reference: seconds of
    the reference unit (`ren.engine.calibrate.Reference`) when the machine was fastest, 0 where it is not known: prices are those of a machine at that speed.
    """

    backend: str
    machine: str
    note: str
    widths: tuple[int, ...]
    kernels: Mapping[str, Mapping[int, Prices]]
    far: tuple[tuple[int, float], ...]
    constants: Mapping[str, float] = field(default_factory=dict)
    replay: float = 0.0
    reference: float = 0.0
    _known: dict[Any, float] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise CalibrationError(f"calibration of {self.backend!r}: {problem}", subject=self.backend)

    # -- time

    def unit_time(self, unit: ExecUnit, accesses: Accesses | None = None) -> float:
        """Seconds of one unit. accesses: what it touches and from how far (`ren.engine.reuse`); None: everything was touched just before.

        Raises CalibrationError for a kernel that was not measured.
        """
        n = unit.ring.n
        at = unit.kernel, unit.ring, unit.params, len(unit.inputs), len(unit.outputs)
        near = self._known.get(at)
        if near is None:
            near = self._known[at] = self._near(unit.kernel, n, work_of(unit))
        if accesses is None:
            return near
        return near + self.price(unit.kernel, STREAM, n) * self.far_time(accesses)

    def far_time(self, accesses: Accesses) -> float:
        """Seconds that copies of these bytes take longer than from the nearest cache."""
        return sum(size * self.far_price(distance) for size, distance in accesses)

    def plan_times(self, units: Sequence[ExecUnit]) -> list[float]:
        """Seconds of each unit of a plan that is replayed. Their sum and `replay` are the time of a replay."""
        return [self.unit_time(u, a) for u, a in zip(units, reuse_of(units, self.constants), strict=True)]

    def _near(self, kernel: str, n: int, work: Work) -> float:
        return sum(count * self.price(kernel, self.kind(kind, q), n) for (kind, q), count in work.items())

    # -- prices

    def kind(self, kind: str, q: int) -> str:
        """The name of a price: of work on a row modulo q (0: on any row)."""
        return f"{kind}.{self.width_class(q)}" if q else kind

    def width_class(self, q: int) -> int:
        """Number of the first width class that holds q."""
        return min(sum(q >= bound for bound in self.widths), len(self.widths) - 1)

    def price(self, kernel: str, kind: str, n: int) -> float:
        """Seconds per row at ring dimension n; between measured dimensions by interpolation of the price per coefficient. 0 for work that never
        showed in the measurements."""
        measured = self.kernels.get(kernel)
        if not measured:
            raise CalibrationError(
                f"kernel {kernel!r} was not measured on {self.backend!r}",
                subject=kernel,
                hint="Run `ren warmup`, which measures every kernel",
            )
        per_row = kind not in ("unit", STREAM)
        log_n = n.bit_length() - 1
        sizes = sorted(measured)
        at = bisect_left(sizes, log_n)
        low, high = sizes[max(at - 1, 0)], sizes[min(at, len(sizes) - 1)]
        first, second = (_price(measured[s], kind) / (2.0**s if per_row else 1.0) for s in (low, high))
        share = 0.0 if low == high else (min(max(log_n, low), high) - low) / (high - low)
        return ((1 - share) * first + share * second) * (n if per_row else 1)

    def far_price(self, distance: int) -> float:
        """Seconds per byte for data last touched `distance` bytes ago, beyond those of the nearest cache."""
        if not self.far or distance <= self.far[0][0]:
            return self.far[0][1] if self.far else 0.0
        for (low, cheap), (high, dear) in zip(self.far, self.far[1:], strict=False):
            if distance <= high:
                return cheap + (dear - cheap) * math.log(distance / low) / math.log(high / low)
        return self.far[-1][1]

    # -- files

    def to_json(self) -> str:
        fields = {k: v for k, v in asdict(self).items() if not k.startswith("_")}
        return json.dumps({"format": FORMAT, **fields}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Raises CalibrationError for anything but what `to_json` writes, with finite, non-negative prices."""
        try:
            found = json.loads(text)
            if found.pop("format") != FORMAT:
                raise ValueError(f"format {FORMAT} expected")
            kernels = {str(k): {int(s): _prices(p) for s, p in sizes.items()} for k, sizes in found["kernels"].items()}
            far = tuple((int(b), float(t)) for b, t in found["far"])
            return cls(
                str(found["backend"]),
                str(found["machine"]),
                str(found["note"]),
                tuple(int(w) for w in found["widths"]),
                kernels,
                far,
                _prices(found["constants"]),
                float(found["replay"]),
                float(found["reference"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, CalibrationError):
                raise
            raise CalibrationError(f"this is no calibration: {error!r}"[:300], subject="calibration") from None


def _prices(found: Any) -> dict[str, float]:
    return {str(k): float(v) for k, v in found.items()}


def _price(prices: Prices, kind: str) -> float:
    """A kind that was measured for other widths only costs what the nearest narrower one does, else the next wider."""
    found = prices.get(kind)
    if found is not None or "." not in kind:
        return found or 0.0
    name, width = kind.split(".")
    near = sorted((abs(int(k.split(".")[1]) - int(width)), v) for k, v in prices.items() if k.startswith(name + "."))
    return near[0][1] if near else 0.0


def _problem(c: Calibration) -> str | None:
    numbers = [p for sizes in c.kernels.values() for prices in sizes.values() for p in prices.values()]
    numbers += [t for _, t in c.far] + [*c.constants.values(), c.replay, c.reference]
    if not all(math.isfinite(x) and x >= 0 for x in numbers):
        return "prices must be finite and not negative"
    if not c.widths or list(c.widths) != sorted(set(c.widths)) or c.widths[0] < 2:
        return f"widths must ascend, got {c.widths}"
    distances = [b for b, _ in c.far]
    if distances != sorted(set(distances)) or (distances and distances[0] < 1):
        return "reuse distances must ascend"
    return "no kernel was measured" if not c.kernels else None

"""The plan of a lazy graph without running or compiling anything: its units, where each comes from, its memory and its predicted time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ren.backend.capability import calibration_of
from ren.backend.protocol import Backend, Capabilities, CompiledUnit, GraphRunner
from ren.engine.calibration import Calibration
from ren.engine.exec_unit import ExecUnit, Slot, SlotKind
from ren.engine.plan import place_steps
from ren.engine.schedule import normalise, schedule
from ren.graph import Node


class PlanOnly:
    """A backend that plans what another one would run, and runs nothing."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name = backend.name

    def capabilities(self) -> Capabilities:
        return self._backend.capabilities()

    def scratch_words(self, unit: ExecUnit) -> int:
        return self._backend.scratch_words(unit)

    def graph(self, units: Sequence[ExecUnit], slots: Sequence[Slot]) -> GraphRunner | None:
        return self._refuse

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        return self._refuse

    def _refuse(self, *args: Any) -> NoReturn:
        raise AssertionError("a forecast is not run")

    alloc = copyin = copyout = synchronize = _refuse


@dataclass(frozen=True, slots=True)
class Forecast:
    """units: in the order in which they would run. made: for each unit, the nodes that it computes or transforms. slots: as the backend would get them.
    read: the realized leaves that are read. seconds: predicted time of each unit, None without a calibration."""

    units: tuple[ExecUnit, ...]
    made: tuple[tuple[Node, ...], ...]
    slots: tuple[Slot, ...]
    read: tuple[Node, ...]
    calibration: Calibration | None
    seconds: tuple[float, ...] | None

    @property
    def temporary_bytes(self) -> int:
        """The arena: temporaries and scratch at their peak."""
        return self._bytes(SlotKind.TEMPORARY)

    @property
    def output_bytes(self) -> int:
        return self._bytes(SlotKind.OUTPUT)

    def _bytes(self, kind: SlotKind) -> int:
        return 8 * sum(s.words for s in self.slots if s.kind is kind)

    @property
    def total_seconds(self) -> float | None:
        """Predicted time of a replay."""
        if self.seconds is None or self.calibration is None:
            return None
        return sum(self.seconds) + self.calibration.replay


def forecast(
    nodes: Sequence[Node],
    backend: Backend,
    calibration: Calibration | None = None,
    constant: Callable[[Node], bool] | None = None,
) -> Forecast:
    """Plan the graph under `nodes`, all of one device. calibration: None takes the backend's own, if it has one. constant: as for `normalise`."""
    positions: dict[Node, int] = {}
    normal = normalise(nodes, constant, positions)
    order = list(positions)
    plan_only = PlanOnly(backend)
    steps = schedule(normal.key, plan_only.capabilities().kernels)
    plan = place_steps(steps, plan_only)
    prices = calibration_of(backend) if calibration is None else calibration
    seconds = None if prices is None else tuple(prices.plan_times(plan.units))
    made = tuple(tuple(order[at] for at in step.made) for step in steps.steps)
    return Forecast(plan.units, made, plan.slots, tuple(normal.inputs), prices, seconds)

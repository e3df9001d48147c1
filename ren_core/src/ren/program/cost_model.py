"""What passes ask when a choice depends on cost: predicted times of small graphs, with given parameters on this machine.

A pass finds the model in `workspace["cost_model"]`. Without one it decides by operation counts alone, so that what it makes never depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ren.backend.capability import calibration_of
from ren.backend.select import get_backend
from ren.engine.calibration import Calibration
from ren.engine.forecast import forecast
from ren.errors import CalibrationError, UnsupportedOperandError
from ren.schemes.ckks.params import CKKSParams
from ren.schemes.ckks.placeholders import PlanningEngine


class CostModel:
    """Predicted seconds of operations as parts of a program that is replayed.

    params: CKKSParams, a preset name or an engine. calibration: None takes that of the device (None: the engine's, else the default one). Raises CalibrationError where
    the device has none.
    """

    def __init__(self, params: Any, *, calibration: Calibration | None = None, device: str | None = None) -> None:
        found = CKKSParams.preset(params) if isinstance(params, str) else getattr(params, "params", params)
        if not isinstance(found, CKKSParams):
            raise UnsupportedOperandError(
                f"CostModel: needs CKKSParams, a preset name or an engine, got {type(params).__name__}",
                subject="params",
            )
        self._backend = get_backend(device if device is not None else getattr(params, "device", None))
        prices = calibration if calibration is not None else calibration_of(self._backend)
        if prices is None:
            raise CalibrationError(
                f"backend {self._backend.name!r} has no calibration",
                subject=self._backend.name,
                hint="Pass calibration=",
            )
        self.params = found
        self.calibration = prices
        self._engine = PlanningEngine(found, self._backend.name)
        self._known: dict[tuple[Any, ...], float] = {}

    def rotations(self, count: int, *, level: int = 0, hoisted: bool) -> float:
        """Of `count` rotations of one ciphertext by different steps; hoisted: from one decomposition."""

        def graph(x: Any) -> list[Any]:
            steps = range(1, count + 1)
            if hoisted:
                return self._engine.rotate_many(x, steps)
            return [self._engine.rotate(x, step) for step in steps]

        if not hoisted and count > 1:
            return count * self.rotations(1, level=level, hoisted=False)
        return self._seconds(("rotations", count, level), level, graph)

    def rescale(self, *, level: int = 0) -> float:
        """Of one rescale of a product."""

        def graph(x: Any) -> list[Any]:
            return [self._engine.rescale(replace(x, scale=x.scale**2))]

        return self._seconds(("rescale", level), level, graph)

    def _seconds(self, key: tuple[Any, ...], level: int, graph: Callable[[Any], list[Any]]) -> float:
        found = self._known.get(key)
        if found is None:
            x = self._engine.ciphertext(level, self.params.scale_at(level), self.params.slot_count)
            nodes = [p._node for y in graph(x) for p in (y.a, y.b) if p._node.realized is None]
            total = forecast(nodes, self._backend, self.calibration).total_seconds
            assert total is not None
            found = self._known[key] = total - self.calibration.replay if nodes else 0.0
        return found


def cost_model_of(workspace: Mapping[Any, Any]) -> CostModel | None:
    """The model under `workspace["cost_model"]`. Raises UnsupportedOperandError for anything else there."""
    found = workspace.get("cost_model")
    if found is not None and not isinstance(found, CostModel):
        raise UnsupportedOperandError(
            f"workspace['cost_model'] must be a CostModel, got {type(found).__name__}",
            subject="cost_model",
            hint="Write workspace['cost_model'] = jit.CostModel(params)",
        )
    return found

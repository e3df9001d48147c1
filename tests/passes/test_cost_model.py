"""Passes that ask the cost model, where the workspace holds one, and decide without it as they always do."""

from __future__ import annotations

from typing import Any

import pytest
from ren import jit
from ren.errors import CalibrationError, PassError
from ren.program import CostModel, Program, Workspace, encrypted
from ren.schemes import ckks
from ren.testing.program_kit import ProgramBuilder
from ren_passes.analysis.rotation_steps import best_split
from ren_passes.hoist_rotations import HoistRotationsPass

PARAMS = ckks.CKKSParams.python_test()


class Fixed(CostModel):
    """hoisted, apart: seconds of a rotation in a group and by itself."""

    def __init__(self, hoisted: float, apart: float) -> None:
        self.params = PARAMS
        self._times = {True: hoisted, False: apart}

    def rotations(self, count: int, *, level: int = 0, hoisted: bool) -> float:
        return count * self._times[hoisted]

    def rescale(self, *, level: int = 0) -> float:
        return 0.0


def rotated() -> Program:
    b = ProgramBuilder(x=encrypted())
    return b.program(*(b("ren.ckks.rotate", b["x"], shift=k) for k in (1, 2, 3)))


@pytest.mark.parametrize(("model", "grouped"), [(None, True), (Fixed(1, 2), True), (Fixed(2, 1), False)])
def test_rotations_are_grouped_where_that_is_faster(model: CostModel | None, grouped: bool) -> None:
    space = Workspace() if model is None else Workspace(cost_model=model)
    result = rotated().transform(HoistRotationsPass(), workspace=space)
    assert ("rotate_group" in result.program.to_text()) is grouped
    assert result.reports[0].stats.transformed == (3 if grouped else 0)


def test_baby_steps_follow_the_predicted_times() -> None:
    steps = range(64)
    assert best_split(steps, Fixed(1.0, 1e6)) is None, "giant steps are never worth it"
    equal, few, many = (best_split(steps, Fixed(h, a)) for h, a in ((1.0, 1.0), (1.0, 0.25), (0.25, 1.0)))
    assert equal is not None and few is not None and many is not None
    assert equal.width == 8, "equal times: about the square root of either"
    assert few.width < many.width


def test_the_model_predicts_by_the_schedule() -> None:
    model = CostModel(PARAMS, device="cpu")
    apart, group = model.rotations(7, hoisted=False), model.rotations(7, hoisted=True)
    assert 0 < group < apart == pytest.approx(7 * model.rotations(1, hoisted=False))
    assert model.rotations(0, hoisted=True) == 0
    assert model.rotations(1, hoisted=False) > model.rotations(1, level=5, hoisted=False)
    assert model.rescale() > 0


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(PassError, match="must be a CostModel, got str"):
        rotated().transform(HoistRotationsPass(), workspace=Workspace(cost_model="fast"))
    with pytest.raises(CalibrationError, match="'reference' has no calibration"):
        CostModel(PARAMS, device="reference")


def test_the_whole_pipeline_runs_with_a_model() -> None:
    b = ProgramBuilder(x=encrypted(slots=8))
    w: Any = b("ren.material.ref", types=[_matrix()], symbol="w", kind="tensor")
    program = b.program(b("ren.semantic.matmul", b["x"], w, form="linear"))
    result = jit.default_pipeline().run(program, Workspace(cost_model=CostModel(PARAMS, device="cpu")))
    assert result.program.cost(PARAMS, device="cpu").total.key_switches > 0


def _matrix() -> Any:
    from ren.program import types

    return types.message((8, 8), "float64")

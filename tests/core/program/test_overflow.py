"""Programs whose values outgrow their levels: right, or refused by readiness or decryption, or warned about by both. Never a wrong number in silence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ren.errors import DecryptionError, UncheckedResultWarning
from ren.program import encrypted
from ren.testing.program_kit import ProgramBuilder, workspace_for

#: Why a program whose values grow may be refused. Anything else is a fault.
LEGITIMATE = {"level-exhausted", "over-capacity", "unchecked-result", "possible-overflow", "scale-too-small"}
STEPS = st.tuples(
    st.sampled_from(["square", "double", "factor", "integer", "shift", "rotate", "sum", "meet"]),
    st.sampled_from([0.25, 3.0, 37.0, 1000.0, 1e7]),
)
CASES = st.fixed_dictionaries(
    {
        "steps": st.lists(STEPS, min_size=1, max_size=7),
        "level": st.integers(0, 6),
        "bound": st.sampled_from([None, 1.0, 20.0, 300.0]),
        "promise": st.booleans(),
        "equal": st.booleans(),
        "seed": st.integers(0, 2**16),
    }
)


def program_of(steps: list[tuple[str, float]], level: int, bound: float | None, values: Any) -> tuple[Any, Any]:
    """A program and what it means for `values`."""
    b = ProgramBuilder(x=encrypted(level=level, bound=bound))
    x, want = b["x"], values
    for name, number in steps:
        if name == "square":
            x, want = b.product(x, x), want * want
        elif name == "double":
            x, want = b("ren.ckks.add", x, x), want + want
        elif name == "factor":
            x, want = b("ren.ckks.rescale", b("ren.ckks.multiply_scalar", x, value=number)), want * number
        elif name == "integer":
            x, want = b("ren.ckks.multiply_integer", x, value=int(number) + 1), want * (int(number) + 1)
        elif name == "shift":
            x, want = b("ren.ckks.add_scalar", x, value=number), want + number
        elif name == "rotate":
            x, want = b("ren.ckks.rotate", x, shift=3), np.roll(want, 3)
        elif name == "sum":
            x, want = b("ren.ckks.sum_slots", x), np.array([want.sum()])  # one slot, repeated
        else:
            x, want = b("ren.ckks.add", x, b("ren.ckks.rotate", x, shift=1)), want + np.roll(want, 1)
    return b.program(x), want


def check(
    engine: Any,
    steps: list[tuple[str, float]],
    level: int,
    bound: float | None,
    promise: bool,
    equal: bool,
    seed: int,
) -> str:
    """What became of the program: "refused", "noticed", "warned" or "right"."""
    rng = np.random.default_rng(seed)
    size = min(bound or rng.choice([0.5, 20.0, 5000.0]), 250.0 if level == 6 else np.inf)
    values = np.full(64, rng.uniform(-size, size)) if equal else rng.uniform(-size, size, 64)
    program, want = program_of(steps, level, bound, values)
    space = workspace_for(program, engine)
    if promise and np.abs(want).max() > 0:
        space["result_bound"] = float(np.abs(want).max())  # an honest one
    report = program.readiness(space)
    if not report.runnable:
        assert report.codes <= LEGITIMATE, str(report)
        return "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = program.run(values, workspace=space)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UncheckedResultWarning)
            found = engine.decode(engine.decrypt(result))
    except DecryptionError:
        return "noticed"
    except UncheckedResultWarning:
        assert "unchecked-result" in {d.code for d in report.diagnostics}  # before anything ran
        return "warned"
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-3 * max(1.0, float(np.abs(want).max())))
    return "right"


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(case=CASES)
def test_a_program_that_overflows_is_never_a_wrong_number(engine: Any, case: dict[str, Any]) -> None:
    check(engine, **case)


@pytest.mark.full
@pytest.mark.timeout(1800)
@settings(max_examples=4000, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASES)
def test_thousands_of_programs_that_overflow_are_never_wrong_numbers(engine: Any, case: dict[str, Any]) -> None:
    check(engine, **case)


@pytest.mark.parametrize(
    ("steps", "level", "bound", "outcome"),
    [
        ([("square", 1.0)], 0, 1.0, "right"),
        ([("double", 1.0)], 6, None, "warned"),
        ([("factor", 0.25)] * 7, 0, 1.0, "refused"),
        ([("integer", 1e7)] * 5, 3, None, "noticed"),
    ],
)
def test_each_outcome_there_is(
    engine: Any, steps: list[tuple[str, float]], level: int, bound: float | None, outcome: str
) -> None:
    assert check(engine, steps, level, bound, promise=False, equal=True, seed=1) == outcome

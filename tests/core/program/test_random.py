"""Random programs: whatever the rules let through and readiness calls runnable runs, and decrypts to the plain result within the predicted error."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ren.program import RuleError, encrypted, message, parse
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for

S = 64
Shadow = list[tuple[Any, np.ndarray[Any, Any]]]


class Walk:
    """Random operations on a pool of values, each with its plain result beside it. Operations that a rule refuses are left out."""

    def __init__(self, rng: random.Random, inputs: dict[str, np.ndarray[Any, Any]]) -> None:
        self.rng = rng
        self.b = ProgramBuilder(
            x=encrypted(bound=1.0), y=encrypted(bound=1.0), z=encrypted(level=1, bound=1.0), w=message()
        )
        self.pool: Shadow = [(self.b[n], inputs[n]) for n in ("x", "y", "z")]
        self.w = inputs["w"]

    def step(self) -> None:
        b, rng = self.b, self.rng
        (x, p), (y, q) = rng.choice(self.pool), rng.choice(self.pool)
        k = rng.randrange(-S, 2 * S)
        level = x.type.data.level
        value = rng.choice([-1.5, 0.25, 0.75])
        choices = {
            "add": lambda: (b("ren.ckks.add", x, y), p + q),
            "subtract": lambda: (b("ren.ckks.subtract", x, y), p - q),
            "product": lambda: (b.product(x, y), p * q),
            "square": lambda: (b("ren.ckks.rescale", b("ren.ckks.relinearize", b("ren.ckks.square", b("ren.ckks.to_ntt", x)))), p * p),
            "times": lambda: (b.times(x, b["w"]), p * self.w),
            "plus": lambda: (b.plus(x, b["w"]), p + self.w),
            "rotate": lambda: (b("ren.ckks.rotate", x, shift=k), np.roll(p, k)),
            "negate": lambda: (b("ren.ckks.negate", x), -p),
            "align": lambda: (b("ren.ckks.align", x, level=level + 1), p),
            "switch": lambda: (b("ren.ckks.mod_switch", x, levels=1), p),
            "scalar": lambda: (b("ren.ckks.rescale", b("ren.ckks.multiply_scalar", x, value=value)), p * value),
            "integer": lambda: (b("ren.ckks.multiply_integer", x, value=-2), -2 * p),
            "shift": lambda: (b("ren.ckks.add_scalar", x, value=value), p + value),
            "window": lambda: (b("ren.ckks.sum_slots", x, count=2, stride=4), p + np.roll(p, 4)),
            "rescale": lambda: (b("ren.ckks.rescale", x), p),
            "polynomial": lambda: (b("ren.ckks.polynomial", x, coefficients=[0.5, -0.25, 0.125]), 0.5 - 0.25 * p + 0.125 * p * p),
        }  # fmt: skip
        with contextlib.suppress(RuleError):
            out, plain = choices[rng.choice(list(choices))]()
            if np.abs(plain).max() < 8:
                self.pool.append((out, plain))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 14))
def test_runnable_programs_run_right(engine: Any, seed: int, steps: int) -> None:
    generator = np.random.default_rng(seed)
    inputs = dict(zip("xyzw", generator.uniform(-1, 1, (4, S)), strict=True))
    walk = Walk(random.Random(seed), inputs)
    for _ in range(steps):
        walk.step()
    results = walk.pool[-3:]
    text = walk.b.program(*(v for v, _ in results)).to_text()
    program = parse(text)
    assert program.to_text() == text
    space = workspace_for(program, engine)
    report = program.readiness(space)
    if not report.runnable:
        assert report.codes <= {
            "level-exhausted",
            "over-capacity",
            "scale-too-small",
            "scale-mismatch",
            "unchecked-result",
        }, str(report)
        return
    assert report.flow is not None
    found = program.run(*inputs.values(), workspace=space)
    returned = program.entry_block().last_op
    assert returned is not None
    for value, (_, plain), operand in zip(found, results, returned.operands, strict=True):
        state = report.flow.types[operand].data  # type: ignore[attr-defined]
        assert (value.level, value.slots) == (state.level, state.layout.frame)
        noise = report.flow.noises[operand]
        # Bounds that are not known count as 1 in the model, and values here reach 8: three bits a factor, at most two in a row.
        bound = noise.bound(S) * 64
        error = np.abs(decoded(engine, value) - plain).max()
        assert error <= bound, (error, bound, text)


def test_the_walk_reaches_long_programs() -> None:
    """The generator makes real programs: otherwise the property above would say little."""
    generator = np.random.default_rng(0)
    inputs = dict(zip("xyzw", generator.uniform(-1, 1, (4, S)), strict=True))
    walk = Walk(random.Random(1), inputs)
    for _ in range(60):
        walk.step()
    assert len(walk.pool) > 20
    assert max(v.type.data.level for v, _ in walk.pool) >= 3


@pytest.mark.full
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.integers(8, 24))
def test_many_more(engine: Any, seed: int, steps: int) -> None:
    test_runnable_programs_run_right.hypothesis.inner_test(engine, seed, steps)  # type: ignore[attr-defined]

"""Written-out polynomials become one operation, right when decrypted, only where that saves a level."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.program import PassPipeline, Program, Workspace, encrypted
from ren.program.edit import block_ops
from ren.program.literals import decode
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for
from ren_passes.collect_polynomials import CollectPolynomialsPass

X = np.cos(np.arange(64)) * 0.9


class Written:
    """Semantic operations on one input: `w.mul(w.x, 2.5)`."""

    def __init__(self, **spec: Any) -> None:
        self.b = ProgramBuilder(x=encrypted(**spec), y=encrypted())
        self.x, self.y = self.b["x"], self.b["y"]

    def op(self, name: str, *values: Any, **attributes: Any) -> Any:
        values = tuple(self.b.constant(v) if isinstance(v, (int, float)) else v for v in values)
        return self.b(f"ren.semantic.{name}", *values, **attributes)

    def add(self, a: Any, b: Any) -> Any:
        return self.op("add", a, b)

    def mul(self, a: Any, b: Any) -> Any:
        return self.op("multiply", a, b)

    def horner(self, coefficients: list[float]) -> Any:
        total = self.mul(self.x, coefficients[-1])
        for c in coefficients[-2:0:-1]:
            total = self.mul(self.add(total, c), self.x)
        return self.add(total, coefficients[0])

    def powers(self, coefficients: list[float]) -> Any:
        """With a shared chain of powers: x2 = x * x, x3 = x2 * x, ..."""
        power, total = self.x, self.mul(self.x, coefficients[1])
        for c in coefficients[2:]:
            power = self.mul(power, self.x)
            total = self.add(self.mul(power, c), total)
        return self.add(total, coefficients[0])

    def power_operations(self, coefficients: list[float]) -> Any:
        total: Any = coefficients[0]
        for i, c in enumerate(coefficients[1:], 1):
            total = self.add(total, self.mul(c, self.op("power", self.x, exponent=i)))
        return total


def alone(source: Program) -> Any:
    return PassPipeline([CollectPolynomialsPass()]).run(source, Workspace())


def names(program: Program) -> list[str]:
    block = program.entry_block()
    return [o.name for o in block_ops(block) if o.name not in ("func.return", "ren.constant")]


def coefficients_of(degree: int) -> list[float]:
    return [round(float(np.cos(3 * i + degree)), 3) / (i + 1) for i in range(degree + 1)]


@pytest.mark.parametrize("form", [Written.horner, Written.powers, Written.power_operations])
@pytest.mark.parametrize("degree", [3, 4, 5, 7, 8, 15])
def test_depth_is_logarithmic_and_the_result_right(
    engine: Any, form: Callable[[Written, list[float]], Any], degree: int
) -> None:
    c, w = coefficients_of(degree), Written()
    source = w.b.program(form(w, c))
    program = jit.default_pipeline(enable=["collect-polynomials"]).run(source).program
    result = program.run(X, X, workspace=workspace_for(program, engine))
    assert result.level == degree.bit_length()
    np.testing.assert_allclose(decoded(engine, result), np.polynomial.polynomial.polyval(X, c), rtol=0, atol=1e-6)


def test_counters_text_and_idempotence() -> None:
    w = Written()
    source = w.b.program(w.horner([0.5, -1, 0.25, 2.5]))
    result = alone(source)
    stats = result.reports[0].stats
    assert (stats.matched, stats.transformed, stats.inserted) == (1, 1, 1)
    assert names(result.program) == ["ren.semantic.polynomial"]
    assert decode(result.program.entry_block().first_op.properties["coefficients"]) == [0.5, -1, 0.25, 2.5]
    again = alone(result.program)
    assert again.program.to_text() == result.program.to_text()
    assert again.reports[0].stats.matched == 0


@pytest.mark.parametrize(
    "build",
    [
        lambda w: w.add(w.mul(w.mul(2, w.x), w.x), -1),  # 2x^2 - 1 takes one level as it is
        lambda w: w.mul(w.add(w.x, 1.5), w.mul(w.add(w.x, 0.5), w.add(w.x, -1.5))),  # factors: no digits are lost
        lambda w: w.mul(w.mul(w.x, w.y), w.x),  # two variables
        lambda w: w.op("power", w.x, exponent=8),  # three levels either way
    ],
    ids=["chebyshev", "product-form", "two-variables", "power"],
)
def test_what_gains_nothing_or_is_no_polynomial_stays(build: Callable[[Written], Any]) -> None:
    w = Written()
    source = w.b.program(build(w))
    assert alone(source).program.to_text() == source.to_text()


def test_a_part_with_another_user_stays() -> None:
    w = Written()
    third = w.mul(w.mul(w.x, w.x), w.x)
    source = w.b.program(w.add(w.mul(third, 0.5), w.x), w.mul(third, w.y))
    assert alone(source).program.to_text() == source.to_text()


def test_a_polynomial_of_a_sum_is_found() -> None:
    """(x + y)^3 / 2 + (x + y): the base is a value of the program, not an input."""
    w = Written()
    s = w.add(w.x, w.y)
    source = w.b.program(w.add(w.op("divide", w.mul(w.mul(s, s), s), 2), s))
    assert names(alone(source).program) == ["ren.semantic.add", "ren.semantic.polynomial"]


def test_several_in_one_program_and_one_inside_another(engine: Any) -> None:
    w = Written()
    inner = w.horner([0.1, 0.2, 0.3, 0.4])
    outer = w.add(w.mul(w.mul(w.mul(inner, w.y), w.y), 0.5), w.y)
    source = w.b.program(outer, w.add(w.mul(w.mul(w.mul(w.y, w.y), w.y), 0.5), w.y))
    result = alone(source)
    assert names(result.program).count("ren.semantic.polynomial") == 2
    program = jit.default_pipeline(enable=["collect-polynomials"]).run(source).program
    first, second = program.run(X, X / 2, workspace=workspace_for(program, engine))
    y = X / 2
    np.testing.assert_allclose(
        decoded(engine, first), (0.1 + 0.2 * X + 0.3 * X**2 + 0.4 * X**3) * y * y / 2 + y, rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(decoded(engine, second), y**3 / 2 + y, rtol=0, atol=1e-6)


def test_powers_far_above_the_value_are_left_alone() -> None:
    """x up to 1000, coefficients that bring the sum back to 1: Horner never forms x^7, the polynomial would."""
    w = Written(bound=1000.0)
    source = w.b.program(w.horner([1000.0**-i for i in range(8)]))
    result = alone(source)
    assert result.program.to_text() == source.to_text()
    assert result.reports[0].stats.skipped == 1
    assert result.reports[0].diagnostics[0].code == "possible-overflow"


def test_a_long_sum_takes_linear_work() -> None:
    """Each term that joins is another candidate: none may walk back to the start."""

    def calls(terms: int) -> int:
        w = Written()
        total: Any = w.mul(w.mul(w.mul(w.x, w.x), 0.5), 0.5)
        for i in range(terms):
            total = w.add(total, w.mul(w.mul(w.mul(w.x, w.x), 0.5), 1 + 1 / (2 + i)))
        source, count = w.b.program(total), 0

        def count_calls(frame: Any, event: str, _: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(count_calls)
        try:
            CollectPolynomialsPass().run(source, Workspace())
        finally:
            sys.setprofile(None)
        return count

    assert calls(600) < 3 * calls(300)


def test_it_is_not_part_of_the_default() -> None:
    assert "collect-polynomials" not in jit.default_pipeline().names
    names = jit.default_pipeline(enable=["collect-polynomials", "rebalance-products"]).names
    assert names.index("collect-polynomials") < names.index("rebalance-products")


@pytest.mark.parametrize("constant", [-0.3, 0.0])
def test_padding_that_later_operations_rely_on_stays_zero(engine: Any, constant: float) -> None:
    w = Written(slots=5)
    s = w.horner([constant, 0.5, 0.5, 0.25])
    program = w.b.program(s, w.add(s, 1.0), w.mul(s, s), w.op("sum", s))
    found = jit.default_pipeline(enable=["collect-polynomials"]).run(program, Workspace())
    reports = {r.name: r for r in found.reports}
    assert reports["collect-polynomials"].stats.transformed == 1
    space = workspace_for(found.program, engine)
    x = X[:5]
    y = constant + 0.5 * x + 0.5 * x**2 + 0.25 * x**3
    results = found.program.run(x, np.zeros(64), workspace=space)
    for result, want in zip(results, (y, y + 1, y * y, y.sum()), strict=True):
        np.testing.assert_allclose(decoded(engine, result)[: np.size(want)], np.atleast_1d(want), atol=1e-5)

"""Long products become shallow ones, right when decrypted, only where that saves a level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ren import jit
from ren.program import PassPipeline, Program, Workspace, encrypted
from ren.testing.program_kit import ProgramBuilder, decoded, workspace_for
from ren_passes.rebalance_products import RebalanceProductsPass

X = [np.cos(np.arange(64) + i) for i in range(8)]


def chain(count: int, *, left: bool = True) -> Program:
    b = ProgramBuilder(**{f"x{i}": encrypted() for i in range(count)})
    total: Any = b["x0"]
    for i in range(1, count):
        pair = (total, b[f"x{i}"]) if left else (b[f"x{i}"], total)
        total = b("ren.semantic.multiply", *pair)
    return b.program(total)


def alone(source: Program) -> Any:
    return PassPipeline([RebalanceProductsPass()]).run(source, Workspace())


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("count", [3, 4, 5, 7, 8])
def test_depth_is_logarithmic_and_the_result_right(engine: Any, count: int, left: bool) -> None:
    pipeline = jit.default_pipeline(enable=["rebalance-products"])
    program = pipeline.run(chain(count, left=left)).program
    result = program.run(*X[:count], workspace=workspace_for(program, engine))
    assert result.level == math.ceil(math.log2(count))
    np.testing.assert_allclose(decoded(engine, result), np.prod(X[:count], axis=0), rtol=0, atol=1e-6)


def test_counters_and_idempotence() -> None:
    result = alone(chain(8))
    stats = result.reports[0].stats
    assert (stats.matched, stats.transformed, stats.inserted, stats.removed) == (1, 1, 7, 7)
    again = alone(result.program)
    assert again.program.to_text() == result.program.to_text()
    assert (again.reports[0].stats.matched, again.reports[0].stats.transformed) == (1, 0)


def test_a_product_with_other_users_is_a_factor() -> None:
    b = ProgramBuilder(x=encrypted(), y=encrypted(), z=encrypted())
    first = b("ren.semantic.multiply", b["x"], b["y"])
    source = b.program(b("ren.semantic.multiply", first, b["z"]), first)
    assert alone(source).program.to_text() == source.to_text()


def test_depths_of_factors_count() -> None:
    """((a^4 * x) * y): x and y first, next to a^4, whose depth is two: three levels instead of four."""
    b = ProgramBuilder(a=encrypted(), x=encrypted(), y=encrypted())
    fourth = b("ren.semantic.square", b("ren.semantic.square", b["a"]))
    out = b("ren.semantic.multiply", b("ren.semantic.multiply", fourth, b["x"]), b["y"])
    result = jit.default_pipeline(enable=["rebalance-products"]).run(b.program(out))
    returned = result.program.entry_function().function_type.outputs.data[0]
    assert returned.data.level == 3  # type: ignore[attr-defined]


def test_it_is_not_part_of_the_default() -> None:
    assert "rebalance-products" not in jit.default_pipeline().names
    names = jit.default_pipeline(enable=["rebalance-products"]).names
    assert names.index("rebalance-products") < names.index("lower-semantic-to-logical")

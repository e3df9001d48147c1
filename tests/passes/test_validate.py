"""The two validating passes: they change nothing, and stop at everything that is wrong at once."""

from __future__ import annotations

from typing import Any

import pytest
from ren import jit
from ren.errors import PassError
from ren.program import PassPipeline, Program, Workspace, encrypted
from ren.testing.program_kit import ProgramBuilder, main_text
from ren_passes.validate_cipher_states import ValidateCipherStatesPass
from ren_passes.validate_executable_graph import ValidateExecutableGraphPass

ENABLED = ("validate-cipher-states", "validate-executable-graph")


def square(times: int = 1) -> Program:
    b = ProgramBuilder(x=encrypted())
    x: Any = b["x"]
    for line in range(times):
        x = b("ren.semantic.square", x, loc=jit.location("deep.py", line + 1))
    return b.program(x)


def test_they_accept_what_the_default_pipeline_makes() -> None:
    """Both run behind everything else and change nothing."""
    pipeline = jit.default_pipeline(enable=ENABLED)
    assert pipeline.names[-2:] == ENABLED
    result = pipeline.run(square())
    assert result.program.to_text() == jit.default_pipeline().run(square()).program.to_text()
    assert [r.stats.matched > 0 for r in result.reports[-2:]] == [True, True]


def test_unknown_operation_until_a_handler_exists() -> None:
    body = '    %y = "vendor.twice"(%x) : (!ren.message) -> !ren.message'
    program = jit.parse(main_text("%x: !ren.message", body, "%y : !ren.message"))
    only = PassPipeline([ValidateExecutableGraphPass()])
    with pytest.raises(PassError, match=r"nothing executes vendor\.twice"):
        only.run(program)
    only.run(program, Workspace(handlers={"vendor.twice": abs}))
    PassPipeline([ValidateExecutableGraphPass(handled_operations=("vendor.twice",))]).run(program)


def test_programs_that_were_not_lowered_are_named() -> None:
    with pytest.raises(
        PassError, match=r"'validate-executable-graph'.*main[\s\S]*ren\.semantic\.square is not lowered"
    ):
        PassPipeline([ValidateExecutableGraphPass()]).run(square())


def test_levels_against_an_engine(engine: Any) -> None:
    pipeline = jit.default_pipeline(enable=["validate-cipher-states"])
    pipeline.run(square(7))
    with pytest.raises(PassError, match=r"deep\.py:7.*level-exhausted"):
        pipeline.run(square(7), Workspace(engine=engine))


def test_a_rule_of_your_own() -> None:
    def shallow(op: Any, states: Any) -> str | None:
        return f"level {states[0].level} is too deep here" if (states[0].level or 0) > 1 else None

    pipeline = jit.default_pipeline().then(ValidateCipherStatesPass(shallow))
    pipeline.run(square(1))
    with pytest.raises(PassError, match=r"ren\.ckks\.rescale at deep\.py:2: level 2 is too deep here"):
        pipeline.run(square(2))


def test_every_fault_is_listed() -> None:
    with pytest.raises(PassError) as caught:
        jit.default_pipeline().then(ValidateCipherStatesPass(lambda op, states: "no")).run(square(2))
    text = str(caught.value)
    assert text.count("ren.ckks.rescale") == 2
    assert text.count("ren.ckks.multiply") + text.count("ren.ckks.square") == 2

"""What the padding of a ciphertext holds is known across programs: none sums what another one left there."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ren import jit
from ren.errors import ProgramInputError, ProgramRunError
from ren.program.interpret import interpret
from ren.schemes.ckks import files
from ren.schemes.ckks.batch import CiphertextBatch
from test_run import assert_close, lowered, revealed

SIX = torch.linspace(0.25, 1.5, 6, dtype=torch.float64)
W = torch.cos(torch.arange(36, dtype=torch.float64)).reshape(6, 6)


def made(function: Any, engine: Any, **role: Any) -> Any:
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=6, **role)})
    return (captured, *lowered(captured, engine))


#: Programs whose result has something behind its six elements.
POLLUTING = [
    lambda x: x - x.mean(),
    lambda x: x + x.sum(),
    lambda x: x[0] + x,
    lambda x: W @ x + x.sum(),
    lambda x: x * x + 1.0 - x[2],
]


@pytest.mark.parametrize("first", POLLUTING)
def test_a_result_with_polluted_padding_is_not_taken_for_a_clean_one(first: Any, engine: Any) -> None:
    captured, program, workspace = made(first, engine)
    result = program.run(SIX, workspace=workspace)
    assert result.occupied is None
    _, total, space = made(lambda x: x.sum(), engine, level=result.level)
    assert total.readiness(space).runnable
    with pytest.raises(ProgramInputError, match="zeros behind them") as raised:
        total.run(result, workspace=space)
    assert "input x" in str(raised.value)
    assert 'padding="any"' in str(raised.value)
    # The ways out that the error names: an argument that says so, and a mask.
    captured, masking, space = made(lambda x: x.sum(), engine, level=result.level, padding="any")
    found = captured.decode(revealed(engine, masking.run(result, workspace=space)))
    assert_close(found, first(SIX).sum())
    masked = result * ([1.0] * 6)
    captured, total, space = made(lambda x: x.sum(), engine, level=masked.level)
    assert_close(captured.decode(revealed(engine, total.run(masked, workspace=space))), first(SIX).sum())


@pytest.mark.parametrize("second", [lambda x: x.sum(), lambda x: x.mean(), lambda x: W @ x, lambda x: torch.roll(x, 1)])
@pytest.mark.parametrize("first", [lambda x: x * 2 - x * x, lambda x: W @ x, lambda x: torch.roll(x, 2), lambda x: x])
def test_a_result_whose_padding_is_zero_is_taken(first: Any, second: Any, engine: Any) -> None:
    _, program, workspace = made(first, engine)
    for _ in range(2):  # captured, then replayed
        result = program.run(SIX, workspace=workspace)
        assert result.occupied == 6
    assert interpret(program, SIX, workspace=workspace).occupied == 6
    captured, program, workspace = made(second, engine, level=result.level)
    found = captured.decode(revealed(engine, program.run(result, workspace=workspace)))
    assert_close(found, second(first(SIX)))


def test_more_values_than_declared_are_refused(engine: Any) -> None:
    """Eight ones for six elements summed to 8."""
    _, program, workspace = made(lambda x: x.sum(), engine)
    good = engine.encrypt(engine.encode(SIX, slots=8, msg_bound=2.0))
    refused = [
        engine.encrypt(engine.encode(np.ones(8), slots=8)),
        engine.encrypt(engine.encode(np.ones(7), slots=8)),
        good + 1,
        good.rotate(1),
        CiphertextBatch((2,), (good, good + 1)),
    ]
    captured, total, space = made(lambda x: x.sum(-1), engine, batch_mode="any")
    program.run(good, workspace=workspace)  # a plan for this kind of call exists now
    total.run(CiphertextBatch((2,), (good, good)), workspace=space)
    compiled = program.compile(workspace)
    compiled(good)
    for value in refused:
        for run, at in ((program.run, workspace), (total.run, space)):
            with pytest.raises(ProgramInputError, match="zeros behind them|batch axes"):
                run(value, workspace=at)
        with pytest.raises(ProgramInputError, match="zeros behind them|batch axes"):
            compiled(value)
        with pytest.raises(ProgramInputError, match="zeros behind them|batch axes"):
            interpret(program, value, workspace=workspace)
    assert_close(captured.decode(revealed(engine, total.run(good * 1, workspace=space))), SIX.sum())
    with pytest.raises(ProgramInputError, match="of 7 encoded values it is not known"):
        program.run(refused[1], workspace=workspace)


def test_programs_and_plans_that_were_stored_check_it_too(engine: Any, tmp_path: Path) -> None:
    _, program, workspace = made(lambda x: x.sum(), engine)
    good = engine.encrypt(engine.encode(SIX, slots=8, msg_bound=2.0))
    compiled = program.compile(workspace)
    compiled(good)
    compiled.save(tmp_path / "plan.ren")
    plan = jit.load_plan(tmp_path / "plan.ren")
    loaded = pickle.loads(pickle.dumps(program))
    for run in (plan.run, loaded.run):
        total = revealed(engine, run(good, workspace=workspace))
        assert abs(complex(total[0]) - float(SIX.sum())) < 1e-6
        for value in (good + 0.5, files.from_bytes(files.to_bytes(good + 0.5), engine)):
            with pytest.raises(ProgramInputError, match="zeros behind them"):
                run(value, workspace=workspace)
        again = revealed(engine, run(files.from_bytes(files.to_bytes(good), engine), workspace=workspace))
        assert abs(complex(again[0]) - float(SIX.sum())) < 1e-6


def test_an_argument_that_says_nothing_of_its_padding(engine: Any) -> None:
    """Masked where something runs over all slots, and nowhere else."""
    x = engine.encrypt(engine.encode([*SIX.tolist(), 7.0, -9.0], slots=8, msg_bound=10.0))
    for function in (
        lambda x: x - x.mean(),
        lambda x: W @ x,
        lambda x: x * x,
        lambda x: torch.roll(x, 1),
        lambda x: x[1:4],
    ):
        captured, program, workspace = made(function, engine, padding="any")
        assert program.readiness(workspace).runnable
        assert_close(captured.decode(revealed(engine, program.run(x, workspace=workspace))), function(SIX))
    assert jit.encrypted(slots=8, padding="any").layout == jit.encrypted(slots=8).layout
    with pytest.raises(ValueError, match="padding"):
        jit.encrypted(slots=6, padding="none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a message input has no padding"):
        jit.InputSpec("message", padding="any")


@pytest.mark.parametrize(("declared", "length", "slots"), [(8, 4, 4), (6, 4, 4), (6, 3, 4), ("full", 8, 8)])
def test_a_plaintext_of_fewer_slots_is_not_repeated(declared: Any, length: int, slots: int, engine: Any) -> None:
    captured = jit.trace(lambda x, p: x * p, inputs={"x": jit.encrypted(slots=declared), "p": jit.plaintext()})
    program, workspace = lowered(captured, engine)
    count = engine.num_slots if declared == "full" else declared
    x, p = torch.linspace(-1, 1, count, dtype=torch.float64), torch.linspace(0.5, 1, count, dtype=torch.float64)
    with pytest.raises(ProgramRunError, match="would be repeated"):
        program.run(x, engine.encode(p[:length], slots=slots), workspace=workspace)
    frame = None if declared == "full" else 8
    found = captured.decode(revealed(engine, program.run(x, engine.encode(p, slots=frame), workspace=workspace)))
    assert_close(found, x * p)
    found = captured.decode(revealed(engine, program.run(x, engine.encode(p[:1], slots=1), workspace=workspace)))
    assert_close(found, x * p[0])

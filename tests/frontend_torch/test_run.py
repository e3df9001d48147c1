"""Traced programs under encryption: lowered by the default pipeline, run, decrypted and compared with PyTorch."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from ren import jit
from ren.errors import ProgramNotReadyError, ProgramRunError
from ren.schemes.ckks import CiphertextBatch
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.testing.program_kit import run_both_ways, workspace_for
from torch_corpus import RIGHT, W, X

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
#: The noise of these programs at 40 bits, values up to 30; a wrong value is off by far more.
ATOL = 2e-6


def lowered(captured: Any, engine: Any, pipeline: Any = None) -> tuple[Any, Any]:
    """The program after a pipeline, the default one unless given, and a workspace with the keys that it needs."""
    program = (pipeline or jit.default_pipeline()).run(captured.program, captured.workspace).program
    workspace = workspace_for(program, engine)
    workspace["materials"] = captured.workspace.get("materials", {})
    return program, workspace


def revealed(engine: Any, value: Any) -> Any:
    """Results with encrypted values decrypted, complex."""
    if isinstance(value, (Ciphertext, CiphertextBatch)):
        return torch.as_tensor(engine.decode(engine.decrypt(value), is_real=False))
    if isinstance(value, Mapping):
        return {k: revealed(engine, v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(revealed(engine, v) for v in value)
    return value


def run(engine: Any, captured: Any, *args: Any, **kwargs: Any) -> Any:
    """The decrypted results in their logical shapes. Readiness promises that the program runs."""
    program, workspace = lowered(captured, engine)
    report = program.readiness(workspace)
    assert report.runnable, "\n".join(map(str, report.diagnostics))
    return captured.decode(revealed(engine, run_both_ways(program, *args, workspace=workspace, **kwargs)))


def assert_close(found: Any, expected: Any) -> None:
    if isinstance(expected, Mapping):
        assert list(found) == list(expected)
        for key, part in expected.items():
            assert_close(found[key], part)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_close(a, b)
    elif expected is None or isinstance(expected, str):
        assert found == expected
    else:
        found, expected = torch.as_tensor(found), torch.as_tensor(expected)
        assert found.shape == expected.shape
        torch.testing.assert_close(found.to(torch.complex128), expected.to(torch.complex128), rtol=0, atol=ATOL)


@pytest.mark.parametrize("name", RIGHT)
def test_corpus(name: str, engine: Any) -> None:
    function = RIGHT[name]
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8), "w": jit.message(shape=(8,))})
    assert_close(run(engine, captured, X, W), function(x=X.clone(), w=W.clone()))


# -- the example of the documentation --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example() -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        import trace_matvec
    finally:
        sys.path.remove(str(EXAMPLES))
    return trace_matvec


def matvec(example: Any, engine: Any, weight: Any, bias: Any, x: Any, size: int) -> Any:
    """(ciphertext of the example's function, reference)."""
    repeats = engine.num_slots // size
    roles = {
        "x": jit.encrypted(),
        "weight": jit.message(),
        "bias": jit.message(),
        "gain": jit.plaintext(),
        "size": jit.static(size),
        "repeats": jit.static(repeats),
    }
    captured = jit.trace(example.affine_then_quadratic, inputs=roles)
    program, workspace = lowered(captured, engine)
    packed = x.repeat(repeats)
    gain = engine.plaintext(0.75, level=2, scale=engine.config.default_scale)
    result = program.run(packed, weight, bias, gain, workspace=workspace)
    return result, captured.reference(packed, weight, bias, 0.75)


def test_example_on_a_small_ring(example: Any, engine: Any) -> None:
    x, weight, bias = example.example_data()
    result, reference = matvec(example, engine, weight, bias, x, example.SIZE)
    decoded = engine.decrypt_message(result, engine.secret_key, is_real=True)
    assert type(decoded) is torch.Tensor
    assert float((decoded - reference).abs().max()) < 1e-7
    assert result.level == 3


@pytest.mark.real
def test_example_script() -> None:
    done = subprocess.run(
        [sys.executable, "trace_matvec.py"], cwd=EXAMPLES, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    error = float(done.stdout.strip().splitlines()[-1].split()[-1])
    assert error < 1e-7
    assert "[1, 2, 3, 4, 5, 6, 7]" in done.stdout


# -- reported faults of others ---------------------------------------------------------------------------------------


def test_zeros_in_plain_data(example: Any, engine: Any) -> None:
    """B15: a zero costs what any number costs: same level, same scale."""
    x, bias = torch.tensor([0.5, -0.25]), torch.zeros(2)
    found = []
    for corner in (0.0, 1e-6):
        weight = torch.tensor([[0.1, 0.1], [0.1, corner]])
        result, reference = matvec(example, engine, weight, bias, x, 2)
        decoded = engine.decrypt_message(result, engine.secret_key, is_real=True)
        assert_close(decoded, reference)
        found.append((result.level, result.scale))
    assert found[0] == found[1]

    def twice(x: Any, w: Any) -> Any:
        return (x @ w.T) @ w.T

    for corner in (0.0, 1e-6):
        weight = torch.tensor([[0.1, 0.1], [0.1, corner]], dtype=torch.float64)
        captured = jit.trace(twice, inputs={"x": jit.encrypted(slots=2), "w": jit.message(shape=(2, 2))})
        assert_close(run(engine, captured, x.double(), weight), twice(x.double(), weight))


def test_rotation_of_an_unrelinearized_product(engine: Any) -> None:
    """B22: the default pipeline is right, one without relinearization is refused at the operation and line."""

    def distance(a: Any, b: Any) -> Any:
        s = (a - b) * (a - b)
        for step in (1, 2, 4):
            s = s + torch.roll(s, step, -1)
        return s

    roles = {"a": jit.encrypted(slots=8), "b": jit.encrypted(slots=8)}
    captured = jit.trace(distance, inputs=roles)
    assert_close(run(engine, captured, X, W), distance(X, W))
    kept = [p for p in jit.default_pipeline().passes if "relinearization" not in p.name]
    program, workspace = lowered(jit.trace(distance, inputs=roles), engine, jit.PassPipeline(kept))
    report = program.readiness(workspace)
    (refused,) = (d for d in report.errors if d.code == "unrelinearized-operand")
    assert refused.message.startswith("ren.ckks.rotate: three parts: relinearize before a rotation")
    assert (Path(str(refused.file)).name, refused.line) == (Path(__file__).name, inspect.getsourcelines(distance)[1] + 3)
    with pytest.raises(ProgramNotReadyError):
        program.run(X, W, workspace=workspace)


PASSES = [p.name for p in jit.default_pipeline().passes]
#: The others make programs faster and nothing else.
NEEDED = PASSES[2:4] + PASSES[6:12]
OF_EVERY_KIND = {
    "sums of products": lambda x: x * x + x * (x * 0.5) + 1,
    "deep": lambda x: ((x * x) * x + x) ** 2,
    "matrix": lambda x: (torch.linspace(-1, 1, 64, dtype=torch.float64).reshape(8, 8) @ x) * x,
    "centred": lambda x: (x - x.mean()) ** 2,
    "rolled product": lambda x: torch.roll(x * x, 3),
    "linear": lambda x: x * W + 1,
}


@pytest.mark.parametrize("name", OF_EVERY_KIND)
@pytest.mark.parametrize("dropped", PASSES)
def test_without_one_pass_of_the_default_pipeline_a_program_is_right_or_refused(
    dropped: str, name: str, engine: Any
) -> None:
    function = OF_EVERY_KIND[name]
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8)})
    pipeline = jit.PassPipeline([p for p in jit.default_pipeline().passes if p.name != dropped])
    program, workspace = lowered(captured, engine, pipeline)
    report = program.readiness(workspace)
    if report.runnable:
        assert_close(captured.decode(revealed(engine, program.run(X, workspace=workspace))), function(X))
        return
    assert dropped in NEEDED
    assert {Path(str(d.file)).name for d in report.errors} == {Path(__file__).name}
    with pytest.raises(ProgramNotReadyError):
        program.run(X, workspace=workspace)


def test_padding_is_never_summed(engine: Any) -> None:
    """B23."""
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    captured = jit.trace(lambda x: ((x + 1.0) * 2.0).sum(), inputs={"x": jit.encrypted(slots=3)})
    assert_close(run(engine, captured, x), torch.tensor(18.0))
    captured = jit.trace(lambda x: (x * 2 + 1).mean() + (x - x.mean()).sum(), inputs={"x": jit.encrypted(slots=3)})
    assert_close(run(engine, captured, x), torch.tensor(5.0))


NINE = torch.arange(1.0, 10.0, dtype=torch.float64)
SMALL = torch.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 3.0]], dtype=torch.float64)


class Square(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * x


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x @ torch.arange(18.0, dtype=torch.float64).reshape(2, 9).T / 10,
        lambda x: F.linear(x, torch.ones(4, 9, dtype=torch.float64), torch.arange(4.0, dtype=torch.float64)),
        lambda x: x.mean() + x.sum(),
        lambda x: x[:8] @ torch.arange(8.0, dtype=torch.float64),
        lambda x: torch.dot(x, x) / 100,
        nn.Linear(9, 5).double().eval(),
        nn.Sequential(nn.Linear(9, 4), Square(), nn.Linear(4, 2)).double().eval(),
        lambda x: F.linear(x.reshape(3, 3)[1], SMALL) + F.linear(x[6:9], SMALL),
    ],
)
def test_matrices(function: Any, engine: Any) -> None:
    """B41: equal to PyTorch."""
    name = "input" if isinstance(function, nn.Module) else "x"
    captured = jit.trace(function, inputs={name: jit.encrypted(slots=9)})
    assert captured.diagnostics == ()
    with torch.no_grad():
        assert_close(run(engine, captured, NINE), function(NINE))


def test_convolution_is_refused_by_name(engine: Any) -> None:
    """B41: not computed wrong, not run."""
    kernel = torch.ones(1, 1, 2, 2, dtype=torch.float64)
    captured = jit.trace(lambda x: F.conv2d(x.view(1, 1, 3, 3), kernel), inputs={"x": jit.encrypted(slots=9)})
    (found,) = captured.diagnostics
    assert found.subject == "torch.conv2d"
    program, workspace = lowered(captured, engine)
    report = program.readiness(workspace)
    assert [d.subject for d in report.errors if d.code == "missing-torch-handler"] == ["torch.conv2d"]


# -- the rest --------------------------------------------------------------------------------------------------------


def test_batches(engine: Any) -> None:
    def function(x: Any, w: Any) -> Any:
        return torch.roll(x, 1, -1) * w + x.mean(-1, keepdim=True), x[..., 2:5] * x[..., 1:4]

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8, batch_mode="any"), "w": jit.message(shape=(8,))})
    batch = torch.stack([X, -X, W])
    assert_close(run(engine, captured, batch, W), function(batch, W))


def test_full_slots_and_keyword_arguments(engine: Any) -> None:
    n = engine.num_slots
    x = torch.linspace(-1, 1, n, dtype=torch.float64)

    def function(x: Any, *, gain: float, shift: int) -> Any:
        return torch.roll(x, shift) ** 3 * gain - x

    captured = jit.trace(function, inputs={"x": jit.encrypted(), "gain": jit.message(), "shift": jit.static(n - 1)})
    assert_close(run(engine, captured, x, gain=2.0), function(x, gain=2.0, shift=n - 1))


@pytest.mark.parametrize("degree", [2, 3, 5, 7, 11, 15])
def test_polynomials_by_horner(degree: int, engine: Any) -> None:
    coefficients = [0.5 / (k + 1) * (-1) ** k for k in range(degree + 1)]

    def powers(x: Any) -> Any:
        return sum(c * x**k for k, c in enumerate(coefficients) if k) + coefficients[0]

    captured = jit.trace(powers, inputs={"x": jit.encrypted(slots=8)})
    assert_close(run(engine, captured, X), powers(X))


def test_handlers_of_kept_calls(engine: Any) -> None:
    """J34: runs with a handler; one that fails is wrapped with name and line, and nothing else is lost."""

    def function(x: Any) -> Any:
        return torch.sin(x) + x

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8)})
    program, workspace = lowered(captured, engine)
    assert not program.readiness(workspace).runnable
    workspace["torch_handlers"] = {"torch.sin": lambda x: x * 2}
    assert_close(revealed(engine, program.run(X, workspace=workspace))[:8], X * 3)

    def fails(x: Any) -> Any:
        raise KeyError("gone")

    workspace["torch_handlers"] = {"torch.sin": fails}
    with pytest.raises(ProgramRunError, match=r"torch\.call at .*test_run\.py:\d+ failed: KeyError: 'gone'"):
        program.run(X, workspace=workspace)
    workspace["torch_handlers"] = {"torch.sin": lambda x: x}
    assert_close(revealed(engine, program.run(X, workspace=workspace))[:8], X * 2)


def test_public_call_that_fails_names_its_line(engine: Any) -> None:
    """B14: an error of data is an exception in the caller, and the next call works."""
    captured = jit.trace(
        lambda x, a, b: x * torch.cat((a, b)),
        inputs={"x": jit.encrypted(slots=8), "a": jit.message(), "b": jit.message()},
    )
    program, workspace = lowered(captured, engine)
    with pytest.raises(ProgramRunError, match=r"test_run\.py:\d+ failed"):
        program.run(X, W[:4], W.reshape(2, 4), workspace=workspace)
    with pytest.raises(ProgramRunError, match=r"test_run\.py:\d+ failed"):
        program.run(X, W[:4], W[:3], workspace=workspace)
    assert_close(revealed(engine, program.run(X, W[:4], W[4:], workspace=workspace))[:8], X * W)


def test_materials_are_compared_with_what_was_captured(engine: Any) -> None:
    weight = torch.rand(8, dtype=torch.float64)
    captured = jit.trace(lambda x: x * weight, inputs={"x": jit.encrypted(slots=8)})
    program, workspace = lowered(captured, engine)
    (symbol,) = workspace["materials"]
    for fits in (weight, weight.float(), weight.numpy()):
        workspace["materials"] = {symbol: fits}
        assert program.readiness(workspace).runnable
    for wrong in (None, "s", torch.ones(3)):
        workspace["materials"] = {symbol: wrong}
        (found,) = program.readiness(workspace).errors
        assert (found.code, found.subject) == ("malformed-workspace-binding", symbol)

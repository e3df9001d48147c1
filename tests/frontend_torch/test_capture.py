"""What `jit.trace` returns: signatures, materials, containers, diagnostics, references, decoding."""

from __future__ import annotations

import functools
import gc
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from ren import jit
from ren.errors import InputSpecError, InputSpecTypeError, ProgramArgumentError, ProgramInputError, TraceError
from ren.program import Program
from torch_plain import assert_same, run_plain

X = torch.linspace(-1, 1, 8, dtype=torch.float64)
CLOSED = torch.arange(8.0, dtype=torch.float64)
HERE = Path(__file__).name


def names(captured: Any) -> list[str]:
    return [op.name for op in captured.program.entry_block("main").ops][:-1]


def codes(report: Any) -> list[str]:
    return [d.code for d in report.errors]


# -- public programs -------------------------------------------------------------------------------------------------


def test_public_function() -> None:
    """J5, J24: kept as two calls, runs only when run, through the audited table."""

    def function(a: Any, b: Any) -> Any:
        return torch.sin(a).add(b)

    captured = jit.trace(function, inputs={"a": jit.message(), "b": jit.message()})
    assert names(captured) == ["torch.call", "torch.call"]
    text = captured.program.to_text()
    assert Program.parse(text).to_text() == text
    needs = captured.program.requirements()
    assert needs.torch_targets == ("torch.sin", "add")
    assert not needs.requires_engine
    report = captured.program.readiness(captured.workspace)
    assert report.runnable, report.diagnostics
    expected = torch.sin(X) + CLOSED
    assert torch.equal(captured.program.run(X, CLOSED, workspace=captured.workspace), expected)
    assert torch.equal(captured.reference(X, b=CLOSED), expected)
    # NumPy arrays mean what tensors mean.
    assert torch.equal(captured.program.run(X.numpy(), CLOSED.numpy()), expected)


def test_methods_of_arrays_are_those_of_tensors() -> None:
    captured = jit.trace(lambda a: a.repeat(2), inputs={"a": jit.message()})
    assert captured.program.run(np.array([1.0, 2.0])).tolist() == [1.0, 2.0, 1.0, 2.0]


def test_many_public_targets_run() -> None:
    """Wide: arithmetic, / ** @, reductions, shape work."""

    def function(m: Any) -> Any:
        a = (m / 2) ** 2 @ m.T - m.mean() + torch.sqrt(torch.abs(m)).sum(-1, keepdim=True)
        b = torch.stack([a[0], a[1]]).flip(0).cumsum(-1)
        c = F.pad(b, (1, 1)) * torch.where(F.pad(b, (1, 1)) > 0, 1.0, -1.0)
        return torch.linalg.norm(c), torch.einsum("ij,kj->ik", c, c), c.max(), torch.fft.rfft(c).real, -c // 2 % 3

    captured = jit.trace(function, inputs={"m": jit.message(shape=(3, 3))})
    assert captured.diagnostics == ()
    assert captured.program.readiness().runnable
    m = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)
    assert_same(captured.program.run(m), function(m))


def test_a_method_that_is_not_audited_is_refused() -> None:
    """J35; nor are changes in place, private names, or names with a path to something else."""
    for kind, target in [
        ("method", "clear"),
        ("method", "add_"),
        ("method", "data_ptr"),
        ("method", "__reduce__"),
        ("function", "torch.load"),
        ("function", "torch.save"),
        ("function", "torch.rand"),
        ("function", "os.system"),
        ("function", "torch.nn.functional.torch"),
        ("function", "builtins.eval"),
        ("module", "torch.add"),
    ]:
        text = f"""builtin.module attributes {{ren.schema_version = "1", ren.dialect_version = "0.1"}} {{
          func.func @main(%a: !ren.message) -> !ren.message {{
            %r = "torch.call"(%a) <{{ren.call.kind = "{kind}", ren.call.target = "{target}"}}> : (!ren.message) -> !ren.message
            func.return %r : !ren.message
          }}
        }}"""
        report = jit.parse(text).readiness()
        assert codes(report) == ["missing-torch-handler"], target
        assert report.errors[0].subject == target


def test_audited_calls_refuse_to_write() -> None:
    from ren_frontend_torch import lookup

    target = torch.zeros(2)
    with pytest.raises(LookupError):
        lookup.call("function", "torch.add", (target, target), {"out": target})
    with pytest.raises(LookupError):
        lookup.call("function", "torch.nn.functional.relu", (target,), {"inplace": True})


def test_every_audited_name_exists() -> None:
    from ren_frontend_torch import lookup, targets

    for name in targets.function_names():
        assert callable(lookup._function(name)), name
    for name in (*targets.METHODS, *targets.PROPERTIES):
        assert hasattr(torch.Tensor, name), name
        assert not name.endswith("_")
    for name in [n.rpartition(".")[2] for n in targets.function_names()] + list(targets.METHODS):
        assert name not in targets.RANDOM, name


# -- kept calls on encrypted values ----------------------------------------------------------------------------------


def test_unsupported_calls_are_kept_and_listed_at_once() -> None:
    """J6, J34: the target keeps its name, what follows is still understood, and file and line are known before anything runs."""

    def function(x: Any) -> Any:
        y = torch.sin(x)  # line 1
        z = F.gelu(x) * 2  # line 2
        return y + x + z, x.sort()

    _, first = inspect.getsourcelines(function)
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8)})
    assert "ren.semantic.add" in names(captured)
    found = [(d.subject, Path(str(d.file)).name, d.line, d.severity) for d in captured.diagnostics]
    assert found == [
        ("torch.sin", HERE, first + 1, "warning"),
        ("torch.nn.functional.gelu", HERE, first + 2, "warning"),
        ("sort", HERE, first + 3, "warning"),
    ]
    assert all("kept as a call" in d.message for d in captured.diagnostics)
    report = captured.program.readiness(captured.workspace)
    handlers = [d.subject for d in report.errors if d.code == "missing-torch-handler"]
    assert handlers == ["torch.sin", "torch.nn.functional.gelu", "sort"]
    captured.workspace["torch_handlers"] = {n: (lambda x: x) for n in handlers}
    assert "missing-torch-handler" not in codes(captured.program.readiness(captured.workspace))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, w: x / x, "division by an encrypted value"),
        (lambda x, w: 1 / x, "division by an encrypted value"),
        (lambda x, w: x / 0, "contains 0"),
        (lambda x, w: x / torch.tensor([1.0, 0.0] * 4), "contains 0"),
        (lambda x, w: x**0.5, "whole exponent"),
        (lambda x, w: x**-1, "whole exponent"),
        (lambda x, w: 2**x, "whole exponent"),
        (lambda x, w: x**x, "whole exponent"),
        (lambda x, w: x * float("inf"), "no number"),
        (lambda x, w: x + float("nan"), "no number"),
        (lambda x, w: x[8:], "empty"),
        (lambda x, w: x[8::2], "no element"),
        (lambda x, w: x[w], "index of type tensor"),
        (lambda x, w: torch.roll(x, (1, 2)), "takes one shift"),
        (lambda x, w: x + torch.ones(5), "do not broadcast"),
        (lambda x, w: torch.permute(x.view(2, 4), (0, 0)), "no order of 2 axes"),
        (lambda x, w: x.view(2, 4) @ torch.ones(2, 4), "last axis of an encrypted value of shape (2, 4)"),
        (lambda x, w: x.mm(torch.ones(8, 8)), "mm takes a matrix and a matrix"),
        (lambda x, w: torch.mv(x, torch.ones(8)), "mv takes a matrix and a vector"),
        (lambda x, w: x @ torch.ones(4, 8), "x @ W needs W of shape (8, outputs)"),
        (lambda x, w: torch.ones(8, 4) @ x, "W of shape (outputs, 8)"),
        (lambda x, w: x @ torch.ones(3, 8).T @ torch.ones(8), "does not meet"),
        (lambda x, w: x @ w, "shape of the matrix is unknown"),
        (lambda x, w: F.linear(x, w), "shape of the matrix is unknown"),
        (lambda x, w: w @ x, "shape of the matrix is unknown"),
        (lambda x, w: F.linear(w, x), "has to be public"),
        (lambda x, w: x.int(), "no meaning"),
        (lambda x, w: x.to(torch.int32), "rounds"),
        (lambda x, w: torch.div(x, 2, rounding_mode="floor"), "rounding"),
        (lambda x, w: x // 2, "no meaning"),
        (lambda x, w: F.conv1d(x.view(1, 1, 8), torch.ones(1, 1, 2)), "no meaning"),
        (lambda x, w: torch.where(x > 0, x, w), "no meaning"),
        (lambda x, w: torch.stack([x, x]), "no meaning"),
    ],
)
def test_reasons(function: Any, reason: str) -> None:
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8), "w": jit.message()})
    assert captured.diagnostics, captured.program
    assert any(reason in d.message for d in captured.diagnostics), captured.diagnostics
    line = inspect.getsourcelines(function)[1]
    assert {d.line for d in captured.diagnostics} == {line}
    assert "missing-torch-handler" in codes(captured.program.readiness(captured.workspace))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.roll(x, 1),
        lambda x: torch.roll(x, 1, 0),
        lambda x: x.sum(),
        lambda x: x.mean(0),
        lambda x: x[2:4],
        lambda x: x.reshape(2, 4),
        lambda x: x.T,
        lambda x: x[::2],
        lambda x: x**0,
        lambda x: torch.ones(8, 8) @ x,
        lambda x: x @ x,
    ],
)
def test_batches_are_never_mistaken_for_the_vector(function: Any) -> None:
    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8, batch_mode="any")})
    assert [d.code for d in captured.diagnostics] == ["missing-torch-handler"]


def test_batches_from_the_right() -> None:
    def function(x: Any) -> Any:
        return (
            torch.roll(x, 1, -1)[..., 2:6],
            x.sum(-1),
            x.mean(dim=-1, keepdim=True),
            x @ torch.ones(8, 3, dtype=torch.float64),
        )

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8, batch_mode="any")})
    assert captured.diagnostics == ()


def test_plaintexts_are_not_computed_on() -> None:
    captured = jit.trace(lambda x, p: x * (p + 1), inputs={"x": jit.encrypted(), "p": jit.plaintext()})
    (found,) = captured.diagnostics
    assert (found.code, found.subject) == ("missing-torch-handler", "operator.add")
    assert "plaintext" in found.message


def test_changed_arguments_are_reported() -> None:
    def function(x: Any) -> Any:
        x += 1
        return x

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8)})
    (found,) = captured.diagnostics
    assert (found.code, found.subject, found.line) == ("changed-argument", "x", inspect.getsourcelines(function)[1] + 1)
    assert_same(run_plain(captured, X), X + 1)


# -- materials -------------------------------------------------------------------------------------------------------


def test_captured_tensor_becomes_one_material() -> None:
    """J7: one symbol per tensor, a clone, no numbers in the text, the workspace kept with what it held."""
    kept = object()
    workspace = jit.Workspace(materials={"mine": kept}, other=3)
    closed = CLOSED.clone()

    def function(x: Any) -> Any:
        return (x + closed) * closed - closed

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8)}, workspace=workspace)
    assert captured.workspace is workspace
    assert workspace["other"] == 3
    assert workspace["materials"]["mine"] is kept
    assert sorted(workspace["materials"]) == ["capture/tensor/closed", "mine"]
    stored = workspace["materials"]["capture/tensor/closed"]
    assert stored is not closed
    closed.add_(100.0)
    assert torch.equal(stored, CLOSED)
    text = captured.program.to_text()
    assert text.count("ren.material.ref") == 1
    assert "5.0" not in text
    assert_same(run_plain(captured, X), (X + CLOSED) * CLOSED - CLOSED)


def test_names_that_are_taken() -> None:
    workspace: dict[str, Any] = {}
    for expected in ("capture/tensor/CLOSED", "capture/tensor/CLOSED/2"):
        jit.trace(lambda x: x + CLOSED, inputs={"x": jit.encrypted()}, workspace=workspace)
        assert expected in workspace["materials"]
    assert len(workspace["materials"]) == 2


def test_a_local_tensor_that_changes_is_captured_as_it_was() -> None:
    def function(x: Any) -> Any:
        t = torch.zeros(8, dtype=torch.float64)
        total = x + t
        t.add_(1)
        a = np.zeros(8)
        return total + t + a

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8)})
    assert_same(run_plain(captured, X), function(X))


def test_an_array_that_changes_is_refused() -> None:
    array = np.zeros(8)

    def function(x: Any) -> Any:
        y = x + array
        array[0] += 1
        return y

    with pytest.raises(TraceError, match="was changed during the trace"):
        jit.trace(function, inputs={"x": jit.encrypted(slots=8)})


def test_half_precision_and_gradients() -> None:
    parameter = nn.Parameter(torch.ones(8, dtype=torch.float16))
    captured = jit.trace(lambda x: x * parameter, inputs={"x": jit.encrypted(slots=8)})
    (stored,) = captured.workspace["materials"].values()
    assert not stored.requires_grad
    assert stored.dtype == torch.float16


# -- parameters ------------------------------------------------------------------------------------------------------


def test_static_values_specialise() -> None:
    """J8: a static branch, gone from the signature and the block arguments; tuple output; reference restores it."""

    def function(x: Any, flag: bool, none: Any, name: str) -> Any:
        if flag and none is None and name == "double":
            return x * 2, x
        return x

    captured = jit.trace(
        function,
        inputs={
            "x": jit.encrypted(slots=8),
            "flag": jit.static(True),
            "none": jit.static(None),
            "name": jit.static("double"),
        },
    )
    assert list(captured.signature.parameters) == ["x", "flag", "none", "name"]
    assert list(captured.runtime_signature.parameters) == ["x"]
    assert len(captured.program.entry_block("main").args) == 1
    assert captured.program.signature("main").has_output_structure
    assert_same(captured.reference(X), (X * 2, X))
    assert_same(run_plain(captured, X), (X * 2, X))
    assert captured.specs["flag"] == jit.static(True)


def test_defaults_and_keyword_only() -> None:
    """B39."""

    def function(x: Any, gain: float = 0.5, *, bias: Any = None) -> Any:
        return x * gain if bias is None else x * gain + bias

    alone = jit.trace(function, inputs={"x": jit.encrypted(slots=8)})
    assert str(alone.runtime_signature) == "(x)"
    assert_same(run_plain(alone, X), X * 0.5)
    assert_same(alone.reference(X), X * 0.5)
    with pytest.raises(ProgramArgumentError, match="'gain'"):
        alone.reference(X, gain=2.0)
    given = jit.trace(function, inputs={"bias": jit.message(), "x": jit.encrypted(slots=8), "gain": jit.message()})
    assert str(given.runtime_signature) == "(x, gain=0.5, *, bias)"
    assert_same(run_plain(given, X, bias=CLOSED), X * 0.5 + CLOSED)
    assert_same(run_plain(given, X, 2.0, bias=CLOSED), X * 2 + CLOSED)
    assert_same(given.reference(X, gain=2.0, bias=CLOSED), X * 2 + CLOSED)
    with pytest.raises(ProgramArgumentError, match="misses: bias"):
        run_plain(given, X)
    with pytest.raises(ProgramArgumentError, match="takes 2 positional"):
        run_plain(given, X, 1.0, CLOSED)


def test_positional_only_variadic_and_partial() -> None:
    def function(x: Any, /, scale: float, *rest: Any, **named: Any) -> Any:
        return x * scale + rest[0] * rest[1] - named["last"]

    captured = jit.trace(
        function,
        inputs={
            "x": jit.encrypted(slots=8),
            "scale": jit.static(3.0),
            "rest": [jit.encrypted(slots=8), jit.message()],
            "last": jit.message(),
        },
    )
    expected = X * 3 + X * CLOSED - 1
    assert_same(run_plain(captured, X, [X, CLOSED], last=1.0), expected)
    assert_same(captured.reference(X, [X, CLOSED], last=1.0), expected)
    partial = jit.trace(
        functools.partial(lambda x, k, y: x * k + y, k=2.0), inputs={"x": jit.encrypted(), "y": jit.message()}
    )
    assert str(partial.runtime_signature) == "(x, *, y)"


def test_containers_of_roles() -> None:
    def function(model: Any, pair: Any) -> Any:
        return {"out": pair[0] * model["w"] + model["b"][0], "rest": [pair[1], model["b"][1]]}

    captured = jit.trace(
        function,
        inputs={
            "model": {"w": jit.message(), "b": [jit.message(), jit.static(7)]},
            "pair": (jit.encrypted(slots=8), jit.encrypted(slots=8)),
        },
    )
    model, pair = {"w": CLOSED, "b": [1.0, None]}, (X, -X)
    expected = {"out": X * CLOSED + 1, "rest": [-X, 7]}
    assert_same(run_plain(captured, model, pair), expected)
    assert_same(captured.reference(model, pair), expected)
    with pytest.raises(ProgramInputError, match="pair must be a sequence of 2"):
        run_plain(captured, model, (X,))


@pytest.mark.parametrize(
    ("function", "inputs", "error", "match"),
    [
        (lambda x, y: x, {"x": jit.encrypted()}, InputSpecError, r"missing=\['y'\], extra=\[\]"),
        (lambda x: x, {"z": jit.encrypted()}, InputSpecError, r"missing=\['x'\], extra=\['z'\]"),
        (lambda x: x, {"x": 3}, InputSpecTypeError, r"x is a int, no role"),
        (lambda x: x, {"x": [jit.encrypted(), 1.5]}, InputSpecTypeError, r"x\[1\] is a float"),
        (lambda x: x, [jit.encrypted()], InputSpecTypeError, "maps parameter names"),
        (3, {}, TypeError, "takes a callable, got int"),
        (nn.Linear(2, 2).eval(), {"y": jit.encrypted()}, InputSpecError, r"missing=\['input'\]"),
    ],
)
def test_wrong_declarations(function: Any, inputs: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        jit.trace(function, inputs=inputs)


def test_wrong_workspaces() -> None:
    for wrong in (3, {"materials": 3}):
        with pytest.raises(TypeError):
            jit.trace(lambda x: x, inputs={"x": jit.encrypted()}, workspace=wrong)
    with pytest.raises(ValueError, match="max_ops"):
        jit.trace(lambda x: x, inputs={"x": jit.encrypted()}, max_ops=0)


def test_wrong_results() -> None:
    for wrong in (object(), {1: 2}, {1, 2}):
        with pytest.raises(TraceError, match="returns"):
            jit.trace(lambda x, wrong=wrong: wrong, inputs={"x": jit.encrypted()})


def test_a_declared_shape_is_checked() -> None:
    captured = jit.trace(lambda a: a * len(a), inputs={"a": jit.message(shape=(8,))})
    assert torch.equal(captured.program.run(X), X * 8)
    with pytest.raises(ProgramInputError, match=r"shape \(4,\), shape \(8,\) is declared"):
        captured.program.run(X[:4])
    for wrong in ("x", (-1,), (True,)):
        with pytest.raises(InputSpecError):
            jit.message(shape=wrong)  # type: ignore[arg-type]


# -- the result object -----------------------------------------------------------------------------------------------


def test_fx_code_and_repr() -> None:
    def affine(x: Any, w: Any) -> Any:
        return torch.roll(x * w, shifts=3, dims=-1) + CLOSED

    captured = jit.trace(affine, inputs={"x": jit.encrypted(slots=8), "w": jit.message()})
    assert isinstance(captured, jit.CaptureResult)
    code = captured.fx_code
    assert "torch.roll(mul, shifts = 3, dims = -1)" in code
    assert "self.capture_tensor_CLOSED" in code
    assert "affine(x, w)" in repr(captured)
    assert "affine" in captured.program.to_text()


def test_decode() -> None:
    def function(x: Any) -> Any:
        return x[1:4], {"sum": x.sum(), "rows": x.reshape(2, 4), "public": 3, "call": torch.sin(x)}

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8)})
    slots = torch.arange(64.0, dtype=torch.float64)
    shaped = jit.trace(
        lambda x: (x[1:4], {"sum": x.sum(), "rows": x.reshape(2, 4)}), inputs={"x": jit.encrypted(slots=8)}
    )
    first, rest = shaped.decode((slots, {"sum": slots.numpy(), "rows": slots}))
    assert first.tolist() == [0.0, 1.0, 2.0]
    assert rest["sum"].shape == ()
    assert rest["rows"].shape == (2, 4)
    with pytest.raises(ProgramInputError, match="8 slots are needed"):
        shaped.decode((slots, {"sum": slots, "rows": slots[:4]}))
    with pytest.raises(ProgramInputError, match="shape of this result is unknown"):
        captured.decode((slots, {"sum": slots, "rows": slots, "public": 3, "call": slots}))
    batch = jit.trace(lambda x: x * 2, inputs={"x": jit.encrypted(slots=6, batch_mode="any")})
    assert batch.decode(slots.reshape(4, 16)).shape == (4, 6)
    full = jit.trace(lambda x: x * 2, inputs={"x": jit.encrypted()})
    assert full.decode(slots.numpy()).shape == (64,)


def test_decode_plaintexts(engine: Any) -> None:
    captured = jit.trace(lambda x: x.reshape(2, 4), inputs={"x": jit.encrypted(slots=8)})
    plain = engine.encode(X, slots=8)
    with pytest.raises(ProgramInputError, match="workspace"):
        captured.decode(plain)
    captured.workspace["engine"] = engine
    torch.testing.assert_close(captured.decode(plain), X.reshape(2, 4), rtol=0, atol=1e-8)


def test_collector_is_restored() -> None:
    assert gc.isenabled()
    jit.trace(lambda x: x + 1, inputs={"x": jit.encrypted()})
    with pytest.raises(TraceError):
        jit.trace(lambda x: x + {}["missing"], inputs={"x": jit.encrypted()})
    assert gc.isenabled()


def test_large_functions_need_no_recursion() -> None:
    def function(x: Any, n: int) -> Any:
        for _ in range(n):
            x = x * 0.5 + 0.25
        return x

    captured = jit.trace(function, inputs={"x": jit.encrypted(slots=8), "n": jit.static(10_000)})
    assert len(names(captured)) == 20_002
    assert captured.fx_code.count("\n") > 20_000


def test_decrypted_messages_are_tensors() -> None:
    from ren.schemes import ckks

    engine = ckks.Engine("python-test", device="reference")
    message = torch.linspace(-1, 1, engine.num_slots, dtype=torch.float64)
    decoded = engine.decrypt_message(
        engine.encrypt_message(message, engine.public_key), engine.secret_key, is_real=True
    )
    assert type(decoded) is torch.Tensor
    torch.testing.assert_close(decoded, message, rtol=0, atol=1e-7)

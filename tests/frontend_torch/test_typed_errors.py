"""Wrong things, wherever they are given: errors of Ren that name them, still the builtin that a caller would catch, and never one from inside."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ren.program
import torch
from ren import jit
from ren.errors import EncodingError, ProgramInputError, RenError, TraceError
from torch._subclasses.fake_tensor import FakeTensorMode

import ren_frontend_torch
import ren_passes

X = torch.linspace(-1, 1, 8, dtype=torch.float64)
ROLES = {"x": jit.encrypted(slots=8)}


def fake() -> Any:
    with FakeTensorMode():
        return torch.ones(8)


#: Tensors that hold no numbers which can be read as an array.
TENSORS: dict[str, Callable[[], Any]] = {
    "meta": lambda: torch.ones(8, device="meta"),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(8), 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([X, X]),
    "fake": fake,
}
#: Other things that are no numbers.
OTHERS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "objects": lambda: np.array([object()] * 8),
    "texts": lambda: np.array(list("abcdefgh")),
    "a text": lambda: "12345678",
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "a set": lambda: {1.0, 2.0},
    "a function": lambda: abs,
    "a dict": dict,
}


def lowered(engine: Any, function: Any, roles: Any) -> tuple[Any, Any, Any]:
    captured = jit.trace(function, inputs=roles)
    result = jit.default_pipeline().run(captured.program, captured.workspace)
    result.workspace["engine"], result.workspace["public_key"] = engine, engine.public_key
    return captured, result.program, result.workspace


@pytest.fixture(scope="module")
def product(engine: Any) -> tuple[Any, Any, Any]:
    """x * w, w public."""
    return lowered(engine, lambda x, w: x * w, {**ROLES, "w": jit.message()})


@pytest.fixture(scope="module")
def shaped(engine: Any) -> tuple[Any, Any, Any]:
    return lowered(engine, lambda x, w: x * w, {**ROLES, "w": jit.message(shape=(8,))})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", TENSORS)
def test_a_captured_tensor_without_numbers_is_refused_at_its_line(kind: str) -> None:
    w = TENSORS[kind]()

    def function(x: Any) -> Any:
        return x * w  # here

    with pytest.raises(TraceError, match="'w' holds nothing to compute with") as caught:
        jit.trace(function, inputs=ROLES)
    assert (caught.value.line, caught.value.variable) == (inspect.getsourcelines(function)[1] + 1, "w")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*TENSORS, *OTHERS])
@pytest.mark.parametrize("place", ["encrypted", "message", "shaped message", "material", "decode"])
def test_what_holds_no_numbers_is_refused(kind: str, place: str, engine: Any, product: Any, shaped: Any) -> None:
    value = {**TENSORS, **OTHERS}[kind]()
    captured, program, workspace = shaped if place == "shaped message" else product
    if place == "material":
        _, program, workspace = lowered(engine, lambda x: x * X, ROLES)
        workspace["materials"] = dict.fromkeys(workspace["materials"], value)
        program.readiness(workspace)
    calls: dict[str, Callable[[], Any]] = {
        "encrypted": lambda: program.run(value, X, workspace=workspace),
        "message": lambda: program.run(X, value, workspace=workspace),
        "shaped message": lambda: program.run(X, value, workspace=workspace),
        "material": lambda: program.run(X, workspace=workspace),
        "decode": lambda: captured.decode(value),
    }
    with pytest.raises(RenError):
        calls[place]()


def test_a_public_value_that_turns_into_another_kind(engine: Any, product: Any) -> None:
    """What was kept of the value before is not compared with what has no numbers."""
    _, program, workspace = product
    program.run(X, X, workspace=workspace)
    with pytest.raises(RenError):
        program.run(X, torch.nested.nested_tensor([X, X]), workspace=workspace)
    program.run(X, X, workspace=workspace)


def test_results_are_decrypted_before_they_are_decoded(engine: Any, product: Any) -> None:
    captured, program, workspace = product
    out = program.run(X, X, workspace=workspace)
    with pytest.raises(ProgramInputError, match=r"a Ciphertext\. Decrypt first"):
        captured.decode(out)
    batched, program, workspace = lowered(engine, lambda x: x * X, {"x": jit.encrypted(slots=8, batch_mode="any")})
    with pytest.raises(ProgramInputError, match=r"a CiphertextBatch\. Decrypt first"):
        batched.decode(program.run(torch.ones(2, 8), workspace=workspace))


def test_wide_numbers_are_decoded_as_doubles(product: Any) -> None:
    for wide, plain in ((np.longdouble, torch.float64), (np.clongdouble, torch.complex128)):
        assert product[0].decode(np.ones(8, dtype=wide)).dtype == plain


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_no_encryption_takes_name_their_input(value: float, product: Any) -> None:
    _, program, workspace = product
    with pytest.raises(EncodingError, match=r"input x: values\[0\]") as caught:
        program.run(torch.full((8,), value), X, workspace=workspace)
    assert caught.value.subject == "x"


#: Calls with something else than they take, and the builtin that a caller would catch.
WRONG: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "trace": (lambda p: jit.trace(3, inputs={}), TypeError),
    "trace, max_ops": (lambda p: jit.trace(abs, inputs=ROLES, max_ops=0), ValueError),
    "trace, workspace": (lambda p: jit.trace(abs, inputs=ROLES, workspace=[]), TypeError),
    "trace, materials": (lambda p: jit.trace(abs, inputs=ROLES, workspace={"materials": 3}), TypeError),
    "readiness": (lambda p: p.readiness(3), TypeError),
    "run, workspace": (lambda p: p.run(X, X, workspace=[]), TypeError),
    "compile": (lambda p: p.compile(3), TypeError),
    "debug": (lambda p: p.debug(X, X, workspace=3), TypeError),
    "jit.run": (lambda p: jit.run(3, X), TypeError),
    "Program": (lambda p: jit.Program(3), TypeError),
    "parse": (lambda p: jit.parse(b"1"), TypeError),
    "pipeline.run": (lambda p: jit.default_pipeline().run(3), TypeError),
    "pipeline.run, workspace": (lambda p: jit.default_pipeline().run(p, []), TypeError),
    "key requirements": (lambda p: jit.analyze_evaluation_key_requirements(3), TypeError),
    "key requirements, engine": (lambda p: jit.analyze_evaluation_key_requirements(p, engine=3), TypeError),
    "requirements": (lambda p: jit.analyze_requirements(3), TypeError),
    "drawing, path": (lambda p: jit.SvgGraphVisualizationPass("a.png"), ValueError),
    "drawing, direction": (lambda p: jit.SvgGraphVisualizationPass("a.svg", rank_direction="q"), ValueError),
}


@pytest.mark.parametrize("call", WRONG)
def test_wrong_arguments_are_errors_of_ren_and_of_python(call: str, product: Any) -> None:
    function, builtin = WRONG[call]
    with pytest.raises(RenError) as caught:
        function(product[1])
    assert isinstance(caught.value, builtin)
    assert caught.value.subject


#: Where a builtin is raised on purpose: Python's protocols, and what a caller inside catches and says in its own words.
INTERNAL = {
    ("handles.py", "TypeError"),  # len() of a stand-in, as PyTorch has it
    ("moving.py", "IndexError"),  # likewise of an index
    ("lookup.py", "LookupError"),  # the handler of public calls names the call
    ("products.py", "TypeError"),  # why a pass left an operation
}


def test_deliberate_errors_are_errors_of_ren() -> None:
    found = set()
    for package in (ren.program, ren_frontend_torch, ren_passes):
        for file in Path(str(package.__file__)).parent.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if (
                    isinstance(node, ast.Raise)
                    and isinstance(node.exc, ast.Call)
                    and isinstance(node.exc.func, ast.Name)
                ):
                    name = node.exc.func.id
                    if name in ("TypeError", "ValueError", "RuntimeError", "KeyError", "IndexError", "LookupError"):
                        found.add((file.name, name))
    assert found == INTERNAL

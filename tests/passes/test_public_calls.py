"""Kept calls on public data: shared and dropped when they are audited, left alone when a handler or an encrypted value is involved."""

from __future__ import annotations

from typing import Any

import pytest
from ren import jit
from ren.program import PassPipeline, Program, Workspace, encrypted, message, types
from ren.testing.program_kit import ProgramBuilder
from ren_passes.fold_public_work import FoldPublicWorkPass

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def call(b: ProgramBuilder, target: str, value: Any, result: Any = None) -> Any:
    attributes = {"ren.call.kind": "function", "ren.call.target": target}
    return b("torch.call", value, types=[types.message() if result is None else result], **attributes)


def program(target: str) -> Program:
    """x + f(w) + f(w), and f(w) once more, unused."""
    b = ProgramBuilder(x=encrypted(), w=message())
    one, two = call(b, target, b["w"]), call(b, target, b["w"])
    call(b, "torch.cos", b["w"])
    return b.program(b("ren.semantic.add", b("ren.semantic.add", b["x"], one), two))


def fold(source: Program, **space: Any) -> tuple[int, Any]:
    result = PassPipeline([FoldPublicWorkPass()]).run(source, Workspace(**space))
    return result.program.to_text().count('"torch.call"'), result.reports[0].stats


def test_audited_calls_are_shared_and_dropped() -> None:
    count, stats = fold(program("torch.sin"))
    assert count == 1
    assert (stats.matched, stats.transformed, stats.removed) == (3, 2, 2)


def test_calls_that_nobody_audited_stay() -> None:
    assert fold(program("vendor.logged"))[0] == 2


def test_a_handler_is_the_callers_business() -> None:
    handlers = {"torch.sin": abs, "torch.cos": abs}
    assert fold(program("torch.sin"), torch_handlers=handlers)[0] == 3


def test_calls_on_encrypted_values_stay() -> None:
    b = ProgramBuilder(x=encrypted())
    call(b, "torch.sin", b["x"], types.encrypted())
    assert jit.default_pipeline().run(b.program(b["x"])).program.to_text().count("torch.call") == 1

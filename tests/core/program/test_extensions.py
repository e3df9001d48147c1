"""Dialects and handlers of plugins: used when they work, isolated and reported when they do not, missed by name when they are gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from ren.errors import PluginError, PluginWarning
from ren.plugin.manager import PluginManager, builtin_entries, use_manager
from ren.plugin.registry import CORE, Entry, Kind
from ren.program import Attr, RenDialect, Row, Value, encrypted, parse, rules
from ren.testing.program_kit import ProgramBuilder, decoded, main_text, workspace_for

ROWS = (
    Row(
        name="extension_test.scale",
        summary="x * factor, without a level.",
        stage="ckks",
        operands=(Value("source", "encrypted"),),
        attributes=(Attr("factor", "int"),),
        rule=rules.keep,
        cost="pointwise",
    ),
)
E = "!ren.encrypted<level=0, scale=s0, shape=full, parts=2>"
TEXT = main_text(f"%x: {E}", f'    %0 = "extension_test.scale"(%x) <{{factor = 3 : i64}}> : ({E}) -> {E}', f"%0 : {E}")


def handler(operation: Any, operands: Any, workspace: Any) -> Any:
    return workspace["engine"].mul(operands[0], operation.properties["factor"].value.data)


@pytest.fixture
def plugins() -> Iterator[Callable[..., None]]:
    with ExitStack() as stack:

        def use(dialect: Any = None, execute: Any = None) -> None:
            entries = list(builtin_entries())
            if dialect is not None:
                entries.append(Entry(kind=Kind.DIALECT, name="extension_test", factory=dialect, origin=CORE))
            if execute is not None:
                entries.append(Entry(kind=Kind.HANDLER, name="extension_test.scale", factory=execute, origin=CORE))
            stack.enter_context(use_manager(PluginManager(read_entry_points=lambda: (), core_entries=entries)))

        yield use


def good() -> RenDialect:
    return RenDialect("extension_test", ROWS)


def test_a_dialect_and_its_handler(plugins: Any, engine: Any) -> None:
    plugins(good, lambda: handler)
    program = parse(TEXT)
    assert parse(program.to_text()).to_text() == program.to_text()
    space = workspace_for(program, engine)
    assert program.readiness(space).runnable
    x = np.linspace(-1, 1, 64)
    np.testing.assert_allclose(decoded(engine, program.run(x, workspace=space)), 3 * x, atol=1e-8)
    with pytest.raises(ValueError, match="factor"):
        parse(TEXT.replace("<{factor = 3 : i64}>", ""))


def test_the_workspace_wins_over_the_plugin(plugins: Any, engine: Any) -> None:
    plugins(good, lambda: handler)
    program = parse(TEXT)
    space = workspace_for(program, engine, handlers={"extension_test.scale": lambda o, v, w: w["engine"].negate(v[0])})
    x = np.linspace(-1, 1, 64)
    np.testing.assert_allclose(decoded(engine, program.run(x, workspace=space)), -x, atol=1e-8)


def test_without_the_plugin_the_program_is_kept_and_the_operation_named(plugins: Any, engine: Any) -> None:
    plugins(good, lambda: handler)
    text = parse(TEXT).to_text()
    plugins()
    program = parse(text)
    assert program.to_text() == text
    report = program.readiness(workspace_for(program, engine))
    assert report.missing_operations == ("extension_test.scale",)


@pytest.mark.parametrize("broken", ["raises", "wrong type", "foreign names"])
def test_a_broken_dialect_does_not_stop_other_programs(
    plugins: Any, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises() -> Any:
        raise ZeroDivisionError("inner")

    def foreign() -> Any:
        return RenDialect("extension_test", (Row(name="ren.evil", summary="No.", stage="ckks"),))

    plugins({"raises": raises, "wrong type": lambda: 3, "foreign names": foreign}[broken])
    with pytest.warns(PluginWarning, match="dialect 'extension_test'.*is not available"):
        program = parse(TEXT)
    parse(TEXT)  # once
    assert program.readiness().missing_operations == ("extension_test.scale",)
    monkeypatch.setenv("REN_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError, match="extension_test"):
        parse(TEXT)


def test_a_handler_that_does_not_load_is_a_finding(plugins: Any, engine: Any) -> None:
    def raises() -> Any:
        raise ImportError("no such thing")

    plugins(good, raises)
    program = parse(TEXT)
    (finding,) = program.readiness(workspace_for(program, engine)).errors
    assert finding.code == "missing-handler"
    assert "ImportError: no such thing" in finding.message


def test_threads_run_one_program(engine: Any) -> None:
    b = ProgramBuilder(x=encrypted())
    program = b.program(b("ren.ckks.rotate", b.product(b["x"], b["x"]), shift=3))
    space = workspace_for(program, engine)
    failures: list[Any] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).uniform(-1, 1, 64)
        try:
            for _ in range(3):
                found = decoded(engine, program.run(x, workspace=space))
                np.testing.assert_allclose(found, np.roll(x * x, 3), atol=1e-7)
        except BaseException as error:  # noqa: BLE001 - reported in the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []

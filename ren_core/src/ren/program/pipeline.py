"""Passes and pipelines: clone once, run, verify after each pass, report exactly what each did.

A pass is any object with a `name` and `run(program, workspace) -> PassResult`; frozen dataclasses are the custom. Passes themselves live in
plugins; their order in the default pipeline comes from `ren.plugin.ordering`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from ren.errors import (
    MissingPluginError,
    PassError,
    ProgramCostError,
    ProgramNotReadyError,
    ProgramVerifyError,
    RenError,
    UnsupportedOperandError,
)
from ren.plugin.manager import manager
from ren.plugin.ordering import PassPlace, Stage, order_passes
from ren.plugin.registry import Kind
from ren.program import _xdsl
from ren.program.diagnostics import Diagnostic
from ren.program.dialect import at, quick_verify
from ren.program.order import check_order
from ren.program.program import Program, verify_module
from ren.program.workspace import as_workspace

if TYPE_CHECKING:
    from ren.program.cost import ProgramCost

#: Programs up to this size are verified whole after every pass; larger ones where a pass says it touched them, and whole at the end.
CHECK_ALL_BELOW = 5_000


@dataclass(frozen=True, slots=True)
class PassStats:
    """Exact counters of one pass: operations it looked for and found (matched), rewrote (transformed) and left alone (skipped), and
    operations it inserted and removed. Raises PassError for negative or contradictory ones."""

    matched: int = 0
    transformed: int = 0
    inserted: int = 0
    removed: int = 0
    skipped: int = 0

    def __post_init__(self) -> None:
        for name in ("matched", "transformed", "inserted", "removed", "skipped"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise PassError(f"PassStats.{name} must be an int >= 0, got {value!r}", subject=name)
        if self.transformed + self.skipped > self.matched:
            raise PassError(
                f"PassStats: transformed {self.transformed} + skipped {self.skipped} exceed matched {self.matched}",
                subject="matched",
            )


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass returns. touched: the operations it inserted or changed (`Edit.touched`); None makes the pipeline verify everything."""

    program: Program
    stats: PassStats = PassStats()
    diagnostics: tuple[Diagnostic, ...] = ()
    touched: tuple[Operation, ...] | None = None

    @property
    def changed(self) -> bool:
        """Whether the pass rewrote, inserted or removed anything."""
        return bool(self.stats.transformed or self.stats.inserted or self.stats.removed)

    @classmethod
    def unchanged(
        cls, program: Program, *, matched: int = 0, skipped: int = 0, diagnostics: Iterable[Diagnostic] = ()
    ) -> PassResult:
        return cls(program, PassStats(matched=matched, skipped=skipped), tuple(diagnostics), ())


@runtime_checkable
class Pass(Protocol):
    """A transformation or analysis of one program. It edits the given program in place (the pipeline cloned it) and returns it."""

    name: str

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult: ...


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did. seconds: its time, without verification."""

    name: str
    stats: PassStats
    diagnostics: tuple[Diagnostic, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """program: the transformed clone. workspace: the same object that was passed in. reports: one per pass, in order. costs: where they were asked for, of the
    program before the first pass and after each; None while it could not run yet, since operations were still to be lowered."""

    program: Program
    workspace: MutableMapping[Any, Any]
    reports: tuple[PassReport, ...]
    costs: tuple[ProgramCost | None, ...] = ()

    def cost_table(self) -> str:
        """What each pass saved: the totals before and after, as text. Raises PassError where no costs were asked for."""
        from ren.program.cost_table import pipeline_table

        if not self.costs:
            raise PassError(
                "no costs were computed",
                subject="costs",
                hint="Pass cost=params to the pipeline's run, or to Program.transform",
            )
        return pipeline_table([r.name for r in self.reports], self.costs)


@dataclass(frozen=True, init=False)
class PassPipeline:
    """An immutable sequence of passes. Pipelines among the passes are unrolled."""

    passes: tuple[Pass, ...]

    def __init__(self, passes: Iterable[Pass | PassPipeline] = ()) -> None:
        flat: list[Pass] = []
        for item in passes:
            flat.extend(item.passes if isinstance(item, PassPipeline) else (_checked(item),))
        object.__setattr__(self, "passes", tuple(flat))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.passes)

    def then(self, *passes: Pass | PassPipeline) -> PassPipeline:
        """This pipeline followed by more passes."""
        return PassPipeline((*self.passes, *passes))

    def before(self, name: str, *passes: Pass | PassPipeline) -> PassPipeline:
        """With passes inserted in front of the one called `name`. Raises PassError unless exactly one is."""
        i = self._index(name)
        return PassPipeline((*self.passes[:i], *passes, *self.passes[i:]))

    def after(self, name: str, *passes: Pass | PassPipeline) -> PassPipeline:
        """With passes inserted behind the one called `name`."""
        i = self._index(name)
        return PassPipeline((*self.passes[: i + 1], *passes, *self.passes[i + 1 :]))

    def replace(self, name: str, *passes: Pass | PassPipeline) -> PassPipeline:
        """With the pass called `name` replaced by zero or more others."""
        i = self._index(name)
        return PassPipeline((*self.passes[:i], *passes, *self.passes[i + 1 :]))

    def _index(self, name: str) -> int:
        found = [i for i, p in enumerate(self.passes) if p.name == name]
        if len(found) != 1:
            raise PassError(
                f"{len(found)} passes are called {name!r}, exactly one is needed. The pipeline has: {', '.join(self.names) or 'none'}",
                subject=name,
            )
        return found[0]

    def run(
        self, program: Program, workspace: MutableMapping[Any, Any] | None = None, *, cost: Any = None
    ) -> PipelineResult:
        """Run all passes over one clone of `program`; the program itself is not changed.

        cost: parameters (CKKSParams, a preset name or an engine) with which `Program.cost` is asked before the first pass and after each one that changed something
        (`PipelineResult.costs`). Errors are those of the noise rules there, without simulation. Raises PassError that names the pass when one raises, returns
        something else, or leaves a program that does not verify.
        """
        if not isinstance(program, Program):
            raise UnsupportedOperandError(
                f"a pipeline runs over a Program, got {type(program).__name__}", subject="program"
            )
        space = as_workspace(workspace)
        with _xdsl.gc_paused():
            current = program.clone()
            small = _at_most(current, CHECK_ALL_BELOW)
            reports = []
            costs = [] if cost is None else [_cost(current, cost, space)]
            for step in self.passes:
                current, report, touched = _run_one(step, current, space)
                _verify_after(step.name, current, None if small else touched)
                reports.append(report)
                if costs:
                    same = report.stats == PassStats(matched=report.stats.matched, skipped=report.stats.skipped)
                    costs.append(costs[-1] if same and not touched else _cost(current, cost, space))
            if not small or not self.passes:
                _verify_after("the pipeline", current, None, complete=True)
        return PipelineResult(current, space, tuple(reports), tuple(costs))

    def __len__(self) -> int:
        return len(self.passes)

    def __repr__(self) -> str:
        return f"PassPipeline({', '.join(self.names)})"


def _checked(item: Any) -> Pass:
    name = getattr(item, "name", None)
    if not isinstance(name, str) or not name or not callable(getattr(item, "run", None)):
        raise PassError(f"a pass has a name and run(program, workspace), got {item!r}", subject=type(item).__name__)
    return item  # type: ignore[no-any-return]


def _cost(program: Program, params: Any, space: MutableMapping[Any, Any]) -> ProgramCost | None:
    """The cost of the program as it is; None while it is not lowered."""
    from ren.program.cost import cost_of

    try:
        return cost_of(program, params, workspace=space, simulate=False)
    except (ProgramNotReadyError, ProgramCostError):
        return None


def _at_most(program: Program, limit: int) -> bool:
    return all(count < limit for count, _ in enumerate(program.walk()))


def _run_one(
    step: Pass, program: Program, workspace: MutableMapping[Any, Any]
) -> tuple[Program, PassReport, tuple[Operation, ...] | None]:
    start = time.perf_counter()
    try:
        result = step.run(program, workspace)
    except PassError as error:
        raise PassError(f"pass {step.name!r}: {error.message}", subject=step.name) from error
    except RenError as error:
        raise PassError(f"pass {step.name!r} failed: {error}", subject=step.name) from error
    except Exception as error:
        raise PassError(f"pass {step.name!r} raised {type(error).__name__}: {error}", subject=step.name) from error
    seconds = time.perf_counter() - start
    if not isinstance(result, PassResult) or not isinstance(result.program, Program):
        raise PassError(f"pass {step.name!r} must return a PassResult, got {type(result).__name__}", subject=step.name)
    report = PassReport(step.name, result.stats, tuple(result.diagnostics), seconds)
    return result.program, report, result.touched


def _verify_after(
    name: str, program: Program, touched: tuple[Operation, ...] | None, *, complete: bool = False
) -> None:
    try:
        if complete or touched is None:
            verify_module(program.module)
            return
        for op in touched:
            if op.parent is None:
                continue
            quick_verify(op)
        for function in program.functions:
            _verify_return(function)
        check_order(program.module)
    except ProgramVerifyError as error:
        raise PassError(f"pass {name!r} left a program that does not verify: {error}", subject=name) from error


def _verify_return(function: FuncOp) -> None:
    for block in function.body.blocks:
        last = block.last_op
        if isinstance(last, ReturnOp):
            given = [v.type for v in _xdsl.operands(last)]
            if given != list(function.function_type.outputs.data):
                raise ProgramVerifyError(
                    f"func.return: returned types differ from the type of {function.sym_name.data!r}{at(last)}",
                    subject="func.return",
                )


def registered_passes(*, enable: Iterable[str] = ()) -> PassPipeline:
    """The passes of all plugins that belong to the default pipeline, and those named in `enable`, in their declared order.

    Raises MissingPluginError for an unknown name or when no plugin brings default passes.
    """
    current = manager()
    wanted = dict.fromkeys(enable)
    entries = {e.name: e for e in current.registry.all(Kind.PASS) if e.options["default"] or e.name in wanted}
    for name in wanted:
        if name not in entries:
            raise current.absence(Kind.PASS, name)
    if not any(e.options["default"] for e in entries.values()):
        raise MissingPluginError(
            "no installed plugin brings the default passes",
            subject="passes",
            hint="`ren plugins` says what became of the plugin 'passes'",
        )
    places = [
        PassPlace(e.name, Stage(e.options["stage"]), e.options["after"], e.options["before"]) for e in entries.values()
    ]
    return PassPipeline(_fresh(entries[name]) for name in order_passes(places))


def _fresh(entry: Any) -> Pass:
    made = entry.make()
    if getattr(made, "name", None) != entry.name:
        raise PassError(
            f"pass {entry.name!r} of {entry.origin}: the factory made {made!r}, whose name differs", subject=entry.name
        )
    return made  # type: ignore[no-any-return]


def default_pipeline(*, enable: Iterable[str] = ()) -> PassPipeline:
    """The standard lowering and optimisation policy: every pass that its plugin marked `default`, ordered by stage, then by what passes say
    about each other, then by name. enable: names of further registered passes."""
    return registered_passes(enable=enable)

"""`Program`: one mixed-dialect xDSL module with an entry, inspected, transformed and run as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region

from ren.errors import ProgramParseError, ProgramVerifyError, UnsupportedOperandError
from ren.program import _xdsl, entry
from ren.program.dialect import at, encode_attributes
from ren.program.limits import DEFAULT_LIMITS, Limits, line_column
from ren.program.order import check_order, walk
from ren.program.reader import first_fault, parse_module
from ren.program.workspace import as_workspace
from ren.program.writer import module_text

if TYPE_CHECKING:
    from ren.engine.calibration import Calibration
    from ren.program.compiled_program import CompiledProgram
    from ren.program.cost import ProgramCost
    from ren.program.debug_report import DebugReport
    from ren.program.pipeline import Pass, PassPipeline, PipelineResult
    from ren.program.readiness import ReadinessReport
    from ren.program.requirements import ProgramRequirements
    from ren.schemes.ckks.keys import SecretKey


def verify_module(module: ModuleOp) -> None:
    """Everything that a module has to meet: bounded nesting, definitions before uses, the contract of each operation.

    Raises ProgramVerifyError that names the operation and, when it is known, its source line.
    """
    check_order(module)
    fault = first_fault(module)
    if fault is not None:
        raise ProgramVerifyError(f"{fault[1]}{at(fault[0])}", subject=fault[0].name)


class Program:
    """A verified xDSL module.

    `module` is public and may be edited; `transform` and passes are the safe way, since they work on a clone and verify. Operations of
    unknown dialects are kept as they are. A Program holds names of live objects (materials, resources, handlers, keys), never the objects.
    """

    __slots__ = ("module", "__weakref__")
    module: ModuleOp

    def __init__(self, module: ModuleOp) -> None:
        """Raises ProgramVerifyError unless the module verifies, TypeError for anything that is no module."""
        if not isinstance(module, ModuleOp):
            raise UnsupportedOperandError(
                f"a Program wraps an xDSL ModuleOp, got {type(module).__name__}", subject="module"
            )
        with _xdsl.gc_paused():
            verify_module(module)
        self.module = module

    @classmethod
    def _trusted(cls, module: ModuleOp) -> Program:
        """Wrap a module that was verified already."""
        program = cls.__new__(cls)
        program.module = module
        return program

    # -- making ------------------------------------------------------------------------------------------------------

    @classmethod
    def empty(cls, operations: Sequence[Operation] = (), *, attributes: Mapping[str, Any] | None = None) -> Program:
        """A program of the given top-level operations."""
        return cls(ModuleOp(list(operations), _module_attributes(attributes)))

    @classmethod
    def from_function(
        cls,
        block: Block,
        result_types: Sequence[Attribute] | None = None,
        *,
        name: str = "main",
        visibility: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        module_attributes: Mapping[str, Any] | None = None,
    ) -> Program:
        """A program with one function made of a block that ends in `func.return`.

        result_types: by default those of the returned values. attributes: of the function (`ren.program.entry` has the names).
        """
        returned = entry.return_of(block)
        if result_types is None:
            result_types = () if returned is None else [v.type for v in returned.arguments]
        function = FuncOp(name, ([a.type for a in block.args], list(result_types)), Region(block), visibility)
        function.attributes.update(encode_attributes(attributes or {}))
        return cls(ModuleOp([function], _module_attributes(module_attributes)))

    @classmethod
    def parse(cls, text: str, *, source_name: str = "<unknown>", limits: Limits = DEFAULT_LIMITS) -> Program:
        """Read program text. Evaluates nothing, imports nothing. Raises ProgramParseError with line and column."""
        if not isinstance(text, str):
            raise UnsupportedOperandError(f"program text is a str, got {type(text).__name__}", subject="text")
        from ren.program.extensions import extra_dialects

        return cls._trusted(parse_module(text, source_name, extra_dialects(), limits))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS) -> Program:
        """Read a file of UTF-8 program text. Opens that file and no other. Raises OSError, ProgramParseError."""
        size = os.stat(path).st_size
        if size > 4 * limits.chars:
            raise ProgramParseError(
                os.fspath(path), 1, 1, f"the file has {size} bytes, the limit is {4 * limits.chars}"
            )
        data = Path(path).read_bytes()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            readable = data[: error.start].decode("utf-8")
            message = f"not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}"
            raise ProgramParseError(os.fspath(path), *line_column(readable, len(readable)), message) from None
        return cls.parse(text, source_name=os.fspath(path), limits=limits)

    def clone(self) -> Program:
        """An independent copy of the whole module."""
        with _xdsl.gc_paused():
            return Program._trusted(self.module.clone())

    # -- text --------------------------------------------------------------------------------------------------------

    def to_text(self, *, generic: bool = False, include_locations: bool = False) -> str:
        """Text that `parse` reads back to the same program, and that then prints to the same bytes."""
        return module_text(self.module, generic=generic, locations=include_locations)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the text, with source locations, as UTF-8."""
        Path(path).write_text(self.to_text(include_locations=True), encoding="utf-8", newline="\n")

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        names = ", ".join(f.sym_name.data for f in self.functions)
        return f"<Program with {sum(1 for _ in self.walk())} operations in functions: {names or 'none'}>"

    def _repr_svg_(self) -> str | None:
        """What notebooks show: a drawing by the plugin that registers the pass `visualize-svg`; None without that plugin."""
        from ren.program.extensions import notebook_svg

        return notebook_svg(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Program.parse, (self.to_text(include_locations=True),)

    # -- structure ---------------------------------------------------------------------------------------------------

    def walk(self, *, include_module: bool = False) -> Iterator[Operation]:
        """All operations, outer ones first."""
        operations = walk(self.module)
        if not include_module:
            next(operations)
        return operations

    @property
    def functions(self) -> tuple[FuncOp, ...]:
        return entry.functions(self.module)

    def entry_function(self, name: str = "main") -> FuncOp:
        """The function called `name`. Raises EntryError (a LookupError) unless there is exactly one."""
        return entry.entry_function(self.module, name)

    def entry_block(self, name: str = "main") -> Block:
        """Its only block. Raises EntryError when it has several."""
        return entry.entry_block(self.module, name)

    def signature(self, name: str = "main") -> entry.Signature:
        """Parameters and output structure as the caller sees them."""
        return entry.signature(self.entry_function(name))

    def verify(self) -> None:
        """Check the module again, after editing it by hand. Raises ProgramVerifyError."""
        with _xdsl.gc_paused():
            verify_module(self.module)

    # -- analysis, transformation, execution -------------------------------------------------------------------------

    def requirements(self, *, entry: str = "main") -> ProgramRequirements:
        """What running `entry` would need; a pure scan that never fails on unknown content."""
        from ren.program.requirements import analyze_requirements

        return analyze_requirements(self, entry=entry)

    def readiness(self, workspace: MutableMapping[Any, Any] | None = None, *, entry: str = "main") -> ReadinessReport:
        """Whether `entry` runs with this workspace, and every reason why not. Runs nothing, changes nothing."""
        from ren.program.readiness import check_readiness

        return check_readiness(self, workspace, entry=entry)

    def transform(
        self,
        pass_or_pipeline: Pass | PassPipeline,
        *more: Pass | PassPipeline,
        workspace: MutableMapping[Any, Any] | None = None,
        cost: Any = None,
    ) -> PipelineResult:
        """Run passes and pipelines, in order, over one clone of this program. cost: as for `PassPipeline.run`."""
        from ren.program.pipeline import PassPipeline

        return PassPipeline((pass_or_pipeline, *more)).run(self, workspace, cost=cost)

    def cost(
        self,
        params: Any,
        *,
        calibration: Calibration | None = None,
        workspace: MutableMapping[Any, Any] | None = None,
        entry: str = "main",
        device: str | None = None,
    ) -> ProgramCost:
        """What `entry` costs, operation by operation: key switches, transforms, rescales, keys, memory, predicted time and errors.

        params: CKKSParams, a preset name or an engine. No key, material or argument is needed, and nothing is computed; a batch counts as one element. calibration: None
        takes what `ren warmup` measured for the device (None: the engine's, else the default one). workspace: handlers of extension operations, and materials,
        which are measured: predicted errors follow from how large values are. What no bound is declared of, or known, counts as at most 1 and is named in `presumed`. Raises ProgramNotReadyError where the program would not run with these parameters (levels, scales, operations that
        were not lowered), ProgramCostError for an extension operation whose handler does more than build a graph.
        """
        from ren.program.cost import cost_of

        return cost_of(self, params, calibration=calibration, workspace=workspace, entry=entry, device=device)

    def run(
        self, *args: Any, workspace: MutableMapping[Any, Any] | None = None, entry: str = "main", **kwargs: Any
    ) -> Any:
        """Run `entry` on the arguments. Raises ProgramNotReadyError with the whole report before anything is computed.

        The first run of a kind keeps its schedule, later ones replay it (see `compile`).
        """
        from ren.program.interpret import run

        return run(self, *args, workspace=workspace, entry=entry, **kwargs)

    def debug(
        self,
        *args: Any,
        workspace: MutableMapping[Any, Any] | None = None,
        secret_key: SecretKey | None = None,
        reference: Any = None,
        entry: str = "main",
        **kwargs: Any,
    ) -> DebugReport:
        """Run `entry` operation by operation beside its clear computation, decrypting every value: which operation goes wrong first, and by how much.

        secret_key: None is that of an engine that owns one. reference: the expected results, or a function of the same arguments that gives them
        (`CaptureResult.reference`); compared when every operation did what it says. `str()` of the report is a table with the error of every value, what was
        predicted for it, file and line; `report.first` is the first finding. Error messages hold magnitudes of decrypted values: they are for the owner of the key.

        Raises as `run` does for programs that are not ready and arguments that do not fit; MissingKeyError without a secret key. An operation that fails
        while it runs is a finding.
        """
        from ren.program.debug import debug

        return debug(
            self, *args, workspace=workspace, secret_key=secret_key, reference=reference, entry=entry, **kwargs
        )

    def compile(
        self, workspace: MutableMapping[Any, Any] | None = None, *, entry: str = "main", maxsize: int | None = 16
    ) -> CompiledProgram:
        """`entry` as a function bound to a workspace, with plans of its own: called, inspected (`explain`) and saved. maxsize: plans kept.

        Raises ProgramNotReadyError with the whole report.
        """
        from ren.program.compiled_program import CompiledProgram

        compiled = CompiledProgram(self, as_workspace(workspace), entry=entry, maxsize=maxsize)
        compiled.require_ready()
        return compiled


def _module_attributes(attributes: Mapping[str, Any] | None) -> dict[str, Attribute]:
    return {**entry.VERSION_ATTRIBUTES, **encode_attributes(attributes or {})}

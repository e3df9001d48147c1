"""Programs: mixed-dialect IR that is traced or parsed, inspected, transformed, checked and run.

xDSL is imported when the first name that needs it is used, never by `import ren`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_EXPORTS: dict[str, str] = {
    # inputs
    "BatchMode": "roles",
    "InputSpec": "roles",
    "Role": "roles",
    "SlotExtent": "roles",
    "StaticValue": "roles",
    "encrypted": "roles",
    "message": "roles",
    "plaintext": "roles",
    "static": "roles",
    # programs
    "Limits": "limits",
    "Program": "program",
    "Workspace": "workspace",
    "CompiledProgram": "compiled_program",
    "load": "api",
    "load_plan": "api",
    "parse": "api",
    "run": "api",
    # analysis
    "Diagnostic": "diagnostics",
    "EvaluationKeyRequirements": "requirements",
    "InferredValueState": "requirements",
    "ProgramRequirements": "requirements",
    "ReadinessDiagnostic": "readiness",
    "ReadinessReport": "readiness",
    "analyze_evaluation_key_requirements": "requirements",
    "analyze_requirements": "requirements",
    "analyze_value_states": "requirements",
    "check_readiness": "readiness",
    "validate_executable_graph": "readiness",
    # costs
    "CostModel": "cost_model",
    "ErrorEstimate": "cost_errors",
    "OperationCost": "cost",
    "ProgramCost": "cost",
    # passes
    "Edit": "edit",
    "Pass": "pipeline",
    "PassPipeline": "pipeline",
    "PassReport": "pipeline",
    "PassResult": "pipeline",
    "PassStats": "pipeline",
    "PipelineResult": "pipeline",
    "default_pipeline": "pipeline",
    # building and reading operations
    "Attr": "rows",
    "KeyNeed": "rows",
    "RenDialect": "dialect",
    "Row": "rows",
    "RuleError": "rows",
    "Value": "rows",
    "build": "dialect",
    "infer_function": "inference",
    "infer_states": "inference",
    "location": "dialect",
    "row_of": "dialect",
}


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'ren.program' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ren.program.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})


__all__ = sorted(_EXPORTS)  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from ren.program.api import load as load
    from ren.program.api import load_plan as load_plan
    from ren.program.api import parse as parse
    from ren.program.api import run as run
    from ren.program.compiled_program import CompiledProgram as CompiledProgram
    from ren.program.cost import OperationCost as OperationCost
    from ren.program.cost import ProgramCost as ProgramCost
    from ren.program.cost_errors import ErrorEstimate as ErrorEstimate
    from ren.program.cost_model import CostModel as CostModel
    from ren.program.diagnostics import Diagnostic as Diagnostic
    from ren.program.dialect import RenDialect as RenDialect
    from ren.program.dialect import build as build
    from ren.program.dialect import location as location
    from ren.program.dialect import row_of as row_of
    from ren.program.edit import Edit as Edit
    from ren.program.inference import infer_function as infer_function
    from ren.program.inference import infer_states as infer_states
    from ren.program.limits import Limits as Limits
    from ren.program.pipeline import Pass as Pass
    from ren.program.pipeline import PassPipeline as PassPipeline
    from ren.program.pipeline import PassReport as PassReport
    from ren.program.pipeline import PassResult as PassResult
    from ren.program.pipeline import PassStats as PassStats
    from ren.program.pipeline import PipelineResult as PipelineResult
    from ren.program.pipeline import default_pipeline as default_pipeline
    from ren.program.program import Program as Program
    from ren.program.readiness import ReadinessDiagnostic as ReadinessDiagnostic
    from ren.program.readiness import ReadinessReport as ReadinessReport
    from ren.program.readiness import check_readiness as check_readiness
    from ren.program.readiness import validate_executable_graph as validate_executable_graph
    from ren.program.requirements import EvaluationKeyRequirements as EvaluationKeyRequirements
    from ren.program.requirements import InferredValueState as InferredValueState
    from ren.program.requirements import ProgramRequirements as ProgramRequirements
    from ren.program.requirements import analyze_evaluation_key_requirements as analyze_evaluation_key_requirements
    from ren.program.requirements import analyze_requirements as analyze_requirements
    from ren.program.requirements import analyze_value_states as analyze_value_states
    from ren.program.roles import BatchMode as BatchMode
    from ren.program.roles import InputSpec as InputSpec
    from ren.program.roles import Role as Role
    from ren.program.roles import SlotExtent as SlotExtent
    from ren.program.roles import StaticValue as StaticValue
    from ren.program.roles import encrypted as encrypted
    from ren.program.roles import message as message
    from ren.program.roles import plaintext as plaintext
    from ren.program.roles import static as static
    from ren.program.rows import Attr as Attr
    from ren.program.rows import KeyNeed as KeyNeed
    from ren.program.rows import Row as Row
    from ren.program.rows import RuleError as RuleError
    from ren.program.rows import Value as Value
    from ren.program.workspace import Workspace as Workspace

"""What readiness knows of a program without looking at a workspace, remembered until the program changes.

A program may be edited at any time, so what was found is kept together with a picture of every operation (operands, types, attributes) and is used again
only while the picture is the same. Taking one costs a hundredth of an analysis.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, Operation

from ren.errors import EntryError, UnsupportedOperandError
from ren.program import _xdsl
from ren.program.dialect import contract_problem
from ren.program.flow import Flow, flow_of
from ren.program.order import walk
from ren.program.program import Program
from ren.program.reader import first_fault
from ren.program.requirements import (
    EvaluationKeyRequirements,
    ProgramRequirements,
    analyze_evaluation_key_requirements,
    analyze_requirements,
)

if TYPE_CHECKING:
    from ren.schemes.ckks.params import CKKSParams

#: Analyses kept per program: entries times parameters times argument states.
_MOST = 8


@dataclass(frozen=True, slots=True)
class Analysis:
    """requirements and keys of the entry; fault: what xDSL's verifier refuses first; contract: operations of the entry that break their row; flow: states,
    None when there is no such entry."""

    requirements: ProgramRequirements
    keys: EvaluationKeyRequirements
    fault: tuple[Operation, str] | None
    contract: Mapping[Operation, str]
    flow: Flow | None


_KNOWN: weakref.WeakKeyDictionary[Program, dict[Any, tuple[Any, Analysis]]] = weakref.WeakKeyDictionary()


def analysis_of(
    program: Program,
    entry: str,
    params: CKKSParams | None,
    arguments: Mapping[int, Attribute] | None,
    publics: Mapping[str, float] | None = None,
) -> Analysis:
    """The analysis of an entry for given parameters, argument types, and largest absolute elements of materials."""
    if not isinstance(program, Program):
        raise UnsupportedOperandError(f"expected a Program, got {type(program).__name__}", subject="program")
    picture = _picture(program)
    passed = None if arguments is None else tuple(sorted(arguments.items(), key=lambda item: item[0]))
    key = entry, params, passed, tuple(sorted((publics or {}).items()))
    known = _KNOWN.setdefault(program, {})
    hit = known.get(key)
    if hit is not None and hit[0] == picture:
        return hit[1]
    found = _analyse(program, entry, params, arguments, publics)
    if len(known) >= _MOST:
        known.clear()
    known[key] = picture, found
    return found


def _analyse(
    program: Program,
    entry: str,
    params: CKKSParams | None,
    arguments: Mapping[int, Attribute] | None,
    publics: Mapping[str, float] | None,
) -> Analysis:
    flow, contract = None, {}
    try:
        block = program.entry_block(entry)
    except EntryError:
        pass
    else:
        contract = {op: problem for op in _xdsl.block_ops(block) if (problem := contract_problem(op)) is not None}
        flow = flow_of(program.entry_function(entry), params, arguments, publics)
    return Analysis(
        requirements=analyze_requirements(program, entry=entry),
        keys=analyze_evaluation_key_requirements(
            program, entry=entry, engine=params, types=None if flow is None else flow.types
        ),
        fault=first_fault(program.module),
        contract=contract,
        flow=flow,
    )


def _picture(program: Program) -> list[Any]:
    """Everything that an analysis depends on. Compared mostly by identity: attributes are immutable and shared."""
    return [
        (
            op,
            _xdsl.operands(op),
            tuple(r.type for r in op.results),
            tuple(op.properties.items()),
            tuple(op.attributes.items()),
            op.location,
            tuple((a, a.type, a.name_hint) for region in op.regions for b in region.blocks for a in b.args),
        )
        for op in walk(program.module)
    ]

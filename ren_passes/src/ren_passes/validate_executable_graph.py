"""`validate-executable-graph`: stop a pipeline whose program could never run."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from ren.program import PassResult, Program, validate_executable_graph
from ren.program.edit import block_ops


@dataclass(frozen=True)
class ValidateExecutableGraphPass:
    """Raise PassError that lists everything that keeps the entry from being executable, whatever engine and keys a run will bring: operations that
    nothing executes, pending obligations, contradicting states. Handlers in the workspace count, and the names given here.

    Counters: matched counts the operations of the entry.
    """

    entry: str = "main"
    handled_operations: tuple[str, ...] = ()
    handled_torch_targets: tuple[str, ...] = ()
    name: str = "validate-executable-graph"

    def run(self, program: Program, workspace: MutableMapping[Any, Any]) -> PassResult:
        validate_executable_graph(
            program,
            entry=self.entry,
            handled_operations={*self.handled_operations, *_bound(workspace, "handlers")},
            handled_torch_targets={*self.handled_torch_targets, *_bound(workspace, "torch_handlers")},
        )
        return PassResult.unchanged(program, matched=sum(1 for _ in block_ops(program.entry_block(self.entry))))


def _bound(workspace: Mapping[Any, Any], key: str) -> tuple[Any, ...]:
    found = workspace.get(key)
    return tuple(k for k, v in found.items() if callable(v)) if isinstance(found, Mapping) else ()

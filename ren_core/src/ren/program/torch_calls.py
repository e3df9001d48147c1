"""Calls that a frontend kept as written (`torch.call`): who may execute them.

The names in a program are only names. They are looked up in the audited table of the frontend plugin "torch", never imported or evaluated; what
is not in the table needs a handler in workspace["torch_handlers"].

A frontend object (what the factory registered with `registry.add_frontend("torch", ...)` makes) provides, beside `trace`:
`is_audited(kind, target) -> bool`, `call(kind, target, args, kwargs) -> value` and `resolve(named) -> object` for symbols such as a dtype.
"""

from __future__ import annotations

from typing import Any, Protocol

from ren.plugin.manager import manager
from ren.plugin.registry import Kind
from ren.program.literals import Named


class CallFrontend(Protocol):
    """What the interpreter asks of the frontend called "torch"."""

    def is_audited(self, kind: str, target: str) -> bool:
        """Whether `call` executes this target on public data. Must not import or look up anything by the name."""

    def call(self, kind: str, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Execute an audited target. kind: "function", "method" (args[0] is the receiver) or "module"."""

    def resolve(self, named: Named) -> Any:
        """The object that a symbol such as Named("torch.dtype", "float64") stands for, from a table."""


def frontend() -> CallFrontend | None:
    """The installed torch frontend, or None."""
    registry = manager().registry
    entry = registry.get(Kind.FRONTEND, "torch")
    return None if entry is None else registry.instance(entry)


def is_audited(kind: str, target: str) -> bool:
    """Whether a kept call on public data can be executed without a handler."""
    found = frontend()
    return found is not None and found.is_audited(kind, target)

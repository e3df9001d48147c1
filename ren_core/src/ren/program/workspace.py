"""Everything live that a program is run with: engine, keys, data, handlers. Programs only hold names of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from ren.errors import SecretExportError, UnsupportedOperandError

#: Reserved keys and what belongs under them. Any other key is the caller's own.
RESERVED: dict[str, str] = {
    "engine": "the CKKS engine (what `ckks.keygen` or `ckks.Engine` returns, or its `.public()`)",
    "evaluation_keys": "a ckks.EvaluationKeySet",
    "public_key": "the public key, for online encryption of arguments",
    "materials": "mapping: symbol -> public data captured by tracing",
    "resources": "mapping: symbol -> object",
    "handlers": "mapping: name of an extension operation -> handler(operation, operands, workspace)",
    "torch_handlers": "mapping: torch target -> handler(*args, **kwargs)",
    "material_resolver": "callable(symbol, kind, binding, workspace) -> value",
    "resource_resolver": "callable(symbol, kind, binding, workspace) -> value",
    "cost_model": "a jit.CostModel: passes then choose by predicted time on this machine instead of by counts",
    "result_bound": "number: a promise that no slot of any result exceeds it in absolute value, where declared bounds of the inputs show less",
    "strict_bounds": "True: a value that may outgrow its modulus is an error, not a warning",
}
HANDLERS = ("handlers", "torch_handlers")
MAPPINGS = ("materials", "resources", *HANDLERS)
RESOLVERS = ("material_resolver", "resource_resolver")


class Workspace(dict[Any, Any]):
    """A dictionary; any MutableMapping is accepted in its place.

    Its text shows values by type (an engine by its fingerprint), never their content, and pickling keeps only the public half of an engine and
    refuses a secret key, so that neither can leave by accident.
    """

    def __repr__(self) -> str:
        return "Workspace({" + ", ".join(f"{k!r}: {_shown(v)}" for k, v in self.items()) + "})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return Workspace, (), None, None, iter(_exported(self))

    def copy(self) -> Workspace:
        return Workspace(self)


def _shown(value: Any) -> str:
    fingerprint = getattr(value, "fingerprint", None)
    name = type(value).__name__
    if isinstance(fingerprint, str):
        return f"<{name} {fingerprint[:16]}>"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: <{type(v).__name__}>" for k, v in value.items()) + "}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return f"<{name}>"


def _exported(workspace: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for key, value in workspace.items():
        if "SecretKey" in type(value).__name__:
            raise SecretExportError(
                f"workspace[{key!r}] is a secret key and is not pickled",
                subject=str(key),
                hint="Save it with its own call",
            )
        public = getattr(value, "public", None)
        yield key, public() if key == "engine" and callable(public) else value


def as_workspace(workspace: Any) -> MutableMapping[Any, Any]:
    """The given mapping itself, or a new Workspace for None. Raises UnsupportedOperandError (a TypeError) for other types."""
    if workspace is None:
        return Workspace()
    if not isinstance(workspace, MutableMapping):
        raise UnsupportedOperandError(
            f"workspace must be a Workspace or another MutableMapping, got {type(workspace).__name__}",
            subject="workspace",
        )
    return workspace

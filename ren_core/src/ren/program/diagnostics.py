"""What readiness, passes and tracing say about a program: data with stable codes.

`CODES` is the list that docs/reference/diagnostics.md is generated from and that the tests cover one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. subject: the name at fault (an operation, a symbol, a key, an input). file, line: where the user wrote it, if known."""

    code: str
    message: str
    subject: str | None = None
    severity: Severity = "error"
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file is not None else ""
        return f"{where}{self.severity} [{self.code}] {self.message}"


#: code -> (default severity, meaning).
CODES: dict[str, tuple[Severity, str]] = {
    # workspace
    "malformed-workspace-binding": (
        "error",
        "A reserved workspace entry has the wrong type (a mapping or a callable is expected), a handler cannot be called, or a material is not numbers of the recorded shape.",
    ),
    "missing-material": ("error", "A material that the program names is not bound in workspace['materials']."),
    "missing-resource": ("error", "A resource that the program names is not bound in workspace['resources']."),
    "missing-engine": (
        "error",
        "The program computes on encrypted values and workspace['engine'] holds no CKKS engine.",
    ),
    "missing-evaluation-keys": (
        "error",
        "Rotation, conjugation or relinearization keys are needed and workspace['evaluation_keys'] holds no EvaluationKeySet.",
    ),
    "incomplete-evaluation-keys": ("error", "The EvaluationKeySet lacks a key that the program needs."),
    "incompatible-evaluation-keys": (
        "error",
        "A key in the EvaluationKeySet belongs to other parameters or another secret key, or stands under the wrong step.",
    ),
    "missing-public-key": ("error", "Online encryption of an argument needs workspace['public_key']."),
    "incompatible-public-key": (
        "error",
        "workspace['public_key'] belongs to other parameters or another secret key, or is no public key.",
    ),
    # program
    "unversioned-program": ("warning", "The program does not say which schema or dialect version it was written for."),
    "unsupported-program-version": (
        "error",
        "The program was written for a schema or dialect version that this Ren does not read.",
    ),
    "invalid-executable-graph": ("error", "An operation breaks its contract, or the module does not verify."),
    "missing-entry": (
        "error",
        "The entry function is missing, has several blocks, or does not end in exactly one return.",
    ),
    "malformed-reference": ("error", "A material or resource reference has no symbol, or a torch.call no target."),
    "malformed-input": (
        "error",
        "An argument of the entry has a type that declares no legal input, or names and arguments do not match.",
    ),
    "missing-handler": (
        "error",
        "Nothing executes this operation: it was not lowered, or belongs to a dialect whose plugin or handler is absent.",
    ),
    "missing-torch-handler": (
        "error",
        "A kept torch call touches encrypted values without a handler, or its target is not in the audited table.",
    ),
    "pending-obligation": ("error", "A result still has to be relinearized or rescaled."),
    # states
    "level-exhausted": ("error", "The program needs more levels than the engine has."),
    "level-mismatch": ("error", "Two operands have different levels, or a value would have to regain levels."),
    "scale-mismatch": ("error", "Two operands have different scales."),
    "invalid-layout": (
        "error",
        "The elements of two values do not meet, or an operation does not fit the layout of its operand.",
    ),
    "polluted-padding": ("error", "A sum would add padding that holds unknown numbers."),
    "unrelinearized-operand": ("error", "A product of three parts is used where two are needed: relinearize first."),
    "domain-mismatch": ("error", "An operand is in the wrong domain."),
    "invalid-operand": ("error", "An operand has a role that the operation does not take."),
    "invalid-state": ("error", "A declared state contradicts what the operation gives."),
    "over-capacity": ("error", "Values of size 1 do not fit at the level and scale of a result."),
    "scale-too-small": (
        "error",
        "The scale of a result falls below what its noise leaves readable: a value that is no product was rescaled.",
    ),
    "possible-overflow": ("warning", "A value may outgrow the modulus of its level. An error under strict bounds."),
    "unchecked-result": (
        "warning",
        "A result may exceed what its level holds, and the level leaves no room to notice it: declare bounds, or promise workspace['result_bound']. An error under strict bounds.",
    ),
    "undefined-state": (
        "warning",
        "The level or scale of a value depends on an argument and is checked when the program is called.",
    ),
}


def located(
    code: str,
    message: str,
    *,
    subject: str | None = None,
    source: tuple[str, int] | None = None,
    severity: Severity | None = None,
) -> Diagnostic:
    """A diagnostic with the severity of its code. `source` is (file, line)."""
    file, line = source if source is not None else (None, None)
    return Diagnostic(code, message, subject, severity or CODES[code][0], file, line)


def summary(diagnostics: Iterable[Diagnostic], limit: int = 8) -> str:
    """The first few as lines of text."""
    lines = [str(d) for d in diagnostics]
    more = f"\n... and {len(lines) - limit} more" if len(lines) > limit else ""
    return "\n".join(lines[:limit]) + more

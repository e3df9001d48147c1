"""Every exception Ren raises on purpose.

One tree: `RenError` carries a stable `code` (documented under docs/reference/errors.md), the `subject` it is about and a
`hint` with the way out. Concrete classes also derive from the builtin a Python user would catch (`ValueError`, `TypeError`,
`RuntimeError`, `LookupError`, `ImportError`), so nobody has to know Ren's names to handle bad input.
"""

from __future__ import annotations

from typing import Any, ClassVar


class RenError(Exception):
    """Base of all errors raised by Ren.

    `code` is stable across releases; `subject` names the thing at fault; `hint` says what to do.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, subject: str | None = None, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}. {hint}")
        self.message = message
        self.subject = subject
        self.hint = hint


# -- rings and polynomials -------------------------------------------------------------------------------------------


class InvalidRingError(RenError, ValueError):
    code = "invalid-ring"


class InvalidCoefficientsError(RenError, ValueError):
    code = "invalid-coefficients"


class RingMismatchError(RenError, ValueError):
    code = "ring-mismatch"


class DeviceMismatchError(RenError, ValueError):
    code = "device-mismatch"


class DomainError(RenError, ValueError):
    code = "wrong-domain"


class UnsupportedOperandError(RenError, TypeError):
    code = "unsupported-operand"


class InvalidSampleError(RenError, ValueError):
    """A random polynomial was asked for with a distribution, argument, stream or seed that is not defined."""

    code = "invalid-sample"


# -- configuration ---------------------------------------------------------------------------------------------------


class ConfigurationError(RenError, ValueError):
    code = "bad-configuration"


# -- backends and plugins --------------------------------------------------------------------------------------------


class PluginError(RenError, RuntimeError):
    code = "plugin-error"


class PluginConflictError(PluginError):
    code = "plugin-conflict"


class MissingPluginError(RenError, ImportError):
    code = "missing-plugin"


class PluginWarning(UserWarning):
    """A plugin is faulty and was left out; everything else works. REN_STRICT_PLUGINS=1 makes it a PluginError."""


class BackendUnavailableError(RenError, RuntimeError):
    code = "backend-unavailable"


class KernelUnsupportedError(RenError, RuntimeError):
    """A backend was asked for a kernel, ring or modulus it does not declare: it raises, it never approximates."""

    code = "kernel-unsupported"


class KernelOperandError(RenError, ValueError):
    """An ExecUnit breaks the kernel contract: parameters, operand sizes, overlap, or words that are no canonical residues."""

    code = "kernel-operand"


class ForkedProcessError(RenError, RuntimeError):
    code = "forked-process"


# -- schemes ---------------------------------------------------------------------------------------------------------


class ParameterError(RenError, ValueError):
    code = "invalid-parameters"


class InsecureParametersError(ParameterError):
    code = "insecure-parameters"


class EncodingError(RenError, ValueError):
    code = "invalid-message"


class CapacityError(RenError, ValueError):
    code = "over-capacity"


class LevelExhaustedError(RenError, ValueError):
    code = "level-exhausted"


class LevelMismatchError(RenError, ValueError):
    code = "level-mismatch"


class ScaleMismatchError(RenError, ValueError):
    code = "scale-mismatch"


class KeyMismatchError(RenError, ValueError):
    code = "key-mismatch"


class MissingKeyError(RenError, LookupError):
    code = "missing-key"


class NoContextError(RenError, RuntimeError):
    code = "no-context"


class DecryptionError(RenError, ValueError):
    """Decryption produced coefficients too large to be a message: noise over message, or a value past the modulus."""

    code = "decryption-failed"


class MemoryBudgetError(RenError, MemoryError):
    code = "memory-budget"


# -- programs --------------------------------------------------------------------------------------------------------


class ProgramError(RenError):
    """Base of everything that is said about Programs."""

    code = "program-error"


class ProgramParseError(ProgramError, ValueError):
    """Text that is no Program, or exceeds a limit. `source`, `line` and `column` (from 1) say where."""

    code = "parse-error"

    def __init__(self, source: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{source}:{line}:{column}: {message}", subject=source)
        self.source = source
        self.line = line
        self.column = column


class ProgramVerifyError(ProgramError, ValueError):
    """A Program that breaks the contract of an operation, the order of definitions or a limit."""

    code = "invalid-program"


class EntryError(ProgramError, LookupError):
    """A function that a Program does not have exactly once, or that is not one block ending in one return."""

    code = "missing-entry"


class InputSpecError(ProgramError, ValueError):
    """A role declaration that cannot be met."""

    code = "invalid-input-spec"


class InputSpecTypeError(InputSpecError, TypeError):
    """A role declaration with an argument of another type."""


class TraceError(ProgramError, RuntimeError):
    """A function that cannot be traced; `file`, `line` and `variable` say where, when they are known."""

    code = "trace-error"

    def __init__(
        self,
        message: str,
        *,
        subject: str | None = None,
        hint: str | None = None,
        file: str | None = None,
        line: int | None = None,
        variable: str | None = None,
    ) -> None:
        where = f"{file}:{line}: " if file is not None and line is not None else ""
        super().__init__(where + message, subject=subject, hint=hint)
        self.file = file
        self.line = line
        self.variable = variable


class PassError(ProgramError, RuntimeError):
    """A pass or pipeline that failed, or that left a Program which does not verify."""

    code = "pass-error"


class PassOrderError(PassError):
    """Passes that cannot be put in order: named twice, waiting for each other, or against the order of stages."""

    code = "pass-order"


class ProgramInputError(ProgramError, ValueError):
    """A runtime argument that does not meet its declaration."""

    code = "invalid-input"


class ProgramArgumentError(ProgramError, TypeError):
    """Runtime arguments that do not fit the signature: too many, missing, unknown or given twice."""

    code = "invalid-arguments"


class ProgramNotReadyError(ProgramError, RuntimeError):
    """A Program that cannot run with the given Workspace; `report` holds every problem."""

    code = "not-ready"

    def __init__(self, message: str, report: Any) -> None:
        super().__init__(message)
        self.report = report


class ProgramRunError(ProgramError, RuntimeError):
    """An operation failed while a Program ran: names the operation and its source line; the cause is chained."""

    code = "run-failed"


# -- files -----------------------------------------------------------------------------------------------------------


class FormatError(RenError, ValueError):
    """Bytes that cannot be read back; the subclass says why."""

    code = "bad-file"


class NotRenDataError(FormatError):
    code = "not-ren-data"


class WrongKindError(FormatError):
    code = "wrong-kind"


class FormatVersionError(FormatError):
    code = "format-version"


class TruncatedDataError(FormatError):
    code = "truncated"


class ChecksumError(FormatError):
    code = "checksum"


class DataTooLargeError(FormatError):
    code = "too-large"


class ParametersMismatchError(FormatError):
    code = "parameters-mismatch"


class SecretExportError(RenError, TypeError):
    code = "secret-export"

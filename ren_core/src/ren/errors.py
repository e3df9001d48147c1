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
    """A ring degree or modulus that is not allowed; the hint names the nearest legal one."""

    code = "invalid-ring"


class InvalidCoefficientsError(RenError, ValueError):
    """Coefficients of the wrong number or type."""

    code = "invalid-coefficients"


class RingMismatchError(RenError, ValueError):
    """Operands of different rings in one operation."""

    code = "ring-mismatch"


class DeviceMismatchError(RenError, ValueError):
    """Operands on different devices in one operation; `.to(device)` moves one."""

    code = "device-mismatch"


class DomainError(RenError, ValueError):
    """A polynomial in the wrong domain (coefficients or NTT values) for the operation."""

    code = "wrong-domain"


class UnsupportedOperandError(RenError, TypeError):
    """An operand of a type the operation does not take."""

    code = "unsupported-operand"


class InvalidSampleError(RenError, ValueError):
    """A random polynomial was asked for with a distribution, argument, stream or seed that is not defined."""

    code = "invalid-sample"


# -- configuration ---------------------------------------------------------------------------------------------------


class ConfigurationError(RenError, ValueError):
    """A REN_* environment variable whose text is not of the form it must have."""

    code = "bad-configuration"


# -- backends and plugins --------------------------------------------------------------------------------------------


class PluginError(RenError, RuntimeError):
    """A faulty plugin under REN_STRICT_PLUGINS=1, or plugins asked for while they are being loaded."""

    code = "plugin-error"


class PluginConflictError(PluginError):
    """A name that several plugins claim; REN_PREFER chooses its owner."""

    code = "plugin-conflict"


class MissingPluginError(RenError, ImportError):
    """A name that no loaded plugin provides; the text says which one would, and what to install."""

    code = "missing-plugin"


class PluginWarning(UserWarning):
    """A plugin is faulty and was left out; everything else works. REN_STRICT_PLUGINS=1 makes it a PluginError."""


class BackendUnavailableError(RenError, RuntimeError):
    """A device that does not exist or does not work here; the text says why, and what there is."""

    code = "backend-unavailable"


class KernelUnsupportedError(RenError, RuntimeError):
    """A backend was asked for a kernel, ring or modulus it does not declare: it raises, it never approximates."""

    code = "kernel-unsupported"


class KernelOperandError(RenError, ValueError):
    """An ExecUnit breaks the kernel contract: parameters, operand sizes, overlap, or words that are no canonical residues."""

    code = "kernel-operand"


class OptionError(RenError, ValueError):
    """An option of a decorator or call that has no such value."""

    code = "bad-option"


class CalibrationError(RenError, ValueError):
    """Prices of the cost model that are damaged, of another machine, or do not cover a kernel; `ren warmup` measures them again."""

    code = "bad-calibration"


class ValidationError(RenError, RuntimeError):
    """A unit did not compute what the reference backend computes (`validate=True`, REN_VALIDATE=1)."""

    code = "validation-failed"


class DonatedError(RenError, RuntimeError):
    """A Poly was used after a jitted function was given its memory (`donate=`)."""

    code = "donated"


class ForkedProcessError(RenError, RuntimeError):
    """Something that cannot be used in a child process after a fork; start children with the `spawn` method."""

    code = "forked-process"


# -- schemes ---------------------------------------------------------------------------------------------------------


class ParameterError(RenError, ValueError):
    """CKKS parameters that fit no ring, chain of primes or preset."""

    code = "invalid-parameters"


class InsecureParametersError(ParameterError):
    """CKKS parameters below the claimed security; `toy=True` allows them for tests."""

    code = "insecure-parameters"


class EncodingError(RenError, ValueError):
    """A message that cannot be encoded: not finite, too long, or beyond its bound; the text names the index."""

    code = "invalid-message"


class CapacityError(RenError, ValueError):
    """A plaintext too large for the modulus of its level."""

    code = "over-capacity"


class LevelExhaustedError(RenError, ValueError):
    """An operation that needs more rescales than are left."""

    code = "level-exhausted"


class LevelMismatchError(RenError, ValueError):
    """Operands at levels that cannot be brought together."""

    code = "level-mismatch"


class ScaleMismatchError(RenError, ValueError):
    """Operands whose exact scales differ where they must be equal."""

    code = "scale-mismatch"


class ScaleTooSmallError(RenError, ValueError):
    """A scale at which the noise of the parameters drowns the message."""

    code = "scale-too-small"


class KeyMismatchError(RenError, ValueError):
    """Values or keys that belong to different secret keys."""

    code = "key-mismatch"


class MissingKeyError(RenError, LookupError):
    """A key that was not made and cannot be made here."""

    code = "missing-key"


class NoContextError(RenError, RuntimeError):
    """No context is active; use `with ctx:` in this thread or pass it."""

    code = "no-context"


class DecryptionError(RenError, ValueError):
    """Decryption produced coefficients too large to be a message: noise over message, or a value past the modulus."""

    code = "decryption-failed"


class MemoryBudgetError(RenError, MemoryError):
    """An operation that would take more memory than the set budget."""

    code = "memory-budget"


class PossibleOverflowWarning(UserWarning):
    """By its worst-case bound a value may exceed the modulus. Tighten the bound with `assume_bound`; strict_bounds=True makes it a CapacityError."""

    code = "possible-overflow"


class UncheckedResultWarning(UserWarning):
    """A result that may have overflowed without a trace: no bound shows that it fits, and its level has no room in which an overflow would show."""


class TransparentCiphertextWarning(UserWarning):
    """A ciphertext that anybody can read, such as x - x or x * 0: its value is defined, but it hides nothing."""

    code = "transparent-ciphertext"


class ImaginaryPartWarning(UserWarning):
    """Decoding to real numbers dropped imaginary parts that are too large to be noise."""

    code = "imaginary-part"


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


class DataDependentError(TraceError):
    """Python control flow, or a conversion to a Python number or text, that needs a value that is unknown while tracing."""

    code = "data-dependent"


class UnknownShapeError(TraceError):
    """A question about the shape of a value whose shape is not declared."""

    code = "unknown-shape"


class InPlaceError(TraceError):
    """A change in place that other names for the same memory would have to see, or of data made outside the traced function."""

    code = "in-place"


class TraceRandomnessError(TraceError):
    """Random numbers drawn inside a traced function: they would be frozen into the program."""

    code = "trace-randomness"


class TrainingModeError(TraceError):
    """A module, or a call, in training mode."""

    code = "training-mode"


class TraceCheckError(TraceError):
    """A traced program that does not compute what its function does, found by `jit.trace(..., check=True)`."""

    code = "trace-check"


class TraceLimitError(TraceError):
    """A trace with more operations than max_ops."""

    code = "trace-limit"


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


class ProgramCostError(ProgramError, RuntimeError):
    """The cost of a program cannot be predicted: an operation has no handler that only builds a graph."""

    code = "no-cost"


class ProgramRunError(ProgramError, RuntimeError):
    """An operation failed while a Program ran: names the operation and its source line; the cause is chained."""

    code = "run-failed"


# -- files -----------------------------------------------------------------------------------------------------------


class FormatError(RenError, ValueError):
    """Bytes that cannot be read back; the subclass says why."""

    code = "bad-file"


class NotRenDataError(FormatError):
    """Bytes that Ren did not write."""

    code = "not-ren-data"


class WrongKindError(FormatError):
    """A file of another kind than the one asked for."""

    code = "wrong-kind"


class FormatVersionError(FormatError):
    """A file of a format version that this Ren does not read."""

    code = "format-version"


class TruncatedDataError(FormatError):
    """A file that ends too early."""

    code = "truncated"


class ChecksumError(FormatError):
    """A file whose checksum does not fit: it was damaged or changed."""

    code = "checksum"


class DataTooLargeError(FormatError):
    """A file that claims a size beyond the limit; checked before anything is allocated."""

    code = "too-large"


class ParametersMismatchError(FormatError):
    """A file made for other parameters than those at hand."""

    code = "parameters-mismatch"


class SecretExportError(RenError, TypeError):
    """A secret key where it must not go: pickles, public contexts, texts."""

    code = "secret-export"

"""Every exception Ren raises on purpose.

One tree: `RenError` carries a stable `code` (documented under docs/reference/errors.md), the `subject` it is about and a
`hint` with the way out. Concrete classes also derive from the builtin a Python user would catch (`ValueError`, `TypeError`,
`RuntimeError`, `LookupError`, `ImportError`), so nobody has to know Ren's names to handle bad input.
"""

from __future__ import annotations

from typing import ClassVar


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


# -- backends and plugins --------------------------------------------------------------------------------------------


class PluginError(RenError, RuntimeError):
    code = "plugin-error"


class PluginConflictError(PluginError):
    code = "plugin-conflict"


class MissingPluginError(RenError, ImportError):
    code = "missing-plugin"


class BackendUnavailableError(RenError, RuntimeError):
    code = "backend-unavailable"


class KernelUnsupportedError(RenError, RuntimeError):
    """A backend was asked for a kernel, ring or modulus it does not declare: it raises, it never approximates."""

    code = "kernel-unsupported"


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


# -- files -----------------------------------------------------------------------------------------------------------


class FormatError(RenError, ValueError):
    code = "bad-file"


class SecretExportError(RenError, TypeError):
    code = "secret-export"

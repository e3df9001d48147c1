"""What each input of a traced function is: encrypted, a public message, a plaintext, or static."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

from ren.errors import InputSpecError, InputSpecTypeError
from ren.program.layout import FULL, Layout, Padding, packed

Role = Literal["encrypted", "message", "plaintext", "static"]
BatchMode = Literal["none", "any"]
PaddingMode = Literal["zero", "any"]
SlotExtent = int | tuple[int, ...] | Literal["full"]
StaticValue = bool | int | float | complex | str | None

ROLES = ("encrypted", "message", "plaintext", "static")
#: Rings end at n = 2^17, so no value has more slots.
MAX_SLOTS = 1 << 16


@dataclass(frozen=True, slots=True)
class InputSpec:
    """Declaration of one input; made by `encrypted`, `message`, `plaintext` or `static`.

    level: rescales used by the value, from 0. scale: a number or an exact ckks Scale; None is the engine's scale for that level. slots: "full", a number of elements, or a
    logical shape. batch_mode: "none" or "any" leading axes. padding: "zero" or "any", what slots behind the elements hold. All of these belong to encrypted
    inputs, static_value to static ones, shape (of the array) to messages. bound: largest absolute value, if promised, of anything but static values.

    Raises InputSpecError (a ValueError), for a wrong type InputSpecTypeError (also a TypeError).
    """

    role: Role
    level: int = 0
    scale: Any = None
    slots: SlotExtent = "full"
    batch_mode: BatchMode = "none"
    static_value: StaticValue = None
    bound: float | None = None
    shape: tuple[int, ...] | None = None
    padding: PaddingMode = "zero"

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise InputSpecError(f"role must be one of {', '.join(ROLES)}, got {self.role!r}", subject="role")
        if self.role != "encrypted":
            set_fields = [
                n for n, d in _ENCRYPTED_DEFAULTS.items() if getattr(self, n) is not d and getattr(self, n) != d
            ]
            if set_fields:
                raise InputSpecError(
                    f"a {self.role} input has no {set_fields[0]}",
                    subject=set_fields[0],
                    hint="It belongs to encrypted(...)",
                )
        if self.shape is not None:
            if self.role != "message":
                raise InputSpecError(
                    f"a {self.role} input has no shape", subject="shape", hint="encrypted inputs have slots="
                )
            object.__setattr__(self, "shape", _checked_shape(self.shape))
        if self.bound is not None:
            if self.role == "static":
                raise InputSpecError("a static input has no bound: its value is known", subject="bound")
            object.__setattr__(self, "bound", _positive("bound", self.bound))
        if self.role == "static":
            _check_static(self.static_value)
        elif self.static_value is not None:
            raise InputSpecError(
                f"a {self.role} input has no static_value", subject="static_value", hint="Use static(value)"
            )
        if self.role == "encrypted":
            _check_level(self.level)
            # An exact scale, such as `ciphertext.scale`, stays exact.
            if self.scale is not None and not isinstance(getattr(self.scale, "terms", None), tuple):
                object.__setattr__(self, "scale", _positive("scale", self.scale))
            object.__setattr__(self, "slots", _checked_slots(self.slots))
            if self.padding not in ("zero", "any"):
                raise InputSpecError(f'padding must be "zero" or "any", got {self.padding!r}', subject="padding")
            if self.batch_mode not in ("none", "any"):
                raise InputSpecError(
                    f'batch_mode must be "none" or "any", got {self.batch_mode!r}', subject="batch_mode"
                )

    @property
    def layout(self) -> Layout | None:
        """Where the elements of an encrypted input lie; None for other roles."""
        if self.role != "encrypted":
            return None
        if self.slots == "full":
            return FULL
        layout = packed((self.slots,) if isinstance(self.slots, int) else self.slots)
        return layout.with_padding(Padding.ANY) if self.padding == "any" else layout


_ENCRYPTED_DEFAULTS: dict[str, Any] = {
    "level": 0,
    "scale": None,
    "slots": "full",
    "batch_mode": "none",
    "padding": "zero",
}


def encrypted(
    *,
    level: int = 0,
    scale: Any = None,
    slots: SlotExtent = "full",
    batch_mode: BatchMode = "none",
    bound: float | None = None,
    padding: PaddingMode = "zero",
) -> InputSpec:
    """A value under encryption: a Ciphertext, or an array that is encrypted with workspace["public_key"] when the program is called.

    slots="full" takes the whole slot vector; a number declares a vector of that many elements (a tuple: a shape), which are packed into the
    smallest power of two of slots, repeated over all slots, padding zero. padding="any" takes ciphertexts whose slots behind the elements hold anything: what runs over
    all slots masks them first, which takes a level. bound promises |x| <= bound and sharpens overflow warnings.
    """
    return InputSpec("encrypted", level, scale, slots, batch_mode, None, bound, None, padding)


def message(*, shape: tuple[int, ...] | None = None, bound: float | None = None) -> InputSpec:
    """Public data: arrays, tensors, numbers. It may go through any public computation before it meets an encrypted value.

    shape: of the array, () for a number, where tracing has to know it: a matrix that multiplies an encrypted vector, questions such as len(w). bound promises |w| <= bound:
    predicted errors and bounds of results follow from it, and calls with larger values are refused.
    """
    return InputSpec("message", shape=shape, bound=bound)


def plaintext(*, bound: float | None = None) -> InputSpec:
    """A ckks.Plaintext that the caller encoded; its level and scale reach its consumer as they are. bound: as for `message`."""
    return InputSpec("plaintext", bound=bound)


def static(value: StaticValue) -> InputSpec:
    """A value fixed while tracing: it steers Python control flow and is no argument of the program."""
    return InputSpec("static", static_value=value)


def _check_static(value: Any) -> None:
    if value is not None and type(value) not in (bool, int, float, complex, str):
        raise InputSpecTypeError(
            f"a static value is a bool, int, float, complex, str or None, got {type(value).__name__}",
            subject="static_value",
        )
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    if any(isinstance(p, float) and not math.isfinite(p) for p in parts):
        raise InputSpecError(f"a static value must be finite, got {value!r}", subject="static_value")


def _check_level(level: Any) -> None:
    if isinstance(level, bool) or not isinstance(level, int):
        raise InputSpecTypeError(f"level must be an int, got {level!r}", subject="level")
    if level < 0:
        raise InputSpecError(f"level counts rescales from 0, got {level}", subject="level")


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputSpecTypeError(f"{name} must be a real number, got {value!r}", subject=name)
    number = float(value)
    if not math.isfinite(number) or number <= 0:
        raise InputSpecError(f"{name} must be finite and positive, got {value!r}", subject=name)
    return number


def _checked_shape(shape: Any) -> tuple[int, ...]:
    axes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if any(isinstance(a, bool) or not isinstance(a, int) for a in axes):
        raise InputSpecTypeError(f"shape must be a tuple of ints, got {shape!r}", subject="shape")
    if any(a < 0 for a in axes):
        raise InputSpecError(f"shape has a negative axis: {shape!r}", subject="shape")
    return axes


def _checked_slots(slots: Any) -> SlotExtent:
    if slots == "full" and isinstance(slots, str):
        return "full"
    axes = slots if isinstance(slots, tuple) else (slots,)
    if isinstance(slots, str) or not axes or any(isinstance(a, bool) or not isinstance(a, int) for a in axes):
        raise InputSpecTypeError(f'slots must be "full", an int or a tuple of ints, got {slots!r}', subject="slots")
    if any(a < 1 for a in axes) or math.prod(axes) > MAX_SLOTS:
        raise InputSpecError(f"slots must be between 1 and {MAX_SLOTS}, got {slots!r}", subject="slots")
    return slots  # type: ignore[no-any-return]

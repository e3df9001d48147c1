"""What is known of traced values, and how what is not known is refused."""

from __future__ import annotations

from typing import TypeVar

import torch
import torch.fx as fx
from ren.errors import TraceError, UnknownShapeError
from ren.program.states import EncryptedState
from ren.program.types import EncryptedType, MessageType
from xdsl.ir import SSAValue

from ren_frontend_torch import lookup
from ren_frontend_torch.emit import role_of
from ren_frontend_torch.handles import Handle
from ren_frontend_torch.locations import user_source, variable_of

_E = TypeVar("_E", bound=TraceError)


class Known:
    """values: node of a handle -> its value. refused: the first refusal; it counts even if the traced function catches it."""

    def __init__(self) -> None:
        self.values: dict[fx.Node, SSAValue] = {}
        self.refused: TraceError | None = None

    # -- what handles ask --------------------------------------------------------------------------------------------

    def value(self, handle: Handle) -> SSAValue:
        return self.values[handle.node]

    def role(self, handle: Handle) -> str:
        return role_of(self.value(handle))

    def dtype(self, handle: Handle) -> torch.dtype:
        """float64 for encrypted values, which have no dtype of their own."""
        type_ = self.value(handle).type
        known = type_.data.dtype if isinstance(type_, MessageType) else "float64"
        if known is None:
            raise self._unknown(handle, "dtype")
        return lookup.dtype(known)

    def shape(self, handle: Handle) -> tuple[int, ...]:
        """The tensor shape. Raises UnknownShapeError when it is not declared."""
        type_ = self.value(handle).type
        if isinstance(type_, EncryptedType):
            state: EncryptedState = type_.data
            if state.batch != "any" and state.layout is not None and state.layout.shape is not None:
                return state.layout.shape
        elif isinstance(type_, MessageType) and type_.data.shape is not None:
            return type_.data.shape
        raise self._unknown(handle, "shape")

    def rank(self, handle: Handle) -> int:
        type_ = self.value(handle).type
        if (
            isinstance(type_, EncryptedType)
            and type_.data.batch != "any"
            and type_.data.layout is not None
            and type_.data.layout.shape is None
        ):
            return 1
        return len(self.shape(handle))

    def axis(self, handle: Handle, dim: int) -> int:
        """The length of one axis. Axes counted from the end are known below batch axes too."""
        type_ = self.value(handle).type
        if isinstance(type_, EncryptedType) and type_.data.layout is not None and type_.data.layout.shape is not None:
            shape = type_.data.layout.shape
            if -len(shape) <= dim < 0:
                return shape[dim]
        return self.shape(handle)[dim]

    def _unknown(self, handle: Handle, what: str) -> TraceError:
        hint = {
            "encrypted": "Declare encrypted(slots=n), or pass the number as static(n)",
            "plaintext": "Pass the number as static(n)",
        }.get(self.role(handle), "Declare message(shape=...), or pass the number as static(n)")
        file, line = user_source()
        name = variable_of(handle)
        subject = f"{self.role(handle)} value" if name is None else f"{self.role(handle)} value {name!r}"
        return self.refusal(
            UnknownShapeError(
                f"the {what} of the {subject} is not known while tracing",
                subject=name,
                hint=hint,
                file=file,
                line=line,
                variable=name,
            )
        )

    # -- refusals ----------------------------------------------------------------------------------------------------

    def refusal(self, error: _E) -> _E:
        """Remember a refusal, so that it counts even if the traced function catches it."""
        if self.refused is None:
            self.refused = error
        return error

    def refusal_here(self, kind: type[_E], what: str, hint: str) -> _E:
        """A refusal at the user's current line."""
        file, line = user_source()
        return self.refusal(kind(f"{what} is not supported on traced values", hint=hint, file=file, line=line))

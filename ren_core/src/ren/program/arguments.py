"""Types of entry arguments from role declarations, and back."""

from __future__ import annotations

from ren.errors import InputSpecError
from ren.program import types
from ren.program.roles import InputSpec
from ren.program.scales import SymbolicScale
from ren.program.states import EncryptedState


def argument_type(spec: InputSpec) -> types.EncryptedType | types.MessageType | types.PlaintextType:
    """The type of the argument that an input declares. The declaration is in the type: nothing else records it.

    Raises InputSpecError for a static input, which is no argument.
    """
    if spec.role == "encrypted":
        scale = SymbolicScale.at_level(spec.level) if spec.scale is None else SymbolicScale.of(spec.scale)
        return types.encrypted(EncryptedState(spec.level, scale, spec.layout, 2, "coeff", spec.batch_mode, spec.bound))
    if spec.role == "message":
        return types.message(spec.shape, bound=spec.bound)
    if spec.role == "plaintext":
        return types.plaintext(bound=spec.bound)
    raise InputSpecError("a static input is no argument of a program", subject="role")

"""Writes operations into the block of a program that is being traced."""

from __future__ import annotations

import cmath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ren.program import build, types
from ren.program.layout import Layout
from ren.program.literals import Named, OperandRef, encode
from ren.program.states import EncryptedState
from ren.program.types import EncryptedType, MessageType, PlaintextType
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ren_frontend_torch import lookup
from ren_frontend_torch.handles import Handle

if TYPE_CHECKING:
    from ren_frontend_torch.materials import Material

RANK = {"static": 0, "message": 1, "plaintext": 2, "encrypted": 3}


class Unsupported(Exception):
    """A call on encrypted values without an encrypted meaning; the text says why."""


def role_of(value: SSAValue) -> str:
    return types.role_of(value.type) or "message"


def strongest(values: Sequence[SSAValue]) -> str:
    return max((role_of(v) for v in values), key=RANK.__getitem__, default="static")


def encrypted_state(value: SSAValue) -> EncryptedState | None:
    return value.type.data if isinstance(value.type, EncryptedType) else None


def number(value: Any) -> Any:
    """A Python number from Python and NumPy numbers; None for anything else."""
    if type(value) in (bool, int, float, complex):
        return value
    if isinstance(value, (np.number, np.bool_)):
        return value.item()
    return value + 0 if isinstance(value, (int, float, complex)) else None


class Emitter:
    """Appends operations to a block. `loc` is where the user wrote what is being traced now."""

    def __init__(self, block: Block, values: dict[Any, SSAValue], capture: Any) -> None:
        """values: node of a handle -> its value. capture: function from a tensor or array to its Material and whether it is new."""
        self.block = block
        self.loc: LocationAttr | None = None
        self._values = values
        self._capture = capture
        self._constants: dict[tuple[type, str], SSAValue] = {}
        self._materials: dict[str, SSAValue] = {}

    # -- operations --------------------------------------------------------------------------------------------------

    def build(
        self,
        name: str,
        operands: Sequence[SSAValue],
        attributes: Mapping[str, Any] | None = None,
        result_types: Sequence[Attribute] | None = None,
    ) -> SSAValue:
        """Append an operation; its result. Raises RuleError when its rule refuses the operands."""
        op: Operation = build(name, operands, attributes, loc=self.loc, result_types=result_types)
        self.block.add_op(op)
        return op.results[0]

    def value(self, x: Any) -> SSAValue:
        """The value of an operand: a handle, a number, a tensor or an array. Raises Unsupported for other things."""
        if type(x) is Handle:
            return self._values[x.node]
        if isinstance(x, SSAValue):
            return x
        if isinstance(x, (torch.Tensor, np.ndarray)):
            return self.material(x)
        plain = number(x)
        if plain is None:
            raise Unsupported(f"an operand is a {type(x).__name__}")
        if isinstance(plain, int) and abs(plain) >= 1 << 1023:
            raise Unsupported(f"an integer of {plain.bit_length()} bits is no number that can meet an encrypted value")
        if not cmath.isfinite(plain):
            raise Unsupported(f"{plain} is no number that can meet an encrypted value")
        return self.constant(plain)

    def constant(self, value: Any) -> SSAValue:
        """The value of a literal; one operation per literal."""
        key = type(value), repr(value)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.build("ren.constant", [], {"value": value})
        return found

    def material(self, x: Any) -> SSAValue:
        """The value of a captured tensor; one reference per tensor."""
        made: Material = self._capture(x)
        found = self._materials.get(made.symbol)
        if found is None:
            shape, dtype = tuple(made.value.shape), dtype_name(made.value.dtype)
            attributes = {
                "symbol": made.symbol,
                "kind": "tensor",
                "descriptor": {"shape": list(shape), "dtype": dtype},
            }
            found = self.build("ren.material.ref", [], attributes, [types.message(shape, dtype)])
            self._materials[made.symbol] = found
        return found

    # -- kept calls --------------------------------------------------------------------------------------------------

    def kept(
        self,
        kind: str,
        target: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        known: Attribute | None = None,
        reason: str | None = None,
    ) -> tuple[SSAValue, Any]:
        """Append a `torch.call`; its result, and what the call gives on meta tensors where all shapes are known. known: the type of a public result.
        reason: why it has no encrypted meaning.

        Raises LiteralError for arguments without a literal form.
        """
        operands: list[SSAValue] = []
        literal_args = [self._literal(a, operands) for a in args]
        literal_kwargs = {k: self._literal(v, operands) for k, v in kwargs.items()}
        attributes: dict[str, Any] = {"ren.call.kind": kind, "ren.call.target": target}
        if literal_kwargs or literal_args != [OperandRef(i) for i in range(len(operands))]:
            attributes["ren.call.arguments"] = literal_args
        if literal_kwargs:
            attributes["ren.call.keywords"] = literal_kwargs
        if reason is not None:
            attributes["ren.call.reason"] = reason
        role = strongest(operands)
        meta = None
        if role == "encrypted":
            result: Attribute = types.encrypted()
        elif role == "plaintext":
            result = types.plaintext()
        elif known is not None:
            result = known
        else:
            meta = _meta_result(kind, target, literal_args, literal_kwargs, operands)
            exact = all(isinstance(v.type, MessageType) and v.type.data.dtype is not None for v in operands)
            result = message_type(meta, exact)
        return self.build("torch.call", operands, attributes, [result]), meta

    def public(self, kind: str, target: str, *args: Any, **kwargs: Any) -> SSAValue:
        """A call on public data that a meaning needs."""
        return self.kept(kind, target, args, kwargs)[0]

    def _literal(self, x: Any, operands: list[SSAValue]) -> Any:
        """An argument with handles, tensors and arrays replaced by OperandRef."""
        if type(x) is Handle or isinstance(x, (torch.Tensor, np.ndarray, SSAValue)):
            value = self.value(x)
            for i, known in enumerate(operands):
                if known is value:
                    return OperandRef(i)
            operands.append(value)
            return OperandRef(len(operands) - 1)
        if isinstance(x, tuple):
            return tuple(self._literal(v, operands) for v in x)
        if isinstance(x, list):
            return [self._literal(v, operands) for v in x]
        if isinstance(x, dict):
            return {k: self._literal(v, operands) for k, v in x.items()}
        if type(x) is slice:
            return slice(*(self._literal(v, operands) for v in (x.start, x.stop, x.step)))
        if x is None or x is Ellipsis or isinstance(x, str):
            return x
        plain = number(x)
        if plain is not None:
            return plain
        symbol = lookup.symbol_of(x)
        if symbol is not None:
            return symbol
        encode(x)  # raises
        return x

    # -- what is known of values -------------------------------------------------------------------------------------

    def layout(self, value: SSAValue) -> Layout:
        """The layout of an encrypted value. Raises Unsupported when it is unknown."""
        state = encrypted_state(value)
        if state is None or state.layout is None:
            raise Unsupported("the shape of the encrypted value is unknown here")
        return state.layout

    def rank(self, value: SSAValue) -> int:
        shape = self.layout(value).shape
        return 1 if shape is None else len(shape)

    def batched(self, value: SSAValue) -> bool:
        state = encrypted_state(value)
        return state is not None and state.batch == "any"

    def public_shape(self, value: SSAValue) -> tuple[int, ...] | None:
        return value.type.data.shape if isinstance(value.type, MessageType) else None


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def message_type(meta: Any, exact: bool) -> Attribute:
    """The type of public data like `meta`. exact: its dtype is known too."""
    if isinstance(meta, torch.Tensor):
        return types.message(tuple(meta.shape), dtype_name(meta.dtype) if exact else None)
    return types.message()


def _meta_result(kind: str, target: str, args: list[Any], kwargs: dict[str, Any], operands: Sequence[SSAValue]) -> Any:
    """What an audited call gives on tensors without data. None where that cannot be told."""
    tensors = []
    for value in operands:
        state = value.type.data if isinstance(value.type, MessageType) else None
        if state is None or state.shape is None or not lookup.is_audited(kind, target):
            return None
        tensors.append(torch.empty(state.shape, dtype=lookup.dtype(state.dtype or "float64"), device="meta"))
    try:
        return lookup.call(kind, target, _filled(tuple(args), tensors), _filled(kwargs, tensors))
    except Exception:
        # Results that depend on numbers have no shape yet; what is wrong with the arguments is said when the call is made.
        return None


def _filled(x: Any, values: Sequence[Any]) -> Any:
    if isinstance(x, OperandRef):
        return values[x.index]
    if type(x) in (tuple, list):
        return type(x)(_filled(v, values) for v in x)
    if type(x) is dict:
        return {k: _filled(v, values) for k, v in x.items()}
    if type(x) is slice:
        return slice(*(_filled(v, values) for v in (x.start, x.stop, x.step)))
    if type(x) is Named:
        return lookup.resolve(x)
    return x


def is_public(value: SSAValue) -> bool:
    return not isinstance(value.type, (EncryptedType, PlaintextType))


__all__ = ["Emitter", "Unsupported", "encrypted_state", "is_public", "number", "role_of", "strongest"]

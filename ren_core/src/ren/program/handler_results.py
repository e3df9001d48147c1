"""What handlers of others returned, before anything is computed with it: a wrong object would be blamed on a later operation, or on none."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, Operation

from ren.errors import ProgramRunError
from ren.program._xdsl import operation_name
from ren.program.machine import Machine, Many
from ren.program.requirements import text_property
from ren.program.types import EncryptedType, PlaintextType


def check_handler_results(op: Operation, operands: tuple[Any, ...], results: tuple[Any, ...], machine: Machine) -> None:
    """Raise ProgramRunError unless every encrypted result is a ciphertext of the engine's parameters and key (a product that was not relinearized only where
    an extension may return one), every encoded one a plaintext, and batches come of batches."""
    of_batch = any(type(v) is Many for v in operands)
    for value, result in zip(op.results, results, strict=True):
        type_ = machine.types.get(value, value.type)
        if not isinstance(type_, (EncryptedType, PlaintextType)):
            continue
        is_batch = type(result) is Many
        if is_batch and not of_batch and getattr(type_.data, "batch", None) != "any":
            raise _wrong(op, f"a batch of shape {result.shape} where no operand is one")
        for item in result.items if is_batch else (result,):
            wrong = _fault(item, type_, machine, op.name == "torch.call")
            if wrong is not None:
                raise _wrong(op, wrong)


def _fault(item: Any, type_: Attribute, machine: Machine, is_call: bool) -> str | None:
    from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct
    from ren.schemes.ckks.plaintext import Plaintext

    if isinstance(type_, PlaintextType):
        return None if isinstance(item, Plaintext) else f"{_kind(item)}, a ckks.Plaintext is needed"
    assert isinstance(type_, EncryptedType)
    if not isinstance(item, (Ciphertext, CiphertextProduct)):
        return f"{_kind(item)}, a ckks.Ciphertext is needed"
    if isinstance(item, CiphertextProduct) and (type_.data.parts == 2 or (type_.data.parts is None and is_call)):
        return "a product that was not relinearized"
    engine = machine.engine
    if item.key_id != engine.key_id:
        return f"a ciphertext of key {item.key_id}, the engine has key {engine.key_id}"
    if item.b.ring != engine.params.ring_at(item.level):
        return "a ciphertext of other parameters than the engine's"
    return None


def _kind(item: Any) -> str:
    return "nothing" if item is None else f"an object of type {type(item).__name__}"


def _wrong(op: Operation, what: str) -> ProgramRunError:
    target = text_property(op, "ren.call.target")
    name = operation_name(op) if target is None else target
    return ProgramRunError(f"the handler of {name} returned {what}", subject=name)

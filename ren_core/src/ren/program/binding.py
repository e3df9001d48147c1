"""From the arguments of a call to the values of an entry's arguments: names first, then what each role demands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Attribute, Block

from ren.errors import EncodingError, ProgramArgumentError, ProgramInputError
from ren.program.chain import canonical, number_of, symbolic
from ren.program.declared_bounds import check_declared
from ren.program.entry import Signature
from ren.program.layout import FULL, Layout, LayoutError, Padding
from ren.program.literals import OperandRef
from ren.program.machine import Many
from ren.program.packing import logical_vector
from ren.program.scales import SymbolicScale
from ren.program.states import EncryptedState, PlaintextState
from ren.program.types import EncryptedType, MessageType, PlaintextType

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine


@dataclass(frozen=True, slots=True)
class Bound:
    """values: per argument; arrays that are to be encrypted are still arrays. types: of the arguments whose state came with the value.
    to_encrypt: numbers of the arguments that need online encryption."""

    values: list[Any]
    types: dict[int, Attribute]
    to_encrypt: tuple[int, ...]


def bind_names(signature: Signature, entry: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """One value per argument of the entry. Raises ProgramArgumentError (a TypeError) for too many, missing, unknown or repeated arguments, ProgramInputError
    for a container whose structure differs from the traced one."""
    positional = [n for n in signature.inputs if n not in signature.keyword_only]
    if len(args) > len(positional):
        raise ProgramArgumentError(
            f"{entry}() takes {len(positional)} positional arguments, {len(args)} were given", subject=entry
        )
    given = dict(zip(positional, args, strict=False))
    for name, value in kwargs.items():
        if name not in signature.inputs:
            raise ProgramArgumentError(
                f"{entry}() has no argument {name!r}; it has: {', '.join(signature.inputs) or 'none'}", subject=name
            )
        if name in given:
            raise ProgramArgumentError(f"{entry}() got argument {name!r} twice", subject=name)
        given[name] = value
    missing = [n for n in signature.inputs if n not in given and n not in signature.defaults]
    if missing:
        raise ProgramArgumentError(f"{entry}() misses: {', '.join(missing)}", subject=missing[0])
    values: dict[int, Any] = {}
    for name in signature.inputs:
        _flatten(name, signature.structures[name], given.get(name, signature.defaults.get(name)), values)
    return [values[i] for i in range(len(values))]


def _flatten(path: str, structure: Any, value: Any, values: dict[int, Any]) -> None:
    if isinstance(structure, OperandRef):
        values[structure.index] = value
    elif isinstance(structure, dict):
        if not isinstance(value, Mapping) or set(value) != set(structure):
            raise ProgramInputError(f"{path} must be a mapping with the keys {', '.join(structure)}", subject=path)
        for key, part in structure.items():
            _flatten(f"{path}[{key!r}]", part, value[key], values)
    elif isinstance(structure, (tuple, list)):
        if not isinstance(value, (tuple, list)) or len(value) != len(structure):
            raise ProgramInputError(f"{path} must be a sequence of {len(structure)}", subject=path)
        for i, part in enumerate(structure):
            _flatten(f"{path}[{i}]", part, value[i], values)


def bind_roles(block: Block, values: list[Any], engine: PublicEngine | None) -> Bound:
    """Check every value against the role and state of its argument. Raises ProgramInputError (a ValueError) that names the argument."""
    types: dict[int, Attribute] = {}
    to_encrypt: list[int] = []
    for i, argument in enumerate(block.args):
        name = argument.name_hint or f"arg{i}"
        if isinstance(argument.type, PlaintextType):
            types[i] = _plaintext(name, values[i], argument.type.data.bound, engine)
        elif isinstance(argument.type, MessageType):
            check_message(name, values[i], argument.type.data.shape)
            check_declared(name, values[i], argument.type.data.bound, engine)
        elif isinstance(argument.type, EncryptedType):
            assert engine is not None
            state = argument.type.data
            value = _encrypted(name, values[i], state, engine)
            if value is None:
                to_encrypt.append(i)
            else:
                values[i] = value
                types[i] = _actual_type(value, state, engine)
    return Bound(values, types, tuple(to_encrypt))


def check_message(name: str, value: Any, declared: tuple[int, ...] | None) -> None:
    """Raise ProgramInputError unless public data has the declared shape."""
    if declared is None:
        return
    try:
        shape = tuple(getattr(value, "shape", None) or np.shape(value))
    except (RuntimeError, ValueError) as error:  # ragged, nested
        raise ProgramInputError(
            f"input {name} has no shape, shape {declared} is declared: {error}", subject=name
        ) from None
    if shape != declared:
        raise ProgramInputError(
            f"input {name} has shape {shape}, shape {declared} is declared",
            subject=name,
            hint=f"Trace it again with message(shape={shape})",
        )


def _plaintext(name: str, value: Any, bound: float | None, engine: PublicEngine | None) -> Attribute:
    from ren.schemes.ckks.batch import PlaintextBatch
    from ren.schemes.ckks.plaintext import Plaintext

    one = value.plaintexts[0] if isinstance(value, PlaintextBatch) and value.plaintexts else value
    if not isinstance(one, Plaintext):
        message = f"input {name} is declared plaintext() and takes a ckks.Plaintext, got {type(value).__name__}"
        raise ProgramInputError(message, subject=name, hint="Encode it: engine.plaintext(value, level=..., scale=...)")
    if one.poly is None or one.scale is None or engine is None:
        check_declared(name, value, bound, engine)
        return PlaintextType(PlaintextState(bound=bound))
    if one.params_id != engine.params.fingerprint:
        message = f"input {name} was encoded for parameters {one.params_id}, the engine has {engine.params.fingerprint}"
        raise ProgramInputError(message, subject=name)
    check_declared(name, value, bound, engine)
    return PlaintextType(PlaintextState(one.level, symbolic(one.scale, engine.params), bound=bound))


def _encrypted(name: str, value: Any, state: EncryptedState, engine: PublicEngine) -> Any:
    """The ciphertext (or batch) after checks; None for an array that has to be encrypted, whose shape is checked."""
    from ren.schemes.ckks.batch import CiphertextBatch
    from ren.schemes.ckks.ciphertext import Ciphertext, CiphertextProduct

    if isinstance(value, CiphertextProduct):
        raise ProgramInputError(
            f"input {name} is a product that was not relinearized", subject=name, hint="Pass value.relinearize()"
        )
    if isinstance(value, CiphertextBatch):
        _check_batch(name, value.shape, state)
        for item in value.ciphertexts:
            _check_ciphertext(name, item, state, engine)
        return Many(value.shape, tuple(_with_bound(c, state, engine) for c in value.ciphertexts))
    if isinstance(value, Ciphertext):
        _check_ciphertext(name, value, state, engine)
        return _with_bound(value, state, engine)
    layout = FULL if state.layout is None else state.layout
    try:
        batch, _, _ = logical_vector(value, layout, engine.num_slots)
    except (LayoutError, TypeError, ValueError) as error:
        message = f"input {name} takes a Ciphertext, or an array to encrypt whose last axis has {_extent(layout, engine)} elements: {error}"
        raise ProgramInputError(message, subject=name) from None
    _check_batch(name, batch, state)
    return None


def _extent(layout: Layout, engine: PublicEngine) -> str:
    shape = layout.resolve(engine.num_slots).shape
    assert shape is not None
    return "x".join(map(str, shape))


def _check_batch(name: str, shape: tuple[int, ...], state: EncryptedState) -> None:
    if shape and state.batch != "any":
        message = f"input {name} has batch axes {shape} and is declared without any"
        raise ProgramInputError(message, subject=name, hint='Declare encrypted(batch_mode="any")')
    if math.prod(shape) == 0:
        raise ProgramInputError(f"input {name} is an empty batch of shape {shape}", subject=name)


def _check_ciphertext(name: str, x: Any, state: EncryptedState, engine: PublicEngine) -> None:
    if x.key_id != engine.key_id:
        raise ProgramInputError(
            f"input {name} belongs to key {x.key_id}, the engine to key {engine.key_id}", subject=name
        )
    if x.b.ring != engine.params.ring_at(x.level):
        raise ProgramInputError(f"input {name} was made with other parameters than the engine's", subject=name)
    if x.device != engine.device:
        raise ProgramInputError(
            f"input {name} is on device {x.device!r}, the engine on {engine.device!r}",
            subject=name,
            hint=f"Pass {name}.to({engine.device!r})",
        )
    if state.level is not None and x.level != state.level:
        message = f"input {name} has level {x.level}, level {state.level} is declared"
        raise ProgramInputError(
            message,
            subject=name,
            hint=f"Declare encrypted(level={x.level}), or bring it there: engine.adjust(x, {state.level})",
        )
    if state.scale is not None and canonical(state.scale, engine.params) != symbolic(x.scale, engine.params):
        declared = number_of(state.scale, engine.params)
        shown = state.scale if declared is None else f"{declared:.6e}"
        message = f"input {name} has scale {x.scale:.6e} ({x.scale}), {shown} ({state.scale}) is declared"
        raise ProgramInputError(
            message, subject=name, hint="Declare encrypted(scale=ciphertext.scale), which keeps it exact"
        )
    layout = (FULL if state.layout is None else state.layout).resolve(engine.num_slots)
    if x.slots != layout.frame:
        message = f"input {name} has {x.slots} slots, its declaration ({layout.text()}) needs {layout.frame}"
        raise ProgramInputError(
            message, subject=name, hint=f"Encrypt engine.encode(values, msg_bound=..., slots={layout.frame})"
        )
    if layout.padding is Padding.ZERO and (x.occupied is None or x.occupied > layout.elements):
        found = "it is not known" if x.occupied is None else f"of {x.occupied} encoded values it is not known"
        raise ProgramInputError(
            f"input {name} is declared with {layout.elements} elements in {layout.frame} slots and zeros behind them; {found} what this ciphertext holds there",
            subject=name,
            hint=f'Encrypt engine.encode({layout.elements} values, slots={layout.frame}), multiply by a mask (x * ([1.0] * {layout.elements})), or declare encrypted(slots=..., padding="any")',
        )


def _with_bound(x: Any, state: EncryptedState, engine: PublicEngine) -> Any:
    """The ciphertext with the smaller of the declared bound and the one that it carries (for `encrypt_message`: the capacity of its level)."""
    return x if state.bound is None else engine.assume_bound(x, min(state.bound, x.bound))


def usable_bounds(value: Any, state: EncryptedState, engine: PublicEngine) -> list[float]:
    """The bounds that `_with_bound` gives the ciphertexts of an argument."""
    return [_with_bound(x, state, engine).bound for x in getattr(value, "items", (value,))]


def _actual_type(value: Any, state: EncryptedState, engine: PublicEngine) -> Attribute:
    one = value.items[0] if isinstance(value, Many) else value
    scale: SymbolicScale = symbolic(one.scale, engine.params)
    return EncryptedType(replace(state, level=one.level, scale=scale, parts=2))


def encrypt_online(name: str, value: Any, state: EncryptedState, engine: PublicEngine, public_key: Any) -> Any:
    """An array under encryption, packed in the declared layout, at the declared level and scale. Raises EncodingError that names the argument."""
    from ren.schemes.ckks.messages import encode, encrypt

    level = 0 if state.level is None else state.level
    scale = engine.params.scale_at(level) if state.scale is None else number_of(state.scale, engine.params)
    batch, rows, frame = logical_vector(value, FULL if state.layout is None else state.layout, engine.num_slots)
    items = []
    for row in rows:
        try:
            plain = encode(engine, row, state.bound, level, scale, frame)
        except EncodingError as error:
            raise EncodingError(f"input {name}: {error.message}", subject=name, hint=error.hint) from error
        items.append(_with_bound(encrypt(engine, plain, public_key), state, engine))
    return Many(batch, tuple(items)) if batch else items[0]

"""The arguments of a call as a replay needs them: what decides which plan runs, and what that plan is bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Block, SSAValue

from ren.engine.deferred import Deferred
from ren.engine.tree import Flat
from ren.program.binding import Bound, bind_roles, check_message, encrypt_online, usable_bounds
from ren.program.compiled_capture import Inputs
from ren.program.compiled_public import settle
from ren.program.declared_bounds import check_declared
from ren.program.interpret import batched, public_value
from ren.program.machine import Many
from ren.program.packing import to_array
from ren.program.states import EncryptedState
from ren.program.types import EncryptedType, MessageType, PlaintextType
from ren.schemes.ckks.batch import CiphertextBatch, PlaintextBatch
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.plaintext import Plaintext

if TYPE_CHECKING:
    from ren.schemes.ckks.engine import PublicEngine

_ENCRYPTED = (Ciphertext, CiphertextBatch)
_PLAIN = (Plaintext, PlaintextBatch)


class Roles:
    """The arguments of a block by role: numbers of those that are encrypted (with their states), of plaintexts, and of public data of a declared shape
    or bound."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.encrypted: list[tuple[int, EncryptedState]] = []
        self.names: list[tuple[int, str]] = []
        self.plain: list[int] = []
        self.shaped: list[tuple[int, str, tuple[int, ...]]] = []
        self.bounded: list[tuple[int, str, float]] = []
        for i, argument in enumerate(block.args):
            name = argument.name_hint or f"arg{i}"
            if isinstance(argument.type, EncryptedType):
                self.names.append((i, name))
                self.encrypted.append((i, argument.type.data))
            elif isinstance(argument.type, PlaintextType):
                self.plain.append(i)
            elif isinstance(argument.type, MessageType) and argument.type.data.shape is not None:
                self.shaped.append((i, name, argument.type.data.shape))
            declared = argument.type.data.bound if isinstance(argument.type, (MessageType, PlaintextType)) else None
            if declared is not None:
                self.bounded.append((i, name, declared))


class Call:
    """One call. key: what the checks before a run depend on, apart from the content of public data; None when the values have to be looked at more
    closely. arrays: whether some encrypted argument is an array, to be encrypted first."""

    __slots__ = ("values", "arrays", "key", "_roles", "_flat")

    def __init__(self, roles: Roles, values: list[Any]) -> None:
        self._roles = roles
        self.values = values
        self.arrays = False
        self._flat = Flat()
        plain = Flat()
        parts: list[Any] = []
        sound = True
        for i, _ in roles.encrypted:
            value = values[i]
            if type(value) in _ENCRYPTED:
                self._flat.add(value)
            else:
                self.arrays = True
                parts.append((i, *_array_key(value)))
        for i in roles.plain:
            sound = sound and type(values[i]) in _PLAIN
            plain.add(values[i])
        settle(self._flat)
        settle(plain)
        self.key = (*parts, *plain.specify(), *self._flat.specify()) if sound else None

    def check(self, engine: PublicEngine) -> Bound:
        """Every value against the role and state of its argument. Raises ProgramInputError."""
        return bind_roles(self._roles.block, list(self.values), engine)

    def check_content(self, engine: PublicEngine) -> None:
        """What `key` does not decide: shapes of arrays and of public data, and how large that is. Raises ProgramInputError."""
        if self.arrays:
            self.check(engine)
        for i, name, shape in self._roles.shaped:
            check_message(name, self.values[i], shape)
        for i, name, bound in self._roles.bounded:
            check_declared(name, self.values[i], bound, engine)

    def encrypt(self, engine: PublicEngine, public_key: Any) -> Encrypted:
        """The encrypted arguments; arrays are encrypted now, with fresh randomness."""
        values, flat = self.values, self._flat
        if self.arrays:
            values, flat = list(values), Flat()
            for (i, state), (_, name) in zip(self._roles.encrypted, self._roles.names, strict=True):
                if type(values[i]) not in _ENCRYPTED:
                    values[i] = public_value(encrypt_online(name, values[i], state, engine, public_key))
                flat.add(values[i])
        bounds: list[float] = []
        for i, state in self._roles.encrypted:
            bounds += usable_bounds(values[i], state, engine)
        return Encrypted(values, flat, bounds)


class Encrypted(NamedTuple):
    """Encrypted arguments of a call, every one a ciphertext or a batch. values: of all arguments. flat: handles. bounds: of each ciphertext, as
    a run uses it."""

    values: list[Any]
    flat: Flat
    bounds: list[float]

    def stand_ins(self, roles: Roles) -> tuple[Inputs, dict[SSAValue, Any]]:
        """For a capture. Bounds are run-time scalars of the plan."""
        inputs = Inputs()
        inputs.flat = self.flat
        made: dict[SSAValue, Any] = {}
        at = 0
        for i, _ in roles.encrypted:
            value = batched(self.values[i])
            items = value.items if type(value) is Many else (value,)
            bounds = self.bounds[at : at + len(items)]
            numbers = [Deferred.leaf(at + k, bound, "a bound") for k, bound in enumerate(bounds)]
            made[roles.block.args[i]] = inputs.around(value, numbers)
            at += len(items)
        return inputs, made

    def kinds(self, roles: Roles, plaintexts: Sequence[Any]) -> str:
        """What kind of call this is, as text: the state of every encrypted argument and of the plaintexts that it meets."""
        named = [f"{name}: {_kind(self.values[i])}" for i, name in roles.names]
        return ", ".join([*named, *map(_kind, plaintexts)])


def _kind(value: Any) -> str:
    value = batched(value)
    items = value.items if type(value) is Many else (value,)
    shape = f"batch {list(value.shape)} of " if type(value) is Many else ""
    states = dict.fromkeys(
        f"{type(x).__name__.lower()} level {x.level} scale {x.scale} slots {x.slots}{'' if x.is_real else ' complex'}"
        for x in items
    )
    return shape + " and ".join(states)


def _array_key(value: Any) -> tuple[Any, ...]:
    """What decides how an array is encrypted, apart from its numbers."""
    try:
        array = to_array(value)
    except (TypeError, ValueError):
        return (type(value),)
    return array.shape, array.dtype.kind == "c"

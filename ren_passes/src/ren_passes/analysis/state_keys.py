"""Which values have the same level and scale, also where neither is known yet.

A caller's plaintext may lower the level of whatever it meets, so levels behind it are known only when the program is called. Two values
with the same key have the same level and scale in every run: keys are the known state, or how the state came about from others (value
numbering restricted to states).
"""

from __future__ import annotations

from collections.abc import Hashable

from ren.program.edit import operands
from ren.program.states import EncryptedState
from ren.program.types import EncryptedType
from xdsl.ir import Operation, SSAValue

_KEEPING = frozenset(
    f"ren.ckks.{n}"
    for n in (
        "to_ntt",
        "from_ntt",
        "negate",
        "add",
        "subtract",
        "add_scalar",
        "multiply_integer",
        "relinearize",
        "rotate",
        "rotate_group",
        "conjugate",
        "sum_slots",
        "relayout",
        "assume_bound",
    )
)
_FRESH = ("message", "static")


class StateKeys:
    """Keys of values, given in program order with `define`."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._keys: dict[SSAValue, int] = {}

    def key(self, value: SSAValue) -> int:
        """Equal for values whose level and scale are equal in every run."""
        state = value.type.data if isinstance(value.type, EncryptedType) else None
        if isinstance(state, EncryptedState) and state.level is not None and state.scale is not None:
            return self._number(("known", state.level, state.scale))
        found = self._keys.get(value)
        return self._number(("value", value)) if found is None else found

    def define(self, op: Operation) -> None:
        """Record the results of an operation, once its operands are final."""
        values = operands(op)
        if not values or not isinstance(values[0].type, EncryptedType):
            return
        description = self._description(op)
        if description is not None:
            for result in op.results:
                self._keys[result] = description

    def _description(self, op: Operation) -> int | None:
        name, values = op.name, operands(op)
        if name in _KEEPING:
            return self.key(values[0])
        if name in ("ren.ckks.add_plaintext", "ren.ckks.subtract_plaintext"):
            return self.key(values[0]) if is_prepared_for(values[1], values[0]) else None
        if name == "ren.ckks.rescale" and len(values) == 1:
            return self._number(("rescale", self.key(values[0])))
        if name in ("ren.ckks.multiply", "ren.ckks.square", "ren.ckks.meet"):
            pair = sorted((self.key(values[0]), self.key(values[-1])))
            return self._number(("meet" if name.endswith("meet") else "product", *pair))
        if name == "ren.ckks.multiply_plaintext" and is_prepared_for(values[1], values[0]):
            return self._number(("scaled", self.key(values[0])))
        return None

    def _number(self, description: Hashable) -> int:
        return self._numbers.setdefault(description, len(self._numbers))


def is_prepared_for(plaintext: SSAValue, ciphertext: SSAValue) -> bool:
    """Whether a plaintext was encoded from public data for its consumer, so that it does not decide any level or scale itself."""
    owner = plaintext.owner
    return (
        isinstance(owner, Operation)
        and owner.name.startswith("ren.ckks.prepare.")
        and owner.name.rpartition(".")[2] in _FRESH
    )

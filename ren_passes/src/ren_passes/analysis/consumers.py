"""Who really consumes a value. A `prepare` operation only looks at the state of the ciphertext that its plaintext will meet."""

from __future__ import annotations

from ren.program.edit import operands
from xdsl.ir import Operation, SSAValue

_PREPARE = "ren.ckks.prepare."


def sole_consumer(value: SSAValue) -> Operation | None:
    """The only operation that consumes `value`, when every other use is a preparation for that operation."""
    consumer: Operation | None = None
    for use in value.uses:
        user = use.operation
        if user.name.startswith(_PREPARE) and use.index == 1:
            prepared = user.results[0]
            if not prepared.has_one_use():
                return None
            assert prepared.first_use is not None
            user = prepared.first_use.operation
        if consumer is not None and user is not consumer:
            return None
        consumer = user
    return consumer


def preparation(plaintext: SSAValue, ciphertext: SSAValue) -> Operation | None:
    """The operation that prepared `plaintext` from public data (not from a caller's plaintext) for `ciphertext`."""
    owner = plaintext.owner
    if not isinstance(owner, Operation) or not owner.name.startswith(_PREPARE) or owner.name.endswith(".plaintext"):
        return None
    return owner if operands(owner)[1] is ciphertext else None

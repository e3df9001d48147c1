"""What the handlers of built-in operations work with: engine, keys, workspace, inferred states, and batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from ren.errors import MissingKeyError, ProgramInputError, ProgramRunError
from ren.program import _xdsl
from ren.program.types import EncryptedType, PlaintextType

if TYPE_CHECKING:
    from ren.program.states import EncryptedState, PlaintextState
    from ren.schemes.ckks.engine import PublicEngine
    from ren.schemes.ckks.keys import EvaluationKeySet


@dataclass(frozen=True, slots=True)
class Many:
    """Values under leading batch axes, row-major."""

    shape: tuple[int, ...]
    items: tuple[Any, ...]


class Machine:
    """The state of one run. types: of every value, concrete where an engine is bound. fused: relinearizations that the rescale behind them carries out in
    the same division."""

    def __init__(
        self, workspace: MutableMapping[Any, Any], engine: PublicEngine | None, types: Mapping[SSAValue, Attribute]
    ) -> None:
        self.workspace = workspace
        self._engine = engine
        self.types = types
        self.fused: set[Operation] = set()
        self.bound_symbols: dict[tuple[str, str], Any] = {}

    @property
    def engine(self) -> PublicEngine:
        if self._engine is None:
            raise ProgramRunError("no CKKS engine is bound", subject="engine", hint="Bind workspace['engine']")
        return self._engine

    @property
    def keys(self) -> EvaluationKeySet:
        keys = self.workspace.get("evaluation_keys")
        if keys is None:
            raise MissingKeyError(
                "no evaluation keys are bound", subject="evaluation_keys", hint="Bind workspace['evaluation_keys']"
            )
        return keys  # type: ignore[no-any-return]

    def encrypted(self, value: SSAValue) -> EncryptedState:
        """The inferred state of an encrypted value."""
        type_ = self.types[value]
        assert isinstance(type_, EncryptedType)
        return type_.data

    def plaintext(self, value: SSAValue) -> PlaintextState:
        type_ = self.types[value]
        assert isinstance(type_, PlaintextType)
        return type_.data

    def operand_state(self, op: Operation, index: int) -> EncryptedState:
        return self.encrypted(_xdsl.operands(op)[index])


def each(function: Callable[..., Any], *values: Any) -> Any:
    """`function` of the values, item by item where some are batches; leading axes broadcast as in NumPy."""
    if not any(type(v) is Many for v in values):
        return function(*values)
    shapes = [v.shape for v in values if type(v) is Many]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ProgramInputError(
            f"batch axes do not meet: {' and '.join(map(str, shapes))}",
            subject="batch",
            hint="Batch axes are equal, 1, or absent; public data has them in front of the shape of one value",
        ) from None
    spread = [_spread(v, shape) for v in values]
    return Many(shape, tuple(function(*row) for row in zip(*spread, strict=True)))


def _spread(value: Any, shape: tuple[int, ...]) -> list[Any]:
    count = math.prod(shape)
    if type(value) is not Many:
        return [value] * count
    index = np.broadcast_to(np.arange(len(value.items)).reshape(value.shape), shape).reshape(-1)
    return [value.items[i] for i in index]


def unzip(value: Any, count: int) -> tuple[Any, ...]:
    """A value or batch of sequences of length `count` as that many values or batches."""
    if type(value) is not Many:
        return tuple(value)
    return tuple(Many(value.shape, tuple(item[i] for item in value.items)) for i in range(count))

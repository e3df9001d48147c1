"""Tensors and arrays that a traced function takes from outside its arguments: cloned once, named once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from ren.errors import InPlaceError
from ren.program.packing import to_array

PREFIX = "capture/tensor/"


@dataclass(frozen=True, slots=True)
class Material:
    """symbol: its name in the program. source: what was captured (kept, so that its id stays its own). value: the clone."""

    symbol: str
    source: Any
    value: torch.Tensor


class Materials:
    """The captured tensors of one trace. A tensor that changed since it was captured is captured again."""

    def __init__(self, known: dict[int, str], taken: Any) -> None:
        """known: id -> name of parameters and buffers. taken: symbols that the workspace holds already."""
        self._known = known
        self._taken = set(taken)
        self._latest: dict[int, Material] = {}
        self._versions: dict[int, int] = {}
        self.all: list[Material] = []

    def capture(self, value: Any, hint: str | None) -> tuple[Material, bool]:
        """The material of a tensor or array, and whether it is new. Raises UnsupportedOperandError for one that holds no numbers."""
        found = self._latest.get(id(value))
        if found is not None and self._is_current(found):
            return found, False
        tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(np.array(value))
        name = self._known.get(id(value)) or hint or str(len(self.all))
        to_array(tensor)  # raises
        made = Material(self._symbol(name), value, tensor.detach().clone())
        self._latest[id(value)] = made
        if isinstance(value, torch.Tensor):
            self._versions[id(value)] = value._version
        self.all.append(made)
        return made, True

    def _symbol(self, name: str) -> str:
        symbol, count = PREFIX + name, 1
        while symbol in self._taken:
            count += 1
            symbol = f"{PREFIX}{name}/{count}"
        self._taken.add(symbol)
        return symbol

    def _is_current(self, material: Material) -> bool:
        if isinstance(material.source, torch.Tensor):
            return bool(material.source._version == self._versions[id(material.source)])
        return np.array_equal(material.source, material.value.numpy(), equal_nan=material.value.is_floating_point())

    def check_unchanged(self, file: str, line: int) -> None:
        """Refuse arrays that the function changed after they were used: the program would hold their old numbers, a second call the new ones.
        file, line: where it is defined."""
        for material in self._latest.values():
            if isinstance(material.source, np.ndarray) and not self._is_current(material):
                raise InPlaceError(
                    f"the array captured as {material.symbol} was changed during the trace",
                    subject=material.symbol,
                    hint="Work on a copy",
                    file=file,
                    line=line,
                )

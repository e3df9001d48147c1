"""What `jit.trace` returns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, MutableMapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.fx as fx
from ren.errors import ProgramArgumentError, ProgramInputError, UnsupportedOperandError
from ren.program import Diagnostic, Program
from ren.program.binding import bind_names
from ren.program.layout import Layout
from ren.program.literals import OperandRef
from ren.program.packing import to_array
from ren.program.types import EncryptedType
from ren.schemes.ckks import Ciphertext, CiphertextBatch, CiphertextProduct, Plaintext, PlaintextBatch

from ren_frontend_torch.inputs import Inputs, filled


class CaptureResult:
    """A traced function.

    program: the Program. workspace: the one that was given, or a new one, with the captured tensors in `workspace["materials"]`. signature: of the
    function. runtime_signature: of the program, without what was fixed while tracing. specs: the declared roles. diagnostics: everything that will not run as it
    is, with file and line. graph: the torch.fx graph of the calls as they were written.
    """

    def __init__(
        self,
        program: Program,
        workspace: MutableMapping[Any, Any],
        inputs: Inputs,
        diagnostics: tuple[Diagnostic, ...],
        graph: fx.Graph,
    ) -> None:
        self.program = program
        self.workspace = workspace
        self.diagnostics = diagnostics
        self.graph = graph
        self._inputs = inputs

    @property
    def signature(self) -> inspect.Signature:
        return self._inputs.signature

    @cached_property
    def runtime_signature(self) -> inspect.Signature:
        return self._inputs.runtime_signature()

    @property
    def specs(self) -> Mapping[str, Any]:
        return dict(self._inputs.specs)

    @cached_property
    def fx_code(self) -> str:
        """The traced calls as Python text, made when it is first asked for."""
        return self.graph.python_code("self").src

    @property
    def function(self) -> Callable[..., Any]:
        return self._inputs.function

    def reference(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original function on tensors and numbers, with the static values restored, without gradients.

        Takes what the program takes: tensors for encrypted inputs, tensors or numbers for plaintexts. Raises ProgramArgumentError for arguments that
        do not fit the runtime signature.
        """
        signature = self.program.signature("main")
        values = bind_names(signature, "reference", args, kwargs)
        numbers = iter(range(len(values)))

        def restored(path: str, spec: Any) -> Any:
            return spec.static_value if spec.role == "static" else _tensor(values[next(numbers)])

        given = {n: filled(spec, n, restored) for n, spec in self._inputs.specs.items()}
        with torch.no_grad():
            return self._inputs.call(given)

    def decode(self, values: Any) -> Any:
        """Decrypted results in their logical shapes, as tensors.

        values: what `engine.decrypt_message` or `engine.decrypt` gave for the result of the program, or for several results the same structure of
        that. The last axis of an array holds slots; axes before it are batch axes. Plaintexts are decoded with `workspace["engine"]`.

        Raises ProgramInputError when there are too few slots or the layout is unknown, ProgramArgumentError for another structure.
        """
        signature = self.program.signature("main")
        results = self.program.entry_function("main").function_type.outputs.data
        return _decode_structure(
            signature.output if signature.has_output_structure else OperandRef(0),
            values,
            lambda value, number: _decoded(self._slots(value), results[number]),
            "values",
        )

    def _slots(self, value: Any) -> Any:
        if isinstance(value, (Ciphertext, CiphertextBatch, CiphertextProduct)):
            raise ProgramInputError(
                f"decode takes decrypted slots, got a {type(value).__name__}",
                subject="values",
                hint="Decrypt first: captured.decode(engine.decrypt(result))",
            )
        if not isinstance(value, (Plaintext, PlaintextBatch)):
            return value
        engine = self.workspace.get("engine")
        if engine is None:
            raise ProgramInputError(
                "decoding a Plaintext needs workspace['engine']",
                subject="engine",
                hint="Or pass engine.decode(plaintext)",
            )
        return engine.decode(value)

    def __repr__(self) -> str:
        names = ", ".join(self._inputs.runtime)
        return f"<CaptureResult of {self._inputs.name}({names}): {self.program!r}, {len(self.diagnostics)} diagnostics>"


def _tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    try:
        return torch.from_numpy(value.copy())
    except TypeError as error:  # of texts, objects, dates
        raise ProgramInputError(f"reference takes arrays of numbers: {error}", subject="reference") from None


def _double(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of the types beyond a double, which PyTorch does not have, the nearest double."""
    widest = np.complex128 if array.dtype.kind == "c" else np.float64
    return array.astype(widest) if array.dtype.itemsize > np.dtype(widest).itemsize else array


def _decode_structure(structure: Any, values: Any, decoded: Callable[[Any, int], Any], path: str) -> Any:
    if isinstance(structure, OperandRef):
        return decoded(values, structure.index)
    if isinstance(structure, dict):
        if not isinstance(values, Mapping) or set(values) != set(structure):
            raise ProgramArgumentError(f"{path} must be a mapping with the keys {', '.join(structure)}", subject=path)
        return {k: _decode_structure(s, values[k], decoded, f"{path}[{k!r}]") for k, s in structure.items()}
    if isinstance(structure, (tuple, list)):
        if not isinstance(values, (tuple, list)) or len(values) != len(structure):
            raise ProgramArgumentError(f"{path} must be a sequence of {len(structure)}", subject=path)
        parts = zip(structure, values, strict=True)
        return type(structure)(_decode_structure(s, v, decoded, f"{path}[{i}]") for i, (s, v) in enumerate(parts))
    return structure


def _decoded(values: Any, type_: Any) -> Any:
    if not isinstance(type_, EncryptedType):
        return values
    layout: Layout | None = type_.data.layout
    if layout is None:
        raise ProgramInputError(
            "the shape of this result is unknown: it comes from a call that was kept, or depends on public data of undeclared shape. "
            "Declare message(shape=...), or decode with engine.decode",
            subject="values",
        )
    try:
        array = to_array(values)
    except UnsupportedOperandError as error:
        raise ProgramInputError(
            f"decode takes the decrypted slots of a result, got a {type(values).__name__}: {error}",
            subject="values",
            hint="Decrypt first: captured.decode(engine.decrypt(result))",
        ) from None
    slots = (
        values
        if isinstance(values, torch.Tensor) and values.layout is torch.strided
        else torch.as_tensor(_double(array))
    )
    if layout.shape is None:
        return slots
    count = math.prod(layout.shape)
    if slots.ndim == 0 or slots.shape[-1] < count:
        raise ProgramInputError(f"{count} slots are needed, got shape {tuple(slots.shape)}", subject="values")
    return slots[..., :count].reshape((*slots.shape[:-1], *layout.shape))


__all__ = ["CaptureResult"]

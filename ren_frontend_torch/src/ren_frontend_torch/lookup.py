"""From names to the objects of PyTorch and back. Only names of the audited table are ever turned into objects."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from ren.program.literals import Named

from ren_frontend_torch import targets

_SPACES: dict[str, Any] = {
    "operator": operator,
    "torch": torch,
    "torch.nn.functional": functional,
    "torch.linalg": torch.linalg,
    "torch.special": torch.special,
    "torch.fft": torch.fft,
}

_DTYPES = {str(v).removeprefix("torch."): v for v in vars(torch).values() if isinstance(v, torch.dtype)}
_LAYOUTS = {str(v).removeprefix("torch."): v for v in vars(torch).values() if isinstance(v, torch.layout)}
_FORMATS = {str(v).removeprefix("torch."): v for v in vars(torch).values() if isinstance(v, torch.memory_format)}
_SYMBOLS: dict[str, dict[str, Any]] = {
    "torch.dtype": _DTYPES,
    "torch.layout": _LAYOUTS,
    "torch.memory_format": _FORMATS,
}


def is_audited(kind: str, target: str) -> bool:
    return (kind, target) in targets.AUDITED


def call(kind: str, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Execute an audited call. NumPy arrays become tensors first, so that methods mean what they mean in PyTorch.

    Raises LookupError for anything that is not audited, and whatever the call raises.
    """
    if not is_audited(kind, target) or "out" in kwargs or kwargs.get("inplace"):
        raise LookupError(f"{target} with these arguments is not among the audited calls")
    args = tuple(_tensors(a) for a in args)
    kwargs = {k: _tensors(v) for k, v in kwargs.items()}
    with torch.no_grad():
        if kind == "function":
            return _function(target)(*args, **kwargs)
        receiver = args[0] if isinstance(args[0], torch.Tensor) else torch.as_tensor(args[0])
        found = getattr(receiver, target)
        return found if target in targets.PROPERTIES else found(*args[1:], **kwargs)


@lru_cache(maxsize=1024)
def _function(target: str) -> Callable[..., Any]:
    space, _, name = target.rpartition(".")
    return getattr(_SPACES[space], name)  # type: ignore[no-any-return]


def _tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.as_tensor(value if value.flags.writeable else value.copy())
    if type(value) in (list, tuple):
        return type(value)(_tensors(v) for v in value)
    return value


def dtype(name: str) -> torch.dtype:
    return _DTYPES[name]


def resolve(named: Named) -> Any:
    """The object behind a symbol. Raises LookupError for unknown ones."""
    if named.kind == "torch.device":
        return torch.device(named.name)
    try:
        return _SYMBOLS[named.kind][named.name]
    except KeyError:
        raise LookupError(f"no {named.kind} is called {named.name!r}") from None


def symbol_of(value: Any) -> Named | None:
    """How a dtype, device, layout or memory format is written in a program."""
    for kind in (torch.dtype, torch.layout, torch.memory_format):
        if isinstance(value, kind):
            return Named(f"torch.{kind.__name__}", str(value).removeprefix("torch."))
    return Named("torch.device", str(value)) if isinstance(value, torch.device) else None


_names: dict[int, tuple[Any, str]] = {}


def name_of(function: Callable[..., Any]) -> str:
    """The dotted public name of a function; by module and qualified name where no namespace of PyTorch shows it."""
    hit = _names.get(id(function))
    if hit is not None:
        return hit[1]
    if not _names:
        for space, module in _SPACES.items():
            for word, value in vars(module).items():
                if callable(value) and not word.startswith("_"):
                    _names.setdefault(id(value), (value, f"{space}.{word}"))
        hit = _names.get(id(function))
        if hit is not None:
            return hit[1]
    word = str(getattr(function, "__qualname__", None) or getattr(function, "__name__", type(function).__name__))
    module = getattr(function, "__module__", None)
    if not isinstance(module, str) or module == "torch._VF" or module.startswith("torch._C"):
        module = "torch"
    return f"{module}.{word.removeprefix('_VariableFunctionsClass.')}"

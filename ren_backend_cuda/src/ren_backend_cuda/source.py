"""What a kernel source says about its kernels: their names, bounds and parameter types, read from the text.

A driver takes whatever bytes it is given for an argument, so a Python int, a numpy scalar of the wrong size, or one argument too few is
no error on a GPU: it is a wrong result. The parameter list in the source is the only description there is, so it is parsed, and every
argument is checked against it before it goes anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from ren.errors import KernelUnsupportedError

#: Where the kernels are.
KERNELS = Path(__file__).parent / "kernels"

#: Type in the source -> numpy type of the argument; None: an address.
_TYPES: dict[str, str | None] = {
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "u32": "uint32",
    "long long": "int64",
    "i64": "int64",
    "unsigned long long": "uint64",
    "u64": "uint64",
    "float": "float32",
    "double": "float64",
}

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\(((?:[^()]|\([^()]*\))*)\)\s*)?(\w+)\s*\(([^)]*)\)'
)


class LaunchError(KernelUnsupportedError):
    """A launch that a GPU would refuse, or that would silently compute something else."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter. dtype: the numpy type its argument must have, None for an address."""

    name: str
    dtype: str | None


@dataclass(frozen=True, slots=True)
class Declaration:
    """One kernel as its source declares it. bound: the text inside __launch_bounds__, None where there is none."""

    name: str
    bound: str | None
    parameters: tuple[Parameter, ...]

    def check(self, arguments: Sequence[object]) -> None:
        """Raise LaunchError unless the arguments are exactly of the declared types: numpy scalars, and memory for addresses."""
        if len(arguments) != len(self.parameters):
            raise LaunchError(
                f"kernel {self.name} takes {len(self.parameters)} arguments, got {len(arguments)}", subject=self.name
            )
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if parameter.dtype is None:
                fits = isinstance(getattr(argument, "address", None), int)
                wanted = "device memory"
            else:
                fits = isinstance(argument, np.generic) and argument.dtype.name == parameter.dtype
                wanted = f"numpy.{parameter.dtype}"
            if not fits:
                raise LaunchError(
                    f"kernel {self.name}: argument {parameter.name!r} is {type(argument).__name__}, must be {wanted}",
                    subject=self.name,
                    hint="A number without a size of its own would be passed with the wrong one",
                )


def declarations(text: str) -> dict[str, Declaration]:
    """The kernels of a source text, in order. Raises ValueError for a parameter type that is not known."""
    found = {}
    for bound, name, parameters in _KERNEL.findall(_COMMENT.sub(" ", text)):
        found[name] = Declaration(name, bound.strip() or None, tuple(map(_parameter, _split(parameters))))
    return found


def _split(parameters: str) -> list[str]:
    return [p for p in (" ".join(q.split()) for q in parameters.split(",")) if p and p != "void"]


def _parameter(text: str) -> Parameter:
    plain = re.sub(r"\b(const|__restrict__|__grid_constant__)\b", " ", text)
    match = re.fullmatch(r"(.*?)\s*(\*?)\s*(\w+)", " ".join(plain.split()))
    if match is None or (not match[2] and match[1] not in _TYPES):
        raise ValueError(f"kernel parameter {text!r} is of no known type; known: pointers, {', '.join(_TYPES)}")
    return Parameter(match[3], None if match[2] else _TYPES[match[1]])

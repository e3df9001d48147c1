"""What a function can reach: which code and classes are a user's, which names code uses."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType

from ren_frontend_torch.locations import is_hidden, is_installed, is_library

_KNOWN = frozenset(("builtins", "numpy", "random", "ren", "ren_frontend_torch", "torch", "typing", "xdsl"))

#: A function that reaches more objects than this is followed no further.
MOST = 20_000
#: Of a longer container, the first items.
ITEMS = 1000


def is_known(module: str) -> bool:
    """Whether a module, by its name, is one whose objects hold nothing of the user's."""
    return module.partition(".")[0] in _KNOWN


def is_foreign(code: CodeType) -> bool:
    return is_hidden(code) or is_library(code)


def is_own(module: str) -> bool:
    """Whether a module, by its name, is the user's: no package that was installed, nothing of Python's."""
    if is_known(module) or module.partition(".")[0] in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return module == "__main__" or file is None or not is_installed(file)


def names(code: CodeType) -> Iterator[str]:
    """Globals and attributes that a function and those inside it name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names(constant)

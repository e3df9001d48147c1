"""`import ren.jit`: the same object as `from ren import jit`, not a module of its own."""

import sys

from ren.jit_api import jit

sys.modules[__name__] = jit  # type: ignore[assignment]

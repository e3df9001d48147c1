"""What the compiler made of kernels that compute with unsigned words: nothing in floating point."""

from __future__ import annotations

import re
from typing import Any

import numba
import pytest
from ren_backend_cpu.kernels import elementwise, limb, mod_down, ntt, twiddles

from ren_backend_cpu import features

_INTEGERS = [
    twiddles.node_powers,
    twiddles.integer_entries,
    twiddles.pack_tails,
    twiddles.pack_tails_compressed,
    ntt.scalar_forward,
    ntt.scalar_inverse,
    elementwise.elementwise,
    mod_down.mod_down,
]


@pytest.mark.parametrize("kernel", _INTEGERS, ids=lambda k: k.name)
@pytest.mark.skipif(limb.FLOAT_LAZY in features.target().paths, reason="this target computes in doubles on purpose")
def test_integer_kernels_hold_no_float(kernel: Any) -> None:
    """In numba an unsigned word meeting a signed one becomes a double, which is exact only to 53 bits: none may appear."""
    code = numba.cfunc(kernel.signature, error_model="numpy")(kernel.function).inspect_llvm()
    found = [line for line in code.splitlines() if re.search(r"\b(double|float)\b", line)]
    assert found == []

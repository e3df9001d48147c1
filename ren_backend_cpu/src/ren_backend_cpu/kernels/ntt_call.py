"""Transforms as other kernels call them: through the limb record, which holds the function that fits its modulus.

A fused kernel thus contains no transform code, compiles quickly, and handles chains that mix paths. All addresses are int64;
rows are n words of canonical residues, in and out; dst may equal src. Order of NTT rows: `ren.numtheory.roots.ntt_exponents`.
"""

from __future__ import annotations

from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.emit import caller, load
from ren_backend_cpu.kernels.jit import compiled

_call3 = caller(3)
_call5 = caller(5)


@compiled
def ntt_forward(record, src, dst):  # type: ignore[no-untyped-def]
    """dst = NTT(src)."""
    _call3(load(record, limb.FORWARD_FN), record, src, dst)


@compiled
def ntt_inverse(record, src, dst):  # type: ignore[no-untyped-def]
    """dst = INTT(src)."""
    _call5(load(record, limb.INVERSE_FN), record, src, dst, load(record, limb.SCALE), 0)


@compiled
def ntt_inverse_scaled(record, src, dst, scale, centred):  # type: ignore[no-untyped-def]
    """dst = c INTT(src), plus floor(q/2) if `centred` is 1, modulo q.

    scale: address of the four words of `tables.LimbTable.scale_pair(c)`; the factor costs nothing, it replaces n^-1 in the last stage.
    """
    _call5(load(record, limb.INVERSE_FN), record, src, dst, scale, centred)

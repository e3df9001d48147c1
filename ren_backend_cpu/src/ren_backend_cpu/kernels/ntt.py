"""The transforms of each path, as functions that limb records point to.

Each is compiled only when a limb of its path is first met; a path that the target lacks is bound to the scalar arithmetic and is
never chosen (`features.choose_path`), so its instructions are never emitted.
"""

# numba functions are typed by the signature they are compiled for: their Python parameters carry no annotations.
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from ren_backend_cpu.features import target
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.butterflies import (
    Butterfly,
    FloatLazy,
    FloatStrict,
    IfmaCompressed,
    IfmaLazy,
    IfmaStrict,
    Scalar,
    Vector64,
)
from ren_backend_cpu.kernels.emit import load
from ren_backend_cpu.kernels.jit import Entry, compiled, entry, limb_function
from ren_backend_cpu.kernels.ntt_call import ntt_forward, ntt_inverse
from ren_backend_cpu.kernels.ntt_transform import forward_transform, inverse_transform


def _if_present(path: int, butterfly: type[Butterfly]) -> type[Butterfly]:
    return butterfly if path in target().paths else Scalar


_ifma_lazy = _if_present(limb.IFMA_LAZY, IfmaLazy)
_ifma_compressed = _if_present(limb.IFMA_LAZY, IfmaCompressed)
_ifma_strict = _if_present(limb.IFMA_STRICT, IfmaStrict)
_float_lazy = _if_present(limb.FLOAT_LAZY, FloatLazy)
_float_strict = _if_present(limb.FLOAT_STRICT, FloatStrict)
_vector64 = _if_present(limb.VECTOR64, Vector64)

_scalar_forward = forward_transform(Scalar)
_scalar_inverse = inverse_transform(Scalar)
_vector64_forward = forward_transform(_vector64)
_vector64_inverse = inverse_transform(_vector64)
_float_strict_forward = forward_transform(_float_strict)
_float_strict_inverse = inverse_transform(_float_strict)
_float_lazy_forward = forward_transform(_float_lazy)
_float_lazy_inverse = inverse_transform(_float_lazy)
_ifma_strict_forward = forward_transform(_ifma_strict)
_ifma_strict_inverse = inverse_transform(_ifma_strict)
_ifma_lazy_forward = forward_transform(_ifma_lazy)
_ifma_lazy_inverse = inverse_transform(_ifma_lazy)
_ifma_compressed_forward = forward_transform(_ifma_compressed)
_ifma_compressed_inverse = inverse_transform(_ifma_compressed)


@limb_function(3)
def scalar_forward(record, src, dst):
    _scalar_forward(record, src, dst)


@limb_function(5)
def scalar_inverse(record, src, dst, scale, centred):
    _scalar_inverse(record, src, dst, scale, centred)


@limb_function(3)
def vector64_forward(record, src, dst):
    _vector64_forward(record, src, dst)


@limb_function(5)
def vector64_inverse(record, src, dst, scale, centred):
    _vector64_inverse(record, src, dst, scale, centred)


@limb_function(3)
def float_strict_forward(record, src, dst):
    _float_strict_forward(record, src, dst)


@limb_function(5)
def float_strict_inverse(record, src, dst, scale, centred):
    _float_strict_inverse(record, src, dst, scale, centred)


@limb_function(3)
def float_lazy_forward(record, src, dst):
    _float_lazy_forward(record, src, dst)


@limb_function(5)
def float_lazy_inverse(record, src, dst, scale, centred):
    _float_lazy_inverse(record, src, dst, scale, centred)


@limb_function(3)
def ifma_strict_forward(record, src, dst):
    _ifma_strict_forward(record, src, dst)


@limb_function(5)
def ifma_strict_inverse(record, src, dst, scale, centred):
    _ifma_strict_inverse(record, src, dst, scale, centred)


@limb_function(3)
def ifma_lazy_forward(record, src, dst):
    _ifma_lazy_forward(record, src, dst)


@limb_function(5)
def ifma_lazy_inverse(record, src, dst, scale, centred):
    _ifma_lazy_inverse(record, src, dst, scale, centred)


@limb_function(3)
def ifma_compressed_forward(record, src, dst):
    _ifma_compressed_forward(record, src, dst)


@limb_function(5)
def ifma_compressed_inverse(record, src, dst, scale, centred):
    _ifma_compressed_inverse(record, src, dst, scale, centred)


#: (forward, inverse) of each path; the compressed form of IFMA_LAZY is separate (`features.compressed_tail`).
TRANSFORMS: dict[int, tuple[Entry, Entry]] = {
    limb.SCALAR: (scalar_forward, scalar_inverse),
    limb.VECTOR64: (vector64_forward, vector64_inverse),
    limb.FLOAT_STRICT: (float_strict_forward, float_strict_inverse),
    limb.FLOAT_LAZY: (float_lazy_forward, float_lazy_inverse),
    limb.IFMA_STRICT: (ifma_strict_forward, ifma_strict_inverse),
    limb.IFMA_LAZY: (ifma_lazy_forward, ifma_lazy_inverse),
}
COMPRESSED = (ifma_compressed_forward, ifma_compressed_inverse)


@compiled
def _forward_rows(ring, row_bytes, src, dst, first, stop):
    for j in range(first, stop):
        ntt_forward(load(ring, j), src + j * row_bytes, dst + j * row_bytes)


@compiled
def _inverse_rows(ring, row_bytes, src, dst, first, stop):
    for j in range(first, stop):
        ntt_inverse(load(ring, j), src + j * row_bytes, dst + j * row_bytes)


@entry
def ntt(row):
    """row: ring, bytes per row, x, out, and first and last limb."""
    _forward_rows(row[0], row[1], row[2], row[3], row[4], row[5])


@entry
def intt(row):
    """row: ring, bytes per row, x, out, and first and last limb."""
    _inverse_rows(row[0], row[1], row[2], row[3], row[4], row[5])

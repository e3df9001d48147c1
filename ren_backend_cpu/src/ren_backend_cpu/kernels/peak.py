"""Butterflies that stay in registers: what the instructions of a transform could reach on this core if no memory were involved."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils

from ren_backend_cpu.features import target
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.kernels.butterflies import Butterfly, FloatLazy, IfmaLazy, Scalar
from ren_backend_cpu.kernels.emit import Em, Value, kernel
from ren_backend_cpu.kernels.jit import called_from_python

#: Pairs of values that go round at once: enough to hide latency, few enough for the registers of either kind of machine.
PAIRS = (2, 4, 8)


def _path() -> type[Butterfly]:
    paths = target().paths
    return IfmaLazy if limb.IFMA_LAZY in paths else FloatLazy if limb.FLOAT_LAZY in paths else Scalar


#: The arithmetic of usual scale primes on this target.
PATH = _path()


def _rounds(pairs: int) -> Any:
    """f(limb record, two words per lane and value, rounds): rounds * pairs * PATH.lanes butterflies in registers."""

    def emit(em: Em, pointers: list[Value], integers: list[Value]) -> None:
        record, data = pointers
        ar, b = PATH(em, record), em.b
        w = ar.load(data, em.i(0)), ar.load(data, em.i(8)), 2
        cells = [(cgutils.alloca_once(b, ar.ty), cgutils.alloca_once(b, ar.ty)) for _ in range(pairs)]
        for k, cell in enumerate(cells):
            for half, c in enumerate(cell):
                b.store(ar.load(data, em.i(16 + 8 * (2 * k + half))), c)
        with em.loop(integers[0]):
            for x, y in cells:
                s, d = ar.forward(b.load(x, typ=ar.ty), b.load(y, typ=ar.ty), w)
                b.store(s, x)
                b.store(d, y)
        for k, cell in enumerate(cells):
            for half, c in enumerate(cell):
                ar.store(b.load(c, typ=ar.ty), data, em.i(16 + 8 * (2 * k + half)))

    emit.__name__ = f"rounds{pairs}"
    return kernel(2, 1, emit)


#: Words of the data that the functions below read and write.
DATA_WORDS = 16 + 16 * max(PAIRS)

_rounds2, _rounds4, _rounds8 = (_rounds(pairs) for pairs in PAIRS)


@called_from_python(types.int64, types.int64, types.int64)
def rounds2(record, data, rounds):
    _rounds2(record, data, rounds)


@called_from_python(types.int64, types.int64, types.int64)
def rounds4(record, data, rounds):
    _rounds4(record, data, rounds)


@called_from_python(types.int64, types.int64, types.int64)
def rounds8(record, data, rounds):
    _rounds8(record, data, rounds)


#: (pairs, function), all of which do the same work per pair.
FUNCTIONS = tuple(zip(PAIRS, (rounds2, rounds4, rounds8), strict=True))

"""What kernels need to know of moduli, in device memory: limb records, twiddles, scale rows. Built at first use, immutable once published,
shared by all threads and plans of one device."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from ren.numtheory.roots import primitive_root_2n

from ren_backend_cuda.device import Device, DeviceMemory, Launch
from ren_backend_cuda.lowered import Table, blocks

Words = NDArray[np.uint64]

#: Words of one limb record: `Limb` in kernels/modarith.cuh.
LIMB_WORDS = 8
#: Words of one scale row: `Scale` in kernels/scaling.cuh.
SCALE_WORDS = 8
_THREADS = 256


def quotient(w: int, q: int) -> int:
    """floor(w 2^64 / q), by which kernels multiply modulo q with w fixed."""
    return (w << 64) // q


def limb_record(q: int, forward: int, inverse: int) -> list[int]:
    """The words of a limb record; forward, inverse: addresses of the twiddles."""
    bits = q.bit_length()
    barrett = ((1 << 2 * bits) // q) << (63 - bits)
    return [q, bits, barrett, (1 << 64) // q, quotient((1 << 64) % q, q), (1 << 64) % q, forward, inverse]


class Tables:
    """The tables of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lock = threading.RLock()
        self._constants: dict[bytes, DeviceMemory] = {}
        self._twiddles: dict[tuple[int, int], DeviceMemory] = {}
        self._rings: dict[tuple[int, tuple[int, ...]], Table] = {}

    def constant(self, values: Words | Sequence[int]) -> DeviceMemory:
        """Words that never change, on the device: one memory for equal contents. An empty table has one word, so that it has an address."""
        words = np.ascontiguousarray(np.asarray(values, np.uint64).reshape(-1))
        key = words.tobytes()
        with self._lock:
            found = self._constants.get(key)
            if found is None:
                found = self.device.alloc(max(words.size, 1))
                if words.size:
                    self.device.upload(found, 0, words)
                self._constants[key] = found
        return found

    def ring(self, n: int, moduli: Sequence[int]) -> Table:
        """Limb records of these moduli in this order, with their twiddles for degree n."""
        key = n, tuple(moduli)
        found = self._rings.get(key)
        if found is None:
            with self._lock:
                found = self._rings.get(key)
                if found is None:
                    found = self._rings[key] = self._make(*key)
        return found

    def _make(self, n: int, moduli: tuple[int, ...]) -> Table:
        missing = [q for q in moduli if (n, q) not in self._twiddles]
        made = {q: self.device.alloc(4 * n) for q in missing}
        if made:
            self._fill(n, made)
            self._twiddles.update({(n, q): memory for q, memory in made.items()})
        keep = [self._twiddles[n, q] for q in moduli]
        return Table(self._records(n, moduli, keep), tuple(keep))

    def _records(self, n: int, moduli: Sequence[int], twiddles: Sequence[DeviceMemory]) -> DeviceMemory:
        """Forward pairs are the first 2n words of a twiddle table, inverse ones the rest."""
        pairs = zip(moduli, twiddles, strict=True)
        return self.constant([w for q, t in pairs for w in limb_record(q, t.address, t.address + 16 * n)])

    def _fill(self, n: int, made: dict[int, DeviceMemory]) -> None:
        """Twiddles are computed on the device: from the host they would be by far the largest transfer of a first call."""
        moduli, memories = list(made), list(made.values())
        log_n = n.bit_length() - 1
        bases = []
        for q in moduli:
            psi = primitive_root_2n(q, n)
            for root in (psi, pow(psi, -1, q)):
                bases += [pow(root, 1 << b, q) for b in range(log_n)]
        function = self.device.function("twiddles", {}, "twiddle_tables")
        arguments = (self._records(n, moduli, memories), self.constant(bases), np.uint32(log_n))
        threads = min(n, _THREADS)
        launch = Launch(function, (blocks(n, threads), len(moduli), 1), (threads, 1, 1), arguments)
        self.device.record([launch]).run()

    # -- scale rows

    def scales(self, rows: Sequence[Sequence[int]]) -> DeviceMemory:
        """Scale rows, one per limb, from `transform_scale` or `coefficient_scale`."""
        return self.constant([w for row in rows for w in (*row, *[0] * (SCALE_WORDS - len(row)))])


def transform_scale(n: int, q: int, factor: int, addend: int = 0) -> list[int]:
    """The row with which an inverse transform multiplies by `factor`; addend: P of x + P z."""
    f = factor * pow(n, -1, q) % q
    root = f * pow(primitive_root_2n(q, n), -(n // 2), q) % q
    return [f, quotient(f, q), root, quotient(root, q), addend % q]


def coefficient_scale(q: int, factor: int, addend: int = 0) -> list[int]:
    """The row with which coefficients are multiplied by `factor`."""
    return [factor % q, quotient(factor % q, q), 0, 0, addend % q]

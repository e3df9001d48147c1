"""`EmulatedDevice`: the seam of the CUDA backend on the host, for the tests only.

    device = EmulatedDevice("check")
    backend = CudaBackend(device)

Modes: "fast" (-O2; random order of threads and blocks, poisoned shared memory, guard zones around memory) and "check" (bounds, races,
uninitialised reads, alignment, undefined behaviour, `__ldg`; see checks.cpp). `deferred=True` runs nothing before somebody waits, as a GPU
that is slow would: what was changed or freed too early then shows.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ren_backend_cuda.device import Launch
from ren_backend_cuda.limits import LIMITS, Resources, check_launch
from ren_backend_cuda.source import KERNELS, Declaration, declarations

from emulator import build

ORDERS = {"sequential": 0, "reverse": 1, "random": 2}
LETTERS = {"int32": "i", "uint32": "u", "int64": "I", "uint64": "U", "float32": "f", "float64": "d", None: "p"}
GUARD = 4096
POISON = 0xA5


class KernelFault(RuntimeError):
    """A kernel ran and broke a rule. `findings`: what was seen, one dict each, with "kind", "text" and "where"."""

    def __init__(self, name: str, findings: list[dict[str, Any]]) -> None:
        self.findings = findings
        self.kinds = [f["kind"] for f in findings]
        super().__init__(f"{name}: " + "; ".join(f"{f['kind']}: {f['text']}{f['where']}" for f in findings))


class Runtime:
    """The shim's runtime of one mode: one per process, since its state is that of one GPU."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        self.lock = threading.RLock()
        self.settings: tuple[int, int, int] | None = None
        #: Memory whose object has died; it may outlive its device.
        self.dead: deque[tuple[int, NDArray[np.uint8], int, int, str]] = deque()
        for name in ("renshim_findings", "renshim_profile"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.lib.renshim_configure.argtypes = [ctypes.c_uint, ctypes.c_ulonglong, ctypes.c_uint]
        self.lib.renshim_register.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_char_p]
        self.lib.renshim_unregister.argtypes = [ctypes.c_void_p]
        self.lib.renshim_written.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        for name in ("register", "unregister", "written", "configure"):
            getattr(self.lib, f"renshim_{name}").restype = None

    def configure(self, settings: tuple[int, int, int]) -> None:
        if settings != self.settings:
            self.lib.renshim_configure(*settings)
            self.settings = settings


@cache
def _runtime(mode: str, extra: tuple[str, ...]) -> Runtime:
    return Runtime(build.runtime(mode, extra))


class EmulatedMemory:
    """Words of the emulated device, with guard zones on both sides."""

    def __init__(self, device: EmulatedDevice, words: int, number: int) -> None:
        self.device = device
        self.words = words
        self.name = f"memory {number}"
        size = words * 8
        self.raw = np.full(size + 2 * GUARD + 256, POISON, np.uint8)
        begin = self.raw.ctypes.data
        self.start = -(-(begin + GUARD) // 256) * 256 - begin
        self.end = self.start + size
        self.array = self.raw[self.start : self.end].view(np.uint64)
        self.address = begin + self.start

    def check_guards(self) -> None:
        """Raise KernelFault, once, if a kernel wrote into the guard zones."""
        _check_guards(self.raw, self.start, self.end, self.name)


def _check_guards(raw: NDArray[np.uint8], start: int, end: int, name: str) -> None:
    zones = raw[:start], raw[end:]
    if any((zone != POISON).any() for zone in zones):
        for zone in zones:
            zone[:] = POISON
        text = f"wrote outside {name}; the check build says where"
        raise KernelFault("unknown kernel", [{"kind": "guard", "text": text, "where": ""}])


class EmulatedFunction:
    """A kernel of a loaded library."""

    def __init__(self, library: Path, lib: ctypes.CDLL, declaration: Declaration) -> None:
        self.name = declaration.name
        self.library = library
        self.declaration = declaration
        self.launch = getattr(lib, f"renshim_launch_{self.name}")
        self.launch.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint)]
        signature = getattr(lib, f"renshim_signature_{self.name}")
        signature.restype = ctypes.c_char_p
        read = "".join(LETTERS[p.dtype] for p in declaration.parameters)
        if signature().decode() != read:
            raise AssertionError(
                f"{self.name}: the source was read as {read}, its compiler says {signature().decode()}"
            )
        self.used = Resources(bound=getattr(lib, f"renshim_bound_{self.name}")())

    def lines(self, address: int) -> str:
        """Source lines of an address in the library, innermost first, without those of the shim."""
        if not address:
            return ""
        command = ["addr2line", "-i", "-e", str(self.library), hex(address - 1)]
        out = subprocess.run(command, capture_output=True, text=True).stdout
        places = (line.split(" ")[0].rsplit(":", 1) for line in out.splitlines() if ":" in line and "?" not in line)
        found = [f"{Path(file).name}:{line}" for file, line in places if not file.endswith("host_shim.h")]
        return " < ".join(found[:3])


class EmulatedRecording:
    """Launches with their arguments packed."""

    def __init__(self, device: EmulatedDevice, launches: Sequence[Launch]) -> None:
        self.device = device
        self.launches = tuple(launches)
        self.packed = [self._pack(launch) for launch in self.launches]

    def _pack(self, launch: Launch) -> tuple[EmulatedFunction, Any, Any, list[NDArray[Any]]]:
        function = launch.function
        assert isinstance(function, EmulatedFunction)
        function.declaration.check(launch.arguments)
        check_launch(function.name, launch.grid, launch.block, launch.shared_bytes, self.device.limits, function.used)
        cells = [np.array(a if isinstance(a, np.generic) else np.uint64(a.address)) for a in launch.arguments]
        pointers = (ctypes.c_void_p * len(cells))(*(c.ctypes.data for c in cells))
        config = (ctypes.c_uint * 8)(*launch.grid, *launch.block, launch.shared_bytes, 0)
        return function, pointers, config, cells

    def run(self) -> None:
        self.device._issue(self._run)

    def _run(self) -> None:
        for launch, (function, pointers, config, _) in zip(self.launches, self.packed, strict=True):
            self.device.launched.append(launch)
            if function.launch(pointers, config):
                raise KernelFault(function.name, self.device._findings(function))


class EmulatedDevice:
    """The `Device` protocol on the host. Objects of one mode share the state of the emulated GPU, as streams of one would."""

    def __init__(
        self,
        mode: str = "fast",
        *,
        kernels: Path = KERNELS,
        order: str = "random",
        seed: int = 1,
        deferred: bool = False,
        architecture: str = "sm_90",
        extra: tuple[str, ...] = (),
    ) -> None:
        if build.MISSING:
            raise RuntimeError(build.MISSING)
        self.name = f"emulated ({mode})"
        self.mode, self.kernels, self.extra = mode, kernels, extra
        self.limits = LIMITS[architecture]
        self.order, self.seed, self.profiled = order, seed, False
        self.deferred = deferred
        #: The launches that ran, newest last.
        self.launched: deque[Launch] = deque(maxlen=100_000)
        self._runtime = _runtime(mode, extra)
        self._queue: deque[Callable[[], None]] = deque()
        self._functions: dict[tuple[str, tuple[tuple[str, int], ...]], dict[str, EmulatedFunction]] = {}
        self._allocated = 0

    # -- memory ------------------------------------------------------------------------------------------------------

    def alloc(self, words: int) -> EmulatedMemory:
        with self._runtime.lock:
            self._bury()
            self._allocated += 1
            memory = EmulatedMemory(self, words, self._allocated)
            name = f"{memory.name} ({words} words)".encode()
            self._runtime.lib.renshim_register(memory.address, words * 8, GUARD, name)
            # Finalizers run anywhere, even inside a launch of this thread, so they only leave a note.
            corpse = (memory.address - GUARD, memory.raw, memory.start, memory.end, memory.name)
            weakref.finalize(memory, self._release, corpse).atexit = False
            return memory

    def _release(self, corpse: tuple[int, NDArray[np.uint8], int, int, str]) -> None:
        # In stream order: what was issued before may still use it.
        dead = self._runtime.dead
        self._queue.append(lambda: dead.append(corpse)) if self.deferred else dead.append(corpse)

    def _bury(self) -> None:
        dead = self._runtime.dead
        while dead:
            key, raw, start, end, name = dead.popleft()
            self._runtime.lib.renshim_unregister(key)
            _check_guards(raw, start, end, name)

    def upload(self, memory: EmulatedMemory, offset: int, data: NDArray[np.uint64]) -> None:
        assert data.dtype == np.uint64 and data.ndim == 1 and 0 <= offset <= memory.words - data.size
        kept = data.copy() if self.deferred else data

        def write() -> None:
            memory.array[offset : offset + kept.size] = kept
            if kept.size:
                self._runtime.lib.renshim_written(memory.address + 8 * offset, 8 * kept.size)

        self._issue(write)

    def download(self, memory: EmulatedMemory, offset: int, words: int) -> NDArray[np.uint64]:
        assert 0 <= offset <= memory.words - words and words >= 0
        with self._runtime.lock:
            self.synchronize()
            memory.check_guards()
            return memory.array[offset : offset + words].copy()

    # -- kernels -----------------------------------------------------------------------------------------------------

    def function(self, source: str, defines: Mapping[str, int], kernel: str) -> EmulatedFunction:
        key = source, tuple(sorted(defines.items()))
        with self._runtime.lock:
            if key not in self._functions:
                path = self.kernels / f"{source}.cu"
                library = build.module(path, defines, self.mode, KERNELS, self.extra)
                lib = ctypes.CDLL(str(library))
                found = declarations(path.read_text()).values()
                self._functions[key] = {d.name: EmulatedFunction(library, lib, d) for d in found}
            return self._functions[key][kernel]

    def record(self, launches: Sequence[Launch]) -> EmulatedRecording:
        return EmulatedRecording(self, launches)

    def synchronize(self) -> None:
        with self._runtime.lock:
            while self._queue:
                self._run(self._queue.popleft())
            self._bury()

    # -- of the emulator ---------------------------------------------------------------------------------------------

    def profile(self) -> list[dict[str, Any]]:
        """Counts of shared-memory wavefronts and global sectors since `profiled` was set, one dict per access instruction. Check mode."""
        with self._runtime.lock:
            self.synchronize()
            return list(json.loads(self._runtime.lib.renshim_profile().decode()))

    def _issue(self, work: Callable[[], None]) -> None:
        if self.deferred:
            self._queue.append(work)
            return
        with self._runtime.lock:
            self._bury()
            self._run(work)

    def _run(self, work: Callable[[], None]) -> None:
        self._runtime.configure((ORDERS[self.order], self.seed, int(self.profiled)))
        work()

    def _findings(self, function: EmulatedFunction) -> list[dict[str, Any]]:
        found = json.loads(self._runtime.lib.renshim_findings().decode())
        for f in found:
            here, other = function.lines(f["pc"]), function.lines(f["other_pc"])
            f["where"] = (f" at {here}" if here else "") + (f" against {other}" if other else "")
        return list(found)

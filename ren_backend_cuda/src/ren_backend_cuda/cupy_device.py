"""`CupyDevice`: the seam of this backend on a GPU, by CuPy's driver calls. Nothing of CuPy that compiles is used.

One non-blocking stream per device takes all work, so order is that of issuing, memory freed while work is in flight goes back to the pool in
stream order, and nothing waits for the default stream that other libraries use. Recordings are captured on a second stream, because what
other threads issue on the first one meanwhile must not become part of them.

Uploads go through pinned memory that stays reserved until its copy has finished: the copy is asynchronous, and the caller may change or
free what it passed. Downloads wait for the stream.

Never run on a GPU by its authors so far: docs/explanation/cuda-kernels.md says what is proven, and how.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray
from ren.errors import BackendUnavailableError, ForkedProcessError, KernelOperandError

from ren_backend_cuda import nvrtc
from ren_backend_cuda.compiler import Compiled, compile_module
from ren_backend_cuda.device import DeviceMemory, Launch
from ren_backend_cuda.limits import PLAIN_SHARED, Limits, Resources, check_launch
from ren_backend_cuda.source import KERNELS, Declaration, declarations

#: Bytes of one piece of an upload, and of all pieces whose copies may be in flight.
PIECE_BYTES = 16 << 20
IN_FLIGHT_BYTES = 4 * PIECE_BYTES


class CupyMemory:
    """Words of the device; back to the pool once this object dies, for whatever is issued later."""

    __slots__ = ("__weakref__", "address", "device", "pointer", "words")

    def __init__(self, device: CupyDevice, pointer: Any, words: int) -> None:
        self.device = device
        self.pointer = pointer
        self.address: int = pointer.ptr
        self.words = words


class CupyFunction:
    """A kernel of a loaded module."""

    def __init__(self, kernel: Any, declaration: Declaration, used: Resources) -> None:
        self.name = declaration.name
        self.kernel = kernel
        self.declaration = declaration
        self.used = used
        self.shared_bytes = PLAIN_SHARED  # what its launches may ask for so far


class CupyRecording:
    """A CUDA graph, and all that its kernels' arguments point to."""

    def __init__(self, device: CupyDevice, graph: Any, launches: tuple[Launch, ...]) -> None:
        self._device = device
        self._graph = graph
        self._lock = threading.Lock()  # a graph may not be launched from two threads at once
        # The graph may still run when this object dies.
        weakref.finalize(self, device.retired.append, (graph, launches)).atexit = False

    def run(self) -> None:
        """Issue it. Returns before it has finished."""
        if self._graph is not None:
            with self._lock, self._device.active() as stream:
                self._graph.launch(stream=stream)


class CupyDevice:
    """One GPU. Raises BackendUnavailableError where kernels cannot be compiled for it, and CuPy's errors where there is none."""

    def __init__(self, index: int = 0) -> None:
        self._index = index
        self._process = os.getpid()
        runtime = cupy.cuda.runtime
        self.name: str = runtime.getDeviceProperties(index)["name"].decode()
        self._compiler = nvrtc.load(runtime.runtimeGetVersion() // 1000)
        with cupy.cuda.Device(index) as device:
            self.limits = limits_of(device.attributes)
            self.architecture = architecture_for(
                int(device.compute_capability), self._compiler.architectures(), self.name
            )
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._capture = cupy.cuda.Stream(non_blocking=True)
        self._pool = cupy.cuda.MemoryPool()
        self._pinned = cupy.cuda.PinnedMemoryPool()
        self._uploads: deque[tuple[Any, Any, int]] = deque()  # (event, pinned memory, bytes)
        self._upload_bytes = 0
        #: What dead recordings held, and the same with an event after which nothing uses it.
        self.retired: deque[tuple[Any, tuple[Launch, ...]]] = deque()
        self._graves: deque[tuple[Any, list[Any]]] = deque()
        self._functions: dict[tuple[str, tuple[tuple[str, int], ...]], dict[str, CupyFunction]] = {}
        self._modules: list[Any] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.RLock()  # of the queues and the modules
        self._capture_lock = threading.Lock()

    @contextmanager
    def active(self) -> Iterator[Any]:
        """This device and its stream are the current ones of the thread. Raises ForkedProcessError in a child process."""
        if os.getpid() != self._process:
            raise ForkedProcessError(
                "CUDA cannot be used in a process forked from one that used it",
                subject=self.name,
                hint='Start workers with multiprocessing\'s "spawn" method',
            )
        # A new object each time: entering keeps the former device in it, and threads would mix them up.
        with cupy.cuda.Device(self._index), self._stream:
            yield self._stream

    # -- memory ------------------------------------------------------------------------------------------------------

    def alloc(self, words: int) -> CupyMemory:
        # The pool gives freed memory only to the stream that is current, ours: what used it before comes first there.
        with self.active():
            self._bury()
            return CupyMemory(self, self._pool.malloc(8 * max(words, 1)), words)

    def upload(self, memory: DeviceMemory, offset: int, data: NDArray[np.uint64]) -> None:
        target = self._own(memory)
        with self.active() as stream, self._lock:
            self._bury()
            step = PIECE_BYTES // 8
            for start in range(0, data.size, step):
                piece = data[start : start + step]
                pinned = self._reserve(piece.nbytes)
                np.frombuffer(pinned, np.uint64, piece.size)[:] = piece
                (target.pointer + 8 * (offset + start)).copy_from_host_async(pinned.ptr, piece.nbytes, stream)
                self._uploads.append((self._event(stream), pinned, piece.nbytes))
                self._upload_bytes += piece.nbytes

    def _own(self, memory: object) -> CupyMemory:
        if not isinstance(memory, CupyMemory) or memory.device is not self:
            raise KernelOperandError(f"{memory!r} is no memory of this device", subject="memory")
        return memory

    def _reserve(self, size: int) -> Any:
        """Pinned memory that no copy uses. Waits for the oldest copies when too much is in flight."""
        while self._uploads and (self._upload_bytes + size > IN_FLIGHT_BYTES or self._uploads[0][0].done):
            event, _, taken = self._uploads[0]
            event.synchronize()
            self._uploads.popleft()
            self._upload_bytes -= taken
        return self._pinned.malloc(size)

    def download(self, memory: DeviceMemory, offset: int, words: int) -> NDArray[np.uint64]:
        source, data = self._own(memory), np.empty(words, np.uint64)
        with self.active() as stream:
            if words:
                (source.pointer + 8 * offset).copy_to_host_async(data.ctypes.data, data.nbytes, stream)
            stream.synchronize()
        return data

    def _event(self, stream: Any) -> Any:
        event = cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    # -- kernels -----------------------------------------------------------------------------------------------------

    def function(self, source: str, defines: Mapping[str, int], kernel: str) -> CupyFunction:
        key = source, tuple(sorted(defines.items()))
        with self._lock:
            found = self._functions.get(key)
            if found is None:
                with self.active():
                    found = self._functions[key] = self._load(source, defines)
        return found[kernel]

    def _load(self, source: str, defines: Mapping[str, int]) -> dict[str, CupyFunction]:
        compiled = compile_module(source, defines, self.architecture, self._compiler)
        # CuPy knows a module by its path: names are those of the content.
        module = cupy.RawModule(path=str(compiled.path or self._temporary(compiled)))
        self._modules.append(module)
        functions = {}
        for name, declaration in declarations((KERNELS / f"{source}.cu").read_text()).items():
            loaded = module.get_function(name)
            # Asking for attributes loads the kernel: nothing may be loaded during a capture.
            bound = loaded.attributes["max_threads_per_block"]
            used = compiled.resources[name]
            functions[name] = CupyFunction(
                loaded, declaration, Resources(used.registers, used.shared, used.stack, used.spills, bound)
            )
        return functions

    def _temporary(self, compiled: Compiled) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="ren-cuda-")
        path = Path(self._folder.name) / f"{compiled.name}.cubin"
        path.write_bytes(compiled.cubin)
        return path

    def record(self, launches: Sequence[Launch]) -> CupyRecording:
        """Raises LaunchError, before anything is issued, for launches that the device cannot run."""
        kept = tuple(launches)
        calls = [self._call(launch) for launch in kept]
        if not calls:
            return CupyRecording(self, None, kept)
        with self.active(), self._capture_lock, self._capture:
            with self._lock:
                self._bury()
            # Other threads may allocate meanwhile; what this thread does below is launches only.
            self._capture.begin_capture(cupy.cuda.runtime.streamCaptureModeThreadLocal)
            try:
                for kernel, grid, block, arguments, shared_bytes in calls:
                    kernel(grid, block, arguments, shared_mem=shared_bytes)
            finally:
                graph = self._capture.end_capture()
        return CupyRecording(self, graph, kept)

    def _call(self, launch: Launch) -> tuple[Any, ...]:
        function = launch.function
        if not isinstance(function, CupyFunction):
            raise KernelOperandError(f"{function!r} is no kernel of this device", subject=launch.function.name)
        function.declaration.check(launch.arguments)
        check_launch(function.name, launch.grid, launch.block, launch.shared_bytes, self.limits, function.used)
        with self._lock:
            if launch.shared_bytes > function.shared_bytes:
                with self.active():
                    function.kernel.max_dynamic_shared_size_bytes = launch.shared_bytes
                function.shared_bytes = launch.shared_bytes
        arguments = tuple(np.uint64(a.address) if isinstance(a, CupyMemory) else a for a in launch.arguments)
        return function.kernel, launch.grid, launch.block, arguments, launch.shared_bytes

    def synchronize(self) -> None:
        with self.active() as stream:
            stream.synchronize()
            with self._lock:
                self._bury()

    def _bury(self) -> None:
        """Let go of dead recordings whose last run has finished."""
        with self._lock:
            dead = [self.retired.popleft() for _ in range(len(self.retired))]
            if dead:
                self._graves.append((self._event(self._stream), [dead]))
            while self._graves and self._graves[0][0].done:
                self._graves.popleft()


def limits_of(attributes: Mapping[str, int]) -> Limits:
    """Launch limits from the device's attributes."""
    return Limits(
        shared=attributes["MaxSharedMemoryPerBlockOptin"],
        registers=attributes["MaxRegistersPerBlock"],
        threads=attributes["MaxThreadsPerBlock"],
        block=(attributes["MaxBlockDimX"], attributes["MaxBlockDimY"], attributes["MaxBlockDimZ"]),
        grid=(attributes["MaxGridDimX"], attributes["MaxGridDimY"], attributes["MaxGridDimZ"]),
    )


def architecture_for(capability: int, known: Sequence[int], name: str) -> str:
    """The newest architecture that the compiler knows and the device runs: its own, or an older one of the same generation.

    Raises BackendUnavailableError where there is none.
    """
    fitting = [a for a in known if a // 10 == capability // 10 and a <= capability]
    if not fitting:
        raise BackendUnavailableError(
            f"{name} has compute capability {capability // 10}.{capability % 10}, which this NVRTC does not compile for",
            subject=name,
            hint=f"Install a newer nvidia-cuda-nvrtc; for cards of before 2018 the cuda12 extra. {nvrtc.INSTALL}",
        )
    return f"sm_{max(fitting)}"

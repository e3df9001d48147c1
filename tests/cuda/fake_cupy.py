"""The few calls of CuPy that the CUDA backend makes, over the emulator, as lazy and as forgetful as a GPU may be.

Streams do nothing before somebody waits. Pools hand freed memory out again at once, pinned memory to anyone, device memory to the stream
it came from. A capture takes launches only. So an upload whose source is released too early, a launch on the wrong stream, or an
allocation inside a capture gives wrong words or an error here, as it would there, only every time.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import threading
import types
import weakref
from collections import defaultdict
from pathlib import Path

import numpy as np
from emulator import EmulatedDevice
from ren_backend_cuda.compiler import Compiled
from ren_backend_cuda.device import Launch
from ren_backend_cuda.limits import Resources

from ren_backend_cuda import nvrtc


class FakeError(RuntimeError):
    """What CUDA would report."""


class FakeCupy:
    """`module` stands for `cupy`; `log` has every driver call, in order."""

    def __init__(self, mode="fast", *, capability="90", attributes=None, version=13000, device_count=1):
        self.emulated = EmulatedDevice(mode)
        self.lock = threading.RLock()
        self.log = []
        self.sources = {}  # name of the compiled module -> (source, macros)
        self.loaded = set()
        self.thread = threading.local()
        fake = self

        def current():
            stack = getattr(fake.thread, "streams", None)
            if not stack:
                raise FakeError("work on the default stream")
            return stack[-1]

        class Stream:
            def __init__(self, non_blocking=False):
                assert non_blocking, "a blocking stream waits for the default one"
                self.queue, self.captured, self.owner = [], None, None

            def __enter__(self):
                if not hasattr(fake.thread, "streams"):
                    fake.thread.streams = []
                fake.thread.streams.append(self)
                return self

            def __exit__(self, *error):
                assert fake.thread.streams.pop() is self

            def issue(self, name, work):
                with fake.lock:
                    fake.log.append(name)
                    if self.captured is not None:
                        if not name.startswith("launch"):
                            raise FakeError(f"{name} inside a capture")
                        self.captured.append(work)
                    else:
                        self.queue.append(work)

            def synchronize(self):
                with fake.lock:
                    fake.log.append("synchronize")
                    self.drain(None)

            def drain(self, event):
                while self.queue and not (event is not None and event.reached):
                    self.queue.pop(0)()

            def begin_capture(self, mode=None):
                assert mode == 1, "another thread's allocation would break the capture"
                with fake.lock:
                    assert self.captured is None and not self.queue
                    fake.log.append("begin_capture")
                    self.captured, self.owner = [], threading.get_ident()
                    fake.thread.capturing = True

            def end_capture(self):
                with fake.lock:
                    fake.log.append("end_capture")
                    works, self.captured = self.captured, None
                    fake.thread.capturing = False
                    return Graph(works)

        class Graph:
            def __init__(self, works):
                assert works, "an empty graph"
                self.works, self.destroyed = works, [False]
                weakref.finalize(self, self.destroyed.__setitem__, 0, True)

            def launch(self, stream=None):
                destroyed, works = self.destroyed, self.works

                def work():
                    if destroyed[0]:
                        raise FakeError("a graph was destroyed before it ran")
                    for w in works:
                        w()

                stream.issue("graph", work)

        class Event:
            def __init__(self, block=False, disable_timing=False):
                assert disable_timing
                forbid("cudaEventCreate")
                self.reached, self.stream = True, None

            def record(self, stream):
                self.reached, self.stream = False, stream
                stream.issue("event", lambda: setattr(self, "reached", True))

            @property
            def done(self):
                return self.reached

            def synchronize(self):
                with fake.lock:
                    fake.log.append("event.synchronize")
                    self.stream.drain(self)

        def forbid(what):
            """Calls that a capturing thread may not make."""
            if getattr(fake.thread, "capturing", False):
                raise FakeError(f"{what} inside a capture")

        class Pointer:
            def __init__(self, memory, block, offset=0):
                self.memory, self.block = memory, block
                self.ptr, self.offset = memory.address + offset, offset

            def __add__(self, offset):
                return Pointer(self.memory, self.block, self.offset + offset)

            def copy_from_host_async(self, mem, size, stream=None):
                memory, offset = self.memory, self.offset
                assert size % 8 == 0 and offset + size <= 8 * memory.words

                def work():
                    words = np.frombuffer((ctypes.c_char * size).from_address(mem), np.uint64)
                    fake.emulated.upload(memory, offset // 8, words)

                stream.issue("upload", work)

            def copy_to_host_async(self, mem, size, stream=None):
                memory, offset = self.memory, self.offset

                def work():
                    data = fake.emulated.download(memory, offset // 8, size // 8)
                    ctypes.memmove(mem, data.ctypes.data, size)

                stream.issue("download", work)

        class MemoryPool:
            def __init__(self):
                self.free = defaultdict(list)

            def malloc(self, size):
                stream = current()
                assert size > 0 and stream.captured is None
                with fake.lock:
                    free = self.free[stream, size]
                    fake.log.append("reuse" if free else "malloc")
                    if not free:
                        forbid("cudaMalloc")
                    memory = free.pop() if free else fake.emulated.alloc(-(-size // 8))
                # The block goes back when the last pointer into it is gone; the emulated memory itself lives on in the pool.
                block = _Block()
                weakref.finalize(block, free.append, memory).atexit = False
                return Pointer(memory, block)

        class PinnedMemoryPool:
            def __init__(self):
                self.free = defaultdict(list)

            def malloc(self, size):
                with fake.lock:
                    free = self.free[size]
                    raw = free.pop() if free else np.empty(size, np.uint8)
                pinned = type("Pinned", (ctypes.c_char * size,), {}).from_buffer(raw)
                pinned.ptr = raw.ctypes.data
                weakref.finalize(pinned, free.append, raw).atexit = False
                return pinned

        class RawModule:
            def __init__(self, code=None, *, path=None):
                assert code is None and Path(path).read_bytes().startswith(b"machine code")
                self.source, self.defines = fake.sources[Path(path).stem]

            def get_function(self, name):
                return RawKernel(fake.emulated.function(self.source, self.defines, name))

        class RawKernel:
            def __init__(self, function):
                self.function, self.allowed = function, 48 * 1024

            @property
            def attributes(self):
                forbid("cuModuleLoad")
                fake.loaded.add(id(self))
                return {"max_threads_per_block": self.function.used.bound}

            @property
            def max_dynamic_shared_size_bytes(self):
                return self.allowed

            @max_dynamic_shared_size_bytes.setter
            def max_dynamic_shared_size_bytes(self, value):
                forbid("cuFuncSetAttribute")
                fake.log.append(f"opt in {value}")
                self.allowed = value

            def __call__(self, grid, block, args, *, shared_mem=0):
                if id(self) not in fake.loaded:
                    forbid("cuModuleLoad")
                if shared_mem > self.allowed:
                    raise FakeError("invalid argument: shared memory")
                parameters = self.function.declaration.parameters
                assert all(isinstance(a, np.generic) for a in args) and len(args) == len(parameters)
                arguments = tuple(
                    types.SimpleNamespace(address=int(a)) if p.dtype is None else a
                    for p, a in zip(parameters, args, strict=True)
                )
                recording = fake.emulated.record([Launch(self.function, grid, block, arguments, shared_mem)])
                current().issue(f"launch {self.function.name}", recording.run)

        limits = {
            "MaxSharedMemoryPerBlockOptin": 227 * 1024,
            "MaxRegistersPerBlock": 65536,
            "MaxThreadsPerBlock": 1024,
            **{f"MaxBlockDim{axis}": 64 if axis == "Z" else 1024 for axis in "XYZ"},
            **{f"MaxGridDim{axis}": 2**31 - 1 if axis == "X" else 65535 for axis in "XYZ"},
            **(attributes or {}),
        }

        class Device:
            def __init__(self, index=None):
                self.attributes, self.compute_capability, self.depth = limits, capability, 0

            def __enter__(self):
                self.depth += 1
                assert self.depth == 1, "CuPy's device objects keep one state for all threads"
                return self

            def __exit__(self, *error):
                self.depth -= 1

        runtime = types.SimpleNamespace(
            getDeviceCount=lambda: device_count,
            getDeviceProperties=lambda index: {"name": b"Fake GPU"},
            runtimeGetVersion=lambda: version,
            streamCaptureModeThreadLocal=1,
        )
        self.module = types.ModuleType("cupy")
        self.module.RawModule = RawModule
        self.module.cuda = types.SimpleNamespace(
            runtime=runtime,
            Device=Device,
            Stream=Stream,
            Event=Event,
            MemoryPool=MemoryPool,
            PinnedMemoryPool=PinnedMemoryPool,
        )

    def install(self, monkeypatch, folder):
        """Make `import cupy` and compilation end here, and return the module `ren_backend_cuda.cupy_device`."""
        monkeypatch.setitem(sys.modules, "cupy", self.module)
        for name in ("cupy_device", "start"):  # anew: they hold the CuPy they were imported with
            monkeypatch.delitem(sys.modules, f"ren_backend_cuda.{name}", raising=False)
        cupy_device = importlib.import_module("ren_backend_cuda.cupy_device")

        def compile_module(source, defines, architecture, compiler):
            assert architecture == f"sm_{self.module.cuda.Device().compute_capability}"
            name = f"{source}-{'-'.join(map(str, sorted(defines.items())))}"
            self.sources[name] = source, dict(defines)
            path = folder / f"{name}.cubin"
            path.write_bytes(b"machine code")
            return Compiled(name, b"machine code", defaultdict(Resources), path)

        monkeypatch.setattr(cupy_device, "compile_module", compile_module)
        library = types.SimpleNamespace(architectures=lambda: (80, 86, 90, 120))
        monkeypatch.setattr(nvrtc, "load", lambda major=None: library)
        return cupy_device


class _Block:
    """Stands for one allocation: pointers hold it."""

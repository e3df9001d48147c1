"""NVIDIA's run-time compiler through ctypes: the few calls that turn CUDA C into machine code. Needs neither a driver nor a GPU.

It comes as a package of its own (`nvidia-cuda-nvrtc`), which the `cuda` extra installs, or with a CUDA toolkit. No C++ compiler is involved.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ren.errors import BackendUnavailableError

INSTALL = "Run pip install nvidia-cuda-nvrtc (CUDA 13) or nvidia-cuda-nvrtc-cu12 (CUDA 12)"

_lock = threading.Lock()
_loaded: dict[Path | str, Nvrtc] = {}


class CompileError(BackendUnavailableError):
    """A kernel does not compile; the text holds what the compiler says."""


def candidates() -> Iterator[tuple[int, Path]]:
    """(major version, library) of what is installed: the packages from the index first, then a toolkit."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ValueError, ImportError):  # a module without a spec was put into sys.modules
        spec = None
    roots = [Path(p) for p in (spec.submodule_search_locations if spec else None) or ()]
    folders = [folder for root in roots for folder in sorted(root.glob("*/lib"), reverse=True)]
    folders += [Path(os.environ[name]) / "lib64" for name in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(name)]
    folders += [Path("/usr/local/cuda/lib64")]
    for folder in folders:
        for path in sorted(folder.glob("libnvrtc.so.*"), key=lambda p: len(p.name)):
            match = re.fullmatch(r"libnvrtc\.so\.(\d+)(\.\d+)*", path.name)
            if match:
                yield int(match[1]), path


def find(major: int | None = None) -> Path | str | None:
    """The library, of this major version of CUDA if one is asked for, or None. Loads nothing."""
    for found, path in candidates():
        if major is None or found == major:
            return path
    name = ctypes.util.find_library("nvrtc")  # a toolkit that the system's loader knows
    match = re.fullmatch(r"libnvrtc\.so\.(\d+).*", name or "")
    return name if match and (major is None or int(match[1]) == major) else None


def load(major: int | None = None) -> Nvrtc:
    """The compiler. Raises BackendUnavailableError where there is none."""
    path = find(major)
    if path is None:
        which = "" if major is None else f" for CUDA {major}"
        raise BackendUnavailableError(f"NVRTC{which} is not installed", subject="nvrtc", hint=INSTALL)
    with _lock:
        if path not in _loaded:
            try:
                _loaded[path] = Nvrtc(path)
            except OSError as error:
                raise BackendUnavailableError(f"NVRTC does not load: {error}", subject="nvrtc", hint=INSTALL) from error
        return _loaded[path]


class Nvrtc:
    """One loaded library."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self._lib = ctypes.CDLL(str(path))
        self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
        self.version = major.value, minor.value

    @property
    def identity(self) -> str:
        """Names this build: the version has two numbers only, so the size of the file stands for the third."""
        size = os.path.getsize(self.path) if isinstance(self.path, Path) else 0
        return f"{self.version[0]}.{self.version[1]}/{size}"

    def architectures(self) -> tuple[int, ...]:
        """Compute capabilities it knows, such as 90 for sm_90."""
        count = ctypes.c_int()
        self._check(self._lib.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
        numbers = (ctypes.c_int * count.value)()
        self._check(self._lib.nvrtcGetSupportedArchs(numbers), "nvrtcGetSupportedArchs")
        return tuple(numbers)

    def compile(self, name: str, text: str, headers: Mapping[str, str], options: Sequence[str]) -> tuple[bytes, str]:
        """(cubin, log). headers: what #include finds, by name; nothing is read from the disk. Raises CompileError."""
        program = ctypes.c_void_p()
        status = self._lib.nvrtcCreateProgram(
            ctypes.byref(program),
            text.encode(),
            name.encode(),
            len(headers),
            _strings(headers.values()),
            _strings(headers),
        )
        self._check(status, "nvrtcCreateProgram")
        try:
            status = self._lib.nvrtcCompileProgram(program, len(options), _strings(options))
            log = self._fetch(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status:
                raise CompileError(f"{name} does not compile with {' '.join(options)}:\n{log}", subject=name)
            return self._fetch(program, "CUBIN"), log
        finally:
            self._lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _fetch(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._lib, f"nvrtcGet{what}")(program, buffer), what)
        return buffer.raw

    def _check(self, status: int, what: str) -> None:
        if status:
            text = self._lib.nvrtcGetErrorString(status)
            raise CompileError(f"NVRTC: {what}: {text.decode() if text else status}", subject="nvrtc")


def _strings(texts: Any) -> Any:
    encoded = [t.encode() for t in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)

"""From a kernel source to machine code of one architecture, kept on disk.

CuPy's own cache names a kernel by its text, blind to changes in the headers it includes. Here the name is a digest of everything that the
code depends on: the source, all headers, the macros, the options, the architecture and the compiler. Only machine code is stored, for the
present card: it loads under any driver of the same major version, whereas portable code needs a driver as new as the compiler.

Beside each cubin lies what the assembler said about its kernels (registers, stack, spills), which the launch checker needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ren.backend import storage

from ren_backend_cuda.limits import Resources
from ren_backend_cuda.nvrtc import Nvrtc
from ren_backend_cuda.source import KERNELS, declarations

#: fmad off: a * b + c stays two roundings, as the definitions have it; kernels that want one write __fma_rn.
OPTIONS = ("--std=c++17", "--device-int128", "--fmad=false", "--ptxas-options=-v")

_NAME = r"\w+-[0-9a-f]{24}\.(cubin|json)"

_lock = threading.Lock()
_folder: list[Path | None] = []  # empty until the first use


class CacheWarning(UserWarning):
    """Compiled CUDA kernels cannot be kept; each process compiles its own (some seconds)."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code of one source. name: names its content; resources: per kernel; path: where it is stored, None where it is not."""

    name: str
    cubin: bytes
    resources: dict[str, Resources]
    path: Path | None


def read_sources(source: str, folder: Path = KERNELS) -> tuple[str, dict[str, str]]:
    """(text of `source`.cu, headers by name)."""
    headers = {p.name: p.read_text() for p in sorted(folder.glob("*.cuh"))}
    return (folder / f"{source}.cu").read_text(), headers


def compile_module(
    source: str, defines: Mapping[str, int], architecture: str, compiler: Nvrtc, *, kernels: Path = KERNELS
) -> Compiled:
    """Machine code of `source`.cu with these macros, from the disk where it is there. Raises CompileError."""
    text, headers = read_sources(source, kernels)
    options = [f"--gpu-architecture={architecture}", *OPTIONS]
    options += [f"--define-macro={name}={value}" for name, value in sorted(defines.items())]
    digest = hashlib.sha256(repr((compiler.identity, options, source, text, sorted(headers.items()))).encode())
    name = f"{source}-{digest.hexdigest()[:24]}"
    place = folder()
    path = None if place is None else place / f"{name}.cubin"
    if path is not None:
        stored = _read(path, declarations(text))
        if stored is not None:
            return stored
    cubin, log = compiler.compile(f"{source}.cu", text, headers, options)
    found = resources(log, architecture, declarations(text))
    written = path is not None and _write(path, cubin, found)
    return Compiled(name, cubin, found, path if written else None)


def resources(log: str, architecture: str, kernels: Mapping[str, object]) -> dict[str, Resources]:
    """What the assembler says about each kernel. Raises ValueError where it says nothing about one."""
    found: dict[str, dict[str, int]] = {}
    name = ""
    for line in log.splitlines():
        if m := re.search(r"(?:Compiling entry function|Function properties for) '?(\w+)'?", line):
            name = m[1]
            found.setdefault(name, {})
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            found[name] |= {"stack": int(m[1]), "spills": int(m[2]) + int(m[3])}
        elif m := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[name] |= {"registers": int(m[1]), "shared": int(shared[1]) if shared else 0}
    silent = [k for k in kernels if not {"registers", "stack"} <= found.get(k, {}).keys()]
    if silent:
        raise ValueError(f"the assembler's log for {architecture} does not tell what {', '.join(silent)} need: {log}")
    return {k: Resources(**found[k]) for k in kernels}


def folder() -> Path | None:
    """Where compiled CUDA kernels are kept, or None after one CacheWarning. Decided at the first call."""
    with _lock:
        if not _folder:
            path: Path | None = None
            place = "the user's cache folder"
            try:
                place = str(storage.base())
                path = Path(place) / "cuda"
                storage.open_private(path)
                storage.discard_unused(path, _NAME)
            except (OSError, RuntimeError) as error:  # RuntimeError: no home, unknown user
                path = None
                _warn(
                    f"compiled CUDA kernels cannot be kept in {place} ({error}): every process compiles them again. "
                    "Set REN_CACHE_DIR to a folder that only you can write to"
                )
            _folder.append(path)
        return _folder[0]


def _read(path: Path, kernels: Mapping[str, object]) -> Compiled | None:
    """What is stored, or None where it is not there or damaged: then it is compiled again and replaced."""
    try:
        cubin, told = _content(path), _content(path.with_suffix(".json"))
        digest, _, text = told.partition(b"\n")
        # One digest over both files: neither is looked into before it is known to be what was written.
        if digest != _digest(cubin, text):
            return None
        found = {name: Resources(**r) for name, r in json.loads(text).items()}
        if found.keys() != kernels.keys():
            return None
        for file in (path, path.with_suffix(".json")):
            os.utime(file)  # used now
        return Compiled(path.stem, cubin, found, path)
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _content(path: Path) -> bytes:
    """Bytes of a plain file. Raises OSError for anything else: reading a pipe would wait for somebody to write."""
    if not path.is_file():
        raise OSError(f"{path} is no plain file")
    return path.read_bytes()


def _digest(cubin: bytes, text: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(cubin).digest() + text).hexdigest().encode()


def _write(path: Path, cubin: bytes, found: Mapping[str, Resources]) -> bool:
    """Store, each file at once as a whole: several processes may do the same. A full disk is no error, only no gain."""
    text = json.dumps({name: asdict(r) for name, r in found.items()}).encode()
    try:
        for file, data in ((path, cubin), (path.with_suffix(".json"), _digest(cubin, text) + b"\n" + text)):
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(data)
                os.replace(temporary, file)
            except OSError:
                Path(temporary).unlink(missing_ok=True)
                raise
    except OSError as error:
        _warn(f"compiled CUDA kernels cannot be stored ({error})")
        return False
    return True


def _warn(text: str) -> None:
    """Where warnings are errors the text goes to stderr, and the caller gets its kernels all the same: nothing is wrong with them."""
    try:
        warnings.warn(text, CacheWarning, stacklevel=3)
    except CacheWarning:
        print(text, file=sys.stderr)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # its holder, if any, does not exist in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

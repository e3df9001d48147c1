"""Compiling kernel sources and the shim's runtime with g++, kept in a folder by digest of everything that goes into them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ren_backend_cuda.source import declarations

HERE = Path(__file__).resolve().parent
COMMON = [
    "-std=c++20",
    "-fPIC",
    "-g1",
    "-Wall",
    "-Wextra",
    "-Wno-unknown-pragmas",
    "-Wno-unused-parameter",
    "-ffp-contract=off",
    "-fno-gnu-unique",
]
#: Mode -> (flags of kernels, flags of the runtime, its files).
MODES = {
    "fast": (["-O2"], ["-O2"], ["scheduler.cpp", "checks_fast.cpp"]),
    "check": (
        ["-O1", "-DREN_SHIM_CHECK", "-ftrivial-auto-var-init=pattern", "-fno-inline-small-functions", "-fsanitize=thread,undefined", "-fno-sanitize=vptr"],
        ["-O2", "-DREN_SHIM_CHECK"],
        ["scheduler.cpp", "checks.cpp"],
    ),
}


@cache
def compiler() -> str | None:
    """Path of g++ (or CXX), None where there is none."""
    return shutil.which(os.environ.get("CXX", "g++"))


@cache
def _identity() -> bytes:
    told = subprocess.run([str(compiler()), "--version"], capture_output=True, check=True).stdout
    shim = b"".join(
        p.name.encode() + p.read_bytes() for p in sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h"), Path(__file__)])
    )
    return hashlib.sha256(told + shim + repr((COMMON, MODES)).encode()).digest()


@cache
def folder() -> Path:
    """Where libraries are kept: REN_EMULATOR_CACHE, else a folder of this user below the temporary one."""
    path = Path(os.environ.get("REN_EMULATOR_CACHE") or Path(tempfile.gettempdir()) / f"ren-emulator-{os.getuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to somebody else; set REN_EMULATOR_CACHE")
    return path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time: pytest-xdist starts several that want the same library."""
    with open(f"{path}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run(*command: object) -> None:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"host compile failed:\n{done.stderr}")


def _missing() -> str | None:
    found = compiler()
    if found is None:
        return "no C++ compiler (g++ or $CXX): the CUDA emulator of the tests cannot be built"
    try:
        with tempfile.TemporaryDirectory(dir=folder()) as tmp:
            source, out = Path(tmp) / "try.cpp", Path(tmp) / "lib.so"
            source.write_text("#include <version>\nextern int x;\nint x = __cplusplus;\n")
            _run(found, *COMMON, "-shared", source, "-o", out)
            if not out.exists():
                raise RuntimeError("it makes no library")
    except (OSError, RuntimeError) as error:
        return f"the CUDA emulator of the tests cannot be built with {found}: {error}"
    return None


#: Why emulator tests are skipped, or None.
MISSING = _missing()


def runtime(mode: str, extra: tuple[str, ...] = ()) -> Path:
    """The shim's runtime library."""
    _, flags, files = MODES[mode]
    digest = hashlib.sha256(_identity() + repr((mode, extra)).encode()).hexdigest()[:16]
    library = folder() / f"libshim-{mode}-{digest}.so"
    with _locked(library):
        if not library.exists():
            with tempfile.TemporaryDirectory(dir=folder()) as tmp:
                out = Path(tmp) / "lib.so"
                soname = f"-Wl,-soname,{library.name}"
                _run(compiler(), *COMMON, *flags, *extra, "-shared", soname, *(HERE / f for f in files), "-o", out)
                os.replace(out, library)
    return library


def module(path: Path, defines: Mapping[str, int], mode: str, kernels: Path, extra: tuple[str, ...] = ()) -> Path:
    """The library of one kernel source with these macros, its launchers added. kernels: where its headers are."""
    flags, _, _ = MODES[mode]
    text = path.read_text()
    macros = [f"-D{k}={v}" for k, v in sorted(defines.items())]
    digest = hashlib.sha256(_identity())
    # All headers, and all sources: one may include another.
    for file in sorted({*path.parent.glob("*.cu*"), *kernels.glob("*.cu*")}):
        digest.update(file.name.encode() + file.read_bytes())
    digest.update(repr((mode, extra, macros)).encode() + text.encode())
    library = folder() / f"{path.stem}-{mode}-{digest.hexdigest()[:16]}.so"
    with _locked(library):
        if not library.exists():
            shim = runtime(mode, extra)
            exports = "".join(f"REN_SHIM_EXPORT({d.name}, {d.bound or 1024})\n" for d in declarations(text).values())
            with tempfile.TemporaryDirectory(dir=folder()) as tmp:
                wrapper, part, out = (Path(tmp) / name for name in ("module.cpp", "module.o", "lib.so"))
                wrapper.write_text(f'#include "host_shim.h"\n#include "{path.resolve()}"\nREN_SHIM_MODULE\n{exports}')
                includes = [f"-I{HERE}", f"-I{path.parent}", f"-I{kernels}"]
                _run(compiler(), *COMMON, *flags, "-fvisibility=hidden", *macros, *includes, "-c", wrapper, "-o", part)
                # Two steps: with -fsanitize the linker would add the sanitizer's own library, whose place the shim takes.
                _run(compiler(), "-shared", part, f"-L{folder()}", f"-l:{shim.name}", "-Wl,-rpath,$ORIGIN", "-o", out)
                os.replace(out, library)
    return library

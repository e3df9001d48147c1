"""Prices of the cost model for this machine: measured by `ren warmup`, kept beside the compiled kernels, checked when they are read.

The folder's name already stands for the sources, the versions of numba and llvmlite and the target (`cache`); the file names the CPU model too, since two machines
may share a home folder. Without a usable file, prices measured on another machine are used, and reports say so.
"""

from __future__ import annotations

import os
import platform
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from ren.backend.threads import get_threads
from ren.engine.calibrate import Scope
from ren.engine.calibrate import calibrate as measure
from ren.engine.calibration import Calibration
from ren.errors import CalibrationError

from ren_backend_cpu import cache, features
from ren_backend_cpu.kernels import limb
from ren_backend_cpu.tables import twiddle_rows

FILE = "calibration-{threads}.json"
#: Prices that stand in until this machine is measured.
DEFAULT = "calibration_default.json"
#: A width in each class of moduli, and the bound of the class: those of the arithmetic paths (`features.choose_path`).
_LAZY = {True: (40, int(2**45.9)), False: (40, 1 << 47)}
_STRICT, _WIDE = (49, 1 << 50), (60, 1 << 61)
_LOG_NS = (7, 10, 13, 14, 15, 16)
_FAR_AT = 14

_lock = threading.Lock()
_known: dict[int, Calibration] = {}  # by number of threads


def machine() -> str:
    """Names what prices depend on: the CPU model, everything that shapes the kernels, and how many threads they run on."""
    return f"{cpu_model()}; {get_threads()} threads; {cache.digest()}"


def cpu_model() -> str:
    """What the operating system calls the CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def scope() -> Scope:
    """What to measure: the arithmetic paths of this target decide the width classes."""
    classes = (_LAZY[limb.IFMA_LAZY in features.target().paths], _STRICT, _WIDE)
    rows = twiddle_rows(limb.IFMA_LAZY in features.target().paths)
    return Scope(
        _LOG_NS,
        tuple(bound for _, bound in classes),
        tuple(bits for bits, _ in classes),
        _FAR_AT,
        constants={"forward": rows, "inverse": rows, "gather": 1.0, "scatter": 1.0},
    )


def calibrate(backend: object, progress: Callable[[str], None]) -> Calibration:
    """Measure this machine, keep the prices for later processes and use them from now on in this one."""
    started = time.perf_counter()
    day = time.strftime("%Y-%m-%d", time.gmtime())
    note = f"measured on {cpu_model()} with {get_threads()} threads on {day}"
    found = measure(backend, scope(), machine=machine(), note=note, progress=progress)  # type: ignore[arg-type]
    folder = cache.folder()
    if folder is not None:
        _write(file_in(folder), found.to_json())
    with _lock:
        _known[get_threads()] = found
    where = "this process only: there is no cache folder" if folder is None else str(file_in(folder))
    progress(f"calibrated in {time.perf_counter() - started:.1f} s, kept in {where}")
    return found


def calibration() -> Calibration:
    """The prices of this machine; those shipped with Ren, whose note says so, where it was not measured."""
    with _lock:
        threads = get_threads()
        if threads not in _known:
            _known[threads] = _stored() or shipped()
        return _known[threads]


def file_in(folder: Path) -> Path:
    """Where prices for the present number of threads are kept."""
    return folder / FILE.format(threads=get_threads())


def shipped() -> Calibration:
    text = resources.files("ren_backend_cpu").joinpath(DEFAULT).read_text(encoding="utf-8")
    return Calibration.from_json(text)


def forget() -> None:
    """Read the file again at the next use."""
    with _lock:
        _known.clear()


def _stored() -> Calibration | None:
    folder = cache.folder()
    if folder is None:
        return None
    try:
        found = Calibration.from_json(file_in(folder).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, CalibrationError) as error:
        warnings.warn(
            f"the calibration in {file_in(folder)} cannot be used ({error}): predicted times are those of another machine. "
            "`ren warmup` measures this one again",
            cache.CacheWarning,
            stacklevel=2,
        )
        return None
    return found if found.machine == machine() else None


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # its holder, if any, does not exist in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

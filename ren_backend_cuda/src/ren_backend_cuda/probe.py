"""Four facts about CUDA on this machine: installed, importable, device present, device works.

CuPy is imported inside the functions only: a missing driver library makes its import raise (cupy issue 1790), and a machine
without a GPU must not notice this package.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from ren.backend.capability import DeviceFacts

from ren_backend_cuda import nvrtc

INSTALL = 'Run in a clone of Ren: pip install -e ".[cuda]" (CUDA 13) or ".[cuda12]"'

DRIVER = "Install or update the NVIDIA driver until `nvidia-smi` lists a GPU"

#: What this backend takes from CuPy. A folder or file that happens to be called cupy has none of it.
_NEEDED = ("cuda", "RawModule")


def probe() -> DeviceFacts:
    """Ask in order, stop at the first that fails. Never raises, whatever calls itself cupy."""
    try:
        spec = importlib.util.find_spec("cupy")
    except (ValueError, ImportError):  # something without a spec was put into sys.modules
        spec = None
    if spec is None:
        return DeviceFacts(False, False, False, False, "CuPy is not installed", INSTALL)
    if spec.origin is None and spec.submodule_search_locations:  # a namespace: a folder without a module in it
        places = ", ".join(spec.submodule_search_locations)
        return DeviceFacts(False, False, False, False, f"CuPy is not installed: {places} is a folder of that name", INSTALL)
    if nvrtc.find() is None:
        reason = "NVRTC, which compiles the kernels, is not installed (CuPy is)"
        return DeviceFacts(False, False, False, False, reason, nvrtc.INSTALL)
    try:
        cupy = importlib.import_module("cupy")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: who asks which devices there are must not be ended by one of them
        fix = "Check that the NVIDIA driver is installed and that the CuPy build matches its CUDA version"
        return DeviceFacts(True, False, False, False, f"CuPy does not import: {type(error).__name__}: {error}", fix)
    missing = [name for name in _NEEDED if not hasattr(cupy, name)]
    if missing:
        place = getattr(cupy, "__file__", None) or "it"
        reason = f"what imports as cupy is not CuPy: {place} has no {' and no '.join(missing)}"
        return DeviceFacts(True, False, False, False, reason, f"Move {place} out of sys.path, or install CuPy anew. {INSTALL}")
    return _devices(cupy)


def _devices(cupy: Any) -> DeviceFacts:
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode() if count else ""
    except Exception as error:
        return DeviceFacts(True, True, False, False, f"CuPy finds no device: {type(error).__name__}: {error}", DRIVER)
    if not count:
        return DeviceFacts(True, True, False, False, "CuPy finds no device", f"{DRIVER}; check CUDA_VISIBLE_DEVICES")
    wrong, fix = _what_fails()
    if wrong:
        return DeviceFacts(True, True, True, False, f"{name} does not work: {wrong}", fix, name)
    return DeviceFacts(True, True, True, True, detail=name)


def _what_fails() -> tuple[str, str]:
    """Run the self-check on the device: (what is wrong, what to do), empty where it is right."""
    try:
        # Imports CuPy, so not before it is known to import.
        device = importlib.import_module("ren_backend_cuda.cupy_device").CupyDevice()
        wrong = importlib.import_module("ren_backend_cuda.self_check").first_wrong_word(device)
    except Exception as error:
        return f"{type(error).__name__}: {error}", getattr(
            error, "hint", None
        ) or 'Check the driver, or use device="cpu"'
    if wrong is None:
        return "", ""
    return f"wrong results: {wrong}", 'Check the driver, or use device="cpu"'

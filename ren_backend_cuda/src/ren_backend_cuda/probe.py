"""Four facts about CUDA on this machine: installed, importable, device present, device works.

CuPy is imported inside the functions only: a missing driver library makes its import raise (cupy issue 1790), and a machine
without a GPU must not notice this package.
"""

from __future__ import annotations

import importlib
import importlib.util

from ren.backend.capability import DeviceFacts

INSTALL = 'Run in a clone of Ren: pip install -e ".[cuda]" (CUDA 13) or ".[cuda12]"'

DRIVER = "Install or update the NVIDIA driver until `nvidia-smi` lists a GPU"


def probe() -> DeviceFacts:
    """Ask in order, stop at the first that fails. Never raises."""
    if importlib.util.find_spec("cupy") is None:
        return DeviceFacts(False, False, False, False, "CuPy is not installed", INSTALL)
    try:
        cupy = importlib.import_module("cupy")
    except Exception as error:
        fix = "Check that the NVIDIA driver is installed and that the CuPy build matches its CUDA version"
        return DeviceFacts(True, False, False, False, f"CuPy does not import: {type(error).__name__}: {error}", fix)
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode() if count else ""
    except Exception as error:
        return DeviceFacts(True, True, False, False, f"CuPy finds no device: {type(error).__name__}: {error}", DRIVER)
    if not count:
        return DeviceFacts(True, True, False, False, "CuPy finds no device", f"{DRIVER}; check CUDA_VISIBLE_DEVICES")
    # The kernels come with the CUDA backend's own change; until then this package says so instead of pretending.
    if importlib.util.find_spec("ren_backend_cuda.backend") is None:
        reason = f"this version of Ren has no CUDA kernels yet ({name} was found)"
        return DeviceFacts(True, True, True, False, reason, 'Use device="cpu"', name)
    wrong = _first_wrong_word(cupy)
    if wrong is not None:
        return DeviceFacts(
            True,
            True,
            True,
            False,
            f"{name} gives wrong results: {wrong}",
            "Check the driver, or use device='cpu'",
            name,
        )
    return DeviceFacts(True, True, True, True, detail=name)


def _first_wrong_word(cupy: object) -> str | None:
    """Run a 64-bit multiply on the device and compare with Python; None where it is right."""
    host = [0, 1, (1 << 61) - 1, 0xFFFFFFFFFFFFFFFF, 0x9E3779B97F4A7C15]
    try:
        device = cupy.asarray(host, dtype="uint64")  # type: ignore[attr-defined]
        found = [int(v) for v in (device * device).get()]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    wanted = [v * v & 0xFFFFFFFFFFFFFFFF for v in host]
    return None if found == wanted else f"squares modulo 2^64 were {found}, expected {wanted}"

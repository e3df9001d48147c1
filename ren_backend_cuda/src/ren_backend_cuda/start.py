"""What `device="cuda"` makes: the backend on the first GPU. CUDA_VISIBLE_DEVICES chooses which one that is."""

from __future__ import annotations

from ren_backend_cuda.backend import CudaBackend
from ren_backend_cuda.cupy_device import CupyDevice


def make_backend() -> CudaBackend:
    """Called once per process, after `probe` has said that the device works."""
    return CudaBackend(CupyDevice())

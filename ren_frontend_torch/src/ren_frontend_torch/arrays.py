"""NumPy arrays as tensors: what `decrypt_message` returns while this frontend is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def to_tensor(array: NDArray[Any]) -> torch.Tensor:
    """A tensor over the same memory where PyTorch allows it: a writable array in native byte order with positive strides."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(np.require(native, requirements=["C", "W"]))

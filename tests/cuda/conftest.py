"""The CUDA backend without a GPU: its kernels run on the host, through the emulator beside these tests."""

from __future__ import annotations

import sys
from pathlib import Path

# The emulator is importable from the tests only: users cannot select it.
sys.path.insert(0, str(Path(__file__).parent))

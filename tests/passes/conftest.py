"""Shared by the tests of passes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from ren.schemes import ckks

# Helpers beside the tests; nothing else is importable from here.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def engine() -> Any:
    """64 slots, 40-bit scale, 6 levels, on the reference backend."""
    return ckks.Engine("python-test", device="reference")

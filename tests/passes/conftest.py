"""Shared by the tests of passes."""

from __future__ import annotations

from typing import Any

import pytest
from ren.schemes import ckks


@pytest.fixture(scope="session")
def engine() -> Any:
    """64 slots, 40-bit scale, 6 levels, on the reference backend."""
    return ckks.Engine("python-test", device="reference")

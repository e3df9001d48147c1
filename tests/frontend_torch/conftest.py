"""Tests of the torch frontend: the only ones that import torch."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# Helpers beside the tests; nothing else is importable from here.
sys.path.insert(0, str(Path(__file__).parent))
collect_ignore_glob = [] if find_spec("torch") is not None else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.torch)


@pytest.fixture(scope="session")
def engine() -> Any:
    """64 slots, 40-bit scale, 6 levels, on the reference backend."""
    from ren.schemes import ckks

    return ckks.Engine("python-test", device="reference")

"""The CPU backend under the conformance kit with two threads that share every phase, however small.

`test_cpu` has the full range of rings: what is new here is the sharing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ren
from ren.testing import BackendConformance

from ren_backend_cpu import driver


class TestCpuTwoThreads(BackendConformance):
    backend_name = "cpu"
    sizes = (8, 128, 512)
    every_width_up_to = 0
    large_size = 0

    @pytest.fixture(autouse=True)
    def two_threads(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        before = ren.get_threads()
        monkeypatch.setattr(driver, "SHARED_WORDS", 0)
        ren.set_threads(2)
        yield
        ren.set_threads(before)

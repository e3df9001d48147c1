"""Moduli of every width at every degree, not only those at which representations change."""

import pytest
from ren.testing import BackendConformance


@pytest.mark.full
class TestCpuEveryWidth(BackendConformance):
    backend_name = "cpu"
    sizes = tuple(1 << k for k in range(8, 14))
    every_width_up_to = 1 << 13
    large_size = 0

"""All a backend author has to write to prove a backend."""

from ren.testing import BackendConformance


class TestCounting(BackendConformance):
    backend_name = "counting"
    sizes = (2, 16)
    every_width_up_to = 2
    large_size = 0

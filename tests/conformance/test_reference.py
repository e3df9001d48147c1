"""The conformance kit on the reference backend: the contract around its kernels. Their values: tests/core/test_reference_definitions.py."""

from ren.testing import BackendConformance


class TestReference(BackendConformance):
    backend_name = "reference"
    # Every value is compared with itself here, so a few degrees are enough.
    sizes = (2, 8, 64, 512)
    every_width_up_to = 8
    large_size = 0

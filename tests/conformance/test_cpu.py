"""The CPU backend under the conformance kit, on the paths that this machine has."""

from __future__ import annotations

from ren.testing import BackendConformance


class TestCpu(BackendConformance):
    backend_name = "cpu"

"""A CUDA device for the tests: the kernels' own source, compiled for the host. CONTRIBUTING.md says what it proves."""

from emulator.build import MISSING
from emulator.device import EmulatedDevice, EmulatedMemory, KernelFault

__all__ = ["MISSING", "EmulatedDevice", "EmulatedMemory", "KernelFault"]

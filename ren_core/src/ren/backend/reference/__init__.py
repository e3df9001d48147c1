"""The reference backend: the executable specification of every kernel in `ren.ops.KERNELS`. Slow, exact, readable."""

from ren.backend.reference.backend import ReferenceBackend

__all__ = ["ReferenceBackend"]

"""The backend: kernels of the reference backend, counted as they run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from ren.backend.protocol import CompiledUnit, View
from ren.backend.reference import ReferenceBackend
from ren.engine.exec_unit import ExecUnit


class CountingBackend(ReferenceBackend):
    """`counts[kernel]` units have run since the start of the process."""

    name = "counting"

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()  # units run in any thread, and += on a Counter is not atomic

    def compile(self, unit: ExecUnit) -> CompiledUnit:
        run = super().compile(unit)

        def counted(views: Sequence[View]) -> None:
            run(views)
            with self._lock:
                self.counts[unit.kernel] += 1

        return counted

"""The frontend object that the plugin registers."""

from __future__ import annotations

from typing import Any

from ren.program.literals import Named

from ren_frontend_torch import lookup
from ren_frontend_torch.capture import CaptureResult
from ren_frontend_torch.trace import trace


class TorchFrontend:
    """`jit.trace` and `jit.CaptureResult`, and what the interpreter asks about kept calls (`ren.program.torch_calls.CallFrontend`)."""

    trace = staticmethod(trace)
    CaptureResult = CaptureResult

    def is_audited(self, kind: str, target: str) -> bool:
        return lookup.is_audited(kind, target)

    def call(self, kind: str, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return lookup.call(kind, target, args, kwargs)

    def resolve(self, named: Named) -> Any:
        return lookup.resolve(named)

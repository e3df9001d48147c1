"""The options of `ren.jit`, checked when a function is decorated."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ren.errors import OptionError

DEFAULT_MAXSIZE = 16

_CHOICES: dict[str, tuple[str, ...]] = {
    "nested": ("error", "inline"),
    "scalars": ("error", "recapture", "dynamic"),
    "constants": ("key", "dynamic"),
    "random": ("error", "fresh"),
}


@dataclass(frozen=True, slots=True)
class JitOptions:
    """prune: run input-independent work once, at capture.
    nested: what a jitted function does inside another capture: raise, or run as part of it.
    scalars: what a changed scalar argument does: raise, capture one plan per value, or (numbers) be an input of the plan.
    constants: whether constant Polys among the arguments are part of the key or inputs of the plan.
    random: whether drawing inside the function raises or happens anew at each call.
    donate: parameters whose Polys the plan may overwrite; they cannot be used afterwards.
    maxsize: plans kept, least recently used dropped; None: no bound.
    validate: compare each unit with the reference backend at each call.
    """

    prune: bool = False
    nested: str = "error"
    scalars: str = "error"
    constants: str = "key"
    random: str = "error"
    donate: tuple[str, ...] = ()
    maxsize: int | None = DEFAULT_MAXSIZE
    validate: bool = False

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise OptionError(
                    f"ren.jit: {name} must be one of {', '.join(map(repr, allowed))}, got {value!r}", subject=name
                )
        object.__setattr__(self, "donate", (self.donate,) if isinstance(self.donate, str) else tuple(self.donate))
        size = self.maxsize
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise OptionError(f"ren.jit: maxsize must be a positive int or None, got {size!r}", subject="maxsize")

    def check_parameters(self, names: tuple[str, ...]) -> None:
        """Raise OptionError when donate names something that is no parameter."""
        for name in self.donate:
            if name not in names:
                raise OptionError(
                    f"ren.jit: donate names {name!r}, which is no parameter of the function",
                    subject="donate",
                    hint=f"Parameters: {', '.join(names)}",
                )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls))

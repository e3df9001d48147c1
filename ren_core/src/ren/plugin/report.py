"""What is known about each plugin, and how it is told: records, warnings, the text of `ren plugins`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """What became of a plugin. Only `loaded` plugins contribute names."""

    LOADED = "loaded"
    DISABLED = "disabled"
    MISSING_DEPENDENCY = "missing-dependency"
    INCOMPATIBLE = "incompatible"
    BROKEN = "broken"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRecord:
    """One installed plugin. names: what it registered, as "kind name"; withheld: what it would register if it were loaded.

    reason and fix are empty for a plugin that loaded; notes hold what is worth knowing but does not keep it from working.
    cause is the exception behind `reason`, with its traceback.
    """

    name: str
    state: State
    distribution: str
    version: str
    value: str
    api: str = ""
    summary: str = ""
    pending: str = ""
    reason: str = ""
    fix: str = ""
    hooks: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    import_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    optional: bool = False
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def faulty(self) -> bool:
        """Worth a warning: not loaded, neither by the user's choice nor because an optional package is absent."""
        if self.state is State.MISSING_DEPENDENCY:
            return not self.optional
        return self.state not in (State.LOADED, State.DISABLED)

    def explain(self) -> str:
        """One sentence: plugin, distribution, version, state, cause and fix."""
        text = f"Ren plugin {self.name!r} ({self.distribution} {self.version}) is {self.state.replace('-', ' ')}"
        if self.reason:
            text += f": {self.reason}"
        return f"{text}. {self.fix}" if self.fix else text

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for `ren plugins --json`."""
        return {
            "name": self.name,
            "state": str(self.state),
            "distribution": self.distribution,
            "version": self.version,
            "entry_point": self.value,
            "api": self.api,
            "summary": self.summary,
            "pending": self.pending,
            "reason": self.reason,
            "fix": self.fix,
            "hooks": list(self.hooks),
            "names": list(self.names),
            "withheld": list(self.withheld),
            "import_seconds": round(self.import_seconds, 6),
            "notes": list(self.notes),
            "cause": None if self.cause is None else f"{type(self.cause).__name__}: {self.cause}",
        }


def table(records: Iterable[PluginRecord]) -> str:
    """The text of `ren plugins`."""
    lines: list[str] = []
    for r in records:
        lines.append(f"{r.name:<12} {r.state:<19} {r.distribution} {r.version}   {r.summary}".rstrip())
        details = [
            ("provides", ", ".join(r.names)),
            ("not yet", r.pending),
            ("why", r.reason),
            ("fix", r.fix),
            *(("note", note) for note in r.notes),
        ]
        lines.extend(f"{'':<13}{label + ':':<10} {text}" for label, text in details if text)
    return "\n".join(lines) if lines else "No plugins are installed."

"""What `Program.debug` found: one row per result of an operation, and findings in program order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

#: code -> what it says of an operation.
FINDINGS: dict[str, str] = {
    "failed": "it raised an error",
    "overflow": "its result does not decrypt: a value left the capacity of its level, or noise drowned it",
    "state": "level, scale, parts or slots of its result are not what inference says",
    "added-error": "it adds more error to its decrypted operands than it may",
    "error": "its result differs from the clear computation by more than predicted, through errors of several operations",
    "bound": "a value exceeds the bound that is declared for it",
    "padding": "slots that hold no element are not zero, and later operations rely on that",
    "reference": "operations do what they say, but the program does not compute the reference: a pass or the capture changed its meaning",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """code: one of `FINDINGS`. operation: name, or "argument x", "result 0". file, line: where the user wrote it, if known."""

    code: str
    operation: str
    message: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = "" if self.file is None else f" at {self.file}:{self.line}"
        return f"[{self.code}] {self.operation}{where}: {self.message}"


@dataclass(frozen=True, slots=True)
class DebugRow:
    """One encrypted or encoded value. Errors are the largest modulus over slots and batch, in message units.

    error: against the clear computation from the inputs on; predicted: what that may be. added: against the clear operation on the decrypted operands, so
    by this operation alone; allowed: what that may be. None: not known. magnitude: largest clear value. checked: whether the operation has a clear
    meaning; without one its decrypted result is taken for right.
    """

    operation: str
    value: str
    file: str | None
    line: int | None
    level: int | None
    magnitude: float
    error: float
    predicted: float | None
    added: float
    allowed: float | None
    checked: bool


@dataclass(frozen=True, slots=True)
class DebugReport:
    """rows: every value in program order. findings: what is wrong, first cause first. outputs: what `run` would return.
    notes: what could be judged in part only."""

    rows: tuple[DebugRow, ...]
    findings: tuple[Finding, ...]
    outputs: Any
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def first(self) -> Finding | None:
        """The first operation that is out of its predicted bound, or otherwise wrong."""
        return self.findings[0] if self.findings else None

    def __str__(self) -> str:
        head = f"{'operation':34} {'value':10} {'level':>5} {'largest':>9} {'error':>8} {'predicted':>9} {'added':>8} {'allowed':>8}  source"
        lines = [head]
        for r in self.rows:
            where = "" if r.file is None else f"{r.file}:{r.line}"
            lines.append(
                f"{r.operation:34} {r.value:10} {'-' if r.level is None else r.level:>5} {r.magnitude:>9.3g} {_bits(r.error):>8} {_bits(r.predicted):>9} "
                f"{_bits(r.added):>8} {_bits(r.allowed):>8}  {where}{'' if r.checked else '  (no clear meaning)'}"
            )
        lines += [str(f) for f in self.findings] or ["every operation is within its predicted bound"]
        lines += [f"note: {n}" for n in self.notes]
        return "\n".join(line.rstrip() for line in lines)

    def __repr__(self) -> str:
        return f"<DebugReport: {len(self.rows)} values, {len(self.findings)} findings, first: {self.first}>"


def _bits(error: float | None) -> str:
    if error is None:
        return "-"
    if error == 0:
        return "0"
    return f"2^{math.log2(error):.1f}" if math.isfinite(error) else str(error)

"""Every REN_* environment variable, in one table.

Variables are read when they are asked for, never at import, so a test or a notebook can change them at any time. The table
generates docs/reference/configuration.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ren.errors import ConfigurationError


class Form(StrEnum):
    """How the text of a variable is read."""

    FLAG = "flag"  # 1, true, yes, on / 0, false, no, off, empty
    TEXT = "text"  # stripped; empty means unset
    NAMES = "names"  # comma-separated; empty means "none of them", which differs from unset
    PAIRS = "pairs"  # comma-separated name:value
    INTEGER = "integer"  # decimal; empty means unset


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    form: Form
    example: str
    meaning: str


VARIABLES: dict[str, Variable] = {
    v.name: v
    for v in (
        Variable(
            "REN_BACKEND",
            Form.TEXT,
            "cpu",
            "the device that is used where none is given; unset: the one with the highest priority that works",
        ),
        Variable(
            "REN_PLUGINS",
            Form.NAMES,
            "cpu,passes",
            "load only these plugins (entry-point or distribution names); empty: none; unset: all",
        ),
        Variable(
            "REN_DISABLE_PLUGINS", Form.NAMES, "cuda", "do not load these plugins (entry-point or distribution names)"
        ),
        Variable(
            "REN_PREFER",
            Form.PAIRS,
            "fast:ren-backend-fast",
            "which distribution owns a name that two plugins register",
        ),
        Variable("REN_STRICT_PLUGINS", Form.FLAG, "1", "a faulty plugin is an error instead of one warning"),
        Variable(
            "REN_KEY_BUDGET",
            Form.INTEGER,
            "4294967296",
            "bytes that the evaluation keys of one engine may take; unset: half of the physical memory",
        ),
        Variable(
            "REN_CACHE_DIR",
            Form.TEXT,
            "/var/cache/ren",
            "folder of compiled CPU and CUDA kernels; unset: ren below the user's cache folder",
        ),
        Variable(
            "REN_CPU_FEATURES",
            Form.TEXT,
            "scalar",
            "restrict the CPU kernels to one kind of arithmetic: scalar, u64, float, avx512 or ifma; for tests on other CPUs: avx512-emulated or "
            "ifma-emulated; unset: the fastest",
        ),
        Variable(
            "REN_THREADS",
            Form.INTEGER,
            "2",
            "threads that one computation on the CPU may use, the caller included (`ren.set_threads`); unset: 1",
        ),
        Variable(
            "REN_DEBUG_POISON",
            Form.FLAG,
            "1",
            "overwrite temporaries when they die and outputs when they return to the pool (finds engine faults; slow)",
        ),
        Variable(
            "REN_VALIDATE",
            Form.FLAG,
            "1",
            "replay every unit on the reference backend and compare (finds backend faults; very slow)",
        ),
        Variable(
            "REN_TRACE_PLUGINS", Form.FLAG, "1", "print each step of plugin loading, with its time, to standard error"
        ),
    )
}

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


def _raw(name: str, form: Form) -> str | None:
    if VARIABLES[name].form is not form:
        raise KeyError(f"{name} is a {VARIABLES[name].form}, not a {form}")
    return os.environ.get(name)


def flag(name: str) -> bool:
    """Whether the flag `name` is set. Raises ConfigurationError for text that is neither yes nor no."""
    text = (_raw(name, Form.FLAG) or "").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ConfigurationError(f"{name}={text!r} is neither yes nor no", subject=name, hint=f"Set {name}=1 or {name}=0")


def is_set(name: str) -> bool:
    """Whether `name` is in the environment at all. For switches that are asked for at every operation and hardly ever set: reading one
    through os.environ encodes its name in Python each time, for a microsecond; this looks where os.environ does, for a twentieth."""
    try:
        return _encoded(name) in os.environ._data  # type: ignore[attr-defined]
    except AttributeError:  # a stand-in for os.environ, or another Python
        return name in os.environ


@cache
def _encoded(name: str) -> bytes | str:
    """The form of `name` among the keys of os.environ."""
    encode: Callable[[str], bytes | str] = os.environ.encodekey
    return encode(name)


def text(name: str) -> str | None:
    """The stripped text of `name`; None where it is unset or empty."""
    return (_raw(name, Form.TEXT) or "").strip() or None


def names(name: str) -> frozenset[str] | None:
    """The names listed in `name`; None where it is unset (an empty text is an empty list)."""
    raw = _raw(name, Form.NAMES)
    return None if raw is None else frozenset(part.strip() for part in raw.split(",") if part.strip())


def pairs(name: str) -> dict[str, str]:
    """The name:value pairs of `name`. Raises ConfigurationError for an item without a colon."""
    found: dict[str, str] = {}
    for part in (_raw(name, Form.PAIRS) or "").split(","):
        if not part.strip():
            continue
        key, colon, value = part.strip().partition(":")
        if not (colon and key.strip() and value.strip()):
            raise ConfigurationError(
                f"{name}: {part.strip()!r} is not of the form name:value",
                subject=name,
                hint=f"Example: {name}={VARIABLES[name].example}",
            )
        found[key.strip()] = value.strip()
    return found


def integer(name: str, *, minimum: int) -> int | None:
    """The integer in `name`, at least `minimum`; None where it is unset or empty. Raises ConfigurationError otherwise."""
    raw = (_raw(name, Form.INTEGER) or "").strip()
    if not raw:
        return None
    try:
        value = int(raw)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        raise ConfigurationError(
            f"{name}={raw!r} is not an integer of at least {minimum}",
            subject=name,
            hint=f"Example: {name}={VARIABLES[name].example}",
        )
    return value


def unknown_variables() -> tuple[str, ...]:
    """REN_* variables in the environment that Ren does not know: most often a misspelling."""
    return tuple(sorted(k for k in os.environ if k.startswith("REN_") and k not in VARIABLES))

"""Switches for finding engine faults, read from the environment when a pool or plan is made (see ren.config)."""

from __future__ import annotations

from ren import config

#: Never a canonical residue (moduli are below 2^61), so a kernel that reads freed memory computes visible nonsense.
POISON = 0xDEADBEEFDEADBEEF


def poisoning() -> bool:
    """REN_DEBUG_POISON: overwrite temporaries when they die and outputs when they return to the pool."""
    return config.flag("REN_DEBUG_POISON")


def validating() -> bool:
    """REN_VALIDATE: replay each unit on the reference backend and compare."""
    return config.flag("REN_VALIDATE")


def switched() -> bool:
    """Whether any of the two is in the environment: asked for at each run of a plan, so it must cost nothing."""
    return config.is_set("REN_DEBUG_POISON") or config.is_set("REN_VALIDATE")

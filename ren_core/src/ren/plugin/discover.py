"""Which plugins are installed, from metadata alone: nothing of a plugin is imported here.

The standard library's `entry_points()` drops all but the first distribution of a name and stops at the first malformed one. A stale
metadata folder early on the path would then hide a good installation (or break every other plugin), so the group is
collected here, distribution by distribution, and equal entry points are collapsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions

from ren.plugin.info import GROUP

#: The distributions of this repository, normalised.
OWN_DISTRIBUTIONS = frozenset(
    {"ren", "ren-core", "ren-backend-cpu", "ren-backend-cuda", "ren-frontend-torch", "ren-passes"}
)


@dataclass(frozen=True, slots=True)
class Found:
    """One entry point. providers: (distribution, version) pairs that declare it, sorted, at least one."""

    entry_point: EntryPoint
    providers: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return self.entry_point.name

    @property
    def distribution(self) -> str:
        return self.providers[0][0]

    @property
    def handles(self) -> frozenset[str]:
        """What a user may call it in REN_PLUGINS and REN_DISABLE_PLUGINS: entry-point or distribution name."""
        return frozenset({self.name, *(d for d, _ in self.providers)})

    @property
    def version(self) -> str:
        return self.providers[0][1]


def normalise(distribution: str) -> str:
    """Distribution names compare without case and with '-', '_' and '.' alike."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def installed() -> list[tuple[EntryPoint, str, str]]:
    """(entry point, distribution, version) of every entry point of the group, duplicates included."""
    found: list[tuple[EntryPoint, str, str]] = []
    for distribution in distributions():
        try:
            entry_points = [e for e in distribution.entry_points if e.group == GROUP]
        except Exception:  # noqa: BLE001, S112 - malformed metadata of some other package is not our fault to report
            continue
        if entry_points:
            name, version = _identity(distribution)
            found.extend((e, name, version) for e in entry_points)
    return found


def _identity(distribution: Distribution) -> tuple[str, str]:
    """Name and version; a damaged metadata folder may have neither."""
    try:
        metadata = distribution.metadata
        name = (metadata.get_all("Name") or ["unknown"])[0]
        version = (metadata.get_all("Version") or ["unknown version"])[0]
        return normalise(name), version
    except Exception:  # noqa: BLE001 - the same damaged folder, for which "unknown" is the truth
        return "unknown", "unknown version"


def collapse(entries: Iterable[tuple[EntryPoint, str, str]]) -> list[Found]:
    """Equal (name, value) pairs become one. Sorted by name, then value: install order has no influence."""
    providers: dict[tuple[str, str], set[tuple[str, str]]] = {}
    kept: dict[tuple[str, str], EntryPoint] = {}
    for entry, distribution, version in entries:
        key = entry.name, entry.value
        kept.setdefault(key, entry)
        providers.setdefault(key, set()).add((distribution, version))
    return [Found(kept[key], tuple(sorted(providers[key]))) for key in sorted(kept)]

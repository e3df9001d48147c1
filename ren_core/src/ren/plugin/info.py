"""What a plugin says about itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Version of the hook API, apart from package versions. Hooks only gain optional arguments within a major version.
API_VERSION = (1, 0)
#: The entry-point group in which plugins are found.
GROUP = "ren.plugins"

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """The `PLUGIN` object of a plugin module.

    name: lower-case; equals the entry-point name. api: the hook API the plugin was written for, "major.minor".
    requires: import names of third-party modules without which nothing of the plugin can work; they are looked for, not imported.
    extra: the extra of this repository that installs them; a plugin that names one is optional, so a missing module is
    listed and explained when the plugin is asked for, but not warned about. summary: one line for `ren plugins`.
    pending: what this version of the plugin does not provide yet, in words for its user.

    Raises TypeError or ValueError for malformed fields.
    """

    name: str
    api: str
    requires: tuple[str, ...] = ()
    extra: str | None = None
    summary: str = ""
    pending: str = ""

    def __post_init__(self) -> None:
        for field in ("name", "api", "summary", "pending"):
            if not isinstance(getattr(self, field), str):
                raise TypeError(f"PluginInfo.{field} must be a str, got {getattr(self, field)!r}")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"PluginInfo.name must be lower-case letters, digits, '_', '.', '-', got {self.name!r}")
        if isinstance(self.requires, str) or not all(isinstance(r, str) and r for r in self.requires):
            raise TypeError(f"PluginInfo.requires must be a tuple of module names, got {self.requires!r}")
        object.__setattr__(self, "requires", tuple(self.requires))
        self.api_version  # noqa: B018 (checks the text)

    @property
    def api_version(self) -> tuple[int, int]:
        """`api` as (major, minor)."""
        match = re.fullmatch(r"(\d+)\.(\d+)", self.api)
        if match is None:
            raise ValueError(f"PluginInfo.api must be 'major.minor', got {self.api!r}")
        return int(match[1]), int(match[2])


def incompatibility(api: tuple[int, int]) -> str | None:
    """Why a plugin written for hook API `api` cannot run here, with the side to upgrade; None where it can."""
    host = API_VERSION
    if api[0] == host[0] and api[1] <= host[1]:
        return None
    side = (
        "upgrade Ren, or install an older version of the plugin"
        if api > host
        else "upgrade the plugin, or install an older version of Ren"
    )
    return f"it was written for hook API {api[0]}.{api[1]}, this Ren has {host[0]}.{host[1]}: {side}"

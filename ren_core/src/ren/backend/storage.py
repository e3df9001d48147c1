"""Where backends keep compiled kernels on disk. Stored code is executed when it is read, so a folder of someone else is never used."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from ren import config

_KEPT_DAYS = 60


def base() -> Path:
    """REN_CACHE_DIR, or the platform's cache folder of this user. Raises OSError (RuntimeError for an unknown user) when there is none."""
    chosen = config.text("REN_CACHE_DIR")
    if chosen is not None:
        return Path(chosen).expanduser()  # "~/kernels" in quotes, or from a file of settings
    if sys.platform == "darwin":
        parent = Path("~/Library/Caches").expanduser()
    elif sys.platform == "win32":
        parent = Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
    else:
        parent = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    if not parent.is_absolute():  # expanduser leaves "~" where neither HOME nor the user id lead anywhere
        raise OSError("this user has no home folder")
    return parent / "ren"


def open_private(path: Path) -> None:
    """Create the folder and write to it. Raises OSError that says what is wrong."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):
        found = path.stat()
        if found.st_uid != os.getuid():
            raise OSError(f"it belongs to user {found.st_uid}")
        if found.st_mode & 0o022:
            raise OSError("other users may write to it")
    with tempfile.TemporaryFile(dir=path):
        pass


def discard_unused(parent: Path, pattern: str) -> None:
    """Remove the folders and files of `parent` whose whole name matches and that nobody has touched for 60 days."""
    oldest = time.time() - _KEPT_DAYS * 86400
    for path in parent.iterdir():
        try:
            if not re.fullmatch(pattern, path.name) or path.stat().st_mtime >= oldest:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        except OSError:  # another process was faster
            continue

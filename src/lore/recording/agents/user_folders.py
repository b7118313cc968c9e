"""Where this system keeps, for one user, what programs can make anew. Standard library alone: a status line asks it."""

from __future__ import annotations

import ntpath
import posixpath
from collections.abc import Mapping


def cache_root(environment: Mapping[str, str], home: str, platform: str) -> str:
    """Return the folder of caches; empty where nothing says it. `platform` is as `sys.platform` names it."""
    join = ntpath.join if platform == "win32" else posixpath.join
    if platform == "win32":
        return environment.get("LOCALAPPDATA") or (join(home, "AppData", "Local") if home else "")
    if platform == "darwin":
        return join(home, "Library", "Caches") if home else ""
    return environment.get("XDG_CACHE_HOME") or (join(home, ".cache") if home else "")

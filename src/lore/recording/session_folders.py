"""Sessions that agents keep as folders of several files: Kimi CLI's.

In: a folder. Out: the names of its files in the order in which they are read; the folder that a file is a part of; the
folders of a session's subagents, which are sessions of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from lore.formats.kimi_cli import CONTEXT, WIRE, KimiCliSession

_ROTATED = re.compile(r"context_(\d{1,9})\.jsonl")
_SUBAGENTS = "subagents"


def files(folder: str, names: Collection[str]) -> list[str]:
    """Return the files of a session among these names of its folder: for Kimi CLI the screen's log, then the model's,
    first as it was put aside, then as it is; none where the folder is no session.
    """
    del folder
    if WIRE not in names or CONTEXT not in names:
        return []
    found = ((int(match[1]), match[0]) for match in map(_ROTATED.fullmatch, names) if match is not None)
    return [WIRE, *(name for _, name in sorted(found)), CONTEXT]


def kind_of(files: list[str]) -> str:
    """Return the format of a session of these files; empty where they are none."""
    return KimiCliSession.name if files[:1] == [WIRE] else ""


def session_of(path: str) -> str:
    """Return the folder of the session that a file is a part of; empty for any other file."""
    folder, name = os.path.split(path)
    if name not in (WIRE, CONTEXT) and _ROTATED.fullmatch(name) is None:
        return ""
    whole = os.path.isfile(path) and all(os.path.isfile(os.path.join(folder, other)) for other in (WIRE, CONTEXT))
    return (folder or os.curdir) if whole else ""


def subagents(folder: str) -> list[str]:
    """Return the folders of a session's subagents, in the order of their names."""
    below = os.path.join(folder, _SUBAGENTS)
    try:
        paths = [os.path.join(below, name) for name in sorted(os.listdir(below)) if not name.startswith(".")]
    except (OSError, ValueError):
        return []
    return [path for path in paths if session_of(os.path.join(path, WIRE))]


def parent_of(folder: str) -> str:
    """Return the session that a subagent's folder belongs to; empty for any other folder."""
    above, name = os.path.split(os.path.dirname(folder))
    return above if name == _SUBAGENTS and session_of(os.path.join(above, WIRE)) else ""

"""Sessions that are folders of several files: those of Kimi CLI and of OpenHands.

Kimi CLI: what the screen showed, then what the model saw, first the files that were put aside, then the current one.
OpenHands: the state, then the events, which are in a folder of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from lore.formats.folders import CONTEXT, EVENTS, KIMI_SESSION, OPENHANDS, STATE, WIRE
from lore.recording import filesystem

_ROTATED = re.compile(r"context_(\d{1,9})\.jsonl")
_EVENT = re.compile(r"event-(\d{5,9})(?:-[0-9a-fA-F-]{8,})?\.json")
_SUBAGENTS = "subagents"


def files(folder: str, names: Collection[str]) -> list[str]:
    """Return the files of a session in the order of reading; none if a folder with these names is not a session."""
    if STATE in names:
        return _events(folder)
    if WIRE not in names or CONTEXT not in names:
        return []
    found = ((int(match[1]), match[0]) for match in map(_ROTATED.fullmatch, names) if match is not None)
    return [WIRE, *(name for _, name in sorted(found)), CONTEXT]


def _events(folder: str) -> list[str]:
    try:
        names = filesystem.names(os.path.join(folder, EVENTS))
    except (OSError, ValueError):
        return []
    found = ((int(match[1]), match[0]) for match in map(_EVENT.fullmatch, names) if match is not None)
    events = [os.path.join(EVENTS, name) for _, name in sorted(found)]
    return [STATE, *events] if events else []


def kind_of(files: list[str]) -> str:
    """Return the format of a session of these files; empty if there are none."""
    return {WIRE: KIMI_SESSION, STATE: OPENHANDS}.get(files[0], "") if files else ""


def session_of(path: str) -> str:
    """Return the folder of the session that a file is part of; empty for any other file."""
    folder, name = os.path.split(path)
    if name == EVENTS and filesystem.is_folder(path):
        return session_of(os.path.join(folder, STATE))
    if _EVENT.fullmatch(name) is not None and os.path.basename(os.path.abspath(folder)) == EVENTS:
        folder = os.path.dirname(folder) if os.path.basename(folder) == EVENTS else os.path.join(folder, os.pardir)
        needed = (STATE,)
    elif name == STATE:
        needed = (STATE,) if _events(folder) else ("",)
    elif name in (WIRE, CONTEXT) or _ROTATED.fullmatch(name) is not None:
        needed = (WIRE, CONTEXT)
    else:
        return ""
    whole = filesystem.is_file(path) and all(filesystem.is_file(os.path.join(folder, other)) for other in needed)
    return (folder or os.curdir) if whole else ""


def is_part(folder: str, names: Collection[str]) -> bool:
    """Return whether a folder next to these files holds only parts of their session."""
    return folder == EVENTS and STATE in names


def is_session(folder: str) -> bool:
    """Return whether a folder is a session."""
    return any(session_of(os.path.join(folder, name)) for name in (WIRE, STATE))


def subagents(folder: str) -> list[str]:
    """Return the folders of a session's subagents, sorted."""
    below = os.path.join(folder, _SUBAGENTS)
    try:
        paths = [os.path.join(below, name) for name in sorted(filesystem.names(below)) if not name.startswith(".")]
    except (OSError, ValueError):
        return []
    return [path for path in paths if is_session(path)]


def parent_of(folder: str) -> str:
    """Return the session that a subagent's folder belongs to; empty for any other folder."""
    above, name = os.path.split(os.path.dirname(folder))
    return above if name == _SUBAGENTS and is_session(above) else ""

"""Sessions that agents keep as folders of several files: those of Kimi CLI and of OpenHands.

In: a folder. Out: the names of its files in the order in which they are read; the folder that a file is a part of; the
folders of a session's subagents, which are sessions of their own.
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
    """Return the files of a session, if these names of its folder are one's; none where they are not.

    Of Kimi CLI the screen's log, then the model's, first as it was put aside, then as it is; of OpenHands the state,
    then the events, which lie in a folder of their own.
    """
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
    """Return the format of a session of these files; empty where they are none."""
    return {WIRE: KIMI_SESSION, STATE: OPENHANDS}.get(files[0], "") if files else ""


def session_of(path: str) -> str:
    """Return the folder of the session that a file is a part of; empty for any other file."""
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
    """Tell whether a folder below one of these files holds nothing but parts of the session there."""
    return folder == EVENTS and STATE in names


def is_session(folder: str) -> bool:
    """Tell whether a folder is a session's."""
    return any(session_of(os.path.join(folder, name)) for name in (WIRE, STATE))


def subagents(folder: str) -> list[str]:
    """Return the folders of a session's subagents, in the order of their names."""
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

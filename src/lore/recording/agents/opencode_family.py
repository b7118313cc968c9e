"""Which sessions of OpenCode are the subagents of which: each names the session that started it (`parentID`).

In: a session of a database (`DATABASE#SESSION`), the file of one in a storage folder, or an export. Out: the sessions
below it, which lie in the same database, folder of the project, or folder; or the one above all. Rules: an export
counts whatever its file is called, as long as it is `.json`; of two with one name the first holds; a circle of parents
is followed once; what cannot be read is nobody's. Cost: the list of the database's sessions, or the beginning of each
file in the folder, read once as long as it stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from lore.formats.lines import array_at
from lore.formats.opencode.reader import OpenCode
from lore.formats.opencode.records import OpenCodeSession
from lore.model.events import SessionStarted
from lore.recording.agents import opencode_store

_EXPORT = 256 * 1024  # bytes in which an export's messages should begin, as where it is recognised
_SESSION = msgspec.json.Decoder(OpenCodeSession)


class FamilyMember(NamedTuple):
    """A session, and the one that started it."""

    session: str
    parent: str | None


def subagents_of(path: str) -> list[str]:
    """Return the sessions below a session: its subagents, each followed by its own."""
    family = _family(path)
    own = family.get(path)
    if own is None:
        return []
    children: dict[str, list[str]] = {}
    for name, member in family.items():
        if member.parent is not None:
            children.setdefault(member.parent, []).append(name)
    found: dict[str, None] = {}
    waiting = [*reversed(children.get(own.session, ()))]
    while waiting:
        name = waiting.pop()
        if name not in found and family[name].session != own.session:
            found[name] = None
            waiting += reversed(children.get(family[name].session, ()))
    return list(found)


def session_over(path: str) -> str | None:
    """Return the session above all to which one of a database or a storage folder belongs; None for any other."""
    seen, at = {path}, path
    while (above := _parent(at)) is not None and above not in seen:
        seen.add(above)
        at = above
    return None if at == path else at


def _parent(path: str) -> str | None:
    """Return the session that started one, where it lies in the same place."""
    stored = opencode_store.session_in(path)
    if stored is None and not opencode_store.is_session_file(path):
        return None
    own = _members(stored[0]).get(path) if stored is not None else _member(path)
    if own is None or not own.parent or os.path.basename(own.parent) != own.parent:  # a name, no way out of the folder
        return None
    if stored is not None:
        above = f"{stored[0]}#{own.parent}"
        return above if above in _members(stored[0]) else None
    above = os.path.join(os.path.dirname(path), f"{own.parent}.json")
    return above if _member(above) is not None else None


def _family(path: str) -> Mapping[str, FamilyMember]:
    """Return the sessions that lie with one, itself among them, by the names under which they are read."""
    stored = opencode_store.session_in(path)
    if stored is not None:
        return _members(stored[0])
    if not path.endswith(".json") or _member(path) is None:
        return {}
    return {name: member for name in _beside(path) if (member := _member(name)) is not None}


def _members(database: str) -> Mapping[str, FamilyMember]:
    return _named(database, tuple(opencode_store.sessions_of(database) or ()))


@lru_cache(maxsize=4)
def _named(database: str, sessions: tuple[opencode_store.DatabaseSession, ...]) -> Mapping[str, FamilyMember]:
    return {f"{database}#{session.id}": FamilyMember(session.id, session.parent) for session in sessions}


def _beside(path: str) -> Iterator[str]:
    folder = os.path.dirname(path)
    try:
        names = sorted(os.listdir(folder or os.curdir))
    except OSError:
        return
    yield from (os.path.join(folder, name) for name in names if name.endswith(".json") and not name.startswith("."))


def _member(path: str) -> FamilyMember | None:
    try:
        about = os.stat(path)
        return _read(path, about.st_ino, about.st_size, about.st_mtime_ns) if os.path.isfile(path) else None
    except (OSError, ValueError):
        return None


_MOST_READ = 65_536  # files of which is remembered what they say of their session


@lru_cache(maxsize=_MOST_READ)
def _read(path: str, *_: int) -> FamilyMember | None:
    """Read what a file says of its session; None where it is no session's."""
    if opencode_store.is_session_file(path):
        found = opencode_store.session_of(path)
        return None if found is None or not found.id else FamilyMember(found.id, found.parent)
    with open(path, "rb") as file:
        head = file.read(_EXPORT)
    if not OpenCode.recognises(head):
        return None
    begun = OpenCode().feed(head[: array_at(head, OpenCode.paths)])
    started = next((read.value for read in begun if isinstance(read.value, SessionStarted)), None)
    if started is None or not started.session_id:
        return None
    return FamilyMember(started.session_id, started.parent_session_id)

"""Which files are one session: those of its subagents, which agents keep beside its log, in folders of it or elsewhere.

In: a session's name, or a subagent's. Out: the names of the others, by rules of each agent; and whether what a file
says stands in another one, too. Cost: a listing of a folder, remembered as long as it stays as it is, and the beginning
of each file that is named like a subagent's.

Of OpenCode each session names the one that started it (`parentID`): of a session of a database (`DATABASE#SESSION`),
the file of one in a storage folder, or an export, its subagents lie in the same database, folder of the project, or
folder. An export counts whatever its file is called, as long as it is `.json`; of two with one name the first holds; a
circle of parents is followed once; what cannot be read is nobody's. Cost: the list of the database's sessions, or the
beginning of each file in the folder, read once as long as it stays as it is.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lore.formats.beginning import array_at
from lore.model.canonical import text_of
from lore.model.events import SessionStarted
from lore.model.jsonslice import raw_members
from lore.recording import corpus, filesystem, zstd
from lore.recording.agents import session_folders

if TYPE_CHECKING:
    from lore.recording.agents.opencode_store import DatabaseSession

SESSION_LINES, SESSION_LIMIT = 64, 4 * 1024 * 1024  # how far a log is read for the session that it names
PI_STEM = re.compile(r"\d{4}-\d\d-\d\dT[\dTZ:.-]{5,16}_[0-9A-Za-z-]{8,64}")  # how pi calls a session's file
_BELOW_PI = re.compile(rf"(.+[/\\]{PI_STEM.pattern})[/\\].+\.jsonl", re.DOTALL)
SETTLED_SECONDS = 2.0  # after which a change of a folder has another time than those before it
_MOST_LISTED = 4_096  # folders whose companions are remembered
_MOST_NAMED = 65_536  # files whose session is remembered
_CHAT = re.compile(rb'"sessionId"[ ]*:[ ]*"([A-Za-z0-9_-]{1,200})"')  # no path leads out of a folder of such a name


def companions(path: str) -> list[str]:
    """Return the files that hold the subagents of a session, in a fixed order.

    Those of Claude Code lie in the folder named after its file (`ID/subagents/agent-*.jsonl`, and below that), or
    beside it, when a line near their beginning names the same session; Qwen Code's in `subagents/ID` beside its
    `chats`; Gemini CLI's in a folder named like the session; Kimi CLI's in folders below the session's; oh-my-pi's in a
    folder named after its file; OpenCode's are sessions that lie where it lies. A subagent's own file has none, but for
    OpenCode's. Costs the listing of the folder and the beginning of each file that is named like one.
    """
    if filesystem.is_folder(path):
        return session_folders.subagents(path)
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    if path != corpus.STDIN and (ending == ".json" or "#" in name):
        return _opencode_subagents(path)
    if ending != ".jsonl" or is_companion(name) or not filesystem.is_file(path):
        return []
    found: list[str] = []
    for below, every in _folders_of_subagents(path, folder, stem):
        if filesystem.is_folder(below):
            files = corpus.files_below(below, lambda place, _: found.append(place))  # opening it will say what is wrong
            found.extend(
                [file for file in files if file.endswith(ending) if every or is_companion(os.path.basename(file))]
            )
    names = _names_of_companions(folder or os.curdir)
    session = session_named(path) if names else None
    if session is not None:
        beside = (os.path.join(folder, name) for name in names)
        found.extend(file for file in beside if filesystem.is_file(file) and session_named(file) == session)
    return found


def _names_of_companions(folder: str) -> tuple[str, ...]:
    try:
        status = None if filesystem.is_remote(folder) else os.stat(folder)
        if status is None or time.time() - status.st_mtime < SETTLED_SECONDS:
            return _listed_companions.__wrapped__(folder)
        return _listed_companions(folder, status.st_dev, status.st_ino, status.st_mtime_ns)
    except OSError:
        return ()


@lru_cache(maxsize=_MOST_LISTED)
def _listed_companions(folder: str, *_: int) -> tuple[str, ...]:
    """List a folder once for all of the sessions in it; where it changes, it has another time."""
    return tuple(sorted(name for name in filesystem.names(folder) if is_companion(name)))


def _folders_of_subagents(path: str, folder: str, stem: str) -> Iterator[tuple[str, bool]]:
    """Yield where a session's subagents may lie, and whether every log there is one's."""
    yield os.path.join(folder, stem, "subagents"), False
    if PI_STEM.fullmatch(stem):
        yield os.path.join(folder, stem), True
    if os.path.basename(os.path.abspath(folder)) == "chats":
        yield os.path.join(folder, os.pardir, "subagents", stem), False
        session = chat_named(path) if stem.startswith("session-") else ""
        if session:
            yield os.path.join(folder, session), True


def chat_named(path: str) -> str:
    """Return the session that the first line of a chat of Gemini CLI names; empty where it names none."""
    try:
        with filesystem.opened(path) as file:
            line = file.readline(corpus.HEAD)
    except OSError:
        return ""
    match = _CHAT.search(line) if b'"projectHash"' in line else None
    return "" if match is None else match[1].decode()


def is_superseded(path: str) -> bool:
    """Tell whether what a file says stands beside it in what is read for it.

    So it is with one that lies there unpacked, too, and with a chat of Gemini CLI that went on as JSON Lines.
    """
    if path.endswith(zstd.ENDING):
        return filesystem.is_file(path.removesuffix(zstd.ENDING))
    folder, name = os.path.split(path)
    chat = name.startswith("session-") and name.endswith(".json") and os.path.basename(folder) == "chats"
    return chat and filesystem.is_file(f"{path}l")


def is_companion(name: str) -> bool:
    """Tell a subagent's file by its name, without its folder."""
    return name.startswith("agent-") and name.endswith(".jsonl")


def session_named(path: str) -> str | None:
    """Return the session that the first lines of a Claude Code log name; None where they name none."""
    try:
        if filesystem.is_remote(path):
            return _named_in(path, *filesystem.status(path))
        found = os.stat(path)
        return _named_in(path, found.st_ino, found.st_size, found.st_mtime_ns)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=_MOST_NAMED)
def _named_in(path: str, *_: object) -> str | None:
    """Read the beginning of a file once for all sessions that lie beside it, as long as it stays as it is."""
    with filesystem.opened(path) as file:
        for _number in range(SESSION_LINES):
            line = file.readline(SESSION_LIMIT)
            if (
                b'"sessionId"' in line
                and (own := raw_members(line)) is not None
                and "type" in own
                and "sessionId" in own
            ):
                return text_of(own["sessionId"])
            if not line.endswith(b"\n"):
                break
    return None


def session_of(path: str) -> str | None:
    """Return the session that a subagent's file or folder belongs to, or lies beside; None for others.

    One that lies beside it is looked into, for the session that it names.
    """
    if path.endswith(".json") or corpus.is_in_database(path):
        return _opencode_above(path)
    below = re.fullmatch(r"(.+)[/\\]subagents[/\\].*agent-[^/\\]*\.jsonl", path, re.DOTALL)
    if below is not None:
        return f"{below[1]}.jsonl"
    above = _BELOW_PI.fullmatch(path)
    if above is not None:
        return f"{above[1]}.jsonl"
    if session := session_folders.parent_of(path):
        return session
    folder, name = os.path.split(path)
    chats, parent = os.path.split(folder)
    if os.path.basename(chats) == "chats" and not is_companion(name):
        return _chat_of(chats, parent)
    session = session_named(path) if is_companion(name) else None
    return None if session is None else os.path.join(folder, f"{session}.jsonl")


def _chat_of(chats: str, session: str) -> str | None:
    """Return the chat of Gemini CLI that a folder of its subagents is named after; a file says what session it is."""
    try:
        names = sorted(
            name for name in filesystem.names(chats) if name.startswith("session-") and name.endswith(".jsonl")
        )
    except OSError:
        return None
    likely = (os.path.join(chats, name) for name in names if name.removesuffix(".jsonl").endswith(session[:8]))
    return next((path for path in likely if chat_named(path) == session), None)


# OpenCode's

_EXPORT = 256 * 1024  # bytes in which an export's messages should begin, as where it is recognised
_MOST_READ = 65_536  # files whose session is remembered


class FamilyMember(NamedTuple):
    """A session, and the one that started it."""

    session: str
    parent: str | None


def _opencode_subagents(path: str) -> list[str]:
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


def _opencode_above(path: str) -> str | None:
    """Return the session above all to which one of a database or a storage folder belongs; None for any other."""
    seen, at = {path}, path
    while (above := _parent(at)) is not None and above not in seen:
        seen.add(above)
        at = above
    return None if at == path else at


def _parent(path: str) -> str | None:
    """Return the session that started one, where it lies in the same place."""
    stored = corpus.opencode().session_in(path)
    if stored is None and not corpus.opencode().is_session_file(path):
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
    stored = corpus.opencode().session_in(path)
    if stored is not None:
        return _members(stored[0])
    if not path.endswith(".json") or _member(path) is None:
        return {}
    return {name: member for name in _beside(path) if (member := _member(name)) is not None}


def _members(database: str) -> Mapping[str, FamilyMember]:
    return _named(database, tuple(corpus.opencode().sessions_of(database) or ()))


@lru_cache(maxsize=4)
def _named(database: str, sessions: tuple[DatabaseSession, ...]) -> Mapping[str, FamilyMember]:
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


@lru_cache(maxsize=_MOST_READ)
def _read(path: str, *_: int) -> FamilyMember | None:
    """Read what a file says of its session; None where it is no session's."""
    if corpus.opencode().is_session_file(path):
        found = corpus.opencode().session_of(path)
        return None if found is None or not found.id else FamilyMember(found.id, found.parent)
    from lore.formats.opencode.reader import OpenCode  # noqa: PLC0415 - few logs are OpenCode's

    with filesystem.opened(path) as file:
        head = file.read(_EXPORT)
    if not OpenCode.recognises(head):
        return None
    begun = OpenCode().read([head[: array_at(head, OpenCode.paths)]])
    started = next((read.value for read in begun if isinstance(read.value, SessionStarted)), None)
    if started is None or not started.session_id:
        return None
    return FamilyMember(started.session_id, started.parent_session_id)

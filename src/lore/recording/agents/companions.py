"""Which files are one session: those of its subagents, which agents keep beside its log, in folders of it or elsewhere.

In: a session's name, or a subagent's. Out: the names of the others, by rules of each agent; and whether what a file
says stands in another one, too. Cost: a listing of a folder, remembered as long as it stays as it is, and the beginning
of each file that is named like a subagent's.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache

from lore.model.canonical import text_of
from lore.model.jsonslice import table
from lore.recording import corpus, filesystem, zstd
from lore.recording.agents import session_folders

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
    if corpus.is_folder(path):
        return session_folders.subagents(path)
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    if path != corpus.STDIN and (ending == ".json" or "#" in name):
        from lore.recording.agents import opencode_family  # noqa: PLC0415 - few inputs are OpenCode's

        return opencode_family.subagents_of(path)
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
            if b'"sessionId"' in line and (own := table(line)) is not None and "type" in own and "sessionId" in own:
                return text_of(own["sessionId"])
            if not line.endswith(b"\n"):
                break
    return None


def session_of(path: str) -> str | None:
    """Return the session that a subagent's file or folder belongs to, or lies beside; None for others.

    One that lies beside it is looked into, for the session that it names.
    """
    if path.endswith(".json") or corpus.is_in_database(path):
        from lore.recording.agents import opencode_family  # noqa: PLC0415 - few logs are OpenCode's

        return opencode_family.session_over(path)
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

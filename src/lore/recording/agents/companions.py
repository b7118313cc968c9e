"""Which files are one session: its log with the logs of its subagents (companions), and files that repeat another one.

| agent | the logs of a session's subagents |
|---|---|
| Claude Code | `ID/subagents/**/agent-*.jsonl`; or `agent-*.jsonl` next to the log, if its first lines have the id |
| Qwen Code | `subagents/ID/agent-*.jsonl` next to the folder `chats` |
| Gemini CLI | every log in a folder of `chats` that has the session's id as its name |
| oh-my-pi | every log in a folder that is named like the session's log |
| Kimi CLI | folders in `subagents` below the session's (`packed`) |
| Kimi Code | `agents/NAME/wire.jsonl` next to the session's `agents/main/wire.jsonl` |
| DeepSeek Harness | logs of other folders of the project whose header names it, with a depth of delegation |
| OpenCode | sessions that name it as their `parentID`: in the same database, project folder or folder of exports |

Listings of folders and beginnings of files are remembered as long as the folder or file stays as it is.
"""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from lore.errors import LoreError
from lore.formats.folders import WIRE
from lore.formats.lines import nonblank_lines
from lore.formats.values import text_in
from lore.model.canonical import text_of
from lore.model.deferred import pattern
from lore.model.jsonslice import raw_members
from lore.recording import corpus, filesystem, packed

if TYPE_CHECKING:
    from lore.recording.agents.opencode_store import KeptSession

SESSION_LINES, SESSION_LIMIT = 64, 4 * 1024 * 1024  # lines, and bytes of each, that are searched for a session's id
SETTLED_SECONDS = 2.0  # a folder that changed less than this ago may change again without a new modification time
_PI_NAME = r"\d{4}-\d\d-\d\dT[\dTZ:.-]{5,16}_[0-9A-Za-z-]{8,64}"  # the name of a session's file of (oh-my-)pi
_PI_STEM = pattern(_PI_NAME)
_BELOW_PI = pattern(rf"(.+[/\\]{_PI_NAME})[/\\].+\.jsonl", re.DOTALL)
_BELOW_CLAUDE = pattern(r"(.+)[/\\]subagents[/\\](?:(.*)[/\\])?agent-[^/\\]*\.jsonl", re.DOTALL)
_SUBAGENT_CONTEXT = pattern(r"context_sub_\d+\.jsonl")
_WORKFLOW = pattern(r"[/\\]subagents[/\\]workflows[/\\][^/\\]+$")
_CHAT = pattern(rb'"sessionId"[ ]*:[ ]*"([A-Za-z0-9_-]{1,200})"')  # a name that cannot lead out of its folder
_MOST = 65_536  # files and folders that are remembered

T = TypeVar("T")


def companions(path: str) -> list[str]:
    """Return the files, folders or `DATABASE#SESSION` of a session's subagents.

    An `agent-*.jsonl` file has none; a subagent of OpenCode may have its own.
    """
    folder, name = os.path.split(path)
    stem, ending = os.path.splitext(name)
    is_log = ending == ".jsonl" and filesystem.is_file(path)
    if not is_log and filesystem.is_folder(path):
        below = os.path.join(path, "subagents")
        places = (os.path.join(below, name) for name in filesystem.names(below))
        return [place for place in places if packed.find_pack(place)[0] in packed.WITH_SUBAGENTS]
    if path != corpus.STDIN and (ending == ".json" or "#" in name):
        return _opencode_subagents(path)
    if (own := _deepseek_ids(path)) is not None:
        logs = _deepseek_logs(folder)
        return [log for log in logs if (ids := _deepseek_ids(log)) is not None and ids[1] == own[0] != ids[0]]
    if not is_log or is_companion(name):
        return []
    agents, agent = os.path.split(folder)
    if name == WIRE and agent == "main" and os.path.basename(agents) == "agents":
        logs = (os.path.join(agents, other, WIRE) for other in filesystem.names(agents) if other != agent)
        return [*filter(filesystem.is_file, logs)]
    paths: list[str] = []
    folders = {os.path.join(folder, stem, "subagents"): False}  # whether each log in it is a subagent's
    if _PI_STEM.fullmatch(stem):
        folders[os.path.join(folder, stem)] = True
    if os.path.basename(os.path.abspath(folder)) == "chats":
        folders[os.path.join(folder, os.pardir, "subagents", stem)] = False
        if stem.startswith("session-") and (session := _session_of_chat(path)):
            folders[os.path.join(folder, session)] = True
    for below, takes_all in folders.items():
        if filesystem.is_folder(below):
            files = corpus.files_below(below, lambda place, _: paths.append(place))  # opening it reports the reason
            logs = (file for file in files if file.endswith(ending))
            paths.extend(log for log in logs if takes_all or is_companion(os.path.basename(log)))
    names = _read_once(_list_companions, folder, is_folder=True) or ()
    session = _read_once(_session_of_log, path) if names else None
    if session is not None:
        beside = (os.path.join(folder, name) for name in names)
        paths += [file for file in beside if filesystem.is_file(file) and _read_once(_session_of_log, file) == session]
    return _drop_repeated(paths)


def _drop_repeated(paths: list[str]) -> list[str]:
    """Drop each file that is repeated at the beginning of another one.

    Only files with the same name, or links to the same file, are compared.
    """
    repeated = set[str]()
    for number, path in enumerate(paths):
        for other in paths[number + 1 :]:
            if os.path.basename(path) == os.path.basename(other) or os.path.realpath(path) == os.path.realpath(other):
                if corpus.begins_with(path, other):
                    repeated.add(other)
                elif corpus.begins_with(other, path):
                    repeated.add(path)
    return [path for path in paths if path not in repeated]


def session_of(path: str) -> str | None:
    """Return the path of the session of a subagent's file or folder, even if it is missing; None for any other file."""
    if path.endswith(".json") or corpus.is_in_database(path):
        return _opencode_root(path)
    if (below := _BELOW_CLAUDE.fullmatch(path)) is not None:
        chat = os.path.join(below[1], "chats", f"{below[2]}.jsonl")  # of Qwen Code
        return chat if below[2] and filesystem.is_file(chat) else f"{below[1]}.jsonl"
    if (below := _BELOW_PI.fullmatch(path)) is not None:
        return f"{below[1]}.jsonl"
    folder, name = os.path.split(path)
    agents, agent = os.path.split(folder)
    if name == WIRE and agent != "main" and os.path.basename(agents) == "agents":
        main = os.path.join(agents, "main", WIRE)
        return main if filesystem.is_file(main) else None
    if (own := _deepseek_ids(path)) is not None:
        logs = _deepseek_logs(folder) if own[1] else ()
        return next((log for log in logs if (ids := _deepseek_ids(log)) is not None and ids[0] == own[1]), None)
    chats, parent = os.path.split(folder)
    if parent == "subagents" and packed.find_pack(chats)[0] in packed.WITH_SUBAGENTS:
        return chats
    if is_companion(name):
        session = _read_once(_session_of_log, path)
        return None if session is None else os.path.join(folder, f"{session}.jsonl")
    if os.path.basename(chats) != "chats":
        return None
    # the name of a chat's file is its time and the beginning of its session's id
    likely = (chat for chat in filesystem.names(chats) if chat.startswith("session-"))
    paths = (os.path.join(chats, chat) for chat in likely if chat.endswith(f"{parent[:8]}.jsonl"))
    return next((chat for chat in paths if _session_of_chat(chat) == parent), None)


def is_companion(name: str) -> bool:
    """Return whether a file is named `agent-*.jsonl`, as Claude Code and Qwen Code name logs of subagents."""
    return name.startswith("agent-") and name.endswith(".jsonl")


def is_skipped(path: str) -> bool:
    """Return whether a scan of folders skips a file, because its requests are in another file, or it has none.

    In another file: logs that exist without `.zst`, Gemini chats that exist as `.jsonl`, and contexts of Kimi CLI's
    subagents next to the screen's log, which has their usage; contents are not compared. Without requests: journals of
    Claude Code's workflows, which list the subagents that ran.
    """
    if path.endswith(".zst"):
        return filesystem.is_file(path.removesuffix(".zst"))
    folder, name = os.path.split(path)
    if name == "journal.jsonl" and _WORKFLOW.search(folder) is not None:
        return True
    if _SUBAGENT_CONTEXT.fullmatch(name) is not None:
        return filesystem.is_file(os.path.join(folder, WIRE))
    chat = name.startswith("session-") and name.endswith(".json") and os.path.basename(folder) == "chats"
    return chat and filesystem.is_file(f"{path}l")


def moved_to_database(paths: Sequence[str]) -> set[str]:
    """Return those of `paths` in OpenCode's storage folder whose session is also in `paths` as `DATABASE#SESSION`."""
    stored = {os.path.abspath(path) for path in paths if "#" in path}
    moved: set[str] = set()
    for path in paths if stored else ():
        folder, name = os.path.split(os.path.abspath(path))
        above, kind = os.path.split(os.path.dirname(folder))
        if kind == "session" and name.endswith(".json"):
            databases = (os.path.join(os.path.dirname(above), database) for database in ("opencode.db", "kilo.db"))
            if any(f"{database}#{name.removesuffix('.json')}" in stored for database in databases):
                moved.add(path)
    return moved


# logs of lines


def _session_of_chat(path: str) -> str:
    """Return the session id in the first line of a chat of Gemini CLI; empty without one or if it is unreadable."""
    try:
        with filesystem.open_file(path) as file:
            line = file.readline(corpus.HEAD)
    except OSError:
        return ""
    match = _CHAT.search(line) if b'"projectHash"' in line else None
    return "" if match is None else match[1].decode()


def _list_companions(folder: str) -> list[str]:
    """Return the names of subagents' logs in a folder; `_read_once` remembers them for its thousands of logs."""
    return [*filter(is_companion, filesystem.names(folder or os.curdir))]


def _read_once(read: Callable[[str], T], path: str, *, is_folder: bool = False) -> T | None:
    """Return `read(path)`, remembered until the file or folder changes; None if it raises OSError or ValueError."""
    try:
        if filesystem.is_remote(path):
            state = None if is_folder else filesystem.status(path)
        else:
            about = os.stat(path or os.curdir)
            may_change = is_folder and time.time() - about.st_mtime < SETTLED_SECONDS
            state = None if may_change else (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
        return read(path) if state is None else _cached_read(read, path, state)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=_MOST)
def _cached_read(read: Callable[[str], T], path: str, _: object) -> T:
    return read(path)


def _session_of_log(path: str) -> str | None:
    """Return the session id in the first lines of a log of Claude Code; None without one."""
    with filesystem.open_file(path) as file:
        for _number in range(SESSION_LINES):
            line = file.readline(SESSION_LIMIT)
            record = raw_members(line) if b'"sessionId"' in line else None
            if record is not None and "type" in record and "sessionId" in record:
                return text_of(record["sessionId"])
            if not line.endswith(b"\n"):
                break
    return None


def _deepseek_ids(path: str) -> tuple[str, str] | None:
    """Return the id of a DeepSeek Harness session, and that of the session whose subagent it is (empty: none).

    Return None for any other file. A fork also names a parent, and is no subagent.
    """
    return _read_once(_read_deepseek, path) if os.path.basename(path).startswith("session.jsonl") else None


def _read_deepseek(path: str) -> tuple[str, str] | None:
    try:
        header = raw_members(next(nonblank_lines(corpus.open_head(path).head), b"")) or {}
    except LoreError:
        return None
    if header.get("type") != b'"session"' or not header.keys() >= {"id", "createdAt"}:
        return None
    is_subagent = header.get("delegationDepth", b"0") not in (b"0", b"null")
    return text_in(header["id"]), text_in(header.get("parentSession", b"")) if is_subagent else ""


def _deepseek_logs(folder: str) -> Iterator[str]:
    """Yield the logs of the project that a session's folder belongs to."""
    project = os.path.dirname(folder) or os.path.join(folder, os.pardir)
    for session in filesystem.names(project):
        names = filesystem.names(os.path.join(project, session))
        yield from (os.path.join(project, session, name) for name in names if name.startswith("session.jsonl"))


# OpenCode's sessions


def _family(path: str) -> tuple[str, Mapping[str, KeptSession]]:
    """Return an OpenCode session's id, and all sessions stored with it by id; `("", {})` for any other file."""
    stored = corpus.opencode().session_in(path)
    if stored is not None:
        return stored[1], corpus.opencode().sessions_of(stored[0])
    session = _read_once(corpus.opencode().session_in_file, path) if path.endswith(".json") else None
    family = None if session is None else _read_once(_read_files, os.path.dirname(path), is_folder=True)
    return ("", {}) if session is None or family is None else (session.id, family)


def _opencode_subagents(path: str) -> list[str]:
    """Return the names of the sessions that a session started, each followed by those that it started itself."""
    root, family = _family(path)
    children: dict[str | None, list[str]] = defaultdict(list)
    for session in reversed([*family.values()]):
        children[session.parent].append(session.id)
    subagents: dict[str, None] = {}
    waiting = [*children[root]]
    while waiting:
        session = waiting.pop()
        if session not in subagents and session != root:
            subagents[session] = None
            waiting += children[session]
    return [family[session].name for session in subagents]


def _opencode_root(path: str) -> str | None:
    """Return the name of the first session in the chain that started this one; None if no session did."""
    session, family = _family(path)
    above = [session]
    while above[-1] in family:
        parent = family[above[-1]].parent
        if parent is None or parent not in family or parent in above:
            break
        above.append(parent)
    return None if len(above) == 1 else family[above[-1]].name


def _read_files(folder: str) -> Mapping[str, KeptSession]:  # by id
    names = (name for name in filesystem.names(folder or os.curdir) if name.endswith(".json"))
    sessions = (_read_once(corpus.opencode().session_in_file, os.path.join(folder, name)) for name in names)
    return {session.id: session for session in sessions if session is not None}

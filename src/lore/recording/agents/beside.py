"""Files that agents keep next to their logs, for what a log does not say: its session's folder, and its title.

The folder is the one that the session was started in. Only members of an agent's records count, never text inside them.
The table in `logs.py` says which agent has which file.

Sources: `.project_root`: Gemini CLI's own code; `kimi.json` and `state.json` (`custom_title`): Kimi CLI's
(`session_state.py`); `session_index.jsonl`: Kimi Code's; its `state.json` (`title`, `isCustomTitle`),
`history_item.json` of Roo Code, `taskHistory.json` of Cline, Codex's `session_index.jsonl` (append-only, the last line
wins) and Copilot's `workspace.yaml`: public readers of them; all 2026.
"""

from __future__ import annotations

import os
import re
from typing import TypeAlias

from lore.formats.lines import nonblank_lines
from lore.formats.values import text_in
from lore.model.jsonslice import array, is_json, members_at, raw_members
from lore.recording import filesystem

_CODEX_ID = re.compile(r"([0-9a-f]{8}-[0-9a-f-]{27})\.jsonl(?:\.zst)?$")
_CODEX_HOME = re.compile(r"(.*)[/\\](?:archived_)?sessions(?:[/\\]|$)", re.DOTALL)
_WORKSPACE = re.compile(rb"^(name|summary):[ \t]*(\S[^\n]*)$", re.MULTILINE)  # no name: a block of several lines
_LONGEST = 4_096  # bytes of a path


KeptBeside: TypeAlias = tuple[str | None, str | None]  # folder and title of a session; None if no file next to it says


def of_gemini(path: str) -> KeptBeside:
    """Return the folder that Gemini CLI keeps in a file above its chats."""
    chats = os.path.dirname(path)
    for place in (os.path.dirname(chats), os.path.dirname(os.path.dirname(chats))):
        data = filesystem.small_file(os.path.join(place, ".project_root"))[:_LONGEST]
        if folder := data.decode("utf-8", "replace").strip():
            return folder, None
    return None, None


def md5_name(folder: str) -> str:
    """Return the name under which Kimi CLI keeps the sessions of a folder: the digest of its path."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL: 2 ms

    return hashlib.md5(os.fsencode(folder), usedforsecurity=False).hexdigest()


def of_kimi_cli(path: str) -> KeptBeside:
    """Return the title in the folder of a session, and the listed folder whose digest that of all its sessions has."""
    projects, name = os.path.split(os.path.dirname(os.path.abspath(path)))
    listed = _object_in(os.path.join(os.path.dirname(projects), "kimi.json"))
    digest = name.rpartition("_")[2]  # for a remote folder its kind comes first
    folders = (text_at_path(raw_members(row), ("path",)) for row in array(listed.get("work_dirs", b"")))
    folder = next((folder for folder in folders if folder and md5_name(folder) == digest), None)
    if not os.path.isdir(path):
        return folder, None
    older = text_at_path(_object_in(os.path.join(path, "metadata.json")), ("title",))
    title = text_at_path(_object_in(os.path.join(path, "state.json")), ("custom_title",))
    return folder, title or (None if older == "Untitled" else older)


def of_kimi_code(path: str) -> KeptBeside:
    """Return what Kimi Code keeps of a session, in which each agent has a folder for its log."""
    session, agents = os.path.split(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    if agents != "agents":
        return None, None
    above = os.path.dirname(os.path.dirname(os.path.dirname(session)))
    listed = os.path.join(above, "session_index.jsonl")
    state = _object_in(os.path.join(session, "state.json"))
    title = text_at_path(state, ("title",)) if state.get("isCustomTitle") == b"true" else None  # else it is a prompt
    return _text_in_list(listed, "sessionId", os.path.basename(session), "workDir"), title


def of_task(path: str) -> KeptBeside:
    """Return the folder that Roo Code keeps with a task, or Cline in its list of all tasks."""
    folder = os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
    project = text_at_path(_object_in(os.path.join(folder, "history_item.json")), ("workspace",))
    tasks, task = os.path.split(folder)
    listed = os.path.join(os.path.dirname(tasks), "state", "taskHistory.json")
    return project or _text_in_list(listed, "id", task, "cwdOnTaskInitialization"), None


def of_copilot(path: str) -> KeptBeside:
    """Return the title in Copilot's file on a session."""
    folder, name = os.path.split(path)
    if name != "events.jsonl":
        return None, None
    workspace = dict(_WORKSPACE.findall(filesystem.small_file(os.path.join(folder, "workspace.yaml"))))
    title = (workspace.get(b"name") or workspace.get(b"summary") or b"").decode("utf-8", "replace").strip()
    return None, None if title[:1] in ("|", ">") else title.strip("\"'")


def of_codex(path: str) -> KeptBeside:
    """Return the title in Codex's list of threads."""
    folder, name = os.path.split(os.path.abspath(path))
    thread = _CODEX_ID.search(name) if name.startswith("rollout-") else None
    home = _CODEX_HOME.match(folder)
    if thread is None or home is None:
        return None, None
    return None, _text_in_list(os.path.join(home[1], "session_index.jsonl"), "id", thread[1], "thread_name")


# JSON


def text_at_path(members: dict[str, bytes] | None, names: tuple[str, ...]) -> str | None:
    """Return the text at a path of members of a record; None for another value."""
    *above, last = names
    value = (members_at(members or {}, *above) if above else members or {}).get(last, b"")
    return decoded_path(value) if value[:1] == b'"' else None


def decoded_path(value: bytes) -> str | None:
    """Return a JSON string that can be a path or a name; None for another value."""
    text = text_in(value)
    return text if 0 < len(text) <= _LONGEST else None


def _object_in(path: str) -> dict[str, bytes]:
    return members_at(filesystem.small_file(path))


def _text_in_list(path: str, key: str, identifier: str, name: str) -> str | None:
    """Return the text `name` in the last row (of a JSON array, or a row a line) whose `key` is `identifier`."""
    data = filesystem.small_file(path)
    rows = array(data) if data[:1] == b"[" and is_json(data) else list(nonblank_lines(data))
    candidates = (raw_members(row) for row in reversed(rows) if identifier.encode() in row)
    return next((text_at_path(row, (name,)) for row in candidates if text_at_path(row, (key,)) == identifier), None)

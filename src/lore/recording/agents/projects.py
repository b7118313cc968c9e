"""The folder that a session was started in: from the first lines of its log, or a file that its agent keeps next to it.

Only members of an agent's records count, never text inside them.

Sources: the agents' records as their readers describe them; `.project_root`: Gemini CLI's own code, `kimi.json`: Kimi
CLI's, `session_index.jsonl`: Kimi Code's, all 2026; `history_item.json` of Roo Code and `taskHistory.json` of Cline:
public readers of them (2026).
"""

from __future__ import annotations

import hashlib
import os
import re
from itertools import islice

from lore.formats.beginning import SPACE
from lore.formats.lines import nonblank_lines
from lore.model.canonical import decode
from lore.model.jsonslice import array, is_json, raw_members
from lore.recording import filesystem

_LINES = 40
_BEGINNING = 8_192  # bytes of a document that are searched if its first object is not whole
_MEMBERS = (
    ("cwd",),  # Claude Code, pi, Qwen Code
    ("payload", "cwd"),  # Codex CLI
    ("data", "context", "cwd"),  # Copilot CLI
    ("info", "directory"),  # OpenCode
    ("directory",),
    ("workspace", "working_dir"),  # OpenHands
    ("info", "config", "environment", "cwd"),  # mini-swe-agent
)
_NAMED = re.compile(rb'"(?:cwd|directory|working_dir)"\s*:\s*("(?:[^"\\]++|\\.)++")')
_ROOT = ".project_root"
_FOLDERS = "kimi.json"
_LONGEST = 4_096  # bytes of a path


def md5_name(folder: str) -> str:
    """Return the name under which Kimi CLI keeps the sessions of a folder: the digest of its path."""
    return hashlib.md5(os.fsencode(folder), usedforsecurity=False).hexdigest()


def project_of(head: bytes, path: str) -> str | None:
    """Return the folder that a session was started in; None if nothing tells it."""
    return project_in(head) or project_beside(path)


def project_in(head: bytes) -> str | None:
    """Return the folder that the beginning of a log names."""
    for line in islice(nonblank_lines(head), _LINES):
        own = raw_members(line.strip(SPACE))
        if own is None:
            break
        for names in _MEMBERS:
            found = text_at(own, names)
            if found:
                return found
    named = _NAMED.search(head[:_BEGINNING]) if head[:1] in (b"{", b"[") else None
    return None if named is None else _decoded(named[1])


def project_beside(path: str) -> str | None:
    """Return the folder that files next to a log name."""
    return _beside(path) or _by_digest(path) or _of_task(path) or _by_session(path)


def _by_digest(path: str) -> str | None:
    """Return the folder in Kimi CLI's list whose digest is the name of the folder with its sessions."""
    projects, name = os.path.split(os.path.dirname(os.path.abspath(path)))
    listed = raw_members(filesystem.small_file(os.path.join(os.path.dirname(projects), _FOLDERS))) or {}
    digest = name.rpartition("_")[2]  # for a remote folder its kind comes first
    folders = (text_at(raw_members(row), ("path",)) for row in array(listed.get("work_dirs", b"")))
    return next((folder for folder in folders if folder and md5_name(folder) == digest), None)


def _of_task(path: str) -> str | None:
    """Return the folder that Roo Code keeps with a task, or Cline in its list of all tasks."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    found = text_at(raw_members(filesystem.small_file(os.path.join(folder, "history_item.json"))), ("workspace",))
    tasks, name = os.path.split(os.path.abspath(folder))
    if found is not None:
        return found
    listed = filesystem.small_file(os.path.join(os.path.dirname(tasks), "state", "taskHistory.json"))
    rows = (raw_members(row) for row in (array(listed) if is_json(listed) else ()))
    return next((text_at(row, ("cwdOnTaskInitialization",)) for row in rows if text_at(row, ("id",)) == name), None)


def _by_session(path: str) -> str | None:
    """Return the folder in Kimi Code's list of sessions; each agent of a session has a folder for its log."""
    session, agents = os.path.split(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    sessions, name = os.path.split(session)
    if agents != "agents":
        return None
    listed = filesystem.small_file(os.path.join(os.path.dirname(os.path.dirname(sessions)), "session_index.jsonl"))
    rows = (raw_members(line) for line in nonblank_lines(listed))
    return next((text_at(row, ("workDir",)) for row in rows if text_at(row, ("sessionId",)) == name), None)


def text_at(own: dict[str, bytes] | None, names: tuple[str, ...]) -> str | None:
    """Return the text at a path of members of a record; None if there is none."""
    for name in names[:-1]:
        value = (own or {}).get(name, b"")
        own = raw_members(value) if value[:1] == b"{" else None
    value = (own or {}).get(names[-1], b"")
    return _decoded(value) if value[:1] == b'"' else None


def _decoded(value: bytes) -> str | None:
    try:
        found = decode(value)
    except ValueError:
        return None
    return found if isinstance(found, str) and found and len(found) <= _LONGEST else None


def _beside(path: str) -> str | None:
    """Return what Gemini CLI keeps in a file above its chats."""
    folder = os.path.dirname(path)
    for place in (os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))):
        try:
            with open(os.path.join(place, _ROOT), "rb") as file:
                return file.read(_LONGEST).decode("utf-8", "replace").strip() or None
        except (OSError, ValueError):
            continue
    return None

"""What an agent records of a session outside of its messages: the folder that it was started in, and its title.

The folder is in the first lines of the log, or in a file that the agent keeps next to it. Only members of an agent's
records count, never text inside them. Titles in a log are found by its reader, those in other files here.

Sources: the agents' records as their readers describe them; `.project_root`: Gemini CLI's own code; `kimi.json` and
`state.json` (`custom_title`): Kimi CLI's (`session_state.py`); `session_index.jsonl`: Kimi Code's; its `state.json`
(`title`, `isCustomTitle`), `history_item.json` of Roo Code, `taskHistory.json` of Cline, Codex's `session_index.jsonl`
and Copilot's `workspace.yaml`: public readers of them; all 2026.
"""

from __future__ import annotations

import os
import re
from itertools import islice

from lore.formats.beginning import SPACE
from lore.formats.lines import nonblank_lines
from lore.model.canonical import decode
from lore.model.deferred import pattern
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
_NAMED = pattern(rb'"(?:cwd|directory|working_dir)"\s*:\s*("(?:[^"\\]++|\\.)++")')
_CODEX_ID = pattern(r"([0-9a-f]{8}-[0-9a-f-]{27})\.jsonl(?:\.zst)?$")
_CODEX_HOME = pattern(r"(.*)[/\\](?:archived_)?sessions(?:[/\\]|$)", re.DOTALL)
_WORKSPACE = pattern(rb"^(name|summary):[ \t]*(\S[^\n]*)$", re.MULTILINE)  # no name: a block of several lines
_ROOT = ".project_root"
_FOLDERS = "kimi.json"
_LONGEST = 4_096  # bytes of a path


def md5_name(folder: str) -> str:
    """Return the name under which Kimi CLI keeps the sessions of a folder: the digest of its path."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL: 2 ms

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
    return _in_root_file(path) or _of_kimi(path) or _of_task(path) or _of_kimi_code(path)


def _in_root_file(path: str) -> str | None:
    """Return what Gemini CLI keeps in a file above its chats."""
    chats = os.path.dirname(path)
    for place in (os.path.dirname(chats), os.path.dirname(os.path.dirname(chats))):
        if found := filesystem.small_file(os.path.join(place, _ROOT))[:_LONGEST].decode("utf-8", "replace").strip():
            return found
    return None


def _of_kimi(path: str) -> str | None:
    """Return the folder in Kimi CLI's list whose digest is the name of the folder with its sessions."""
    projects, name = os.path.split(os.path.dirname(os.path.abspath(path)))
    listed = raw_members(filesystem.small_file(os.path.join(os.path.dirname(projects), _FOLDERS))) or {}
    digest = name.rpartition("_")[2]  # for a remote folder its kind comes first
    folders = (text_at(raw_members(row), ("path",)) for row in array(listed.get("work_dirs", b"")))
    return next((folder for folder in folders if folder and md5_name(folder) == digest), None)


def _of_task(path: str) -> str | None:
    """Return the folder that Roo Code keeps with a task, or Cline in its list of all tasks."""
    folder = os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
    found = _member_of(os.path.join(folder, "history_item.json"), "workspace")
    tasks, task = os.path.split(folder)
    listed = os.path.join(os.path.dirname(tasks), "state", "taskHistory.json")
    return found or _listed(listed, "id", task, "cwdOnTaskInitialization")


def _of_kimi_code(path: str) -> str | None:
    """Return the folder in Kimi Code's list of sessions."""
    session = _kimi_code_session(path)
    above = os.path.dirname(os.path.dirname(os.path.dirname(session)))
    listed = os.path.join(above, "session_index.jsonl")
    return _listed(listed, "sessionId", os.path.basename(session), "workDir") if session else None


def _kimi_code_session(path: str) -> str:
    """Return the folder of Kimi Code's session, in which each agent has a folder for its log; empty for other logs."""
    session, agents = os.path.split(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    return session if agents == "agents" else ""


def title_beside(path: str) -> str | None:
    """Return the title that an agent keeps in a file next to a log."""
    folder, name = os.path.split(os.path.abspath(path))
    if os.path.isdir(path):  # a session of Kimi CLI
        named = _member_of(os.path.join(path, "state.json"), "custom_title")
        older = _member_of(os.path.join(path, "metadata.json"), "title")
        return named or (None if older == "Untitled" else older)
    if name == "wire.jsonl" and (session := _kimi_code_session(path)):
        state = raw_members(filesystem.small_file(os.path.join(session, "state.json"))) or {}
        return text_at(state, ("title",)) if state.get("isCustomTitle") == b"true" else None  # else its first prompt
    if name == "events.jsonl":
        found = dict(_WORKSPACE.findall(filesystem.small_file(os.path.join(folder, "workspace.yaml"))))
        title = (found.get(b"name") or found.get(b"summary") or b"").decode("utf-8", "replace").strip()
        return None if title[:1] in ("|", ">") else title.strip("\"'")
    thread = _CODEX_ID.search(name) if name.startswith("rollout-") else None
    home = _CODEX_HOME.match(folder)
    if thread is None or home is None:
        return None
    return _listed(os.path.join(home[1], "session_index.jsonl"), "id", thread[1], "thread_name")


def _member_of(path: str, name: str) -> str | None:
    """Return a text in the JSON object that a file holds."""
    return text_at(raw_members(filesystem.small_file(path)), (name,))


def _listed(path: str, key: str, wanted: str, name: str) -> str | None:
    """Return a text in the last row of a list (a JSON array, or a row a line) that has the wanted key."""
    data = filesystem.small_file(path)
    rows = array(data) if data[:1] == b"[" and is_json(data) else list(nonblank_lines(data))
    found = (raw_members(row) for row in reversed(rows) if wanted.encode() in row)
    return next((text_at(row, (name,)) for row in found if text_at(row, (key,)) == wanted), None)


def text_at(own: dict[str, bytes] | None, names: tuple[str, ...]) -> str | None:
    """Return the text at a path of members of a record; None for another value."""
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

"""The title of a session: the name that its agent gave it, else its first prompt, masked and shortened.

Names are records of the log, of which the beginning and the end are read (`agents/logs.py` lists the records), or what
OpenCode, Codex, Copilot and Gemini keep elsewhere. Nothing is kept between runs.

Sources: Codex's `session_index.jsonl` (append-only, the last line wins) and Copilot's `workspace.yaml` from public
readers of them, 2026.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from lore.errors import LoreError
from lore.formats.beginning import is_document
from lore.formats.lines import nonblank_lines
from lore.model.canonical import printable, text_of
from lore.model.events import MAIN, Append
from lore.model.items import TextBlock, UserMessage
from lore.model.jsonslice import raw_members
from lore.model.mask import cut_masked, mask
from lore.recording import corpus, filesystem
from lore.recording.agents.logs import AGENTS, NameRecord
from lore.recording.agents.projects import text_at
from lore.recording.opening import Options

MOST = 70  # characters of a title
_TAIL = 64 * 1024  # bytes at the end of a log: agents write names again when a session ends
_SEARCHED = 4  # pieces of a log, of 256 KiB, that are searched for the first prompt
_MASKED = 10_000  # characters of a prompt that are masked before it is shortened
_RECORDS = (
    *(record for agent in AGENTS for record in agent.names),
    NameRecord(b"session_started", ("kind",), ("title",), 1),  # lore's own logs, converted ones too
    NameRecord(b"session_changed", ("kind",), ("title",), 1),
)
_LINE = re.compile(b"|".join(re.escape(record.word) for record in _RECORDS))
_CODEX_ID = re.compile(r"([0-9a-f]{8}-[0-9a-f-]{27})\.jsonl(?:\.zst)?$")
_WORKSPACE = re.compile(rb"^(name|summary):[ \t]*(\S[^\n]*)$", re.MULTILINE)  # no name: a block of several lines
_UNNAMED = re.compile(r"(?:New|Child) session - \d{4}-")  # OpenCode, before it has a name
_BLOCK = re.compile(r"\s*<([A-Za-z_][\w-]*)[^>]*>(.*?)</\1>\s*", re.DOTALL)
_REMINDER = re.compile(r"<system[_-]reminder>.*?(?:</system[_-]reminder>|$)", re.DOTALL)
_SPOKEN = frozenset(("task", "user_message", "user_query", "feedback"))  # blocks that hold what the user wrote
_COMMAND = re.compile(r"<command-name>\s*(/?[\w:.-]+)\s*</command-name>")
_NOT_SPOKEN = (
    "<system",
    "# AGENTS.md instructions",
    "Caveat: ",
    "[Request interrupted",
    "This session is being continued",
)


def title_of(path: str) -> str | None:
    """Return the title of a recording; None if it has none or cannot be read."""
    if corpus.is_stream(path):
        return None
    try:
        opened = corpus.open_head(path)
        name = _name_beside(path) or _name_in_document(path, opened.head) or _name_in_log(path, opened.head)
        return shortened(name or _first_prompt(path, opened) or "") or None
    except (LoreError, OSError, ValueError, RecursionError):
        return None


def shortened(text: str) -> str:
    """Return a text as one line of at most `MOST` characters, credentials masked."""
    line = " ".join(mask(printable(cut_masked(text, _MASKED))).split())
    return line if len(line) <= MOST else line[: MOST - 1].rstrip() + "…"


def _name_in_log(path: str, head: bytes) -> str:
    """Return the best name in the lines at the beginning and the end of a log."""
    tail = b"" if len(head) < corpus.HEAD // 2 else _tail(path)
    best, rank = "", 0
    for line in (*nonblank_lines(head), *nonblank_lines(tail)):
        if _LINE.search(line) is None or (record := raw_members(line)) is None:
            continue
        for row in _RECORDS:
            if row.word not in line or row.rank < rank:
                continue
            if row.type_at and text_at(record, row.type_at) != row.word.decode():
                continue
            name = text_at(record, row.name_at)
            if name and ("leafUuid" not in record or _is_of_session(record, head, tail)):
                best, rank = name, row.rank
    return best


def _is_of_session(summary: dict[str, bytes], head: bytes, tail: bytes) -> bool:
    """Return whether a summary of Claude Code is of this log: a resumed log begins with summaries of other ones."""
    record = re.compile(rb'"uuid":[ ]?' + re.escape(summary["leafUuid"]))
    return record.search(head) is not None or record.search(tail) is not None


def _tail(path: str) -> bytes:
    """Return the last whole lines of a log here."""
    if filesystem.is_remote(path) or not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        file.seek(-min(_TAIL, os.fstat(file.fileno()).st_size), os.SEEK_END)
        return file.read(_TAIL).partition(b"\n")[2]


def _name_in_document(path: str, head: bytes) -> str:
    """Return the name in a document of Gemini CLI, or in a session of OpenCode."""
    if not path.endswith(".json") or head[:1] != b"{":
        return ""
    own = raw_members(filesystem.small_file(path)) or {}
    if "projectHash" in own:
        return text_at(own, ("summary",)) or ""
    if "messages" in own or "projectID" in own:
        return _opencode_name(text_at(own, ("info", "title")) or text_at(own, ("title",)) or "")
    return ""


def _opencode_name(title: str) -> str:
    return "" if _UNNAMED.match(title) else title


def _name_beside(path: str) -> str:
    """Return the name that an agent keeps outside of the log."""
    if "#" in path and (stored := corpus.opencode().session_in(path)) is not None:
        sessions = corpus.opencode().sessions_of(stored[0]) or ()
        return next((_opencode_name(session.title) for session in sessions if session.id == stored[1]), "")
    folder, name = os.path.split(os.path.abspath(path))
    if name == "events.jsonl":
        found = dict(_WORKSPACE.findall(filesystem.small_file(os.path.join(folder, "workspace.yaml"))))
        text = (found.get(b"name") or found.get(b"summary") or b"").decode("utf-8", "replace").strip()
        return "" if text[:1] in ("|", ">") else text.strip("\"'")
    thread = _CODEX_ID.search(name) if name.startswith("rollout-") else None
    home = re.match(r"(.*)[/\\](?:archived_)?sessions(?:[/\\]|$)", folder, re.DOTALL)
    if thread is None or home is None:
        return ""
    listed = filesystem.small_file(os.path.join(home[1], "session_index.jsonl"))
    rows = [raw_members(line) or {} for line in nonblank_lines(listed) if thread[1].encode() in line]
    return next((text_at(row, ("thread_name",)) or "" for row in reversed(rows)), "")


def _first_prompt(path: str, opened: corpus.Opened) -> str:
    """Return the first prompt of the main chain; without one the first command that was typed, else any prompt."""
    from lore.recording.request_session import session_of  # noqa: PLC0415 - slow to import, and most logs have a name

    pieces = opened.data if is_document(opened.head) else _first_pieces(opened.data)
    recording = Options().open(path, opened=opened._replace(data=pieces))
    command = other = ""
    for read in session_of(recording, "", hint="").reads():
        event = read.value
        if not isinstance(event, Append) or not isinstance(event.item, UserMessage) or event.item.source != "user":
            continue
        text = _text(event.item)
        prompt = spoken(text)
        if prompt and event.chain == MAIN:
            return prompt
        other = other or prompt
        command = command or next(iter(_COMMAND.findall(text)), "")
    return command or other


def _first_pieces(data: Iterator[bytes]) -> Iterator[bytes]:
    for _ in range(_SEARCHED):
        yield next(data, b"")


def _text(item: UserMessage) -> str:
    if item.blocks:
        return "\n".join(text_of(bytes(block.text)) for block in item.blocks if isinstance(block, TextBlock))
    return text_of(bytes(item.text))


def spoken(text: str) -> str:
    """Return what a user wrote in a message, without the blocks that clients put before it."""
    while (block := _BLOCK.match(text)) is not None:
        if block[1] in _SPOKEN:
            return block[2].strip()
        text = text[block.end() :]
    text = _REMINDER.sub("", text).strip()
    return "" if text.startswith(_NOT_SPOKEN) else text

"""Files that no reader takes: files of agents that lore does not read, and a description of any other file.

A database is recognised by its tables (the schema is at its beginning), JSON by the members of its first object, any
other file by the end of its name or by its folder. Contents decide before the folder.

Sources: the agents' own code and public readers of their files, 2026-11; their places are in
`recording/agents/logs.py`.
"""

from __future__ import annotations

import re
from itertools import islice

from msgspec import Struct

from lore.formats.beginning import BOM, SPACE, SQLITE, members_of
from lore.formats.lines import nonblank_lines
from lore.formats.plain_chat.signs import is_data_set
from lore.model.deferred import pattern
from lore.model.jsonslice import raw_members

RECORD = (
    "record the requests instead: request bodies, a HAR file, a proxy's log, OpenTelemetry spans; "
    "`lore formats` lists the formats that lore reads"
)
LATER = "lore does not read it yet"
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"  # how a file begins whose content Git LFS keeps elsewhere


class ForeignFile(Struct, frozen=True):
    """A kind of file that lore does not read. It has all of its `tables`, `members` and `texts`."""

    agent: str
    what: str
    why: str
    tables: frozenset[str] = frozenset()  # of a database
    members: frozenset[str] = frozenset()  # of the first JSON object
    texts: tuple[bytes, ...] = ()  # in the beginning of the file
    ends: tuple[str, ...] = ()  # of the file's name, if it has neither tables nor members
    folder: str = ""  # a part of the path, of files that show none of this
    hint: str = RECORD


_STORE = frozenset(("sessions", "messages"))
FOREIGN_FILES = (
    ForeignFile("cursor", "a file of Cursor", "it records no usage", frozenset(("blobs", "meta")), folder="/.cursor/"),
    ForeignFile("cursor", "a Cursor state store", "its token counts are zero since its third version",
                frozenset(("cursorDiskKV",))),
    ForeignFile("zed", "Zed's store of threads", "it records the usage of only some of its requests",
                frozenset(("threads",)), texts=(b"data_type",)),
    ForeignFile("crush", "a Crush session store", "it records sums of sessions, and no cached tokens", _STORE,
                texts=(b"summary_message_id", b"prompt_tokens")),
    ForeignFile("goose", "a Goose session store", "it records sums of sessions, not the reads of each request", _STORE,
                texts=(b"accumulated_",)),
    ForeignFile("goose", "a Goose session", "it records sums of sessions, not the reads of each request",
                members=frozenset(("working_dir", "message_count"))),
    ForeignFile("opencode", "a database of OpenCode 2", LATER, frozenset(("session_v2", "session_message"))),
    ForeignFile("copilot", "Copilot CLI's store of usage", "the requests are in each session's events.jsonl",
                frozenset(("assistant_usage_events",)),
                hint="name a session's events.jsonl in session-state/; the store next to it is read with it"),
    ForeignFile("amp", "a file of Amp", LATER, members=frozenset(("v", "id", "created", "messages")),
                texts=(b'"T-',), folder="/amp/threads/"),
    ForeignFile("droid", "a file of Droid", "it records only the sums of a session",
                members=frozenset(("type", "id", "title")), texts=(b'"session_start"',), folder="/.factory/sessions/"),
    ForeignFile("grok", "a file of Grok Build", "it records usage for each prompt of the user, not for each request",
                members=frozenset(("method", "params")), texts=(b"sessionUpdate",), folder="/.grok/sessions/"),
    ForeignFile("vibe", "a file of Mistral Vibe", "it records only the sums of a session",
                members=frozenset(("session_id", "stats")), texts=(b'"session_prompt_tokens"',),
                folder="/.vibe/logs/"),
    ForeignFile("codewhale", "a file of CodeWhale", "it records only the sums of a session", folder="/.codewhale/"),
    ForeignFile("entire", "a transcript that Entire shortened", "it records no cached tokens",
                members=frozenset(("v", "agent", "cli_version")),
                hint="name the agent's own log, full.jsonl of the same checkpoint"),
    ForeignFile("txtar", "a txtar archive", LATER, ends=(".txtar",)),
    ForeignFile("aider", "Aider's history", "it is the text of prompts, and records no usage",
                ends=(".aider.llm.history", ".aider.chat.history.md")),
)  # fmt: skip


def find_foreign_file(head: bytes, name: str) -> ForeignFile | None:
    """Return the kind of a file that begins with `head`; None if no row of the table describes it."""
    path = name.replace("\\", "/")
    for row in FOREIGN_FILES:
        words = (*row.texts, *(f'"{member}"'.encode() for member in row.members))
        if not all(word in head for word in words):
            continue
        if row.tables:
            is_found = row.tables <= set(tables_of(head))
        elif row.members:
            is_found = row.members <= members_of(head).keys()
        else:
            is_found = path.endswith(row.ends)
        if is_found:
            return row
    return next((row for row in FOREIGN_FILES if row.folder and row.folder in path), None)


def why_unread(agent: str) -> str:
    """Return why lore judges no file of an agent."""
    return next((row.why for row in FOREIGN_FILES if row.agent == agent), LATER)


_TABLE = pattern(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?(\w{1,64})", re.IGNORECASE)
_KINDS = (  # first bytes, description, hint
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive without a recording", ""),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"%PDF", "a PDF document", ""),
    (b"\x89PNG", "a picture", ""),
    (b"PAR1", "a Parquet file", "write its rows as JSON Lines"),
    (LFS_POINTER, "a Git LFS pointer: check out with lfs", "run `git lfs pull`; for actions/checkout set `lfs: true`"),
)
_TEXT_BYTES = 4_096  # of a file's beginning: a NUL among them shows that it is not text
_SHOWN = 6  # members or tables that are named


def tables_of(head: bytes) -> list[str]:
    """Return the tables that the beginning of a SQLite database defines, except SQLite's own."""
    names = {match[1].decode() for match in _TABLE.finditer(head)} if head.startswith(SQLITE) else set[str]()
    return sorted(name for name in names if not name.startswith("sqlite_"))


def describe(head: bytes) -> tuple[str, str]:
    """Return a description of a file by its beginning, and a hint; both may be empty."""
    if head.startswith(SQLITE):
        return _describe_with_names("a SQLite database", "tables", tables_of(head)), ""
    for magic, what, hint in _KINDS:
        if head.startswith(magic):
            return what, hint
    if b"\x00" in head[:_TEXT_BYTES]:
        return "a binary file", ""
    first = head.removeprefix(BOM).lstrip(SPACE)[:1]
    if is_data_set(head):
        what = "a data set: conversations without a response, usage, time, model or id"
        return what, "--format chat reads them anyway"
    if first != b"{":
        return "a JSON array" if first == b"[" else "plain text", ""
    lines = [line.strip(SPACE) for line in islice(nonblank_lines(head), 2)]
    what = "JSON Lines" if len(lines) == 2 and all(raw_members(line) is not None for line in lines) else "a JSON object"
    names = list(members_of(head))
    return (_describe_with_names(what, "members", names), "") if names else ("", "")


def _describe_with_names(what: str, of: str, names: list[str]) -> str:
    more = ", …" if len(names) > _SHOWN else ""
    return f"{what} with the {of} {', '.join(names[:_SHOWN])}{more}" if names else what

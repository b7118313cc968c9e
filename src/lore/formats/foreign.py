"""Files of agents that lore does not read: which agent wrote a file, and why lore cannot judge it.

A database is known by its tables (its schema is at its beginning), JSON by the members of its first object, any other
file by its name or its folder. Contents decide before the folder.

Sources: the agents' own code and public readers of their files, 2026-11; where each keeps them:
`recording/agents/logs.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lore.formats.beginning import SQLITE
from lore.formats.unrecognised import members, tables

RECORD = (
    "record what is sent instead: request bodies, a HAR file, a proxy's log, OpenTelemetry spans; "
    "`lore formats` lists what lore reads"
)
LATER = "lore does not read it yet"


class Foreign(NamedTuple):
    """A kind of file that lore does not judge, and how it is known: by all of `tables` and `texts`, all of `members`
    and `texts`, the end of its name, or else its folder.
    """

    agent: str
    what: str
    why: str
    tables: frozenset[str] = frozenset()  # of a database
    members: frozenset[str] = frozenset()  # of the first JSON object
    texts: tuple[bytes, ...] = ()  # in the beginning of the file
    ends: tuple[str, ...] = ()  # of the file's name
    folder: str = ""  # a part of the file's path
    hint: str = RECORD


_STORE = frozenset(("sessions", "messages"))
ROWS = (
    Foreign("cursor", "a file of Cursor", "it records no usage", frozenset(("blobs", "meta")), folder="/.cursor/"),
    Foreign("cursor", "a Cursor state store", "its token counts are zero since its third version",
            frozenset(("cursorDiskKV",))),
    Foreign("zed", "Zed's store of threads", "it records the usage of only some of its requests",
            frozenset(("threads",)), texts=(b"data_type",)),
    Foreign("crush", "a Crush session store", "it records sums of sessions, and no cached tokens", _STORE,
            texts=(b"summary_message_id", b"prompt_tokens")),
    Foreign("goose", "a Goose session store", "it records sums of sessions, not what each request read", _STORE,
            texts=(b"accumulated_",)),
    Foreign("goose", "a Goose session", "it records sums of sessions, not what each request read",
            members=frozenset(("working_dir", "message_count"))),
    Foreign("opencode", "a database of OpenCode 2", LATER, frozenset(("session_v2", "session_message"))),
    Foreign("copilot", "Copilot CLI's store of usage", "the requests are in each session's events.jsonl",
            frozenset(("assistant_usage_events",)),
            hint="name a session's events.jsonl in session-state/; the store beside it is read with it"),
    Foreign("amp", "a file of Amp", LATER, members=frozenset(("v", "id", "created", "messages")), texts=(b'"T-',),
            folder="/amp/threads/"),
    Foreign("droid", "a file of Droid", "it records only the sums of a session",
            members=frozenset(("type", "id", "title")), texts=(b'"session_start"',), folder="/.factory/sessions/"),
    Foreign("grok", "a file of Grok Build", "it records usage for each prompt of the user, not for each request",
            members=frozenset(("method", "params")), texts=(b"sessionUpdate",), folder="/.grok/sessions/"),
    Foreign("vibe", "a file of Mistral Vibe", "it records only the sums of a session",
            members=frozenset(("session_id", "stats")), texts=(b'"session_prompt_tokens"',), folder="/.vibe/logs/"),
    Foreign("codewhale", "a file of CodeWhale", "it records only the sums of a session", folder="/.codewhale/"),
    Foreign("aider", "Aider's history", "it is the text of prompts, and records no usage",
            ends=(".aider.llm.history", ".aider.chat.history.md")),
)  # fmt: skip
SENTENCES = tuple(f" is {row.what}: {row.why}" for row in ROWS)


def foreign(head: bytes, name: str) -> Foreign | None:
    """Return the kind of a file that lore does not read; None if no row of the table describes it."""
    path = name.replace("\\", "/")
    by_folder = (row for row in ROWS if row.folder and row.folder in path)
    return next(_by_contents(head, path), None) or next(by_folder, None)


def _by_contents(head: bytes, path: str) -> Iterator[Foreign]:
    names = frozenset(tables(head)) if head.startswith(SQLITE) else frozenset[str]()
    for row in ROWS:
        quoted = (f'"{member}"'.encode() for member in row.members)
        if not all(text in head for text in (*row.texts, *quoted)):
            continue
        if row.tables:
            found = row.tables <= names
        elif row.members:
            found = row.members <= members(head).keys()
        else:
            found = bool(row.ends) and path.endswith(row.ends)
        if found:
            yield row


def why_unread(agent: str) -> str:
    """Return why lore judges no file of an agent."""
    return next((row.why for row in ROWS if row.agent == agent), LATER)

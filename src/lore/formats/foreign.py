"""What a file is that no reader takes: the log of an agent that lore does not read, or what its first bytes show.

In: the beginning of a file, its name. Out: what to call it, why it cannot be judged, what to do; in words, since a
person named the file. Rules: content decides before the name; a database is known by its tables (its schema stands at
its beginning), JSON by its members. What a request body could be as well is asked here first: a thread with `messages`
is none.

Sources: the agents' own code and public readers of their files, 2026-11; where each keeps them:
`recording/agents/logs.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from lore.formats.beginning import BOM, SPACE
from lore.formats.lines import each
from lore.model.jsonslice import table

GENERIC = frozenset(("bodies", "chat", "chat-json"))  # readers that take what many programs write
SQLITE = b"SQLite format 3\x00"
RECORD = (
    "record what is sent instead: request bodies, a HAR file, a proxy's log, OpenTelemetry spans; "
    "`lore formats` lists what lore reads"
)
LATER = "lore does not read it yet"


class Foreign(NamedTuple):
    """A file that lore does not judge: whose it is, what it is, why, what to do."""

    agent: str
    what: str
    why: str
    hint: str = RECORD


class _Sign(NamedTuple):
    """How a file is known: `tables` it has (a database), `columns` that stand in its schema; or `members` of its first
    JSON object, `texts` that stand in its beginning; or the end of its name.
    """

    foreign: Foreign
    tables: frozenset[str] = frozenset()
    columns: tuple[bytes, ...] = ()
    members: frozenset[str] = frozenset()
    texts: tuple[bytes, ...] = ()
    ends: tuple[str, ...] = ()


_SIGNS = (
    _Sign(Foreign("cursor", "a Cursor chat store", "it records no usage"), frozenset(("blobs", "meta"))),
    _Sign(Foreign("cursor", "a Cursor state store", "its counts of tokens are zero since its third version"),
          frozenset(("cursorDiskKV",))),
    _Sign(Foreign("zed", "Zed's store of threads", "it records the usage of a part of its requests alone"),
          frozenset(("threads",)), (b"data_type",)),
    _Sign(Foreign("crush", "a Crush session store", "it records sums of sessions, and no cached tokens"),
          frozenset(("sessions", "messages")), (b"summary_message_id", b"prompt_tokens")),
    _Sign(Foreign("goose", "a Goose session store", "it records sums of sessions, not what each request read"),
          frozenset(("sessions", "messages")), (b"accumulated_",)),
    _Sign(Foreign("copilot", "Copilot CLI's store of usage", "the requests stand in each session's events.jsonl",
                  "name a session's events.jsonl in session-state/; the store beside it is read with it"),
          frozenset(("assistant_usage_events",))),
    _Sign(Foreign("goose", "a Goose session", "it records sums of sessions, not what each request read"),
          members=frozenset(("working_dir", "message_count"))),
    _Sign(Foreign("amp", "an Amp thread", LATER),
          members=frozenset(("v", "id", "created", "messages")), texts=(b'"T-',)),
    _Sign(Foreign("droid", "a Droid session", "its usage stands beside it, as the sums of the session"),
          members=frozenset(("type", "id", "title")), texts=(b'"session_start"',)),
    _Sign(Foreign("droid", "the settings of a Droid session", "its usage is the sums of the session"),
          members=frozenset(("tokenUsage",)), ends=(".settings.json",)),
    _Sign(Foreign("grok", "Grok Build's log of updates",
                  "it records usage for each prompt of the user, not each request"),
          members=frozenset(("method", "params")), texts=(b"sessionUpdate",)),
    _Sign(Foreign("vibe", "Mistral Vibe's account of a session", "it records the sums of the session alone"),
          members=frozenset(("session_id", "stats")), texts=(b'"session_prompt_tokens"',)),
    _Sign(Foreign("aider", "Aider's history", "it is the text of prompts, and records no usage"),
          ends=(".aider.llm.history", ".aider.chat.history.md")),
)  # fmt: skip
# Where the files of agents lie whose contents show less: the folders in their paths.
_FOLDERS: dict[str, Foreign] = {
    "/.factory/sessions/": Foreign("droid", "a file of Droid", "it records the sums of sessions alone"),
    "/.grok/sessions/": Foreign("grok", "a file of Grok Build", "it records no usage of requests"),
    "/.vibe/logs/": Foreign("vibe", "a file of Mistral Vibe", "it records the sums of sessions alone"),
    "/.codewhale/": Foreign("codewhale", "a file of CodeWhale", "it records the sums of sessions alone"),
    "/.cursor/": Foreign("cursor", "a file of Cursor", "it records no usage"),
    "/amp/threads/": Foreign("amp", "a file of Amp", LATER),
}
SENTENCES = tuple(
    f" is {known.what}: {known.why}" for known in (*(sign.foreign for sign in _SIGNS), *_FOLDERS.values())
)
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]', re.DOTALL)
_TABLE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?(\w{1,64})", re.IGNORECASE)
_KINDS = (
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive of no recording", ""),
    (b"PK\x03\x04", "a zip archive of no recording", "unpack it first"),
    (b"%PDF", "a PDF document", ""),
    (b"\x89PNG", "a picture", ""),
    (b"PAR1", "a Parquet file", "write its rows as JSON Lines"),
)
_LOOKED_AT = 4_096  # bytes at a file's beginning: a NUL there shows that it is not text
_MOST_TOKENS = 100_000  # values, brackets and colons at a file's beginning: one key can be repeated a million times
_SHOWN = 6  # members or tables that are named


def foreign(head: bytes, name: str) -> Foreign | None:
    """Name the file of an agent that lore does not read; None where it is none that is known.

    Costs a search for a few words where it is none.
    """
    path = name.replace("\\", "/")
    signs = _of_database(head) if head.startswith(SQLITE) else _of_text(head, path)
    sign = next(signs, None)
    if sign is not None:
        return sign.foreign
    return next((found for folder, found in _FOLDERS.items() if folder in path), None)


def why_unread(agent: str) -> str:
    """Say why lore judges no file of an agent."""
    every = (*(sign.foreign for sign in _SIGNS), *_FOLDERS.values())
    return next((known.why for known in every if known.agent == agent), LATER)


def kinds() -> list[Foreign]:
    """Return all files that are named and not judged, each kind once."""
    return list({sign.foreign.what: sign.foreign for sign in _SIGNS}.values())


def _of_database(head: bytes) -> Iterator[_Sign]:
    names = frozenset(tables(head))
    for sign in _SIGNS:
        if sign.tables and sign.tables <= names and all(column in head for column in sign.columns):
            yield sign


def _of_text(head: bytes, path: str) -> Iterator[_Sign]:
    for sign in _SIGNS:
        if sign.tables or (sign.ends and not path.endswith(sign.ends)):
            continue
        wanted = [*sign.texts, *(f'"{member}"'.encode() for member in sign.members)]
        if all(text in head for text in wanted) and sign.members <= members(head).keys():
            yield sign


def tables(head: bytes) -> list[str]:
    """Name the tables that the beginning of a SQLite database defines, those of its own left out."""
    found = {match[1].decode() for match in _TABLE.finditer(head)}
    return sorted(name for name in found if not name.startswith("sqlite_"))


def members(head: bytes) -> dict[str, None]:
    """Name the members of the JSON object that a file begins with, as far as its beginning holds them."""
    start = head.find(b"{")
    if start < 0 or head[:start].strip(SPACE + BOM):
        return {}
    found: dict[str, None] = {}
    depth, key = 0, b""
    for match in islice(_TOKEN.finditer(head, start), _MOST_TOKENS):
        token = match.group()
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if not depth:
                break
        elif depth == 1 and token == b":" and key:
            found[key[1:-1].decode("utf-8", "replace")] = None
        key = token if depth == 1 and token[:1] == b'"' else b""
    return found


def looks_like(head: bytes) -> tuple[str, str]:
    """Say what the beginning of a file shows, and what to do with it first; both may be empty."""
    if head.startswith(SQLITE):
        return _with("a SQLite database", "tables", tables(head)), ""
    for magic, what, hint in _KINDS:
        if head.startswith(magic):
            return what, hint
    if b"\x00" in head[:_LOOKED_AT]:
        return "a binary file", ""
    first = head.removeprefix(BOM).lstrip(SPACE)[:1]
    if first not in (b"{", b"["):
        return "text", ""
    lines = [line.strip(SPACE) for line in islice(each(head), 2)]
    if first == b"[":
        return "a JSON array", ""
    what = "JSON Lines" if len(lines) == 2 and all(table(line) is not None for line in lines) else "a JSON object"
    names = list(members(head))
    return (_with(what, "members", names), "") if names else ("", "")


def _with(what: str, of: str, names: list[str]) -> str:
    more = ", …" if len(names) > _SHOWN else ""
    return f"{what} with the {of} {', '.join(names[:_SHOWN])}{more}" if names else what
